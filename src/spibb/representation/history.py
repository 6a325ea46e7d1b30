"""What the log remembers of the past of each row, as columns that judge labels without raw ones.

Where labels hold all that matters, nothing of the past tells anything more. Columns:

* means of past temporal-difference errors of the behaviour, exponentially weighted over about two
  and ten steps; the last reward beyond the mean of its pair, and the mean of such over about five;
* the mean of past values of labels, over about five steps;
* how many steps the process has been in its label, and since each action was last taken;
* how often each action was taken lately, over about three steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.data.log import Log
from spibb.representation.steps import Array

_NAMES = (
    "TD errors of the last two steps",
    "TD errors of the last ten steps",
    "last reward beyond its pair",
    "rewards of the last five steps beyond their pairs",
    "values of the last five states",
    "steps in the state",
)
# Actions beyond so many most frequent ones have no column.
_MOST_ACTIONS = 8


class History(NamedTuple):
    """Columns of the past, shape (rows, K), and their names."""

    values: Array
    names: tuple[str, ...]


def history_columns(log: Log, v: Array, gamma: float) -> History:
    """Return what each row's past says.

    Args:
        log: A log with episodes.
        v: Values of labels under the behaviour, shape (S,).
        gamma: The discount.
    """
    assert log.is_first is not None
    is_first = log.is_first
    pair = log.state * log.n_actions + log.action
    known = log.next_state >= 0
    following = np.asarray(v)[np.where(known, log.next_state, 0)]
    after = np.where(log.terminated | ~known, 0.0, following)
    y = log.reward + gamma * after
    is_used = known | log.terminated
    td = np.where(is_used, _centred(y, pair, log.n_states * log.n_actions, is_used), 0.0)
    paid = _centred(log.reward, pair, log.n_states * log.n_actions, np.ones(len(log), bool))
    often = np.argsort(-np.bincount(log.action, minlength=log.n_actions), kind="stable")
    often = np.sort(often[:_MOST_ACTIONS])
    columns = [
        _past_mean(td, is_first, 0.5),
        _past_mean(td, is_first, 0.9),
        _past_mean(paid, is_first, 0.0),
        _past_mean(paid, is_first, 0.8),
        _past_mean(np.asarray(v)[log.state], is_first, 0.8),
        _time_in_state(log.state, is_first),
        *(_since(log.action == a, is_first) for a in often),
        *(_past_mean((log.action == a).astype(np.float64), is_first, 0.7) for a in often),
    ]
    labels = [log.actions[int(a)] for a in often]
    names = (*_NAMES, *(f"steps since {one}" for one in labels),
             *(f"{one} among the last three actions" for one in labels))  # fmt: skip
    return History(np.column_stack(columns), names)


def _centred(y: Array, pair: NDArray[np.int64], n_pairs: int, used: NDArray[np.bool_]) -> Array:
    n = np.bincount(pair[used], minlength=n_pairs)
    mean = np.bincount(pair[used], y[used], n_pairs) / np.maximum(n, 1)
    return y - mean[pair]


@jit
def _past_mean(values, is_first, keep):  # type: ignore[no-untyped-def]
    """Return exponentially weighted means of earlier rows of the episode, from 0 on."""
    found, mean = np.zeros(len(values)), 0.0
    for row in range(len(values)):
        if is_first[row]:
            mean = 0.0
        found[row] = mean
        mean = keep * mean + (1.0 - keep) * values[row]
    return found


@jit
def _time_in_state(state, is_first):  # type: ignore[no-untyped-def]
    found, n = np.zeros(len(state)), 0.0
    for row in range(len(state)):
        n = 0.0 if is_first[row] or state[row] != state[row - 1] else min(n + 1.0, 50.0)
        found[row] = n
    return found


@jit
def _since(taken, is_first):  # type: ignore[no-untyped-def]
    found, n = np.zeros(len(taken)), 0.0
    for row in range(len(taken)):
        if is_first[row]:
            n = 50.0
        found[row] = n
        n = 1.0 if taken[row] else min(n + 1.0, 50.0)
    return found
