"""Rows of a log as steps of a process, so that states can be exchanged for finer ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spibb.data.log import Log

Codes = NDArray[np.int64]
Array = NDArray[np.float64]

# Blocks that a log is made of, at least. Errors within an episode are not independent, so that
# whole episodes are blocks; where they are few, or one holds most of the rows, they are cut.
_FEWEST_BLOCKS = 30
# A share of all rows beyond which an episode is cut, however many others there are.
_LARGEST_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Steps:
    """Rows whose following row is known, or that end the process; shapes (n,).

    Attributes:
        row: Place in the log.
        state: Label of the state before the step.
        action: Action taken.
        reward: Reward received.
        following: Place among these steps' rows of the log of the row that follows; -1: the end.
        block: Which episode, or part of a long one, counted from 0; see `blocks`.
        label_of: Label of each row of the log.
        first: Rows of the log in which episodes begin.
        first_block: Their blocks.
        n_blocks: Number of blocks.
    """

    row: Codes
    state: Codes
    action: Codes
    reward: Array
    following: Codes
    block: Codes
    label_of: Codes
    first: Codes
    first_block: Codes
    n_blocks: int

    @classmethod
    def of(cls, log: Log) -> Steps | None:
        """Take the steps of a log; None where its rows are not connected by episodes."""
        if log.episode is None or log.is_first is None:
            return None
        n = len(log)
        goes_on = np.append(~log.is_first[1:], False) & ~log.terminated & ~log.is_gap
        row = np.flatnonzero(goes_on | log.terminated)
        if len(row) == 0:
            return None
        first = np.flatnonzero(log.is_first)
        block = blocks(log.is_first, n)
        return cls(
            row=row,
            state=log.state[row],
            action=log.action[row],
            reward=log.reward[row],
            following=np.where(log.terminated[row], -1, row + 1),
            block=block[row],
            label_of=log.state,
            first=first,
            first_block=block[first],
            n_blocks=int(block[-1]) + 1,
        )

    def by_block(self, values: Array) -> Array:
        """Add up values of steps, block by block."""
        return np.bincount(self.block, values, self.n_blocks).astype(np.float64)

    def by_first_block(self, values: Array) -> Array:
        """Add up values of beginnings, block by block."""
        return np.bincount(self.first_block, values, self.n_blocks).astype(np.float64)

    def sample(self, n_rows: int) -> Steps:
        """Return the steps of some blocks, evenly chosen, of about so many rows at most."""
        if len(self.row) <= n_rows:
            return self
        every = -(-len(self.row) // n_rows)
        # Blocks are halved by their parity, which an even stride would keep.
        found = self.take((self.block // 2) % every == 0)
        return found if len(found.row) else self

    def take(self, chosen: NDArray[np.bool_]) -> Steps:
        """Return some of the steps; episodes begin where they did in all of the log."""
        return replace(
            self,
            row=self.row[chosen],
            state=self.state[chosen],
            action=self.action[chosen],
            reward=self.reward[chosen],
            following=self.following[chosen],
            block=self.block[chosen],
        )


def blocks(is_first: NDArray[np.bool_], n: int) -> Codes:
    """Number episodes; where they are few or one is far longer, cut long ones into equal blocks."""
    episode: Codes = np.cumsum(is_first) - 1
    lengths = np.bincount(episode)
    wanted = np.maximum(1, np.rint(lengths * (_FEWEST_BLOCKS / n)).astype(np.int64))
    if len(lengths) >= _FEWEST_BLOCKS:
        wanted[lengths <= _LARGEST_SHARE * n] = 1
    place = np.arange(n) - np.flatnonzero(is_first)[episode]
    part = place * wanted[episode] // lengths[episode]
    return np.asarray((np.cumsum(wanted) - wanted)[episode] + part)
