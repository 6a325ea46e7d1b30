r"""Optimal planning in large models: inexact policy iteration.

Take the best action in every state, then bring the values of these actions only so far that their
residual is a share of what the best actions still gain; repeat (Puterman and Shin 1978 with sweeps;
Gargiani et al. 2024 with Krylov steps). Whatever V came before, with T the optimal backup,

    max |V - V*| <= max |T V - V| / (1 - gamma),

which is what is returned, rounding included. Letters: v and q values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.mdp.batch import ModelBatch
from spibb.mdp.chain import Chain, blocks, over_blocks
from spibb.mdp.krylov import ACCURACY, solve_chain
from spibb.mdp.large import model_rows, rounding
from spibb.progress import Progress, tell

# What evaluation may leave, of what the last improvement gained.
_LEFT = 0.02
# An action is left only for more than this share of the values: ties keep what is there.
_STRICT = 1e-12
# Of the values: gaps below it are rounding.
_SETTLED = 10 * ACCURACY
_MOST_STEPS = 1_000

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Plan:
    """An optimal policy of one model.

    Attributes:
        actions: The action of every state, shape (S,).
        v: Its values, shape (S,).
        error: How far they may be from the optimal ones.
    """

    actions: NDArray[np.int64]
    v: Array
    error: float


def plan_large(batch: ModelBatch, problem: int = 0) -> Plan:
    """Plan in one model of a batch, with gamma < 1."""
    rewards = batch.reward[problem]
    v, actions = np.zeros(len(rewards)), rewards.argmax(axis=1)
    gap = float(np.ptp(rewards))
    for step in range(1, _MOST_STEPS + 1):
        chain = _chain(batch, problem, actions)
        solve_chain(chain, v, goal=_LEFT * gap)
        best, new = _improved(batch, problem, v, actions)
        least = _SETTLED * float(np.abs(v).max())
        if new <= least or np.array_equal(best, actions):
            solve_chain(chain, v)
            best, new = _improved(batch, problem, v, actions)
            # Below rounding, actions may take turns for ever.
            if new <= least or np.array_equal(best, actions):
                break
        tell(Progress("an optimal policy", new / (1.0 - batch.gamma), step=step))
        actions, gap = best, new
    return Plan(actions, v, (new + rounding(batch, problem, v)) / (1.0 - batch.gamma))


def _chain(batch: ModelBatch, problem: int, actions: NDArray[np.int64]) -> Chain:
    table = np.zeros(batch.shape[1:])
    table[np.arange(len(actions)), actions] = 1.0
    return Chain.of(batch, problem, table)


def _improved(
    batch: ModelBatch, problem: int, v: Array, actions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], float]:
    """Return the best actions, and the largest |T v - v|."""
    bounds, best = blocks(len(v)), np.empty_like(actions)
    gaps, strict = np.zeros(len(bounds) - 1), _STRICT * max(1.0, float(np.abs(v).max()))
    model = model_rows(batch, problem)
    over_blocks(lambda part: _choose(part, bounds, *model, v, strict, actions, best, gaps), bounds)
    return best, float(gaps.max())


@jit
def _choose(chosen, bounds, indptr, indices, data, reward, gamma, v, strict, old, best, gaps):  # type: ignore[no-untyped-def]
    """Write the best action of every state, the old one where it is as good, and the gap."""
    n_actions = reward.shape[1]
    for block in chosen:
        gap = 0.0
        for x in range(bounds[block], bounds[block + 1]):
            most, kept, action = -np.inf, 0.0, 0
            for a in range(n_actions):
                total = 0.0
                for k in range(indptr[x * n_actions + a], indptr[x * n_actions + a + 1]):
                    total += data[k] * v[indices[k]]
                value = reward[x, a] + gamma * total
                if value > most:
                    most, action = value, a
                if a == old[x]:
                    kept = value
            best[x] = action if most > kept + strict else old[x]
            gap = max(gap, abs(most - v[x]))
        gaps[block] = gap
