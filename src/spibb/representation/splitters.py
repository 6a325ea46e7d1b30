"""How cells are cut: in the middle of their rows, of their range, or where outcomes differ most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spibb.representation.partition import Cut
from spibb.representation.partition import Splitter as Splitter
from spibb.representation.steps import Array, Codes

# Halving a range of values divides the variance of what depends on them linearly by so much.
_BY_HALVING = 4.0
# Halvings of a range that are tried before it is given up.
_N_TRIED = 6


@dataclass(frozen=True, eq=False)
class _Ranked:
    """Columns in turn: a column that was cut k times counts relevance / 4^k.

    Attributes:
        values: Raw columns, shape (n, K).
        least: Rows that a cell must keep, by label.
        relevance: Share of what follows that a column explains, shape (K,).
    """

    values: Array
    least: Array
    relevance: Array

    def _order(self, path: tuple[Cut, ...]) -> list[int]:
        times = np.bincount([cut.column for cut in path], minlength=len(self.relevance))
        worth = self.relevance / _BY_HALVING**times
        return [int(k) for k in np.argsort(-worth, kind="stable") if worth[k] > 0.0]


class Quantiles(_Ranked):
    """Cut at the median of the cell."""

    def __call__(self, label: int, rows: Codes, path: tuple[Cut, ...]) -> Cut | None:
        """Return where to cut, if anywhere."""
        least = self.least[label]
        for k in self._order(path):
            values = np.sort(_low_if_missing(self.values[rows, k]))
            threshold = _nearest_cut(values, len(values) // 2, least)
            if threshold is not None:
                return Cut(k, threshold)
        return None


class Widths(_Ranked):
    """Cut in the middle of the range of the cell.

    Where too few rows are on a side, the other side is halved in its turn.
    """

    def __call__(self, label: int, rows: Codes, path: tuple[Cut, ...]) -> Cut | None:
        """Return where to cut, if anywhere."""
        least = self.least[label]
        for k in self._order(path):
            values = self.values[rows, k]
            known = values[np.isfinite(values)]
            if not len(known):
                continue
            low, high = float(known.min()), float(known.max())
            n_missing = len(values) - len(known)
            for _ in range(_N_TRIED):
                middle = 0.5 * (low + high)
                if not low < middle < high:
                    break
                n_left = int((known <= middle).sum()) + n_missing
                if n_left < least:
                    low = middle
                elif len(rows) - n_left < least:
                    high = middle
                else:
                    return Cut(k, middle)
        return None


@dataclass(frozen=True, eq=False)
class Tree:
    """Cut where targets differ most between the sides, group of actions by group.

    Attributes:
        values: Raw columns, shape (n, K).
        least: Rows that a cell must keep, by label.
        targets: What splits are to separate, centred within pairs, shape (n, T).
        group: Group of actions of each row, shape (n,).
    """

    values: Array
    least: Array
    targets: Array
    group: Codes

    def __call__(self, label: int, rows: Codes, path: tuple[Cut, ...]) -> Cut | None:
        """Return where to cut, if anywhere."""
        best, found = 0.0, None
        targets, group = self.targets[rows], self.group[rows]
        for k in range(self.values.shape[1]):
            values = _low_if_missing(self.values[rows, k])
            order = np.argsort(values, kind="stable")
            values = values[order]
            is_cut = values[1:] > values[:-1]
            n_left = np.arange(1, len(rows))
            is_cut &= (n_left >= self.least[label]) & (len(rows) - n_left >= self.least[label])
            if not is_cut.any():
                continue
            gained = reduction(targets[order], group[order])
            place = int(np.argmax(np.where(is_cut, gained, -1.0)))
            if gained[place] > best:
                best, found = float(gained[place]), Cut(k, _between(values, place))
        return found


def reduction(targets: Array, group: Codes) -> Array:
    """Return how much each cut reduces the squared error, shape (n - 1,)."""
    found = np.zeros(len(targets) - 1)
    for g in range(int(group.max()) + 1):
        is_in = (group == g).astype(np.float64)
        n_left = np.cumsum(is_in)[:-1]
        n = n_left[-1] + is_in[-1]
        sums = np.cumsum(targets * is_in[:, None], axis=0)
        n_right = n - n_left
        left = sums[:-1] ** 2 / np.maximum(n_left, 1.0)[:, None]
        right = (sums[-1] - sums[:-1]) ** 2 / np.maximum(n_right, 1.0)[:, None]
        whole = sums[-1] ** 2 / max(n, 1.0)
        found += (left + right - whole).sum(axis=1)
    return found


def _low_if_missing(values: Array) -> Array:
    return np.where(np.isnan(values), -np.inf, values)


def _nearest_cut(values: Array, middle: int, least: float) -> float | None:
    """Return a threshold as near to the middle of sorted values as equal ones allow."""
    steps = np.flatnonzero(values[1:] > values[:-1]) + 1
    steps = steps[(steps >= least) & (len(values) - steps >= least)]
    if not len(steps):
        return None
    return _between(values, int(steps[np.argmin(np.abs(steps - middle))]) - 1)


def _between(values: Array, place: int) -> float:
    low, high = float(values[place]), float(values[place + 1])
    if np.isinf(low):  # missing values alone are on the left
        return float(np.nextafter(high, -np.inf))
    middle = 0.5 * (low + high)
    return middle if low <= middle < high else low
