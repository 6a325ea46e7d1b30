r"""Optimal planning in large models: modified, then inexact policy iteration.

Take the best action in every state, then bring the values of these actions nearer; repeat. Where
sweeps get on they suffice (modified policy iteration; Puterman and Shin 1978), shifted by the
constant that the residual asks for where nothing ends (MacQueen 1966). Where they do not, chains
are solved by Krylov steps, until a share is left of what the best actions still gain (inexact
policy iteration; Gargiani et al. 2024). Whatever V came before, with T the optimal backup,

    max |V - V*| <= max |T V - V| / (1 - gamma),

which is what is returned, rounding included. Letters: v and q values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.mdp.batch import ModelBatch
from spibb.mdp.chain import Chain, blocks, over_blocks
from spibb.mdp.krylov import ACCURACY, Manner, solve_chain
from spibb.mdp.large import TOLERANCE, model_rows, rounding
from spibb.progress import Progress, tell

# What evaluation may leave of what the last improvement gained.
_LEFT = 0.1
# Sweeps between improvements at most, after how many the change is looked at, and what share of it
# may be left for more to follow.
_SWEEPS, _LOOKED = 40, 4
_FAST = 0.05
# So many improvements are made by sweeps in any case: they are cheap, and mend what is local.
_TRIED = 4
# An action is left only for more than this share of the values: ties keep what is there.
_STRICT = 1e-13
_ROUNDED = 1e-11
_MOST_STEPS = 1_000

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Plan:
    """An optimal policy of one model.

    Attributes:
        actions: The action of every state, shape (S,).
        v: Its values, shape (S,).
        q: One backup of them, shape (S, A).
        error: How far they may be from those of the policy, and from the optimal ones.
    """

    actions: NDArray[np.int64]
    v: Array
    q: Array
    error: float


def plan_large(batch: ModelBatch, problem: int = 0) -> Plan:
    """Plan in one model of a batch, with gamma < 1."""
    gamma, q = batch.gamma, np.empty(batch.shape[1:])
    # Where nothing ends, a constant that all values lack shows in how all change.
    shift = 0.0 if batch.ending[problem].any() else gamma / (1.0 - gamma)
    v, actions = np.zeros(batch.shape[1]), batch.reward[problem].argmax(axis=1)
    taken = _Taken.of(batch, problem, actions)
    v, _ = taken.swept(v, float(np.ptp(taken.reward)), _LEFT, shift)
    manner, is_fast, before = Manner(), True, np.inf
    for step in range(1, _MOST_STEPS + 1):
        best, (low, high) = _improved(batch, problem, v, actions, q)
        gap, size = max(-low, high), float(np.abs(v).max())
        tell(Progress("an optimal policy", gap / (1.0 - gamma), step=step))
        goal = max(ACCURACY, TOLERANCE * (1.0 - gamma)) * size
        # Below rounding, actions may take turns for ever.
        if gap <= goal or (gap <= _ROUNDED * size and gap > 0.5 * before):
            break
        # Where hardly an action changes, it is the values that are behind.
        left, before = min(_LEFT, np.count_nonzero(best != actions) / len(v)), gap
        if is_fast:
            taken, span = taken.changed(batch, problem, actions, best), high - low
            left = max(left, 0.3 * goal / span)
            v, fell = taken.swept(v, span, left, shift)
            is_fast = fell <= max(_FAST, left) or step <= _TRIED
        else:
            goal = max(left * gap, 0.3 * goal)
            solve_chain(_chain(batch, problem, best), v, goal=goal, manner=manner)
        actions = best
    return Plan(best, v, q, (gap + rounding(batch, problem, v)) / (1.0 - gamma))


@dataclass(frozen=True, eq=False)
class _Taken:
    """The rows that actions take, side by side: sweeps along all rows would wait for memory.

    Attributes:
        starts: Where rows start, shape (S + 1,).
        indices: Successors.
        data: Their probabilities, discounted.
        reward: Shape (S,).
    """

    starts: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: Array
    reward: Array

    @classmethod
    def of(cls, batch: ModelBatch, problem: int, actions: NDArray[np.int64]) -> _Taken:
        """Copy the rows of actions (S,)."""
        starts = np.append(0, np.cumsum(_lengths(batch, problem, actions)))
        indices, data = np.empty(starts[-1], np.int32), np.empty(starts[-1])
        found = cls(starts, indices, data, np.empty(len(actions)))
        found._copy(batch, problem, np.arange(len(actions)), actions)
        return found

    def changed(
        self, batch: ModelBatch, problem: int, old: NDArray[np.int64], new: NDArray[np.int64]
    ) -> _Taken:
        """Return the rows of other actions, these overwritten where they fit."""
        states = np.flatnonzero(new != old)
        fits = np.diff(self.starts)[states] == _lengths(batch, problem, new)[states]
        if not fits.all():
            return _Taken.of(batch, problem, new)
        self._copy(batch, problem, states, new)
        return self

    def _copy(
        self,
        batch: ModelBatch,
        problem: int,
        states: NDArray[np.int64],
        actions: NDArray[np.int64],
    ) -> None:
        model, to = model_rows(batch, problem), (self.starts, self.indices, self.data, self.reward)
        bounds = blocks(len(states))
        over_blocks(lambda part: _gather(part, bounds, model, states, actions, *to), bounds)

    def swept(self, v: Array, span: float, enough: float, shift: float) -> tuple[Array, float]:
        """Make sweeps; return values, and what share of a span of change is left.

        Args:
            v: Values to start from.
            span: What the change is compared with.
            enough: The share at which to stop.
            shift: How often the middle of the last change is added in the end.
        """
        bounds, rows = blocks(len(v)), (self.starts, self.indices, self.data, self.reward)
        left = np.inf
        for _ in range(_SWEEPS // _LOOKED):
            old = v
            for _ in range(_LOOKED):
                old, v = v, np.empty_like(v)
                over_blocks(partial(_sweep_some, bounds, rows, old, v), bounds)
            change = v - old
            low, high = float(change.min()), float(change.max())
            left = (high - low) / span if span > 0.0 else 0.0
            if left <= enough:
                break
        v += shift * (low + high) / 2.0
        return v, left


def _sweep_some(bounds: Any, rows: Any, v: Array, to: Array, part: NDArray[np.int64]) -> None:
    _sweep(part, bounds, rows, v, to)


def _lengths(batch: ModelBatch, problem: int, actions: NDArray[np.int64]) -> NDArray[np.int64]:
    indptr = model_rows(batch, problem)[0]
    pairs = np.arange(len(actions)) * batch.shape[2] + actions
    return np.asarray(indptr[pairs + 1] - indptr[pairs])


def _chain(batch: ModelBatch, problem: int, actions: NDArray[np.int64]) -> Chain:
    table = np.zeros(batch.shape[1:])
    table[np.arange(len(actions)), actions] = 1.0
    return Chain.of(batch, problem, table)


def _improved(
    batch: ModelBatch, problem: int, v: Array, actions: NDArray[np.int64], q: Array
) -> tuple[NDArray[np.int64], tuple[float, float]]:
    """Write q; return the best actions, the least they change v by, and the most T v does."""
    bounds, best = blocks(len(v)), np.empty_like(actions)
    gaps, strict = np.zeros((len(bounds) - 1, 2)), _STRICT * max(1.0, float(np.abs(v).max()))
    model = model_rows(batch, problem)
    over_blocks(
        lambda part: _choose(part, bounds, *model, v, strict, actions, best, q, gaps), bounds
    )
    return best, (float(gaps[:, 0].min()), float(gaps[:, 1].max()))


@jit
def _choose(chosen, bounds, indptr, indices, data, reward, gamma, v, strict, old, best, q, gaps):  # type: ignore[no-untyped-def]
    """Write Q, the best action of every state, the old one where it is as good, and the gaps."""
    n_actions = reward.shape[1]
    for block in chosen:
        low, high = np.inf, -np.inf
        for x in range(bounds[block], bounds[block + 1]):
            most, kept, action = -np.inf, 0.0, 0
            for a in range(n_actions):
                total = 0.0
                for k in range(indptr[x * n_actions + a], indptr[x * n_actions + a + 1]):
                    total += data[k] * v[indices[k]]
                value = reward[x, a] + gamma * total
                q[x, a] = value
                if value > most:
                    most, action = value, a
                if a == old[x]:
                    kept = value
            if most <= kept + strict:
                action = old[x]
            best[x] = action
            # Of the action that is taken, lest the error of its own values be more.
            low, high = min(low, q[x, action] - v[x]), max(high, most - v[x])
        gaps[block, 0], gaps[block, 1] = low, high


@jit
def _gather(chosen, bounds, model, states, actions, starts, to_indices, to_data, to_reward):  # type: ignore[no-untyped-def]
    """Copy the rows of some states, discounted."""
    indptr, indices, data, reward, gamma = model
    for block in chosen:
        for place in range(bounds[block], bounds[block + 1]):
            x = states[place]
            begin = indptr[x * reward.shape[1] + actions[x]]
            for k in range(starts[x + 1] - starts[x]):
                to_indices[starts[x] + k] = indices[begin + k]
                to_data[starts[x] + k] = gamma * data[begin + k]
            to_reward[x] = reward[x, actions[x]]


@jit
def _sweep(chosen, bounds, rows, v, to):  # type: ignore[no-untyped-def]
    starts, indices, data, reward = rows
    for block in chosen:
        for x in range(bounds[block], bounds[block + 1]):
            total = reward[x]
            for k in range(starts[x], starts[x + 1]):
                total += data[k] * v[indices[k]]
            to[x] = total
