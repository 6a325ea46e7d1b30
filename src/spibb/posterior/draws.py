"""Models drawn from the posterior of a log, as sparse as the log itself.

A draw gives each pair weights on what was seen to follow it, Gamma(n) each, and on L outcomes drawn
from its prior p, Gamma(m / L) each, made to sum to 1. What is unknown goes to *drawn* outcomes, as
it might: sent to the mean of all, it would hide how much is at stake. They are taken at equal steps
through the state's other outcomes and then through g, each from bad to good, from a random start.
The value of what follows then varies by about Var_p ((1 - 1 / L) / (m + 1) + 1 / L^2): as under the
posterior Dirichlet(n + m p) itself and, for strong priors, somewhat more; L independent ones would
vary by (1 + m / L) / (m + 1). L grows with the root of m, so that the excess stays below a half.

A careful draw has one more outcome of weight Gamma(d): the step leads to the worst known and pays
the least. A log that starts on the safe side of a frontier holds nothing of what lies behind it;
this weight, in steps a pair, stands for that. And a state in which nothing was ever done, because
records stop there, pays the least for ever: it would otherwise be taken for an ordinary one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.compiled.random_numbers import MODELS, STARTS, numbers
from spibb.compiled.threads import over_chunks
from spibb.compiled.variates import gamma, normal, uniform
from spibb.data.outcomes import Outcomes
from spibb.data.prior import Prior

Array = NDArray[np.float64]

_FEWEST_ATOMS = 6
_ATOMS_BY_ROOT = 1.5


class Dread(NamedTuple):
    """What a careful prior expects beside what the log shows.

    Attributes:
        weight: In steps a pair; 0: nothing.
        state: Where such a step leads; S: it ends.
        reward: What it pays.
        stay: Probability to stay in a state in which nothing was ever done.
    """

    weight: float
    state: int
    reward: float
    stay: float


NO_DREAD = Dread(0.0, 0, 0.0, 0.0)


class Draws(NamedTuple):
    """K models; outcomes of pair p are `indptr[p]` to `indptr[p + 1]` in all of them.

    Attributes:
        indptr: Shape (S * A + 1,).
        indices: Next states, shape (K, Z).
        weights: Their probabilities, shape (K, Z); what is missing from 1 ends.
        reward: Shape (K, S, A).
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weights: Array
    reward: Array


