"""The range of returns that every bound needs."""

from __future__ import annotations

from dataclasses import dataclass

from spibb.data.counts import Counts
from spibb.data.direction import check_range
from spibb.errors import SettingsError


@dataclass(frozen=True)
class ValueRange:
    """Bounds on rewards and, through the discount, on values.

    Values lie in [min(0, low), max(0, high)] / (1 - gamma): 0 is included because a process may
    end, unless it is declared that it never does. The theorems' V_max is half the width of that
    interval, which is enough since differences of distributions sum to zero.

    Attributes:
        low: Smallest reward.
        high: Largest reward.
        gamma: The discount.
        is_observed: Whether the range is only the one seen in the log: an assumption.
        never_ends: Whether the process is declared never to end.
        minimize: Whether the rewards are costs with their sign turned.
    """

    low: float
    high: float
    gamma: float
    is_observed: bool
    never_ends: bool = False
    minimize: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        """The range of rewards, 0 included where the process may end."""
        if self.never_ends:
            return self.low, self.high
        return min(0.0, self.low), max(0.0, self.high)

    @property
    def proviso(self) -> str | None:
        """What a statement that rests on an observed range says of it; None where it is given."""
        if not self.is_observed:
            return None
        return f"if no reward outside of [{self.low:g}, {self.high:g}], the range seen, is possible"

    @property
    def r_max(self) -> float:
        """Half the width of the reward range, 0 included where the process may end."""
        return (self.ends[1] - self.ends[0]) / 2.0

    @property
    def v_max(self) -> float:
        """Half the width of the range of values; infinite for gamma = 1."""
        return self.r_max / (1.0 - self.gamma) if self.gamma < 1.0 else float("inf")

    def reach(self, value: float) -> float:
        """Return how far any value may be from this one, in units of v_max: 1 from the middle."""
        if self.gamma >= 1.0 or self.r_max == 0.0:
            return 1.0
        low, high = (end / (1.0 - self.gamma) for end in self.ends)
        return max(high - value, value - low) / self.v_max

    @classmethod
    def of(
        cls,
        counts: Counts,
        gamma: float,
        reward_range: tuple[float, float] | None,
        *,
        never_ends: bool = False,
    ) -> ValueRange:
        """Take the given range, after checking it against the log, or else the observed one."""
        low, high = (end + 0.0 for end in counts.reward_range)  # of -0 it makes 0
        known = {"never_ends": never_ends, "minimize": counts.minimize}
        if reward_range is None:
            return cls(low, high, gamma, is_observed=True, **known)
        given = (float(reward_range[0]), float(reward_range[1]))
        if not given[0] <= given[1] or abs(given[0]) == float("inf") or given[1] == float("inf"):
            raise SettingsError(f"reward_range is {reward_range}", expected="(low, high), finite")
        check_range(
            given, (low, high), name="reward_range", what="rewards", minimize=counts.minimize
        )
        return cls(*given, gamma, is_observed=False, **known)
