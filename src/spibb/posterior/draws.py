"""Models drawn from the posterior of a log, as sparse as the log itself.

A draw gives each pair weights on what was seen to follow it, Gamma(n) each, and on L outcomes drawn
from its prior p, Gamma(m / L) each, made to sum to 1. What is unknown goes to *drawn* outcomes, as
it might: sent to the mean of all, it would hide how much is at stake. They are taken at equal steps
through the state's other outcomes and then through g, each from bad to good, from a random start.
The value of what follows then varies by about Var_p ((1 - 1 / L) / (m + 1) + 1 / L^2): as under the
posterior Dirichlet(n + m p) itself and, for strong priors, somewhat more; L independent ones would
vary by (1 + m / L) / (m + 1). L grows with the root of m, so that the excess stays about a half.

A careful draw has hazards besides (spibb.data.hazards); those of a state and of an action are drawn
once for all of their pairs.

What is drawn of a pair depends on seed, draw and pair alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.compiled.random_numbers import (
    ACTION_HAZARDS,
    BASELINES,
    ENTRIES,
    MODELS,
    STARTS,
    STATE_HAZARDS,
    number,
    numbers,
)
from spibb.compiled.threads import over_chunks
from spibb.compiled.variates import gamma, normal, uniform
from spibb.data.hazards import LARGEST_SHARE, LEAST_STRENGTH, Hazards
from spibb.data.outcomes import Outcomes
from spibb.data.prior import Prior
from spibb.data.shrunk import PRICED, paid
from spibb.mdp.batch import ModelArrays

Array = NDArray[np.float64]

_FEWEST_ATOMS = 6
_ATOMS_BY_ROOT = 2.0


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

    @classmethod
    def single(cls, model: ModelArrays) -> Draws:
        """Return one model as if it were drawn."""
        rows = model.rows
        return cls(rows.indptr, rows.indices[None], rows.data[None], model.reward[None])


class Surroundings(NamedTuple):
    """What priors are drawn from: outcomes from bad to good.

    Attributes:
        indptr: Where what followed each state, by any action, starts; shape (S + 1,).
        indices: Which outcomes.
        counts: How often.
        members: The outcomes of g.
        total: Their probabilities, added up.
        share: c, shape (S,).
        strength: m, shape (S,).
        n_atoms: L: outcomes that a draw has of the prior of a state's pairs, shape (S,).
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    counts: Array
    members: NDArray[np.int32]
    total: Array
    share: Array
    strength: Array
    n_atoms: NDArray[np.int64]

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
            prior.share,
            prior.strength,
            np.maximum(
                _FEWEST_ATOMS, np.ceil(_ATOMS_BY_ROOT * np.sqrt(prior.strength + 1.0))
            ).astype(np.int64),
        )


class DrawnHazards(NamedTuple):
    """The hazards of K draws.

    Attributes:
        in_state: Shape (K, S).
        by_action: Shape (K, A).
        given: What they are drawn from.
        is_careful: Whether there are any.
    """

    in_state: Array
    by_action: Array
    given: Hazards
    is_careful: bool

    @classmethod
    def of(
        cls,
        hazards: Hazards | None,
        shape: tuple[int, int],
        numbered: Sequence[int],
        seed: int,
    ) -> DrawnHazards:
        """Draw the hazards of a careful prior; None: there are none."""
        if hazards is None:
            nothing = [np.zeros((2, n)) for n in shape]
            by_state, by_action = nothing
            empty = by_action[0]
            none = Hazards(0, 0.0, 0.0, by_state, by_action, empty, (0.0, 0.0), empty)
            return cls(by_state, by_action, none, False)

        def drawn(stream: int, shapes: Array) -> Array:
            gammas = np.empty((len(numbered), shapes.size))
            _draw_gammas(numbers(seed, stream, np.asarray(numbered)), shapes.ravel(), gammas)
            happens, spares = np.split(gammas, 2, axis=1)
            return np.asarray(happens / (happens + spares))

        in_state = drawn(STATE_HAZARDS, hazards.in_state)
        return cls(in_state, drawn(ACTION_HAZARDS, hazards.by_action), hazards, True)


