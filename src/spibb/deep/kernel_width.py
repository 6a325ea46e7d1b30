"""Choose the width of the kernel that counts.

A count claims that what happened to the neighbours tells what will happen here.
:func:`choose_width` takes this at its word: it predicts each transition's displacement and reward
from its neighbours, weighted by the kernel and without itself, and returns the width that predicts
best, together with how many neighbours each width gives. Coordinates must be comparable first:
divide each by the distance in it that matters (the helicopter's positions and speeds are of one
size already).

Read the answer with two things in mind. The best width for prediction shrinks as data grow; a width
for comparing data sets of several sizes, as the paper's 0.2, is one at which the largest predicts
well. And a wide kernel counts transitions that say little: where safety matters more than gain,
prefer the narrow side of a flat minimum. On data of the helicopter's baseline the least error lies
at 0.6, 0.4 and 0.3 for 1,000, 3,000 and 10,000 transitions, and at 10,000 the paper's 0.2 is nearly
as good (0.61 of the plain mean's error against 0.57).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.compiled.threads import over_chunks
from spibb.deep.pseudo_counts import as_length
from spibb.deep.transitions import Transitions, check_carried
from spibb.errors import SettingsError, checked_whole


@dataclass(frozen=True)
class WidthChoice:
    """What :func:`choose_width` found, one entry per candidate.

    Args:
        width: The candidate of least error.
        widths: Candidates, ascending.
        error: Mean squared error of the neighbours' prediction, as a share of that of the action's
            mean: 1 means that neighbours tell nothing.
        median_count: Median of N~(x_j, a_j) - 1, the neighbours a transition has.
        alone: Share of transitions without any neighbour.
    """

    width: float
    widths: tuple[float, ...]
    error: tuple[float, ...]
    median_count: tuple[float, ...]
    alone: tuple[float, ...]


def choose_width(
    transitions: Transitions,
    widths: ArrayLike = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8),
    *,
    n_queries: int = 2_000,
) -> WidthChoice:
    """Return the kernel width at which neighbours predict each other's transition best.

    For a transition j the prediction of (x'_j - x_j, r_j), each coordinate in units of its standard
    deviation, is the mean over the other transitions of the same action, weighted by the kernel;
    where a transition has no neighbour it is the mean over the action. Too narrow a kernel follows
    the noise, too wide a one joins states where different things happen.

    Args:
        transitions: The data set.
        widths: Candidates, > 0.
        n_queries: How many transitions, evenly spread over the rows, are predicted.
    """
    check_carried(transitions)
    # As objects ragged candidates are an array too, of lists that are no lengths.
    candidates = np.asarray(widths, dtype=object).ravel()
    if candidates.size == 0:
        raise SettingsError("widths is empty", expected="at least one candidate")
    tried = np.unique([as_length(width, "width") for width in candidates])
    n_queries = checked_whole(n_queries, "n_queries")
    moved = transitions.next_state - transitions.state
    outcome = np.column_stack((moved, transitions.reward)).astype(np.float64)
    spread = outcome.std(axis=0)
    outcome = (outcome - outcome.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    n_rows = len(transitions)
    chosen = np.unique(np.linspace(0, n_rows - 1, min(n_queries, n_rows)).astype(np.int64))
    error = np.empty((len(chosen), len(tried) + 1))
    neighbours = np.empty((len(chosen), len(tried)))

    def fill(part: NDArray[np.int64]) -> None:
        for place, i in zip(part, chosen[part], strict=True):
            others = np.flatnonzero(transitions.action == transitions.action[i])
            others = others[others != i]
            gaps = transitions.state[others].astype(np.float64) - transitions.state[i]
            weights = (1 - np.sqrt((gaps**2).sum(axis=1)) / tried[:, None]).clip(min=0)
            neighbours[place] = n_near = weights.sum(axis=1)
            # By each width, and last by the mean, which also stands in where nobody is near.
            guess = np.tile(outcome[others].sum(axis=0) / max(len(others), 1), (len(tried) + 1, 1))
            is_near = np.flatnonzero(n_near)
            guess[is_near] = weights[is_near] @ outcome[others] / n_near[is_near, None]
            error[place] = ((outcome[i] - guess) ** 2).sum(axis=1)

    over_chunks(fill, np.arange(len(chosen)))
    by_mean = error[:, -1].mean()
    share = error[:, :-1].mean(axis=0) / (by_mean if by_mean > 0 else 1.0)
    told = (tried, share, np.median(neighbours, axis=0), (neighbours == 0).mean(axis=0))
    return WidthChoice(float(tried[share.argmin()]), *(tuple(part.tolist()) for part in told))
