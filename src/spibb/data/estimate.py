r"""The maximum-likelihood model of counts, and what pairs without data do in it, compiled.

    P^(x' | x, a) = N(x, a, x') / N(x, a),   R^(x, a) = mean reward,   the rest of the rows ends

An unobserved pair has neither, and whatever is put there decides where algorithms steer:

* ``average``: it does what was seen in its state over all actions, by rows. A state in which
  nothing was tried at all does what the log does on average: it stays, pays the log's mean reward
  and ends as often as the log's rows do, which is worth r / (1 - gamma (1 - p)); a longer list of
  successors would be worth nearly the same and cost a full row for each such pair. Neither better
  nor worse than what is known, and indifferent to a constant added to every reward.
* ``terminal``: it ends, for nothing. The paper's. Careful where rewards are positive; where they
  are costs, nothing beats it.
* ``uniform``: it goes anywhere, ``self-loop``: it stays; for no reward either.

Terminal states end and pay nothing, whatever the treatment.
"""

from __future__ import annotations

from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.errors import SettingsError
from spibb.mdp.batch import ModelArrays, ModelBatch, Rows

Unseen = Literal["average", "terminal", "uniform", "self-loop"]
_TERMINAL, _AVERAGE, _UNIFORM, _SELF_LOOP = range(4)
_CODES: dict[str, int] = {
    "terminal": _TERMINAL, "average": _AVERAGE, "uniform": _UNIFORM, "self-loop": _SELF_LOOP,
}  # fmt: skip

Array = NDArray[np.float64]


def checked_unseen(unseen: str) -> Unseen:
    """Return the name of a treatment of pairs without data, or refuse it."""
    if unseen not in _CODES:
        raise SettingsError(
            f"unseen is {unseen!r}", expected=f"one of {', '.join(map(repr, get_args(Unseen)))}"
        )
    return cast(Unseen, unseen)


def estimate_model(
    going_on: Rows,
    n_sa: Array,
    reward_sum: Array,
    n_ended: float,
    terminal: NDArray[np.bool_],
    *,
    initial: Array,
    gamma: float,
    unseen: str = "average",
) -> ModelArrays:
    """Turn counts into a model: the one place where models come from logs.

    Args:
        going_on: How often each pair was followed by each state, ends in terminal states included.
        n_sa: N(x, a), shape (S, A); what `going_on` lacks of it ended.
        reward_sum: Sum of rewards, shape (S, A).
        n_ended: How many rows ended the process, in a terminal state or anywhere.
        terminal: Which states end the process, shape (S,).
        initial: Distribution of the first state, shape (S,).
        gamma: The discount.
        unseen: What pairs without data do.
    """
    code, ended = _CODES[checked_unseen(unseen)], np.array([n_ended], dtype=np.float64)
    rows, reward, ending = _estimate(*going_on, n_sa, reward_sum, ended, terminal, code)
    return ModelArrays(Rows(*rows), reward, ending, initial, gamma)


def estimate_models(
    going_on: Rows,
    n_sa: Array,
    reward_sum: Array,
    n_ended: Array,
    *,
    initial: Array,
    gamma: float,
    unseen: str = "average",
) -> ModelBatch:
    """Turn the counts of B logs without terminal states into models, all of them at once.

    Args:
        going_on: How often each pair was followed by each state, log by log.
        n_sa: N(x, a), shape (B, S, A).
        reward_sum: Sum of rewards, shape (B, S, A).
        n_ended: How many rows ended the process, shape (B,).
        initial: Distributions of the first state, shape (B, S).
        gamma: The discount.
        unseen: What pairs without data do.
    """
    shape, live = n_sa.shape, np.zeros(n_sa.shape[1], dtype=np.bool_)
    flat = n_sa.reshape(-1, shape[2]), reward_sum.reshape(-1, shape[2])
    code = _CODES[checked_unseen(unseen)]
    rows, reward, ending = _estimate(*going_on, *flat, n_ended, live, code)
    values = reward.reshape(shape), ending.reshape(shape)
    return ModelBatch(*Rows(*rows), *values, initial, gamma)


