"""What a log holds, as one number of 128 bits: the same however its rows are ordered or stored.

An episode is hashed as the chain of its steps; a log is the sum, modulo 2^64 in each of two lanes,
of its episodes. So neither the order of the episodes counts nor what they are called, but each of
them does, and how often it is there. A state or action counts by its name, and a name that is
written as a whole number is that number; a reward counts to the precision of 32 bits, which a table
of small floats and its copy as text share. It tells logs apart that differ by accident, and is no
protection against somebody who wants two logs to look alike.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.compiled.random_numbers import mix64
from spibb.names import Names

if TYPE_CHECKING:
    from spibb.data.log import Log

Keys = NDArray[np.uint64]

_WHOLE = re.compile(r"-?[1-9][0-9]{0,17}|0")
# One for each meaning that a number may have; odd, and otherwise of no meaning themselves.
_NUMBER, _ACTION, _REWARD, _AFTER, _NOWHERE, _STEP, _FLAGS, _FIRST, _SECOND = (
    np.uint64(salt)
    for salt in (
        0x9AE16A3B2F90404F,
        0xC2B2AE3D27D4EB4F,
        0xE7037ED1A0B428DB,
        0x8EBC6AF09C88C6E3,
        0xB492B66FBE98F273,
        0xFF51AFD7ED558CCD,
        0xC4CEB9FE1A85EC53,
        0x165667B19E3779F9,
        0xA0761D6478BD642F,
    )
)
_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
# Of the bits of a double, those beyond the precision of 32 bits.
_DROPPED = np.uint64(29)
_HALF, _KEPT = np.uint64((1 << 28) - 1), np.uint64(~((1 << 29) - 1) & (2**64 - 1))
_MINUS_ZERO = np.uint64(1 << 63)


class LogHash:
    """The hash of a log that comes in pieces, rows of an episode in their order and together.

    Example:
        >>> from spibb import Log
        >>> log = Log.from_arrays(state=[0, 1], action=[0, 0], reward=[1.0, 2.0], episode=[7, 7])
        >>> whole, keys = LogHash(), name_keys(log.states)
        >>> for row in (slice(0, 1), slice(1, 2)):
        ...     _ = whole.add(keys, keys, log.state[row], log.action[row], log.reward[row],
        ...                   log.next_state[row], log.terminated[row], log.truncated[row],
        ...                   log.episode[row])
        >>> whole.digest() == log.content_hash
        True
    """

    def __init__(self) -> None:
        self._lanes = np.zeros(2, dtype=np.uint64)
        self._chain = np.zeros(1, dtype=np.uint64)
        self._last: int | None = None

    def add(
        self,
        state_keys: Keys,
        action_keys: Keys,
        state: NDArray[np.int64],
        action: NDArray[np.int64],
        reward: NDArray[np.float64],
        next_state: NDArray[np.int64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        episode: NDArray[np.int64] | None,
    ) -> Keys:
        """Add rows, and return the hashes of the episodes that came to an end before the last row.

        Args:
            state_keys: What `name_keys` makes of the names of the states of this piece.
            action_keys: Likewise.
            state: As in a `Log`, and so are the others.
            action: Actions.
            reward: Rewards.
            next_state: Next states, -1 where unknown.
            terminated: Whether the process ended.
            truncated: Whether the record stops.
            episode: Episodes; None: every row is one.
        """
        n = len(state)
        if n == 0:
            return np.zeros(0, dtype=np.uint64)
        is_first = np.ones(n, dtype=np.bool_)
        if episode is not None:
            np.not_equal(episode[1:], episode[:-1], out=is_first[1:])
            is_first[0] = self._last is None or int(episode[0]) != self._last
            self._last = int(episode[-1])
        ended = np.empty(int(is_first.sum()), dtype=np.uint64)
        has_open = self._chain[0] != 0
        paid = np.ascontiguousarray(reward).view(np.uint64)
        _add_rows(
            state_keys, action_keys, state, action, paid, next_state, terminated, truncated,
            is_first, self._chain, self._lanes, ended,
        )  # fmt: skip
        return ended if has_open else ended[1:]

    def digest(self) -> str:
        """Return the hash of what was added so far, 32 hexadecimal digits."""
        lanes = self._lanes.copy()
        _close(self._chain[0], lanes)
        return "".join(f"{int(lane):016x}" for lane in lanes)

    def last(self) -> Keys:
        """Return the hash of the episode that is not known to have ended, if there is one."""
        opened: Keys = self._chain[self._chain != 0]
        return opened


def name_keys(names: Names) -> Keys:
    """Return a number for each name; whole numbers are hashed as numbers, also as text."""
    if names.labels is None:
        return _number_keys(np.arange(names.size, dtype=np.int64))
    whole = np.array([_WHOLE.fullmatch(name) is not None for name in names.labels], dtype=np.bool_)
    keys = np.empty(names.size, dtype=np.uint64)
    numbers = [int(name) for name, is_whole in zip(names.labels, whole, strict=True) if is_whole]
    keys[whole] = _number_keys(np.array(numbers, dtype=np.int64))
    texts = [name for name, is_whole in zip(names.labels, whole, strict=True) if not is_whole]
    keys[~whole] = [int.from_bytes(_bytes(name), "little") for name in texts]
    return keys


def hash_log(log: Log) -> tuple[str, Keys]:
    """Return the hash of a log, and those of its episodes (rows, where it has none) in order."""
    log_hash = LogHash()
    columns = ("state", "action", "reward", "next_state", "terminated", "truncated", "episode")
    rows: dict[str, Any] = {name: getattr(log, name) for name in columns}
    ended = log_hash.add(name_keys(log.states), name_keys(log.actions), **rows)
    return log_hash.digest(), np.concatenate([ended, log_hash.last()])


def _bytes(name: str) -> bytes:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _number_keys(numbers: NDArray[np.int64]) -> Keys:
    with np.errstate(over="ignore"):
        return np.asarray(mix64.py_func(numbers.view(np.uint64) + _NUMBER))


@jit
def _add_rows(  # type: ignore[no-untyped-def]
    state_keys, action_keys, state, action, reward, next_state, terminated, truncated, is_first,
    chain, lanes, ended,
):  # fmt: skip
    c, n_ended = chain[0], 0
    for row in range(len(state)):
        if is_first[row]:
            ended[n_ended] = c
            n_ended += 1
            if c != 0:
                lanes[0] += mix64(c + _FIRST)
                lanes[1] += mix64(c + _SECOND)
            c = _STEP
        # 24 significant bits, half to even; -0 is 0.
        paid = (reward[row] + _HALF + ((reward[row] >> _DROPPED) & _ONE)) & _KEPT
        if paid == _MINUS_ZERO:
            paid = _ZERO
        to = next_state[row]
        after = state_keys[to] if to >= 0 else _NOWHERE
        h = state_keys[state[row]] + action_keys[action[row]] * _ACTION + paid * _REWARD
        h += after * _AFTER
        if terminated[row]:
            h += _FLAGS
        elif truncated[row]:
            h += _FLAGS * _TWO
        c = mix64(c * _STEP + h)
        if c == 0:  # stands for no episode at all
            c = _ONE
    chain[0] = c


@jit
def _close(c, lanes):  # type: ignore[no-untyped-def]
    if c != 0:
        lanes[0] += mix64(c + _FIRST)
        lanes[1] += mix64(c + _SECOND)
