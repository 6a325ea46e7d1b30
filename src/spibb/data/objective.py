"""What is better, and what a good and a bad episode of a log look like: the first lines of results.

A column that holds costs, an outcome that is repeated on every row, a wrong end of the episodes:
whoever knows the data sees it in two episodes that are described in words. Neither is named.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.display import short
from spibb.words import number, percent, several

# A log is about patients: fewer episodes than these are neither described nor shown as a group.
FEWEST_EPISODES = 10
_GOOD, _BAD = 0.9, 0.1
# Returns that differ by less, as a share of the largest one, differ by rounding alone.
_ROUNDING = 1e-9
_ENDS = {
    "ended": "then the process ends",
    "truncated": "then the record is truncated",
    "open": "then the record stops",
}


@dataclass(frozen=True)
class EpisodeExample:
    """What one episode looks like, without its id.

    Attributes:
        total: Its return, or its sum of rewards.
        n_rows: Its rows, up to the end of the process.
        state: State of its last row.
        action: Action of its last row.
        reward: Reward of its last row.
        end: "ended" where the process ended with that row; "truncated" where the log says that the
            record stops there; "open" where it says neither.
    """

    total: float
    n_rows: int
    state: str
    action: str
    reward: float
    end: str


@dataclass(frozen=True)
class Objective:
    """What is better, and what a good and a bad episode of a log look like.

    Attributes:
        minimize: Whether costs are minimized: each reward is a cost with its sign turned.
        gamma: The discount of the returns; None: sums of rewards.
        good: An episode at the 90 % quantile of the returns; None where none is described.
        bad: One at the 10 % quantile.
        remark: Why none is described; empty where they are.

    Example:
        >>> log = Log.from_arrays(state=[0] * 20, action=[0, 1] * 10, reward=[1.0, 3.0] * 10,
        ...                       episode=range(20))
        >>> for sentence in Objective.of(log, 0.9).sentences[:2]:
        ...     print(sentence)
        Higher rewards are better.
        A good episode (90 % quantile): return 3, 1 row: state 0, action 1, reward 3; then the \
process ends.
    """

    minimize: bool
    gamma: float | None
    good: EpisodeExample | None = None
    bad: EpisodeExample | None = None
    remark: str = ""

    @classmethod
    def of(cls, data: Log | Counts, gamma: float | None = None) -> Objective:
        """Look for a good and a bad episode.

        Args:
            data: A log, or counts, which keep no episodes.
            gamma: The discount of the returns; None: sums of rewards.
        """
        if isinstance(data, Counts):
            return cls(data.minimize, gamma, remark="counts keep no episodes")
        if data.is_first is None:
            return cls(data.minimize, gamma, remark="the log has no episodes")
        if data.n_episodes < FEWEST_EPISODES:
            remark = f"the log has fewer than {FEWEST_EPISODES} episodes"
            return cls(data.minimize, gamma, remark=remark)
        total, n_rows, last = (np.zeros(data.n_episodes, kind) for kind in "dll")
        discount = 1.0 if gamma is None else float(gamma)
        _sum_up(data.is_first, data.reward, data.terminated, discount, total, n_rows, last)
        good, bad = (_example(data, part, total, n_rows, last) for part in (_GOOD, _BAD))
        return cls(data.minimize, gamma, good, bad)

    @property
    def direction(self) -> str:
        """What is better, in a sentence or two."""
        if not self.minimize:
            return "Higher rewards are better."
        return (
            "Lower costs are better (minimize). What is called reward, return, value, estimate or "
            "earned is a cost with its sign turned: -3 is a cost of 3. A gain is cost saved."
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is better, and the two episodes, a line each."""
        if self.good is None or self.bad is None:
            return self.direction, f"No episode is described: {self.remark}."
        if self.good.total == self.bad.total:
            return (
                self.direction,
                f"From the {percent(_BAD)} to the {percent(_GOOD)} quantile every episode has the "
                f"same {self._total} {self._valued(self.good.total)}. One of them: "
                f"{self._described(self.good)}.",
            )
        parts = ("good", _GOOD, self.good), ("bad", _BAD, self.bad)
        return (
            self.direction,
            *(
                f"A {name} episode ({percent(quantile)} quantile): {self._total} "
                f"{self._valued(one.total)}, {self._described(one)}."
                for name, quantile, one in parts
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "direction": "minimize" if self.minimize else "maximize",
            "sentences": list(self.sentences),
            "gamma": self.gamma,
            "good_episode": None if self.good is None else {"quantile": _GOOD, **asdict(self.good)},
            "bad_episode": None if self.bad is None else {"quantile": _BAD, **asdict(self.bad)},
            "remark": self.remark or None,
        }

    @property
    def _total(self) -> str:
        return "sum of rewards" if self.gamma is None else "return"

    def _valued(self, reward: float) -> str:
        cost = f" (cost {number(0.0 - reward)})" if self.minimize else ""
        return number(reward) + cost

    def _described(self, one: EpisodeExample) -> str:
        last = ":" if one.n_rows == 1 else ", the last:"
        return (
            f"{several(one.n_rows, 'row')}{last} state {short(one.state)}, action "
            f"{short(one.action)}, reward {self._valued(one.reward)}; {_ENDS[one.end]}"
        )


def _example(
    log: Log,
    quantile: float,
    total: NDArray[np.float64],
    n_rows: NDArray[np.int64],
    last: NDArray[np.int64],
) -> EpisodeExample:
    """Describe the episode at a quantile; of those with the same return, the one of median length.

    What episodes are called, and so their order, does not matter.
    """
    value = float(np.quantile(total, quantile, method="inverted_cdf"))
    alike = np.flatnonzero(np.abs(total - value) <= _ROUNDING * np.abs(total).max())
    rows = last[alike]
    order = np.lexsort((log.reward[rows], log.action[rows], log.state[rows], n_rows[alike]))
    k = alike[order[(len(order) - 1) // 2]]
    row = last[k]
    end = "ended" if log.terminated[row] else "truncated" if log.truncated[row] else "open"
    return EpisodeExample(
        total=value,
        n_rows=int(n_rows[k]),
        state=log.states[int(log.state[row])],
        action=log.actions[int(log.action[row])],
        reward=float(log.reward[row]),
        end=end,
    )


@jit
def _sum_up(is_first, reward, terminated, gamma, total, n_rows, last):  # type: ignore[no-untyped-def]
    """Add up each episode to its first end: its return, its rows, and which row is its last."""
    k, weight, is_over = -1, 1.0, False
    for row in range(len(reward)):
        if is_first[row]:
            k, weight, is_over = k + 1, 1.0, False
        if not is_over:
            total[k] += weight * reward[row]
            n_rows[k] += 1
            last[k] = row
            weight *= gamma
            is_over = terminated[row]