@jit
def _estimate(indptr, indices, counts, n_sa, reward_sum, n_ended, terminal, code):  # type: ignore[no-untyped-def]
    """Estimate models whose states stand behind each other, numbered from 0 in each of them."""
    n_states, n_actions = len(terminal), n_sa.shape[1]
    # What was seen of each state over all of its actions: successors and how often, one by one.
    pooled, sizes = np.zeros(n_states), np.zeros(len(n_sa), dtype=np.int64)
    total = len(indices)
    for x in range(len(n_sa)):
        n_unseen = 0
        for a in range(n_actions):
            n_unseen += n_sa[x, a] == 0.0
        if n_unseen > 0 and not terminal[x % n_states]:
            shape = n_states, n_actions
            sizes[x] = _size(x, n_unseen, indptr, indices, counts, shape, pooled, code)
            total += n_unseen * sizes[x]
    to_indptr = np.empty(len(indptr), dtype=np.int64)
    to_indices, to_data = np.empty(total, dtype=np.int32), np.empty(total)
    reward, ending = np.zeros(n_sa.shape), np.ones(n_sa.shape)
    mean_reward, mean_ending, place = 0.0, 0.0, 0
    for x in range(len(n_sa)):
        if x % n_states == 0:
            n_rows = max(n_sa[x : x + n_states].sum(), 1.0)
            mean_reward = reward_sum[x : x + n_states].sum() / n_rows
            mean_ending = n_ended[x // n_states] / n_rows
        first, told = -1, 0  # where the row of its first unseen pair begins, and which that is
        for a in range(n_actions):
            pair = x * n_actions + a
            to_indptr[pair] = place
            n = n_sa[x, a]
            if n > 0.0:
                on = 0.0
                for k in range(indptr[pair], indptr[pair + 1]):
                    to_indices[place] = indices[k]
                    to_data[place] = counts[k] / n
                    on += counts[k]
                    place += 1
                reward[x, a] = reward_sum[x, a] / n
                ending[x, a] = (n - on) / n
            elif terminal[x % n_states] or code == _TERMINAL:
                continue
            elif first >= 0:
                for j in range(sizes[x]):
                    to_indices[place + j] = to_indices[first + j]
                    to_data[place + j] = to_data[first + j]
                reward[x, a], ending[x, a] = reward[x, told], ending[x, told]
                place += sizes[x]
            else:
                first, told = place, a
                reward[x, a], ending[x, a] = _write_unseen(
                    x, indptr, indices, counts, n_sa, reward_sum, mean_reward, mean_ending, pooled,
                    code, to_indices, to_data, place,
                )  # fmt: skip
                place += sizes[x]
    to_indptr[-1] = place
    return (to_indptr, to_indices[:place], to_data[:place]), reward, ending


@jit
def _size(x, n_unseen, indptr, indices, counts, shape, pooled, code):  # type: ignore[no-untyped-def]
    """Return how many successors a pair of this state without data has."""
    n_states, n_actions = shape
    if code == _TERMINAL:
        return 0
    if code == _UNIFORM:
        return n_states
    if code == _SELF_LOOP or n_unseen == n_actions:
        return 1
    n = 0
    for k in range(indptr[x * n_actions], indptr[(x + 1) * n_actions]):
        if counts[k] > 0.0 and pooled[indices[k]] == 0.0:
            pooled[indices[k]] = 1.0
            n += 1
    for k in range(indptr[x * n_actions], indptr[(x + 1) * n_actions]):
        pooled[indices[k]] = 0.0
    return n


@jit
def _write_unseen(  # type: ignore[no-untyped-def]
    x, indptr, indices, counts, n_sa, reward_sum, mean_reward, mean_ending, pooled, code,
    to_indices, to_data, place,
):  # fmt: skip
    """Write the row of a pair without data; return its reward and its probability to end."""
    n_states, n_actions = len(pooled), n_sa.shape[1]
    if code == _UNIFORM:
        for y in range(n_states):
            to_indices[place + y] = y
            to_data[place + y] = 1.0 / n_states
        return 0.0, 0.0
    n = n_sa[x].sum()
    if code == _SELF_LOOP or n == 0.0:
        stays = 1.0 if code == _SELF_LOOP else 1.0 - mean_ending
        to_indices[place] = x % n_states
        to_data[place] = stays
        return (0.0, 0.0) if code == _SELF_LOOP else (mean_reward, mean_ending)
    begin, end = indptr[x * n_actions], indptr[(x + 1) * n_actions]
    on = 0.0
    for k in range(begin, end):
        pooled[indices[k]] += counts[k]
        on += counts[k]
    for k in range(begin, end):
        if pooled[indices[k]] > 0.0:
            to_indices[place] = indices[k]
            to_data[place] = pooled[indices[k]] / n
            pooled[indices[k]] = 0.0
            place += 1
    return reward_sum[x].sum() / n, (n - on) / n


def average_value(n_rows: int, reward_sum: float, n_ended: int, gamma: float) -> float:
    """Return what a state is worth that does what a log does on average.

    r / (1 - gamma (1 - p)) with the log's mean reward r and share p of rows that end; 0 where that
    does not exist, as gamma = 1 and nothing ends.

    Example:
        Four rows that pay 2 together, one of them ends: without a discount, a return of 2.

        >>> average_value(4, 2.0, 1, 1.0)
        2.0
    """
    lasting = gamma * (1.0 - n_ended / n_rows)
    return reward_sum / n_rows / (1.0 - lasting) if lasting < 1.0 else 0.0
