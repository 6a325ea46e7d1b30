r"""Importance weights: how much likelier each episode is under another policy.

    w_t = prod_{k <= t} pi(a_k | x_k) / pi_b(a_k | x_k)

One compiled walk along each episode yields all that the estimators need of it, for many policies at
once. With rho_t the ratio of step t, w_{-1} = 1, T the last step and g the discount:

* the weight w_T;
* the value sum_t g^t w_{t-1} (u(x_t, a_t) + rho_t r_t) with u = V^ - rho Q^: the recursion
  v_t = V^(x_t) + rho_t (r_t + g v_{t+1} - Q^(x_t, a_t)), v_{T+1} = 0, of the doubly robust
  estimator (Jiang and Li 2016), unrolled; per-decision importance sampling where Q^ = V^ = 0;
* the spread weight (1 - g) sum_t g^t w_t + g^{T+1} w_T: the discounted mean of the weights, the
  last one kept for ever after the end.

Letters: q and v tables of values, rho ratios.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.errors import PolicyError
from spibb.ope.trajectories import Trajectories

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Walk:
    """What a walk along n episodes found for each of C policies.

    Attributes:
        value: Doubly robust or, without Q and V, per-decision estimate, shape (n, C).
        weight: w_T, shape (n, C).
        spread: The spread weight, shape (n, C); its mean is 1 in expectation, like w_T's.
        gain: Discounted return, shape (n,).
    """

    value: Array
    weight: Array
    spread: Array
    gain: Array


def walk(
    episodes: Trajectories,
    chosen: NDArray[np.int64],
    tables: Tables,
    gamma: float,
) -> Walk:
    """Walk along the chosen episodes.

    Args:
        episodes: The episodes of a log.
        chosen: Which of them.
        tables: Ratios and offsets of C policies.
        gamma: The discount.
    """
    ratio = tables.ratio
    shape = (len(chosen), ratio.shape[2])
    found = Walk(np.empty(shape), np.empty(shape), np.empty(shape), np.empty(len(chosen)))
    offset = np.zeros(ratio.shape) if tables.offset is None else tables.offset
    _walk(
        episodes.start, chosen, episodes.state, episodes.action, episodes.reward, ratio, offset,
        float(gamma), found.value, found.weight, found.spread, found.gain,
    )  # fmt: skip
    _refuse_overflow(found.weight)
    return found


@jit
def _walk(  # type: ignore[no-untyped-def]
    start, chosen, state, action, reward, ratio, offset, gamma, value, weight, spread, gain
):
    n_policies = ratio.shape[2]
    v, w, s = np.empty(n_policies), np.empty(n_policies), np.empty(n_policies)
    for place in range(len(chosen)):
        episode = chosen[place]
        for c in range(n_policies):
            v[c], w[c], s[c] = 0.0, 1.0, 0.0
        total = 0.0
        discount = 1.0
        for row in range(start[episode], start[episode + 1]):
            x, a, r = state[row], action[row], reward[row]
            total += discount * r
            rest = discount * (1.0 - gamma)
            for c in range(n_policies):
                rho = ratio[x, a, c]
                v[c] += discount * w[c] * (offset[x, a, c] + rho * r)
                w[c] *= rho
                s[c] += rest * w[c]
            discount *= gamma
        for c in range(n_policies):
            value[place, c], weight[place, c] = v[c], w[c]
            spread[place, c] = s[c] + discount * w[c]
        gain[place] = total


@dataclass(frozen=True, eq=False)
class Tables:
    """What a walk looks up, for C policies.

    Attributes:
        ratio: rho = pi / pi_b, 0 where pi_b is 0, shape (..., S, A, C).
        offset: u = V^ - rho Q^ with V^ = sum_a pi Q^, same shape; None: 0.
    """

    ratio: Array
    offset: Array | None

    @classmethod
    def of(cls, policies: Array, baseline: Array, q: Array | None = None) -> Tables:
        """Compute them for policies (..., C, S, A), a baseline (..., S, A) and Q^ like policies.

        V^ is made of Q^, whatever that is, since this is what keeps doubly robust terms unbiased.
        """
        *batch, n_policies, n_states, n_actions = policies.shape
        flat = (-1, n_policies, n_states, n_actions)
        # Writable, since read-only arrays would be compiled for once more.
        policies = np.require(policies, np.float64, ["C", "W"]).reshape(flat)
        baseline = np.require(baseline, np.float64, ["C", "W"]).reshape(-1, n_states, n_actions)
        shape = (*batch, n_states, n_actions, n_policies)
        ratio = np.empty((len(policies), *shape[len(batch) :]))
        offset = np.empty(ratio.shape)
        values = policies if q is None else np.require(q, np.float64, ["C", "W"]).reshape(flat)
        _fill_tables(policies, baseline, values, ratio, offset)
        return cls(ratio.reshape(shape), None if q is None else offset.reshape(shape))

    def __getitem__(self, place: int) -> Tables:
        """Return the tables of one place of the batch."""
        return Tables(self.ratio[place], None if self.offset is None else self.offset[place])


@jit
def _fill_tables(policies, baseline, q, ratio, offset):  # type: ignore[no-untyped-def]
    n_batch, n_policies, n_states, n_actions = policies.shape
    for k in range(n_batch):
        for x in range(n_states):
            for c in range(n_policies):
                v = 0.0
                for a in range(n_actions):
                    v += policies[k, c, x, a] * q[k, c, x, a]
                for a in range(n_actions):
                    b = baseline[k, x, a]
                    rho = policies[k, c, x, a] / b if b > 0.0 else 0.0
                    ratio[k, x, a, c] = rho
                    offset[k, x, a, c] = v - rho * q[k, c, x, a]


def running_weights(episodes: Trajectories, ratio: Array) -> Array:
    """Return w_t of every row, for one table of ratios (S, A)."""
    found = np.empty(len(episodes.state))
    _running(episodes.start, ratio[episodes.state, episodes.action], found)
    _refuse_overflow(found)
    return found


@jit
def _running(start, rho, found):  # type: ignore[no-untyped-def]
    for episode in range(len(start) - 1):
        w = 1.0
        for row in range(start[episode], start[episode + 1]):
            w *= rho[row]
            found[row] = w


def _refuse_overflow(weight: Array) -> None:
    # Under the baseline weights have mean 1: Markov's inequality rules such a weight out.
    if not np.isfinite(weight).all():
        raise PolicyError(
            "the weight of an episode is beyond all numbers",
            expected="a log made by the baseline, under which that has probability below 1e-300",
            hint="check that the baseline belongs to this log",
        )


def effective_sample_size(weight: Array) -> Array:
    """Return (sum w)^2 / sum w^2 along the first axis; 0 where all weights are 0.

    Example:
        >>> float(effective_sample_size(np.array([1.0, 1.0, 1.0, 1.0])))
        4.0
        >>> float(effective_sample_size(np.array([0.0, 0.0, 0.0, 9.0])))
        1.0
    """
    found = np.empty(weight.shape[1:])
    _effective(weight.reshape(len(weight), -1), found.reshape(-1))
    return found


@jit
def _effective(weight, found):  # type: ignore[no-untyped-def]
    for c in range(weight.shape[1]):
        # Divided by the largest, squares of weights neither overflow nor vanish.
        largest = weight[:, c].max()
        total, square = 0.0, 0.0
        for i in range(len(weight)):
            share = weight[i, c] / largest if largest > 0.0 else 0.0
            total += share
            square += share * share
        found[c] = total * total / square if square > 0.0 else 0.0


def largest_share(weight: Array) -> float:
    """Return the largest weight as a share of all; 0 where all weights are 0.

    Example:
        >>> largest_share(np.array([1.0, 3.0]))
        0.75
    """
    total = float(weight.sum())
    return float(weight.max()) / total if total > 0.0 else 0.0
