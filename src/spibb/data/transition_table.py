"""A table of the transitions that were seen, which grows with them and not with the rows.

One entry for each (x, a, x') that occurs, x' = -1 for ends whose next state is unknown: how often,
how often as the end of the process, and the exact sums of rewards and their squares. An exact sum
is a pair of numbers, the second of which holds what rounding took from the first, so that the order
in which rows come does not matter: sums are those of the numbers, correctly rounded.

Open addressing with linear probing; a key packs x, a and x' + 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import inlined_jit, jit

# Bits of x, a and x' + 1 in a key, which has a sign.
STATE_BITS, ACTION_BITS = 24, 15
MOST_STATES, MOST_ACTIONS = (1 << STATE_BITS) - 1, 1 << ACTION_BITS
EMPTY = -1
_SMALLEST = 1 << 10
# Chains grow where more than this share of the places is taken.
_LOAD = 0.6

# An entry is as long as a line of the processor's cache: a row of a large log meets a distant one.
ENTRY = np.dtype(
    [("key", np.int64), ("n", np.int64), ("n_end", np.int64), ("total", np.float64),
     ("total_rest", np.float64), ("square", np.float64), ("square_rest", np.float64),
     ("unused", np.int64)]
)  # fmt: skip


def empty_entries(n_places: int = _SMALLEST) -> NDArray[Any]:
    """Return a table without entries."""
    entries = np.zeros(n_places + 1, ENTRY)
    # Where a line begins.
    first = -entries.ctypes.data % ENTRY.itemsize
    entries = entries.view(np.uint8)[first : first + n_places * ENTRY.itemsize].view(ENTRY)
    entries["key"] = EMPTY
    return entries


def with_room(entries: NDArray[Any], n_taken: int, n_more: int) -> NDArray[Any]:
    """Return the table, or a larger one with its entries, with room for some more."""
    needed, n_places = (n_taken + n_more) / _LOAD, len(entries)
    if needed <= n_places:
        return entries
    while n_places < needed:
        n_places *= 2
    larger = empty_entries(n_places)
    _move(entries, larger)
    return larger


@inlined_jit
def packed(x, a, successor):  # type: ignore[no-untyped-def]
    """Return the key of a transition."""
    return ((x << ACTION_BITS | a) << STATE_BITS) | (successor + 1)


@inlined_jit
def hashed(key):  # type: ignore[no-untyped-def]
    """Return a number that looks random: the upper half of a product by 2^64 / golden ratio."""
    return np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32))


@inlined_jit
def _place_of(key, entries):  # type: ignore[no-untyped-def]
    """Return where a key stands, or shall stand."""
    mask = len(entries) - 1
    place = hashed(key) & mask
    while entries[place].key != key and entries[place].key != EMPTY:
        place = (place + 1) & mask
    return place


@inlined_jit
def _rounded_off(before, value, after):  # type: ignore[no-untyped-def]
    """Return what rounding took from a sum of two (Knuth)."""
    other = after - before
    return (before - (after - other)) + (value - other)


@jit
def add_transitions(keys, rewards, ends, n_rows, entries):  # type: ignore[no-untyped-def]
    """Count rows; return how many entries there are more."""
    n_new = 0
    for row in range(n_rows):
        key, reward = keys[row], rewards[row]
        place = _place_of(key, entries)
        entry = entries[place]
        if entry.key == EMPTY:
            entry.key = key
            n_new += 1
        entry.n += 1
        entry.n_end += ends[row]
        total = entry.total + reward
        entry.total_rest += _rounded_off(entry.total, reward, total)
        entry.total = total
        # What rounding takes from the square itself (Dekker), by halves of its digits (Veltkamp).
        square, scaled = reward * reward, 134217729.0 * reward
        upper = scaled - (scaled - reward)
        lower = reward - upper
        lost = ((upper * upper - square) + 2.0 * upper * lower) + lower * lower
        total = entry.square + square
        entry.square_rest += _rounded_off(entry.square, square, total) + lost
        entry.square = total
    return n_new


@jit
def _move(entries, larger):  # type: ignore[no-untyped-def]
    for old in range(len(entries)):
        if entries[old].key != EMPTY:
            larger[_place_of(entries[old].key, larger)] = entries[old]


@jit
def exact_sums(place, values, size):  # type: ignore[no-untyped-def]
    """Return the sums of values by place, correctly rounded, whatever their order."""
    sums, rests = np.zeros(size), np.zeros(size)
    for row in range(len(place)):
        k = place[row]
        total = sums[k] + values[row]
        rests[k] += _rounded_off(sums[k], values[row], total)
        sums[k] = total
    return sums + rests
