"""How much a data set knows about a pair of a continuous state and an action.

A pseudo-count N~(x, a) stands where tabular algorithms have N(x, a). :class:`KernelCounts` is the
paper's: every transition that took the action counts by its similarity,

    N~(x, a) = sum over j with a_j = a of max(0, 1 - |x - x_j| / width),

with the Euclidean distance and width 0.2 (the paper writes 1 - 5 d). A method of your own needs the
two verbs of :class:`PseudoCounts` and :class:`FittedCounts`, nothing else.

:func:`spibb.deep.kernel_width.choose_width` helps to choose the width.

Exactness. Distances come from differences of coordinates, never from |x|^2 + |y|^2 - 2 xy, which
cancels: a transition counts itself as exactly 1. On the CPU a compiled loop visits, per action,
only the transitions whose widest-spread coordinate is within reach; on a GPU a tiled sum over all
of them runs where the tensor is.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.arrays import check_rows, is_tensor, to_numpy
from spibb.compiled.jit import reassociating_jit
from spibb.compiled.threads import over_chunks
from spibb.deep.network import checked_answers, checked_observations
from spibb.deep.transitions import Floats, Transitions, check_carried
from spibb.errors import DataError, checked_number, checked_whole

# Squares of lengths beyond these leave float32.
_LEAST_LENGTH, _MOST_LENGTH = 1e-15, 1e15


class FittedCounts(Protocol):
    """Pseudo-counts of one data set."""

    @property
    def n_actions(self) -> int:
        """Number of actions."""

    def counts(self, states: Any) -> Any:
        """Return N~(x, a), shape (..., n_actions), float32, for states of shape (..., d).

        NumPy arrays in, NumPy arrays out; torch tensors come back on their device.
        """


class PseudoCounts(Protocol):
    """A way to count: settings with one verb."""

    def fit(self, transitions: Transitions) -> FittedCounts:
        """Return the counts of a data set."""


@dataclass(frozen=True)
class KernelCounts:
    """The paper's kernel: similarity falls linearly from 1 to 0 at distance ``width``.

    Args:
        width: Distance at which a transition counts no more, 1e-15 to 1e15.

    Example:
        A neighbour at half the width counts one half, and only for its own action.

        >>> data = Transitions.from_arrays([[0.0], [0.1]], [0, 1], [0, 0], [[0.0], [0.0]], [0, 0])
        >>> KernelCounts(width=0.2).fit(data).counts([[0.0]])
        array([[1. , 0.5]], dtype=float32)
    """

    width: float = 0.2

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", as_length(self.width, "width"))

    def fit(self, transitions: Transitions) -> FittedKernelCounts:
        """Return the counts of a data set."""
        check_carried(transitions)
        axis = int(np.ptp(transitions.state, axis=0).argmax())
        order = np.lexsort((transitions.state[:, axis], transitions.action))
        bounds = np.searchsorted(transitions.action[order], np.arange(transitions.n_actions + 1))
        # The transpose, so that the innermost loop runs through memory.
        return FittedKernelCounts(transitions.state[order].T, bounds, axis, self.width)


@dataclass(frozen=True, eq=False)
class FittedKernelCounts:
    """Kernel counts of one data set.

    Args:
        points: Its states, shape (d, N), ordered by action, then by coordinate ``axis``.
        bounds: Where each action's states begin, shape (n_actions + 1,).
        axis: The coordinate that is sorted.
        width: Distance at which a transition counts no more.
    """

    points: Floats
    bounds: NDArray[np.int64]
    axis: int
    width: float

    def __post_init__(self) -> None:
        # A file may hold anything, and compiled loops check no bounds.
        points, bounds = np.asarray(self.points), np.asarray(self.bounds)
        axis, width = checked_whole(self.axis, "axis", least=0), as_length(self.width, "width")
        n_points = points.shape[-1] if points.ndim == 2 else -1
        between = sorted(bounds[1:-1].clip(0, n_points).tolist()) if bounds.ndim == 1 else []
        if bounds.tolist() != [0, *between, n_points] or axis not in range(len(points)):
            what = f"points of shape {points.shape} with bounds {bounds} and axis {axis}"
            raise DataError(what, expected="what KernelCounts(width).fit(transitions) makes")
        _rows(points.T, len(points))
        object.__setattr__(self, "points", np.require(points, np.float32, ["C", "A", "W"]))
        object.__setattr__(self, "bounds", np.require(bounds, np.int64, ["C", "A", "W"]))
        object.__setattr__(self, "axis", axis)
        object.__setattr__(self, "width", width)

    @property
    def n_features(self) -> int:
        """Number of coordinates of a state."""
        return len(self.points)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return len(self.bounds) - 1

    def counts(self, states: Any) -> Any:
        """Return N~(x, a), shape (..., n_actions), float32, for states of shape (..., d)."""
        if is_tensor(states):
            return self._on_tensor(states)
        rows, lead = _rows(states, len(self.points))
        out = np.empty((len(rows), self.n_actions), np.float32)
        about = (rows, self.points, self.bounds, self.axis, self.width, out)
        over_chunks(lambda chosen: _kernel_counts(chosen, *about), np.arange(len(rows)))
        return out.reshape(*lead, self.n_actions)

    def _on_tensor(self, states: Any) -> Any:
        """Sum tile by tile where the tensor is; the CPU has the compiled loop."""
        import torch

        checked_observations(states, len(self.points), "states")
        if states.device.type == "cpu":
            return torch.from_numpy(self.counts(to_numpy(states)))
        queries = states.detach().to(torch.float32).reshape(-1, len(self.points))
        if not bool(queries.isfinite().all()):
            _rows(to_numpy(queries), len(self.points))
        return self.by_tiles(queries).reshape(*states.shape[:-1], self.n_actions)

    def by_tiles(self, queries: Any, *, n_held: int = 2**26) -> Any:
        """Return the counts of a float32 tensor (M, d) by tiles of all distances, on its device.

        Args:
            queries: States.
            n_held: Similarities held at a time; 2^26 float32 are 256 MB.
        """
        out = queries.new_empty((len(queries), self.n_actions))
        data = queries.new_tensor(self.points)
        tile = max(1, n_held // data.shape[1])
        for first in range(0, len(queries), tile):
            block, into = queries[first : first + tile], out[first : first + tile]
            squares = queries.new_zeros((len(block), data.shape[1]))
            for k, coordinate in enumerate(data):
                gap = block[:, k, None] - coordinate
                squares.addcmul_(gap, gap)
            similar = squares.sqrt_().mul_(-1 / self.width).add_(1).clamp_(min=0)
            for a, (begin, end) in enumerate(pairwise(self.bounds.tolist())):
                into[:, a] = similar[:, begin:end].sum(1)
        return out


@reassociating_jit
def _kernel_counts(chosen, queries, points, bounds, axis, width, out):  # type: ignore[no-untyped-def]
    """Fill rows of ``out``: per query and action, the similarities within reach.

    Passes over a buffer, coordinate by coordinate, so that each loop is one vector instruction
    after the other.
    """
    narrow = np.float32(width)
    squares = np.empty(points.shape[1], np.float32)
    for row in chosen:
        centre = queries[row, axis]
        for a in range(len(bounds) - 1):
            column = points[axis, bounds[a] : bounds[a + 1]]
            first = bounds[a] + np.searchsorted(column, centre - narrow)
            last = bounds[a] + np.searchsorted(column, centre + narrow, side="right")
            n_near = last - first
            squares[:n_near] = 0
            for k in range(len(points)):
                place = queries[row, k]
                near = points[k, first:last]
                for j in range(n_near):
                    gap = near[j] - place
                    squares[j] += gap * gap
            total = 0.0
            for j in range(n_near):
                total += max(np.float32(0), np.float32(1) - np.sqrt(squares[j]) / narrow)
            out[row, a] = total


def _rows(states: Any, n_dimensions: int) -> tuple[Floats, tuple[int, ...]]:
    """Return states as contiguous float32 rows, and their leading axes."""
    array = checked_observations(states, n_dimensions, "states")
    # What cannot be written to would be compiled for once more.
    rows = np.require(array.reshape(-1, n_dimensions), np.float32, ["C", "A", "W"])
    return rows, array.shape[:-1]


def as_length(value: Any, name: str) -> float:
    """Return a length whose square is a number of float32, or refuse it."""
    expected = f"a length from {_LEAST_LENGTH:g} to {_MOST_LENGTH:g}; measure in other units"
    return checked_number(value, name, expected, least=_LEAST_LENGTH, most=_MOST_LENGTH)


def checked_counts(counts: Any, states: Any, n_actions: int) -> Any:
    """Ask fitted pseudo-counts about states (..., d), and return N~, shape (..., A).

    The answers of :class:`KernelCounts` need no second look.
    """
    found = counts.counts(states)
    if isinstance(counts, FittedKernelCounts):
        return found
    numbers = checked_answers(found, states, n_actions, "the pseudo-counts", DataError)
    check_rows(
        (numbers >= 0).all(-1),  # false for NaN
        lambda place: f"the pseudo-counts are {numbers[place].tolist()}",
        expected="numbers >= 0",
    )
    return numbers