def draw_models(
    outcomes: Outcomes,
    around: Surroundings,
    *,
    numbered: Sequence[int],
    seed: int,
    hazards: Hazards | None,
) -> Draws:
    """Draw models; a draw depends on seed and number alone, so that parts can be drawn again.

    Args:
        outcomes: What followed in the log.
        around: What is expected beside it.
        numbered: Which draws.
        seed: Source of randomness.
        hazards: What a careful prior adds.
    """
    indptr = _layout(outcomes, around, is_careful=hazards is not None)
    draws = Draws(
        indptr,
        np.empty((len(numbered), indptr[-1]), np.int32),
        np.empty((len(numbered), indptr[-1])),
        np.empty((len(numbered), *outcomes.n_sa.shape)),
    )
    drawn = DrawnHazards.of(hazards, outcomes.n_sa.shape, numbered, seed)
    states = numbers(seed, MODELS, np.asarray(numbered))
    entries = _draw_entries(outcomes, numbers(seed, ENTRIES, np.asarray(numbered)))
    given = states, outcomes, entries, around, drawn, draws
    over_chunks(lambda places: _draw(places, *given), np.arange(len(numbered)))
    return draws


def _draw_entries(outcomes: Outcomes, states: NDArray[np.uint64]) -> Array:
    """Draw what outcomes add to rewards, shape (K, S + 1)."""
    drawn = np.zeros((len(states), len(outcomes.by_entry)))
    deviation = np.sqrt(outcomes.entry_variance)
    if deviation.any():
        _draw_normals(states, drawn)
    return np.asarray(outcomes.by_entry + deviation * drawn)


def _layout(outcomes: Outcomes, around: Surroundings, *, is_careful: bool) -> NDArray[np.int64]:
    """Return where the outcomes of each pair start in a draw, shape (S * A + 1,)."""
    seen = np.diff(outcomes.indptr).reshape(outcomes.n_sa.shape)
    per_pair = (seen + around.n_atoms[:, None] + is_careful) * outcomes.live[:, None]
    return np.concatenate([[0], np.cumsum(per_pair)])


def draw_starts(n_initial: NDArray[np.int64], numbered: Sequence[int], seed: int) -> Array:
    """Draw distributions of the first state, given how many episodes began in each, (K, S)."""
    starts = np.empty((len(numbered), len(n_initial)))
    shapes = n_initial.astype(np.float64)
    _draw_gammas(numbers(seed, STARTS, np.asarray(numbered)), shapes, starts)
    return np.asarray(starts / starts.sum(axis=1, keepdims=True))


def draw_baseline(shapes: Array, number: int, seed: int) -> Array:
    """Draw a policy whose rows have Dirichlet distributions with these shapes (S, A)."""
    drawn = np.empty((1, shapes.size))
    _draw_gammas(numbers(seed, BASELINES, np.array([number])), shapes.ravel(), drawn)
    table = np.where(shapes > 0.0, drawn.reshape(shapes.shape), 0.0)
    total = table.sum(axis=1, keepdims=True)
    # Rows of tiny shapes may be drawn as nothing but zeros: they are their mean then.
    return np.where(total > 0.0, table / np.where(total > 0.0, total, 1.0),
                    shapes / shapes.sum(axis=1, keepdims=True))  # fmt: skip


@jit
def _draw_gammas(states, shapes, drawn):  # type: ignore[no-untyped-def]
    for place in range(len(drawn)):
        rng = states[place : place + 1].copy()
        for x in range(len(shapes)):
            drawn[place, x] = gamma(rng, shapes[x])


@jit
def _draw_normals(states, drawn):  # type: ignore[no-untyped-def]
    for place in range(len(drawn)):
        rng = states[place : place + 1].copy()
        for x in range(drawn.shape[1]):
            drawn[place, x] = normal(rng)


@jit
def _draw(places, states, outcomes, entries, around, worse, draws):  # type: ignore[no-untyped-def]
    n_states, n_actions = outcomes.n_sa.shape
    rng = np.empty(1, dtype=np.uint64)
    for place in places:
        for x in range(n_states):
            for a in range(n_actions):
                _draw_pair(place, x, a, states, outcomes, entries, around, worse, draws, rng)


