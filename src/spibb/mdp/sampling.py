"""Sample trajectories of a policy in a model."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.errors import PolicyError, SettingsError
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

_MISSING = -1


def sample_trajectories(
    mdp: TabularMDP,
    policy: TabularPolicy | ArrayLike,
    *,
    n_episodes: int,
    max_steps: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Let ``policy`` act in ``mdp`` and return the columns of the log it leaves.

    Rewards are those of the states entered, if the model tells them, else the expected R(x, a). An
    episode that reaches ``max_steps`` is truncated.

    Args:
        mdp: The process.
        policy: The acting policy.
        n_episodes: How many episodes.
        max_steps: Longest episode.
        rng: Source of randomness.

    Returns:
        Columns ``episode, step, state, action, reward, next_state, terminated, truncated``. An
        episode that ends without entering a terminal state has next_state -1.
    """
    starts, model = _prepared(mdp, policy, n_episodes, max_steps, rng)
    n_rows, columns = _walk(*(starts, max_steps, *model, rng))
    episode, step, state, action, successor, ended = (column[:n_rows] for column in columns)
    is_last = np.append(episode[1:] != episode[:-1], True)
    terminated = ended.astype(np.bool_)
    return {
        "episode": episode,
        "step": step,
        "state": state,
        "action": action,
        "reward": _paid(mdp, state, action, successor),
        "next_state": successor,
        "terminated": terminated,
        "truncated": is_last & ~terminated,
    }


def _paid(
    mdp: TabularMDP, state: NDArray[np.int64], action: NDArray[np.int64], entered: NDArray[np.int64]
) -> NDArray[np.float64]:
    if mdp.entry_reward is None:
        return mdp.reward[state, action]
    return np.where(entered >= 0, mdp.entry_reward[entered], 0.0)


def tally_trajectories(
    mdp: TabularMDP,
    policy: TabularPolicy | ArrayLike,
    *,
    n_episodes: int,
    max_steps: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Sample as :func:`sample_trajectories` does, from the same draws, but only count.

    Returns:
        Steps taken from each pair, shape (S * A,); how often each entry of ``mdp.rows`` was drawn;
        and the first states, one for each episode that is not over before it begins.
    """
    starts, model = _prepared(mdp, policy, n_episodes, max_steps, rng)
    n_pairs, n_entries = np.zeros(len(model[0]) - 1, np.int64), np.zeros(len(model[2]), np.int64)
    _tally(*(starts, max_steps, *model, rng, n_pairs, n_entries))
    return n_pairs, n_entries, starts[~mdp.terminal[starts]]


def _prepared(
    mdp: TabularMDP,
    policy: TabularPolicy | ArrayLike,
    n_episodes: int,
    max_steps: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], tuple[Any, ...]]:
    """Check the arguments, draw the first states, and lay out the model for the kernels."""
    if n_episodes < 1 or max_steps < 1:
        raise SettingsError(
            f"n_episodes is {n_episodes}, max_steps {max_steps}", expected="both at least 1"
        )
    table = policy if isinstance(policy, TabularPolicy) else TabularPolicy(policy)
    if table.probabilities.shape != mdp.reward.shape:
        raise PolicyError(
            f"a policy of shape {table.probabilities.shape}",
            expected=f"{mdp.reward.shape}, the model's states and actions",
        )
    starts = rng.choice(mdp.n_states, size=n_episodes, p=mdp.initial)
    rows = mdp.rows
    model = (
        rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data,
        mdp.terminal.copy(), table.probabilities.copy(),
    )  # fmt: skip
    return starts.astype(np.int64), model


@numba.njit(cache=True, nogil=True)
def _tally(starts, max_steps, indptr, indices, data, terminal, policy, rng, n_pairs, n_entries):  # type: ignore[no-untyped-def]
    n_actions = policy.shape[1]
    for episode in range(len(starts)):
        x = starts[episode]
        for _ in range(max_steps):
            if terminal[x]:
                break
            a = _draw(policy[x], 0, n_actions, rng)
            pair = x * n_actions + a
            n_pairs[pair] += 1
            k = _draw(data, indptr[pair], indptr[pair + 1], rng)
            if k == indptr[pair + 1]:
                break
            n_entries[k] += 1
            x = indices[k]


@numba.njit(cache=True, nogil=True)
def _walk(starts, max_steps, indptr, indices, data, terminal, policy, rng):  # type: ignore[no-untyped-def]
    n_actions = policy.shape[1]
    columns = np.empty((6, 1024), dtype=np.int64)
    n = 0
    for episode in range(len(starts)):
        x = starts[episode]
        for step in range(max_steps):
            if terminal[x]:
                break
            if n == columns.shape[1]:
                longer = np.empty((6, 2 * n), dtype=np.int64)
                longer[:, :n] = columns
                columns = longer
            a = _draw(policy[x], 0, n_actions, rng)
            pair = x * n_actions + a
            k = _draw(data, indptr[pair], indptr[pair + 1], rng)
            successor = indices[k] if k < indptr[pair + 1] else _MISSING
            ended = successor == _MISSING or terminal[successor]
            columns[0, n] = episode
            columns[1, n] = step
            columns[2, n] = x
            columns[3, n] = a
            columns[4, n] = successor
            columns[5, n] = ended
            n += 1
            if ended:
                break
            x = successor
    return n, columns


@numba.njit(cache=True, nogil=True)
def _draw(weights, first, last, rng):  # type: ignore[no-untyped-def]
    """Draw an index in proportion to the weights; ``last`` stands for the mass they lack."""
    u = rng.random()
    total = 0.0
    for k in range(first, last):
        total += weights[k]
        if u < total:
            return k
    # Rounding can leave a full row a hair short of one: give the hair to its last entry.
    if total > 1.0 - 1e-9:
        for k in range(last - 1, first - 1, -1):
            if weights[k] > 0.0:
                return k
    return last
