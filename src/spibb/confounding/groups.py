"""Steps of a log in the groups within which an unrecorded cause may act: state-action pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from spibb.representation.steps import Array, Codes, Steps

# Rows of a policy that differ by no more are those of the baseline: files have rounded numbers.
_ROUNDING = 1e-3
# A baseline made the actions of a state unless their frequencies are so unlikely.
_UNLIKELY = 1e-3


@dataclass(frozen=True, eq=False)
class Groups:
    """Steps in groups; each step is in one.

    A pair of a changed state is a group. So is a state in which the policy does what the behaviour
    does: there the behaviour goes on, and a hidden cause with it. What the policy does where a
    state has no data, `unobserved`, is in no group.

    Attributes:
        step: Place of each copy among the steps; copies are sorted by group, groups by state.
        begin: Where each group begins among the copies, and the end of the last one.
        begin_state: Where each state begins among the copies, and the end of the last one.
        state: State of each group.
        weight: Probability with which the policy enters the group from its state.
        share: Probability with which the behaviour does, p in the formulas; 1 where it goes on.
        pair: Number of its pair, x * A + a.
        unobserved: Probability of actions without data, in each state with data.
    """

    step: Codes
    begin: Codes
    begin_state: Codes
    state: Codes
    weight: Array
    share: Array
    pair: Codes
    unobserved: Array

    @classmethod
    def of(cls, steps: Steps, table: Array, baseline: Array) -> Groups:
        """Group steps for a policy and a baseline, both of shape (S, A)."""
        n_actions = table.shape[1]
        own = steps.state * n_actions + steps.action
        n_pair = np.bincount(own, minlength=table.size).reshape(table.shape)
        n = n_pair.sum(axis=1)
        goes_on = _goes_on(table, baseline, n_pair)
        # Where the behaviour goes on, the state stands in the place of its first pair.
        whole = np.eye(n_actions, dtype=np.int64)[0]
        size = np.where(goes_on[:, None], n[:, None] * whole, n_pair)
        weight = np.where(goes_on[:, None], whole, table)
        code = np.where(goes_on[steps.state], steps.state * n_actions, own)
        # Integers of 16 bits are sorted by counting.
        step = np.argsort(code.astype(np.min_scalar_type(table.size)), kind="stable")
        pair = np.flatnonzero(size)
        return cls(
            step=step,
            begin=np.append(0, np.cumsum(size.ravel()[pair])),
            begin_state=np.append(0, np.cumsum(n)),
            state=pair // n_actions,
            weight=weight.ravel()[pair],
            share=(size / np.maximum(n, 1)[:, None]).ravel()[pair],
            pair=pair,
            unobserved=np.where((size == 0) & (n > 0)[:, None], weight, 0.0).sum(axis=1),
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

    def by_state(self, values: Array) -> Array:
        """Add up values of groups, state by state."""
        return np.bincount(self.state, values, len(self.unobserved)).astype(np.float64)


def _goes_on(table: Array, baseline: Array, n_pair: Codes) -> NDArray[np.bool_]:
    """Return where the policy is the baseline, and the baseline the behaviour but for chance."""
    expected = n_pair.sum(axis=1, keepdims=True) * baseline
    # Where an action was taken that the baseline never takes, the ratio is infinite.
    distance = ((n_pair - expected) ** 2 / np.maximum(expected, 1e-9)).sum(axis=1)
    n_free = np.maximum((baseline > 0.0).sum(axis=1) - 1, 1)
    is_behaviour = distance <= scipy.stats.chi2.isf(_UNLIKELY, n_free)
    return np.asarray((np.abs(table - baseline).max(axis=1) <= _ROUNDING) & is_behaviour)
