"""Labels cut into cells by thresholds on raw columns: one binary tree for each label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from spibb.representation.steps import Array, Codes

# Cuts on the way to a cell.
_DEEPEST = 6


class Cut(NamedTuple):
    """Rows with a value of at most ``threshold`` in a column go left; missing ones too."""

    column: int
    threshold: float


class Splitter(Protocol):
    """Chooses where cells are cut."""

    @property
    def values(self) -> Array:
        """Raw columns of the rows that cells are grown on."""

    def __call__(self, label: int, rows: Codes, path: tuple[Cut, ...], /) -> Cut | None:
        """Return a cut of some rows of a label, after others on the path; None: they stay one."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Cells of labels.

    Attributes:
        root: The node at which each label starts, shape (S,).
        column: Which column a node looks at; -1: it is a cell.
        threshold: Up to which value rows go left.
        left: The node on the left, or the number of the cell.
        right: The node on the right.
        label: The label of each cell.
    """

    root: Codes
    column: Codes
    threshold: Array
    left: Codes
    right: Codes
    label: Codes

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.label)

    def assign(self, state: Codes, values: Array) -> Codes:
        """Return the cell of each row.

        Args:
            state: Labels, shape (n,).
            values: Raw columns, shape (n, K); missing values are NaN.
        """
        node = self.root[state]
        open_ = np.flatnonzero(self.column[node] >= 0)
        while len(open_):
            here = node[open_]
            value = values[open_, self.column[here]]
            goes_right = value > self.threshold[here]  # false where it is missing
            node[open_] = np.where(goes_right, self.right[here], self.left[here])
            open_ = open_[self.column[node[open_]] >= 0]
        return self.left[node]


def grow(n_states: int, state: Codes, least: NDArray[np.float64], split: Splitter) -> Partition:
    """Cut each label as long as its rows suffice.

    Args:
        n_states: Number of labels.
        state: Label of each row that the partition is grown on.
        least: Rows that a cell must keep, by label, shape (S,).
        split: Chooses cuts; both sides of each must keep enough rows.
    """
    order = np.argsort(state, kind="stable")
    bounds = np.searchsorted(state[order], np.arange(n_states + 1))
    nodes: list[tuple[float, ...]] = []
    label: list[int] = []

    def add(x: int, rows: Codes, path: tuple[Cut, ...]) -> int:
        place, cut = len(nodes), None
        nodes.append(())
        if len(path) < _DEEPEST and len(rows) >= 2 * least[x]:
            cut = split(x, rows, path)
        if cut is None:
            nodes[place] = (-1, 0.0, len(label), 0)
            label.append(x)
            return place
        is_right = split.values[rows, cut.column] > cut.threshold
        left, right = (add(x, rows[side], (*path, cut)) for side in (~is_right, is_right))
        nodes[place] = (cut.column, cut.threshold, left, right)
        return place

    root = [add(x, order[bounds[x] : bounds[x + 1]], ()) for x in range(n_states)]
    column, threshold, left, right = np.array(nodes, dtype=np.float64).T
    return Partition(
        np.array(root, dtype=np.int64),
        column.astype(np.int64),
        threshold,
        left.astype(np.int64),
        right.astype(np.int64),
        np.array(label, dtype=np.int64),
    )
