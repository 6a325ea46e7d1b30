r"""The gain of a policy in finer states, and its standard error.

Steps are grouped by fine states z. A fine state belongs to one label s(z), so that a policy of
labels acts in it by pi(a | s(z)). The model of fine states is made of weighted steps: step i has

    w_i = n(z) pi(a_i | z) / n(z, a_i) + u(z),     u(z) = sum of pi(a | z) over a with n(z, a) = 0,

so that a pair without data does what its fine state does on average. With weights of 1 the same
formula gives the value of the behaviour, in the chain of fine states that it made: no table of its
probabilities is needed. Fine states in which no step begins are worth 0.

The standard error is the first-order (delta-method) one. The influence of a step on V is

    D(z) / n(z) (n(z) pi(a | z) / n(z, a) (y_i - Q(z, a)) + u(z) (y_i - mean of y in z)),

with y_i = r_i + gamma V(z'_i) and D the discounted visits of the policy. Influences are added up
over an episode (a block of rows where episodes are few), since steps of one episode are dependent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from spibb.compiled.blas import one_blas_thread
from spibb.representation.steps import Array, Codes, Steps

# A policy may never end in a model: with gamma = 1 its values would be infinite.
LARGEST_DISCOUNT = 1.0 - 1e-6


@dataclass(frozen=True, eq=False)
class RefinedGain:
    """The gain of a policy over the behaviour, in the model of one set of states.

    Attributes:
        gain: Value of the policy minus what the behaviour earned.
        label_loss: What acting by the behaviour's average within labels loses against the behaviour
            itself.
        influence: Of each block on the gain, shape (n_blocks,).
        unsupported: Share of the policy's discounted decisions on pairs without data.
        n_states: Number of states with data.
    """

    gain: float
    label_loss: float
    influence: Array
    unsupported: float
    n_states: int

    @property
    def error(self) -> float:
        """Standard error of the gain."""
        n = len(self.influence)
        return float(np.sqrt((self.influence**2).sum() * n / max(1, n - 1)))

    def minus(self, other: RefinedGain, share: float) -> RefinedGain:
        """Return the gain less a share of another one of the same log."""
        influence = self.influence - share * other.influence
        return replace(self, gain=self.gain - share * other.gain, influence=influence)

    @classmethod
    def average(cls, one: RefinedGain, two: RefinedGain) -> RefinedGain:
        """Return the mean of two gains of the same log."""
        return cls(
            gain=0.5 * (one.gain + two.gain),
            label_loss=0.5 * (one.label_loss + two.label_loss),
            influence=0.5 * (one.influence + two.influence),
            unsupported=0.5 * (one.unsupported + two.unsupported),
            n_states=max(one.n_states, two.n_states),
        )


@dataclass(frozen=True, eq=False)
class Valued:
    """A value, the influence of each block on it, and the share of decisions without data."""

    value: float
    influence: Array
    unsupported: float


def refined_gain(
    steps: Steps, code: Codes, table: Array, baseline: Array, gamma: float
) -> RefinedGain:
    """Return the gain of a policy in the states ``code``.

    Args:
        steps: The steps of the log.
        code: Fine state of each row of the log, 0 to Z - 1.
        table: The policy in fine states, shape (Z, A).
        baseline: The baseline as labels know it, in fine states, shape (Z, A).
        gamma: The discount.
    """
    cells = _Cells(steps, code, table.shape, min(gamma, LARGEST_DISCOUNT))
    behaved = cells.value(None)
    new, old = cells.value(table), cells.value(baseline)
    return RefinedGain(
        gain=new.value - behaved.value,
        label_loss=behaved.value - old.value,
        influence=new.influence - behaved.influence,
        unsupported=new.unsupported,
        n_states=int((cells.n > 0).sum()),
    )


def behaviour_value(steps: Steps, shape: tuple[int, ...], gamma: float) -> Valued:
    """Return what the behaviour earned, in the model of labels."""
    return _Cells(steps, steps.label_of, shape, gamma).value(None)


def label_values(steps: Steps, table: Array | None, shape: tuple[int, ...], gamma: float) -> Array:
    """Return the value of each label under a policy, or the behaviour, in the model of labels."""
    cells = _Cells(steps, steps.label_of, shape, min(gamma, LARGEST_DISCOUNT))
    return cells.solved(cells.weights(table)[0])[0]


class _Cells:
    """Steps grouped by fine state."""

    def __init__(self, steps: Steps, code: Codes, shape: tuple[int, ...], gamma: float) -> None:
        self.steps, self.gamma = steps, gamma
        self.size, self.n_actions = shape
        self.z = code[steps.row]
        self.end = self.size
        self.after = np.where(steps.following >= 0, code[steps.following], self.end)
        self.pair = self.z * self.n_actions + steps.action
        self.n = np.bincount(self.z, minlength=self.size)
        self.n_pair = np.bincount(self.pair, minlength=self.size * self.n_actions)
        start = code[steps.first]
        self.start = np.bincount(start, minlength=self.size) / max(1, len(start))
        self.start_state = start

    def weights(self, table: Array | None) -> tuple[Array, Array, Array]:
        """Return weights of steps within their cell, their own part, and u of each cell."""
        n, share = np.maximum(self.n, 1), np.zeros(self.size)
        if table is None:
            own = np.ones(len(self.z))
        else:
            n_pair = self.n_pair.reshape(self.size, self.n_actions)
            share = np.where(n_pair == 0, table, 0.0).sum(axis=1)
            own = n[self.z] * table[self.z, self.steps.action] / self.n_pair[self.pair]
        return (own + share[self.z]) / n[self.z], own, share

    def value(self, table: Array | None) -> Valued:
        """Return the value of a policy, or of the behaviour where there is none."""
        n = np.maximum(self.n, 1)
        weight, own, share = self.weights(table)
        v, visits = self.solved(weight)
        y = self.steps.reward + self.gamma * np.append(v, 0.0)[self.after]
        if table is None:
            centre = _mean(self.z, y, self.n)[self.z]
        else:
            centre = _mean(self.pair, y, self.n_pair)[self.pair]
        residual = own * (y - centre)
        if share.any():
            residual += share[self.z] * (y - _mean(self.z, y, self.n)[self.z])
        of_step = (visits / n)[self.z] * residual
        influence = self.steps.by_block(of_step)
        value = float(self.start @ v)
        n_first = max(1, len(self.start_state))
        of_first = (v[self.start_state] - value) / n_first
        influence = influence + self.steps.by_first_block(of_first)
        total = max(float(visits.sum()), 1e-300)
        return Valued(value, influence, float(visits @ share) / total)

    @one_blas_thread()
    def solved(self, weight: Array) -> tuple[Array, Array]:
        """Return values and discounted visits of the process of weighted steps."""
        flat = self.z * (self.size + 1) + self.after
        moves = np.bincount(flat, weight, self.size * (self.size + 1))
        matrix = np.eye(self.size) - self.gamma * moves.reshape(self.size, -1)[:, : self.size]
        reward = np.bincount(self.z, weight * self.steps.reward, self.size)
        factor = scipy.linalg.lu_factor(matrix, overwrite_a=True, check_finite=False)
        v = scipy.linalg.lu_solve(factor, reward, check_finite=False)
        visits = scipy.linalg.lu_solve(factor, self.start, trans=1, check_finite=False)
        return np.asarray(v), np.asarray(visits)


def _mean(code: Codes, values: Array, n: NDArray[np.int64]) -> Array:
    return np.asarray(np.bincount(code, values, len(n)) / np.maximum(n, 1))