class Surroundings(NamedTuple):
    """What priors are drawn from: outcomes from bad to good.

    Attributes:
        indptr: Where what followed each state, by any action, starts; shape (S + 1,).
        indices: Which outcomes.
        counts: How often.
        members: The outcomes of g.
        total: Their probabilities, added up.
        share: c.
        strength: m.
        n_atoms: L: outcomes that a draw has of the prior of a pair.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    counts: Array
    members: NDArray[np.int32]
    total: Array
    share: float
    strength: float
    n_atoms: int

    @classmethod
    def of(cls, outcomes: Outcomes, prior: Prior, worth: Array) -> Surroundings:
        """Order outcomes by what they are worth, shape (S + 1,)."""
        n_states, n_actions = outcomes.n_sa.shape
        rank = np.argsort(np.argsort(worth, kind="stable"), kind="stable")
        state = np.repeat(np.arange(n_states * n_actions) // n_actions, np.diff(outcomes.indptr))
        keys, place = np.unique(state * len(worth) + rank[outcomes.indices], return_inverse=True)
        by_rank = np.argsort(rank, kind="stable")
        members = by_rank[prior.frequencies[by_rank] > 0.0]
        return cls(
            np.searchsorted(keys // len(worth), np.arange(n_states + 1)).astype(np.int64),
            by_rank[keys % len(worth)].astype(np.int32),
            np.bincount(place.ravel(), outcomes.counts, len(keys)).astype(np.float64),
            members.astype(np.int32),
            np.cumsum(prior.frequencies[members]),
            float(prior.share),
            float(prior.strength),
            max(_FEWEST_ATOMS, math.ceil(_ATOMS_BY_ROOT * math.sqrt(prior.strength + 1.0))),
        )


def draw_models(
    outcomes: Outcomes, around: Surroundings, *, numbered: Sequence[int], seed: int, dread: Dread
) -> Draws:
    """Draw models; a draw depends on seed and number alone, so that parts can be drawn again.

    Args:
        outcomes: What followed in the log.
        around: What is expected beside it.
        numbered: Which draws.
        seed: Source of randomness.
        dread: What a careful prior adds.
    """
    extra = around.n_atoms + (dread.weight > 0.0)
    per_pair = (np.diff(outcomes.indptr) + extra).reshape(outcomes.n_sa.shape)
    indptr = np.concatenate([[0], np.cumsum(per_pair * outcomes.live[:, None])])
    draws = Draws(
        indptr,
        np.zeros((len(numbered), indptr[-1]), np.int32),
        np.zeros((len(numbered), indptr[-1])),
        np.zeros((len(numbered), *outcomes.n_sa.shape)),
    )
    states = numbers(seed, MODELS, np.asarray(numbered))
    given = states, outcomes, around, dread, draws
    over_chunks(lambda places: _draw(places, *given), np.arange(len(numbered)))
    return draws


def draw_starts(n_initial: NDArray[np.int64], numbered: Sequence[int], seed: int) -> Array:
    """Draw distributions of the first state, given how many episodes began in each, (K, S)."""
    starts = np.zeros((len(numbered), len(n_initial)))
    _draw_starts(numbers(seed, STARTS, np.asarray(numbered)), n_initial, starts)
    return starts


@jit
def _draw_starts(states, n_initial, starts):  # type: ignore[no-untyped-def]
    for place in range(len(starts)):
        state = states[place : place + 1].copy()
        for x in range(len(n_initial)):
            starts[place, x] = gamma(state, float(n_initial[x]))
        starts[place] /= starts[place].sum()


@jit
def _draw(places, states, outcomes, around, dread, draws):  # type: ignore[no-untyped-def]
    n_states, n_actions = outcomes.n_sa.shape
    own, m, n_atoms = np.zeros(n_states + 1), around.strength, around.n_atoms
    for place in places:
        rng = states[place : place + 1].copy()
        indices, weights = draws.indices[place], draws.weights[place]
        for x in range(n_states):
            if not outcomes.live[x]:
                continue
            n_x = outcomes.n_sa[x].sum()
            for a in range(n_actions):
                pair, n = x * n_actions + a, outcomes.n_sa[x, a]
                first, last = draws.indptr[pair], draws.indptr[pair + 1]
                k = first
                if dread.weight > 0.0 and n_x == 0.0:
                    indices[k], weights[k] = x, dread.stay
                    draws.reward[place, x, a] = dread.reward
                    continue
                for j in range(outcomes.indptr[pair], outcomes.indptr[pair + 1]):
                    indices[k] = outcomes.indices[j]
                    weights[k] = gamma(rng, outcomes.counts[j])
                    own[outcomes.indices[j]] = outcomes.counts[j]
                    k += 1
                n_seen = k - first
                _draw_atoms(rng, x, n_x - n, around, own, indices[k : k + n_atoms])
                for j in range(outcomes.indptr[pair], outcomes.indptr[pair + 1]):
                    own[outcomes.indices[j]] = 0.0
                for _ in range(n_atoms):
                    weights[k] = gamma(rng, m / n_atoms)
                    k += 1
                if dread.weight > 0.0:
                    indices[k] = dread.state
                    weights[k] = gamma(rng, dread.weight)
                noise = normal(rng) * math.sqrt(outcomes.variance[x, a] / (n + m))
                reward = _normalised(indices[first:last], weights[first:last], n_seen, dread,
                                     outcomes, x, a)  # fmt: skip
                draws.reward[place, x, a] = reward + noise


@jit
def _draw_atoms(rng, x, n_others, around, own, atoms):  # type: ignore[no-untyped-def]
    """Draw from (n_x,-a + c g) / (N_x,-a + c) at equal steps."""
    c = around.share
    if math.isinf(c):
        n_others, c = 0.0, 1.0
    step = (n_others + c) / len(atoms)
    mark = uniform(rng) * step
    place, passed = around.indptr[x] - 1, 0.0
    for k in range(len(atoms)):
        if mark < n_others:
            while passed <= mark and place + 1 < around.indptr[x + 1]:
                place += 1
                passed += around.counts[place] - own[around.indices[place]]
            atoms[k] = around.indices[place]
        else:
            share = (mark - n_others) / c * around.total[-1]
            found = np.searchsorted(around.total, share, side="right")
            atoms[k] = around.members[min(found, len(around.members) - 1)]
        mark += step


@jit
def _normalised(indices, weights, n_seen, dread, outcomes, x, a):  # type: ignore[no-untyped-def]
    """Make weights sum to 1, the end left out, and return what the pair pays."""
    n_states, total, seen = len(outcomes.live), weights.sum(), weights[:n_seen].sum()
    dreaded = weights[-1] if dread.weight > 0.0 else 0.0
    expected = total - seen - dreaded
    reward = seen * outcomes.by_pair[x, a] + expected * outcomes.by_others[x, a]
    reward = (reward + dreaded * dread.reward) / total
    n_all = len(indices) - (1 if dread.weight > 0.0 else 0)
    for k in range(len(indices)):
        weights[k] /= total
        if k < n_all:
            reward += weights[k] * outcomes.by_entry[indices[k]]
        if indices[k] == n_states:
            indices[k], weights[k] = 0, 0.0
    return reward
