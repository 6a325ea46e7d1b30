r"""An incomplete factor of I - C, in the order of a breadth-first search.

Rows are eliminated one by one; of what that fills in, entries below a threshold are dropped, and
all but so many of each row (ILUT; Saad 1994). I - C is an M-matrix, and stays one when entries off
the diagonal are dropped, so that no pivot vanishes (Meijerink and van der Vorst 1977). The factor
is exact where little fills in: in a corridor, once its states are numbered along it, whatever
numbers they came with. That order is breadth first, in both directions of the arrows, from a state
as far away as one search finds (Cuthill and McKee 1969, degrees apart).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.mdp.chain import Chain
from spibb.memory import check_fits

# Rows that are factored between two looks: at the keyboard, and at what fills in.
_ROWS = 2_000
# Where more than this share of the rows lost entries for want of room, a factor does not pay.
_CUT = 0.2
# Entries that elimination may add to a row, and below what share of the diagonal none is kept.
_MORE = 24
_DROPPED = 1e-4


@dataclass(frozen=True, eq=False)
class IncompleteLU:
    """I - C is about L U, in another order of the states.

    Attributes:
        order: Which state stands at each place.
        starts: Where the rows of L, whose diagonal is 1, and those of U start, in turn; their ends
            are the next starts. Shape (2 S + 1,).
        indices: Columns; the first of a row of U is the diagonal.
        data: Entries.
    """

    order: NDArray[np.int32]
    starts: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[np.float64]

    @classmethod
    def of(cls, chain: Chain, order: NDArray[np.int32] | None = None) -> IncompleteLU | None:
        """Order the states of a chain, or take the order of another, and factor it.

        None where so much fills in that a factor would be none: graphs without length.
        """
        n, n_entries = chain.n_states, len(chain.data)
        room = n_entries + (_MORE + 1) * n
        check_fits(12 * room + 20 * n_entries, f"factors of a chain of {n_entries:,} transitions")
        order = _order(chain) if order is None else order
        place = np.empty(n, np.int32)
        place[order] = np.arange(n, dtype=np.int32)
        starts = np.zeros(2 * n + 1, np.int64)
        indices, data = np.empty(room, np.int32), np.empty(room)
        work, n_cut = (np.zeros(n), np.zeros(n, np.bool_), np.empty((3, n), np.int32)), 0
        rows = (chain.indptr, chain.indices, chain.data)
        for begin in range(0, n, _ROWS):
            end = min(n, begin + _ROWS)
            n_cut += _factor(begin, end, rows, order, place, work, starts, indices, data)
            if n_cut > _CUT * max(end, _ROWS):
                return None
        return cls(order, starts, indices, data)

    def solve(self, x: NDArray[np.float64], to: NDArray[np.float64]) -> None:
        """Write (L U)^-1 x."""
        _substitute(self.order, self.starts, self.indices, self.data, x, to)


def _order(chain: Chain) -> NDArray[np.int32]:
    """Return all states in the order of breadth-first searches along arrows and against them."""
    back = sp.csr_array(chain.matrix.T)
    backward = (back.indptr.astype(np.int64), back.indices.astype(np.int32))
    found: NDArray[np.int32] = _searched(chain.indptr, chain.indices, *backward)
    return found


@jit
def _searched(indptr, indices, back_indptr, back_indices):  # type: ignore[no-untyped-def]
    n = len(indptr) - 1
    order = np.empty(n, np.int32)
    found = np.zeros(n, np.int8)
    filled = 0
    for root in range(n):
        if found[root] != 0:
            continue
        # The last state of a first search is at an end of its component: begin again there.
        end = _grow(root, 1, filled, indptr, indices, back_indptr, back_indices, order, found)
        _grow(order[end - 1], 2, filled, indptr, indices, back_indptr, back_indices, order, found)
        filled = end
    return order


@jit
def _grow(root, mark, filled, indptr, indices, back_indptr, back_indices, order, found):  # type: ignore[no-untyped-def]
    """Write one component into the order from `filled` on; return its end."""
    order[filled] = root
    found[root] = mark
    head, tail = filled, filled + 1
    while head < tail:
        x = order[head]
        head += 1
        for k in range(indptr[x], indptr[x + 1]):
            y = indices[k]
            if found[y] != mark:
                found[y] = mark
                order[tail] = y
                tail += 1
        for k in range(back_indptr[x], back_indptr[x + 1]):
            y = back_indices[k]
            if found[y] != mark:
                found[y] = mark
                order[tail] = y
                tail += 1
    return tail


@jit
def _push(heap, n, value):  # type: ignore[no-untyped-def]
    """Add to a heap of n numbers, least first."""
    at = n
    while at > 0 and heap[(at - 1) // 2] > value:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = value


@jit
def _pop(heap, n):  # type: ignore[no-untyped-def]
    """Take the least out of a heap of n numbers."""
    least, value = heap[0], heap[n - 1]
    at = 0
    while 2 * at + 1 < n - 1:
        child = 2 * at + 1
        if child + 1 < n - 1 and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value
    return least


@jit
def _factor(begin, end, chain, order, place, work, starts, to_indices, to_data):  # type: ignore[no-untyped-def]
    """Eliminate some rows, those before them being done; return how many lost entries."""
    indptr, indices, data = chain
    row, is_in, lists = work  # the row at hand, spread out, and which of its entries are there
    heap, below, above = lists[0], lists[1], lists[2]
    n_cut = 0
    for i in range(begin, end):
        x = order[i]
        n_heap, n_below, n_above = 0, 0, 1
        above[0], row[i], is_in[i] = i, 1.0, True
        for k in range(indptr[x], indptr[x + 1]):
            j = place[indices[k]]
            row[j], is_in[j] = -data[k], True
            if j < i:
                _push(heap, n_heap, j)
                n_heap += 1
            else:
                above[n_above] = j
                n_above += 1
        while n_heap > 0:
            j = _pop(heap, n_heap)
            n_heap -= 1
            first = starts[2 * j + 1]
            row[j] /= to_data[first]
            if abs(row[j]) < _DROPPED:
                row[j], is_in[j] = 0.0, False
                continue
            below[n_below] = j
            n_below += 1
            for k in range(first + 1, starts[2 * j + 2]):
                y = to_indices[k]
                if not is_in[y]:
                    is_in[y], row[y] = True, 0.0
                    if y < i:
                        _push(heap, n_heap, y)
                        n_heap += 1
                    else:
                        above[n_above] = y
                        n_above += 1
                row[y] -= row[j] * to_data[k]
        room = indptr[x + 1] - indptr[x] + _MORE
        least = _threshold(row, below, n_below, above, n_above, room)
        n_cut += least > 2.0 * _DROPPED * abs(row[i])
        at = starts[2 * i]
        for part in range(2):
            listed, n_listed = (below, n_below) if part == 0 else (above, n_above)
            for m in range(n_listed):
                j = listed[m]
                if j == i or abs(row[j]) >= least:
                    to_indices[at] = j
                    to_data[at] = row[j]
                    at += 1
                row[j], is_in[j] = 0.0, False
            starts[2 * i + 1 + part] = at
    return n_cut


@jit
def _threshold(row, below, n_below, above, n_above, room):  # type: ignore[no-untyped-def]
    """Return a size that at most so many entries of a row reach."""
    least = _DROPPED * abs(row[above[0]])
    n = room + 1
    while n > room:
        n = 0
        for m in range(n_below):
            n += abs(row[below[m]]) >= least
        for m in range(1, n_above):
            n += abs(row[above[m]]) >= least
        if n > room:
            least *= 2.0
    return least


@jit
def _substitute(order, starts, indices, data, x, to):  # type: ignore[no-untyped-def]
    n = len(order)
    y = np.empty(n)
    for i in range(n):
        total = x[order[i]]
        for k in range(starts[2 * i], starts[2 * i + 1]):
            total -= data[k] * y[indices[k]]
        y[i] = total
    for i in range(n - 1, -1, -1):
        first = starts[2 * i + 1]
        total = y[i]
        for k in range(first + 1, starts[2 * i + 2]):
            total -= data[k] * y[indices[k]]
        y[i] = total / data[first]
        to[order[i]] = y[i]