@jit
def _draw_pair(place, x, a, states, outcomes, entries, around, worse, draws, rng):  # type: ignore[no-untyped-def]
    """Draw what follows a pair in one model."""
    if not outcomes.live[x]:
        draws.reward[place, x, a] = 0.0
        return
    n_actions, m, n_atoms = outcomes.n_sa.shape[1], around.strength[x], around.n_atoms[x]
    if worse.is_careful:
        m = max(m, LEAST_STRENGTH)
    pair, n, n_x = x * n_actions + a, outcomes.n_sa[x, a], 0.0
    for b in range(n_actions):
        n_x += outcomes.n_sa[x, b]
    rng[0] = number(states[place], np.uint64(pair))
    first, last = draws.indptr[pair], draws.indptr[pair + 1]
    indices, weights = draws.indices[place, first:last], draws.weights[place, first:last]
    if worse.is_careful and n_x == 0.0:
        for j in range(len(indices)):
            indices[j], weights[j] = x, worse.given.stay if j == 0 else 0.0
        draws.reward[place, x, a] = worse.given.reward
        return
    k = 0
    for j in range(outcomes.indptr[pair], outcomes.indptr[pair + 1]):
        indices[k] = outcomes.indices[j]
        weights[k] = gamma(rng, outcomes.counts[j])
        k += 1
    n_seen = k
    share = min(around.share[x], LARGEST_SHARE) if worse.is_careful else around.share[x]
    _draw_atoms(rng, x, n_x, around, share, indices[k : k + n_atoms])
    for _ in range(n_atoms):
        weights[k] = gamma(rng, m / n_atoms)
        k += 1
    noise = normal(rng) * math.sqrt(outcomes.variance[x, a] / (n + min(m, PRICED)))
    reward = (
        _normalised(indices[:k], weights[:k], n_seen, outcomes, entries[place], x, a, m) + noise
    )
    if worse.is_careful:
        given = worse.given
        happens, spares = gamma(rng, given.by_pair[0]), gamma(rng, n + given.by_pair[1])
        spared = (1.0 - worse.in_state[place, x]) * (spares / (happens + spares))
        # The worst is no worse for a hazard, and what was seen paid what it paid.
        is_hit = x != given.state
        hazard = 1.0 - spared * (1.0 - worse.by_action[place, a]) if is_hit else 0.0
        unseen = given.unseen[a] * worse.by_action[place, a]
        least = 1.0 - spared * (1.0 - unseen) if is_hit else 0.0
        for j in range(k):
            weights[j] *= 1.0 - hazard
        ends = given.state == len(outcomes.live)
        indices[k], weights[k] = 0 if ends else given.state, 0.0 if ends else hazard
        reward += least * (given.reward - reward)
    draws.reward[place, x, a] = reward


@jit
def _draw_atoms(rng, x, n_x, around, c, atoms):  # type: ignore[no-untyped-def]
    """Draw from (n_x + c g) / (N_x + c) at equal steps."""
    if math.isinf(c):
        n_x, c = 0.0, 1.0
    step = (n_x + c) / len(atoms)
    mark = uniform(rng) * step
    place, passed, member = around.indptr[x] - 1, 0.0, 0
    n_members = len(around.members)
    for k in range(len(atoms)):
        if mark < n_x:
            while passed <= mark and place + 1 < around.indptr[x + 1]:
                place += 1
                passed += around.counts[place]
            atoms[k] = around.indices[place]
        else:
            share = (mark - n_x) / c * around.total[n_members - 1]
            # The first whose total is above it, or the last.
            last = n_members - 1
            while member < last:
                middle = (member + last) // 2
                if around.total[middle] <= share:
                    member = middle + 1
                else:
                    last = middle
            atoms[k] = around.members[member]
        mark += step


@jit
def _normalised(indices, weights, n_seen, outcomes, by_entry, x, a, m):  # type: ignore[no-untyped-def]
    """Make weights sum to 1, the end left out, and return what the pair pays."""
    n_states, seen, expected = len(outcomes.live), 0.0, 0.0
    for k in range(len(weights)):
        if k < n_seen:
            seen += weights[k]
        else:
            expected += weights[k]
    total, n = seen + expected, outcomes.n_sa[x, a]
    u, u_state = outcomes.by_pair[x, a], outcomes.by_state[x]
    reward = paid(n, m, u, u_state) + (seen / total - n / (n + m)) * (u - u_state)
    for k in range(len(indices)):
        weights[k] /= total
        reward += weights[k] * by_entry[indices[k]]
        if indices[k] == n_states:
            indices[k], weights[k] = 0, 0.0
    return reward
