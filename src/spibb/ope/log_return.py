"""What the policy that made the log earns: the log's own mean return, no model between."""

from __future__ import annotations

import math
from dataclasses import dataclass

from spibb.data.log import Log
from spibb.ope.bounds import NO_BOUND, student_t
from spibb.ope.caveats import hidden_warnings, spread_warnings
from spibb.ope.trajectories import Trajectories
from spibb.problem.ranges import ValueRange

LEVEL = 0.95
# The model contradicts the log if its value of the baseline is so many standard errors away.
_LARGEST_GAP, _FEWEST_EPISODES = 4.0, 20


@dataclass(frozen=True)
class LogReturn:
    """The mean discounted return of a log's episodes.

    Attributes:
        mean: The mean, of returns as far as they are recorded.
        interval: By Student's t, by default at 95 %, half of the rest for each end: approximate.
            Infinite ends where the returns do not vary, or there are fewer than two.
        n_episodes: How many episodes.
        n_truncated: How many of them stop before the process does.
        warnings: Why the interval may be too narrow.
        deviation: Standard deviation of the returns; NaN where there are fewer than two.
    """

    mean: float
    interval: tuple[float, float]
    n_episodes: int
    n_truncated: int
    warnings: tuple[str, ...] = ()
    deviation: float = math.nan

    @classmethod
    def of(
        cls, log: Log | None, gamma: float, level: float = LEVEL, rewards: ValueRange | None = None
    ) -> LogReturn | None:
        """Average the returns of a log; None where it has no episodes.

        Args:
            log: The log.
            gamma: The discount.
            level: Of the interval.
            rewards: The range of rewards, if it is known.

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
        is_spread = len(returns) > 1
        interval = student_t(returns, (1.0 - level) / 2.0) if is_spread else NO_BOUND
        told = spread_warnings(returns)
        if rewards is not None and is_spread:
            # An extreme that an episode meets with probability p stays out of n episodes with
            # (1 - p)^n, so that p may be log(1 / delta) / n.
            gap = max(log.reward.min() - rewards.low, rewards.high - log.reward.max())
            hidden = gap * -math.log(1.0 - level) / len(returns)
            told += hidden_warnings(log.reward, returns, rewards, hidden)
        deviation = float(returns.std(ddof=1)) if is_spread else math.nan
        n_cut = int(episodes.is_cut.sum())
        return cls(float(returns.mean()), interval, len(returns), n_cut, told, deviation)


def contradiction(found: LogReturn | None, value: float) -> str | None:
    """Say where a model's value of the baseline is not what the log shows; None where it may be.

    More than four standard errors from the mean return of twenty complete episodes or more.

    Args:
        found: What the log itself says.
        value: The baseline's value in the model, from where episodes of the log begin.
    """
    if found is None or found.n_truncated or found.n_episodes < _FEWEST_EPISODES:
        return None
    half = (found.interval[1] - found.interval[0]) / 2.0
    # Two standard errors are half of the interval, or so.
    if not math.isfinite(half) or abs(value - found.mean) <= _LARGEST_GAP / 2.0 * half:
        return None
    return (
        f"the model puts the baseline at {value:.4g}, while the log's mean return is "
        f"{found.mean:.4g}"
    )
