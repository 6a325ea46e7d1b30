"""First-visit returns as sums that merge: of chunks of a log, of files, of days.

For each pair, of the returns g as far as they were recorded and of gamma^h for those cut off after
h steps (c, else 0): how many, their means, and the sums of squares and products about the means.
What stands for a value that was cut off is a number of the whole log, so it enters at the end
(spibb.data.returns).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spibb.data.estimate import average_value
from spibb.data.log import Log
from spibb.data.returns import Returns, first_visits
from spibb.data.streaming_counts import RowChunk
from spibb.errors import DataError
from spibb.tables.source import NotStreamedError

Table = NDArray[np.float64]
TABLES = ("n", "gain", "cut", "gain_square", "product", "cut_square")
NUMBERS = ("gamma", "n_rows", "reward", "n_ended")


@dataclass(frozen=True, eq=False)
class ReturnSums:
    """Sums of first-visit returns; tables have shape (S, A).

    Attributes:
        gamma: The discount.
        n: Number of returns.
        gain: Mean of g.
        cut: Mean of c.
        gain_square: Sum of squares of g about its mean.
        product: Sum of products of g and c about their means.
        cut_square: Sum of squares of c about its mean.
        n_rows: Rows of the log.
        reward: Sum of their rewards.
        n_ended: Rows that ended the process.
    """

    gamma: float
    n: Table
    gain: Table
    cut: Table
    gain_square: Table
    product: Table
    cut_square: Table
    n_rows: int
    reward: float
    n_ended: int

    @classmethod
    def of(cls, log: Log, gamma: float) -> ReturnSums:
        """Add up the returns of a log with episodes."""
        _, _, pair, gain, cut = first_visits(log, gamma)
        shape, size = (log.n_states, log.n_actions), log.n_states * log.n_actions
        n = np.bincount(pair, minlength=size)

        def sums(values: Table) -> Table:
            return np.bincount(pair, values, size).astype(np.float64)

        means = [sums(values) / np.maximum(n, 1) for values in (gain, cut)]
        g, c = gain - means[0][pair], cut - means[1][pair]
        values = n.astype(np.float64), *means, sums(g * g), sums(g * c), sums(c * c)
        tables = {name: one.reshape(shape) for name, one in zip(TABLES, values, strict=True)}
        return cls(
            gamma,
            n_rows=len(log),
            reward=float(log.reward.sum()),
            n_ended=int(np.count_nonzero(log.terminated)),
            **tables,
        )

    def __add__(self, other: ReturnSums) -> ReturnSums:
        """Merge the sums of different episodes (Chan, Golub and LeVeque)."""
        both = np.maximum(self.n + other.n, 1.0)
        share, between = other.n / both, self.n * other.n / both
        g, c = other.gain - self.gain, other.cut - self.cut
        return ReturnSums(
            self.gamma, self.n + other.n, self.gain + share * g, self.cut + share * c,
            self.gain_square + other.gain_square + between * g * g,
            self.product + other.product + between * g * c,
            self.cut_square + other.cut_square + between * c * c,
            self.n_rows + other.n_rows, self.reward + other.reward, self.n_ended + other.n_ended,
        )  # fmt: skip

    def placed(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]
    ) -> ReturnSums:
        """Return the same under other numbers of states and actions."""
        rows, columns = rows[: self.n.shape[0]], columns[: self.n.shape[1]]
        here, there = np.flatnonzero(rows >= 0), np.flatnonzero(columns >= 0)  # names that occur
        tables = {}
        for name in TABLES:
            tables[name] = np.zeros(shape)
            moved = getattr(self, name)[np.ix_(here, there)]
            tables[name][np.ix_(rows[here], columns[there])] = moved
        return replace(self, **tables)  # type: ignore[arg-type]

    def to_returns(self) -> Returns:
        """Return what algorithms need of them."""
        completion = average_value(self.n_rows, self.reward, self.n_ended, self.gamma)
        square = self.gain_square + completion * (2.0 * self.product + completion * self.cut_square)
        safe = np.maximum(self.n, 1.0)
        return Returns(
            n=self.n.astype(np.int64),
            mean=self.gain + completion * self.cut,
            variance=np.maximum(square, 0.0) / np.maximum(self.n - 1.0, 1.0),
            cut=self.cut,
            cut_square=self.cut_square / safe + self.cut**2,
            completion=completion,
        )


class ReturnTally:
    """Returns of rows as they come, of episodes one behind the other."""

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma
        self.sums: ReturnSums | None = None
        self._waiting: dict[str, NDArray[np.generic]] = {}

    def add(self, rows: RowChunk) -> None:
        """Add rows, which follow those before; those of the last episode wait for more."""
        given = {name: values for name, values in rows._asdict().items() if len(values)}
        if "episode" not in given:
            raise DataError(
                "the log has no episodes", expected="an episode for each row, for its returns"
            )
        if self._waiting:
            given = {name: np.concatenate([self._waiting[name], given[name]]) for name in given}
        episode = given["episode"]
        if (episode[1:] < episode[:-1]).any():
            raise NotStreamedError("returns of episodes side by side")
        first = int(np.searchsorted(episode, episode[-1]))
        self._waiting = {name: values[first:].copy() for name, values in given.items()}
        self._add({name: values[:first] for name, values in given.items()})

    def finished(self) -> ReturnSums:
        """Return the sums of all episodes."""
        self._add(self._waiting)
        assert self.sums is not None, "a log has rows"
        return self.sums

    def _add(self, columns: dict[str, NDArray[np.generic]]) -> None:
        if not len(columns["state"]):
            return
        try:
            log = Log.of_columns(
                columns, n_states=None, n_actions=None, state_labels=None, action_labels=None
            )
        except DataError as error:  # what looks wrong here need not be wrong of the whole
            raise NotStreamedError(str(error)) from None
        found = ReturnSums.of(log, self.gamma)
        if self.sums is None:
            self.sums = found
            return
        shape = tuple(map(max, zip(self.sums.n.shape, found.n.shape, strict=True)))
        whole = [
            one.placed(np.arange(one.n.shape[0]), np.arange(one.n.shape[1]), (shape[0], shape[1]))
            for one in (self.sums, found)
        ]
        self.sums = whole[0] + whole[1]
