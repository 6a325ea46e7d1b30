"""Tables of counts from the transitions that were seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.data.reward_moments import RewardMoments
from spibb.data.streaming_counts import StreamingCounts
from spibb.data.transition_table import (
    ACTION_BITS,
    EMPTY,
    MOST_ACTIONS,
    STATE_BITS,
    exact_sums,
)
from spibb.memory import check_fits

Integers = NDArray[np.int64]
# Numbers for each pair of a state and an action that counting takes, and planning.
_TABLES, PLANNING_TABLES = 6, 12


def check_pairs(shape: tuple[int, int], n_tables: int) -> None:
    """Refuse numbers of states and actions whose tables do not fit into memory."""
    check_fits(
        8 * n_tables * shape[0] * shape[1],
        f"tables of {shape[0]:,} states x {shape[1]:,} actions",
        "group states or actions, or leave out those that never occur",
    )


def tables_of(
    tally: StreamingCounts, to_state: Integers, to_action: Integers, shape: tuple[int, int]
) -> dict[str, Any]:
    """Return the tables of `spibb.Counts` of what was counted.

    Args:
        tally: What was counted.
        to_state: What the numbers of states stand for.
        to_action: What the numbers of actions stand for.
        shape: Numbers of states and actions.
    """
    check_pairs(shape, _TABLES)
    places = np.flatnonzero(tally.entries["key"] != EMPTY)
    pair, successor = _unpacked(tally.entries["key"][places], to_state, to_action, shape[1])
    order = np.lexsort((successor, pair))
    return _tables(pair[order], successor[order], tally.entries[places[order]], shape)


def _unpacked(
    key: Integers, to_state: Integers, to_action: Integers,
    n_actions: int,
) -> tuple[Integers, Integers]:  # fmt: skip
    """Return the pair and the next state of keys, -1 where that is unknown."""
    successor = (key & ((1 << STATE_BITS) - 1)) - 1
    x, a = key >> (STATE_BITS + ACTION_BITS), key >> STATE_BITS & (MOST_ACTIONS - 1)
    successor = np.where(successor >= 0, to_state[successor], -1)
    return to_state[x] * n_actions + to_action[a], successor


def _tables(
    pair: Integers, successor: Integers, entries: NDArray[Any],
    shape: tuple[int, int],
) -> dict[str, Any]:  # fmt: skip
    """Return the tables of `spibb.Counts` from entries of a table of transitions.

    Args:
        pair: x * A + a of each entry.
        successor: Its next state, -1 where unknown.
        entries: The entries.
        shape: Numbers of states and actions.
    """
    size, known = shape[0] * shape[1], successor >= 0

    def sums(*parts: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(exact_sums(np.tile(pair, len(parts)), np.concatenate(parts), size))

    def matrix(values: NDArray[Any], kept: NDArray[np.bool_]) -> sp.csr_array:
        places = pair[kept], successor[kept]
        return sp.csr_array(sp.coo_array((values[kept], places), shape=(size, shape[0])))

    n = entries["n"].astype(np.float64)
    n_sa = np.bincount(pair, n, size).astype(np.int64)
    reward, rest = entries["total"], entries["total_rest"]
    reward_sum = sums(reward, rest)
    # sum (r - m)^2 = sum r^2 - 2 m sum r + n m^2, exact products of which do not cancel.
    mean = (reward_sum / np.maximum(n_sa, 1))[pair]
    halves = (*_product(-2.0 * mean, reward), -2.0 * mean * rest)
    square, square_rest = _product(mean, mean)
    spread = sums(
        entries["square"], entries["square_rest"], *halves, *_product(square, n), square_rest * n
    )
    return {
        "n_sa": n_sa.reshape(shape),
        "n_sas": matrix(entries["n"], known),
        "n_end": matrix(entries["n_end"], known & (entries["n_end"] > 0)),
        "reward_sum": reward_sum.reshape(shape),
        "paid": RewardMoments(matrix(reward + rest, known), np.maximum(spread, 0.0).reshape(shape)),
    }


def _product(
    one: NDArray[np.float64], other: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a product and what rounding took from it (Dekker)."""
    product = one * other
    (a, b), (c, d) = _halves(one), _halves(other)
    return product, ((a * c - product) + a * d + b * c) + b * d


def _halves(value: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    scaled = 134217729.0 * value
    upper = scaled - (scaled - value)
    return upper, value - upper
