"""What the policy that made the log earns: the log's own mean return, no model between."""

from __future__ import annotations

from dataclasses import dataclass

from spibb.data.log import Log
from spibb.ope.bounds import student_t
from spibb.ope.trajectories import Trajectories

LEVEL = 0.95


@dataclass(frozen=True)
class LogReturn:
    """The mean discounted return of a log's episodes.

    Attributes:
        mean: The mean, of returns as far as they are recorded.
        interval: By Student's t at 95 %, each end at 2.5 %: approximate. Infinite ends where the
            returns do not vary, or there are fewer than two.
        n_episodes: How many episodes.
        n_truncated: How many of them stop before the process does.
    """

    mean: float
    interval: tuple[float, float]
    n_episodes: int
    n_truncated: int

    @classmethod
    def of(cls, log: Log | None, gamma: float) -> LogReturn | None:
        """Average the returns of a log; None where it has no episodes.

        Example:
            >>> log = Log.from_arrays(state=[0] * 2, action=[0] * 2, reward=[1.0, 3.0],
            ...                       episode=[0, 1])
            >>> LogReturn.of(log, 0.9).mean
            2.0
        """
        if log is None or log.episode is None:
            return None
        episodes = Trajectories.from_log(log)
        returns = episodes.returns(gamma)
        interval = (float("-inf"), float("inf"))
        if len(returns) > 1:
            interval = student_t(returns, (1.0 - LEVEL) / 2.0)
        return cls(float(returns.mean()), interval, len(returns), int(episodes.is_cut.sum()))
