"""Steps of a log in the groups within which an unrecorded cause may act: state-action pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.representation.steps import Array, Codes, Steps

# Rows of a policy that differ by no more are those of the baseline.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Groups:
    """Copies of the steps that a policy rests on, sorted by group.

    A pair of a changed state is a group. So is a state in which the policy does what the baseline
    does: there the behaviour goes on, which needs no assumption. In a changed state, actions
    without data do what all steps of the state do on average, so that these are one more group.

    Attributes:
        step: Place of each copy among the steps.
        begin: Where each group begins among the copies, and the end of the last one.
        state: State of each group.
        weight: Probability with which the policy enters the group from its state.
        share: Probability with which the behaviour does, p in the formulas; 1 where it goes on.
        pair: Number of its pair, x * A + a; -1: none, so that its share was not estimated.
    """

    step: Codes
    begin: Codes
    state: Codes
    weight: Array
    share: Array
    pair: Codes

    @classmethod
    def of(cls, steps: Steps, table: Array, baseline: Array) -> Groups:
        """Group steps for a policy and a baseline (S, A); groups it never enters are left out."""
        n_actions = table.shape[1]
        own = steps.state * n_actions + steps.action
        n_pair = np.bincount(own, minlength=table.size).reshape(table.shape)
        n = np.maximum(n_pair.sum(axis=1, keepdims=True), 1)
        is_changed = np.abs(table - baseline).max(axis=1) > _ROUNDING
        unobserved = np.where(n_pair == 0, table, 0.0).sum(axis=1)
        # Groups are numbered: pairs first, then one for each state as a whole.
        of_pair = np.where(is_changed[:, None], table, 0.0)
        weight = np.append(of_pair, np.where(is_changed, unobserved, 1.0))
        share = np.append(n_pair / n, ~is_changed)
        code = np.append(own, table.size + steps.state)
        copied = np.flatnonzero(weight[code] > 0.0)
        # Integers of 16 bits are sorted by counting.
        code = code[copied].astype(np.min_scalar_type(len(weight)))
        size = np.bincount(code, minlength=len(weight))
        codes = np.flatnonzero(size)
        is_pair = codes < table.size
        return cls(
            step=copied[np.argsort(code, kind="stable")] % len(own),
            begin=np.append(0, np.cumsum(size[codes])),
            state=np.where(is_pair, codes // n_actions, codes - table.size),
            weight=weight[codes],
            share=share[codes],
            pair=np.where(is_pair, codes, -1),
        )

    @property
    def size(self) -> Codes:
        """Number of copies in each group."""
        return np.diff(self.begin)

    @property
    def is_open(self) -> NDArray[np.bool_]:
        """Groups in which an unrecorded cause matters."""
        return self.share < 1.0

    def per_copy(self, values: Array | Codes) -> Array:
        """Repeat a value of each group for each of its copies."""
        return np.repeat(values, self.size)
