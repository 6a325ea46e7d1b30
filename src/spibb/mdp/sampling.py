"""Sample trajectories of a policy in a model.

The numbers of a log are counted, not drawn in turn: one key comes from the generator, and the i-th
number is a hash of key and i (see spibb.compiled.random_numbers). A step of an episode then has the
same numbers whether episodes are walked one after another, to write them down, or several at once,
to count them, which hides the waiting of one behind the work of others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.compiled.jit import jit
from spibb.compiled.random_numbers import number
from spibb.errors import PolicyError, SettingsError
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

_MISSING = -1
# Episodes that are counted side by side.
_AT_ONCE = 8
# The places of a log's numbers are counted with 63 bits: two for each step, one for each episode.
_MOST_STEPS = 2**61
# What a model's distributions may lack of one, and a little more.
_HAIR = 2e-8


class Sampler:
    """A policy that acts in a model, laid out for the kernels once.

    Args:
        mdp: The process.
        policy: The acting policy.
    """

    def __init__(self, mdp: TabularMDP, policy: TabularPolicy | ArrayLike) -> None:
        table = policy if isinstance(policy, TabularPolicy) else TabularPolicy(policy)
        if table.probabilities.shape != mdp.reward.shape:
            raise PolicyError(
                f"a policy of shape {table.probabilities.shape}",
                expected=f"{mdp.reward.shape}, the model's states and actions",
            )
        indptr = mdp.rows.indptr.astype(np.int64)
        firsts = np.arange(0, mdp.reward.size + 1, mdp.n_actions)
        choices = _running_sums(table.probabilities.ravel(), firsts).reshape(mdp.reward.shape)
        shares = _running_sums(mdp.rows.data, indptr)
        self.mdp = mdp
        self._initial = _running_sums(mdp.initial.copy(), np.array([0, mdp.n_states]))
        self._model = (
            indptr, mdp.rows.indices.astype(np.int32), shares, mdp.terminal.copy(), choices
        )  # fmt: skip

    def sample(
        self, *, n_episodes: int, max_steps: int, rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return the columns of the log that the policy leaves.

        Rewards are those of the states entered, if the model tells them, else the expected R(x, a).
        An episode that reaches ``max_steps`` is truncated.

        Args:
            n_episodes: How many episodes.
            max_steps: Longest episode.
            rng: Source of randomness.

        Returns:
            Columns ``episode, step, state, action, reward, next_state, terminated, truncated``. An
            episode that ends without entering a terminal state has next_state -1.
        """
        starts, key = self._begin(n_episodes, max_steps, rng)
        n_rows, columns = _walk(starts, max_steps, *self._model, key)
        episode, step, state, action, successor, ended = (column[:n_rows] for column in columns)
        is_last = np.append(episode[1:] != episode[:-1], True)
        terminated = ended.astype(np.bool_)
        return {
            "episode": episode,
            "step": step,
            "state": state,
            "action": action,
            "reward": _paid(self.mdp, state, action, successor),
            "next_state": successor,
            "terminated": terminated,
            "truncated": is_last & ~terminated,
        }

    def tally(
        self, *, n_episodes: int, max_steps: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Sample as :meth:`sample` does, from the same numbers, but only count.

        Returns:
            Steps taken from each pair, shape (S * A,); how often each entry of ``mdp.rows`` was
            drawn; and the first states, one for each episode that is not over before it begins.
        """
        starts, key = self._begin(n_episodes, max_steps, rng)
        n_pairs = np.zeros(self.mdp.reward.size, np.int64)
        n_entries = np.zeros(self.mdp.rows.nnz, np.int64)
        _tally(starts, max_steps, *self._model, key, n_pairs, n_entries)
        return n_pairs, n_entries, starts[~self.mdp.terminal[starts]]

    def _begin(
        self, n_episodes: int, max_steps: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], np.uint64]:
        """Draw the first states and the key of all other numbers."""
        # Python's integers, because those of an array may have too few bits for the product.
        n_episodes, n_steps = int(n_episodes), int(n_episodes) * int(max_steps)
        if n_episodes < 1 or max_steps < 1 or n_steps >= _MOST_STEPS:
            raise SettingsError(
                f"n_episodes is {n_episodes}, max_steps {max_steps}",
                expected="both at least 1, and less than 2^61 steps in all",
            )
        key = rng.integers(2**64, dtype=np.uint64)
        return _first_states(self._initial, n_episodes, 2 * n_steps, key), key


def _paid(
    mdp: TabularMDP, state: NDArray[np.int64], action: NDArray[np.int64], entered: NDArray[np.int64]
) -> NDArray[np.float64]:
    if mdp.entry_reward is None:
        return mdp.reward[state, action]
    return np.where(entered >= 0, mdp.entry_reward[entered], 0.0)


@jit
def _running_sums(weights, indptr):  # type: ignore[no-untyped-def]
    """Return the running sums of each row; a full row's last positive weight is never passed."""
    sums = np.empty(len(weights))
    for row in range(len(indptr) - 1):
        total, last = 0.0, -1
        for k in range(indptr[row], indptr[row + 1]):
            total += weights[k]
            sums[k] = total
            if weights[k] > 0.0:
                last = k
        # Rounding can leave a full row a hair short of one: give the hair to its last entry.
        if total > 1.0 - _HAIR:
            for k in range(last, indptr[row + 1]):
                sums[k] = 2.0
    return sums


@jit
def _first_states(initial, n_episodes, place, key):  # type: ignore[no-untyped-def]
    """Draw first states with the numbers behind those of the steps."""
    states = np.empty(n_episodes, dtype=np.int64)
    for episode in range(n_episodes):
        states[episode] = _find(initial, 0, len(initial), key, place + episode)
    return states


@jit
def _tally(  # type: ignore[no-untyped-def]
    starts, max_steps, indptr, indices, shares, terminal, choices, key, n_pairs, n_entries
):
    n_actions = choices.shape[1]
    states = np.empty(_AT_ONCE, dtype=np.int64)
    for first in range(0, len(starts), _AT_ONCE):
        n_walking = min(_AT_ONCE, len(starts) - first)
        for i in range(n_walking):
            states[i] = starts[first + i]
        for step in range(max_steps):
            n_live = 0
            for i in range(n_walking):
                x = states[i]
                if x < 0 or terminal[x]:
                    continue
                n_live += 1
                place = 2 * ((first + i) * max_steps + step)
                pair = x * n_actions + _find(choices[x], 0, n_actions, key, place)
                n_pairs[pair] += 1
                k = _find(shares, indptr[pair], indptr[pair + 1], key, place + 1)
                if k == indptr[pair + 1]:
                    states[i] = _MISSING
                else:
                    n_entries[k] += 1
                    states[i] = indices[k]
            if n_live == 0:
                break


@jit
def _walk(starts, max_steps, indptr, indices, shares, terminal, choices, key):  # type: ignore[no-untyped-def]
    n_actions = choices.shape[1]
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
            place = 2 * (episode * max_steps + step)
            a = _find(choices[x], 0, n_actions, key, place)
            pair = x * n_actions + a
            k = _find(shares, indptr[pair], indptr[pair + 1], key, place + 1)
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


@jit
def _find(sums, first, last, key, place):  # type: ignore[no-untyped-def]
    """Return the entry that the number at a place falls on; ``last`` for the mass they lack."""
    u = np.float64(number(key, np.uint64(place)) >> np.uint64(11)) * 2.0**-53
    # Counting all of a short row beats leaving it early: there is no branch to guess wrong.
    found = first
    for k in range(first, last):
        found += sums[k] <= u
    return found
