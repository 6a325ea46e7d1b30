"""How much an unrecorded cause of actions and outcomes could take from an expected gain."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from spibb.confounding.chain import after_labels
from spibb.confounding.worst_case import LARGEST_ODDS_RATIO, Adversary, WorstCase
from spibb.data.log import Log
from spibb.display import Card, Display
from spibb.errors import DataError, SettingsError
from spibb.mdp.policy import TabularPolicy
from spibb.problem import Problem
from spibb.problem.origin import Origin, policy_origin
from spibb.representation.refined_gain import LARGEST_DISCOUNT, Valued, behaviour_value
from spibb.representation.steps import Array, Steps
from spibb.strict_json import strict_json

# Level of each limit, in normal standard errors: 95 % on its side.
LEVEL, _ERRORS = 0.95, 1.6449
# The search for a limit's odds ratio ends with a step of this share, or after so many.
_PRECISION, _MOST_STEPS = 0.02, 20
# A gain of this share of the values is rounding.
_ROUNDING = 1e-9
# Limits are computed at powers of this, each at most that before, and interpolated.
_GRID = 1.1
# Rows beyond which some blocks stand for all of them; and states: each is a row of a linear system.
MOST_ROWS, MOST_STATES = 300_000, 2_000
# If more than this share of what the policy does differently has fewer rows, nothing is computed.
FEWEST_ROWS, _MOST_LOW_COUNT = 5, 0.5
IS_BASELINE = "the policy is the baseline"
WITHHELD = "withheld, because the policy was made from this log"


@dataclass(frozen=True)
class GainBounds:
    """Between what an unrecorded cause can make of a gain.

    Attributes:
        odds_ratio: Factor by which it changes the odds of logged actions, up or down, at most.
        lower: The least gain.
        upper: The largest gain.
        lower_limit: Lower 95 % confidence limit of the least gain; None: withheld, because the
            policy was made from this log.
        upper_limit: Upper 95 % confidence limit of the largest gain, or None.
    """

    odds_ratio: float
    lower: float
    upper: float
    lower_limit: float | None
    upper_limit: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Display):
    """How strong an unrecorded cause must be to cancel the gain of a policy.

    Its strength is the odds ratio of the marginal sensitivity model (Tan, 2006): given the recorded
    state, the cause changes the odds of each logged action by at most this factor, up or down. The
    gain is counted from what was done in the log, and computed without a prior.

    Attributes:
        gain: The gain if there is no such cause.
        odds_ratio: The least at which the gain may vanish; 1 where there is none; infinite where
            100 is not enough.
        lower_odds_ratio: The same for the lower 95 % confidence limit of the gain; None: withheld,
            because the policy was made from this log.
        origin: Whether the policy was made from this log: "same", "other" or "unknown".
        unobserved: Share of the policy's decisions for which the log has no data; bounds take the
            lowest outcome of the state there.
        low_count: Share of what the policy does more often than the behaviour for which the log
            has fewer than 5 rows.
        unfollowed: Share of the rows that lead to states of which the log shows no next row; they
            are left out.

    Example:
        >>> from spibb import Log, Problem, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 80, action=[0] * 40 + [1] * 40, episode=range(80),
        ...                       reward=[0.0, 1.0, 0.0, 1.0] * 10 + [1.0, 1.0, 0.0, 1.0] * 10,
        ...                       terminated=[True] * 80)
        >>> problem = Problem.of(log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9)
        >>> found = sensitivity(problem, TabularPolicy([[0.0, 1.0]]))
        >>> round(found.gain, 3), round(found.odds_ratio, 2)
        (0.125, 1.9)
    """

    gain: float
    odds_ratio: float
    lower_odds_ratio: float | None
    origin: Origin
    unobserved: float
    low_count: float
    unfollowed: float
    _model: _Model = field(repr=False)

    def bounds(self, odds_ratio: float) -> GainBounds:
        """Return the bounds of the gain for a cause of a given strength.

        Args:
            odds_ratio: Factor by which it changes the odds of logged actions, at most; 1 or more.
        """
        if not 1.0 <= odds_ratio < math.inf:
            raise SettingsError(
                f"odds_ratio is {odds_ratio}",
                expected="a finite number of at least 1; 1 is no unrecorded cause",
                hint="2 means that it doubles or halves the odds of some logged actions",
            )
        lower, low = self._model.lower(odds_ratio)
        upper, high = self._model.opposite.lower(odds_ratio)
        if self.origin == "same":
            return GainBounds(odds_ratio, lower, -upper, None, None)
        return GainBounds(odds_ratio, lower, -upper, low, -high)

    def to_dict(self) -> dict[str, Any]:
        """Return strict JSON values; an infinite odds ratio is "inf"."""
        names = (
            "gain", "odds_ratio", "lower_odds_ratio", "origin", "unobserved", "low_count",
            "unfollowed",
        )  # fmt: skip
        found: dict[str, Any] = strict_json({name: getattr(self, name) for name in names})
        remark = WITHHELD if self.lower_odds_ratio is None else None
        return found | {"level": LEVEL, "limit_remark": remark}

    def _card(self) -> Card:
        limit = self.lower_odds_ratio
        return Card("Sensitivity to an unrecorded cause", {
            "gain": f"{self.gain:+.4g} without one, over what was done in the log",
            "odds ratio": f"{in_words(self.odds_ratio)}, from which on the gain may vanish",
            "95 % limit": WITHHELD if limit is None else in_words(limit),
        })  # fmt: skip


def in_words(odds_ratio: float) -> str:
    """Return an odds ratio with two figures after the point or fewer, rounded down."""
    if math.isinf(odds_ratio):
        return f"more than {LARGEST_ODDS_RATIO:g}"
    scale = 100.0 if odds_ratio < 10.0 else 1.0
    return f"{math.floor(odds_ratio * scale + 1e-9) / scale:g}"


def find_sensitivity(
    log: Log | None, table: Array, baseline: Array, gamma: float, origin: Origin = "unknown"
) -> Sensitivity | str:
    """Return how strong a cause must be to cancel the gain of a policy; or why that is not known.

    Args:
        log: The log; None where only counts are known.
        table: The policy, shape (S, A).
        baseline: The baseline, shape (S, A).
        gamma: The discount.
        origin: Whether the policy was made from this log.
    """
    if np.array_equal(table, baseline):
        return IS_BASELINE
    if log is None:
        return "only counts are known"
    if len(table) > MOST_STATES:
        return f"there are {len(table):,} states, more than {MOST_STATES:,}"
    sample = Steps.of(log)
    if sample is None:
        return "rows are not connected by episodes"
    sample = sample.sample(MOST_ROWS)
    steps = _followed(sample, len(table))
    if len(steps.row) == 0:
        return "the log does not show what follows its rows"
    model = _Model.of(steps, table, baseline, gamma)
    if gamma > LARGEST_DISCOUNT and model.adversary.never_ends:
        return "the policy never ends"
    plain = model.adversary.least(1.0)
    low_count = model.adversary.low_count(plain, FEWEST_ROWS)
    if low_count > _MOST_LOW_COUNT:
        return (
            f"{100 * low_count:.0f} % of its decisions are hardly in the log (fewer than "
            f"{FEWEST_ROWS} rows each)"
        )
    vanishing = model.vanishing(plain)
    limit = None
    if origin != "same":
        limit = _or_more(min(model.doubtful(plain, vanishing), vanishing.odds_ratio))
    return Sensitivity(
        gain=model.plain_gain,
        odds_ratio=_or_more(vanishing.odds_ratio),
        lower_odds_ratio=limit,
        origin=origin,
        unobserved=model.adversary.unobserved(plain),
        low_count=low_count,
        unfollowed=1.0 - len(steps.row) / len(sample.row),
        _model=model,
    )


def sensitivity(problem: Problem, policy: TabularPolicy) -> Sensitivity:
    """Return how strong an unrecorded cause must be to cancel the gain of a policy.

    Args:
        problem: The log and the baseline.
        policy: The policy; for one that was made from the same log, the factor is probably too
            high, and its limit is withheld.

    Raises:
        DataError: It cannot be computed; the message says why.
    """
    policy = problem.align(policy)
    tables = policy.probabilities, problem.baseline.probabilities
    origin = policy_origin(problem, policy)
    found = find_sensitivity(problem.log, *tables, problem.gamma, origin)
    if isinstance(found, str):
        raise DataError(
            f"how strong an unrecorded cause must be cannot be computed: {found}",
            expected="a policy other than the baseline, and a log whose rows have episodes",
        )
    return found


def _followed(steps: Steps, n_states: int) -> Steps:
    """Leave out steps to states of which no step is known: what they are worth is unknown."""
    while True:
        is_known = np.bincount(steps.state, minlength=n_states + 1) > 0
        is_known[n_states] = True
        kept = is_known[after_labels(steps, n_states)]
        if kept.all():
            return steps
        steps = steps.take(kept)


@dataclass(frozen=True, eq=False)
class _Model:
    """A policy under an adverse cause, beside what was done in the log."""

    adversary: Adversary
    behaved: Valued

    @classmethod
    def of(cls, steps: Steps, table: Array, baseline: Array, gamma: float) -> _Model:
        behaved = behaviour_value(steps, table.shape, min(gamma, LARGEST_DISCOUNT))
        return cls(Adversary.of(steps, table, baseline, gamma), behaved)

    @property
    def opposite(self) -> _Model:
        """The same with opposite rewards."""
        behaved = replace(
            self.behaved, value=-self.behaved.value, influence=-self.behaved.influence
        )
        return _Model(self.adversary.opposite, behaved)

    @property
    def plain_gain(self) -> float:
        """The gain without a cause, in which actions without data do what their state does."""
        return self._rounded(self.adversary.average - self.behaved.value)

    def gain(self, one: WorstCase) -> float:
        return self._rounded(one.value - self.behaved.value)

    def _rounded(self, gain: float) -> float:
        reward = np.abs(self.adversary.steps.reward).max()
        scale = max(abs(self.behaved.value), abs(self.behaved.value + gain), float(reward))
        return 0.0 if abs(gain) <= _ROUNDING * scale else gain

    def margin(self, one: WorstCase) -> float:
        """Return what a confidence limit is away from the gain."""
        influence = one.influence - self.behaved.influence
        n = len(influence)
        variance = float((influence**2).sum()) * n / max(1, n - 1)
        optimism, error = one.optimism
        return optimism + _ERRORS * math.sqrt(variance + one.added_variance + error**2)

    def lower(self, odds_ratio: float) -> tuple[float, float]:
        """Return the least gain, and its lower limit, which falls with the odds ratio."""
        place = math.log(odds_ratio) / math.log(_GRID)
        one, limits = self.adversary.least(1.0), []
        for k in range(math.ceil(place) + 1):
            one = self.adversary.least(_GRID**k, one)
            limits.append(self.limit(one))
        falling = np.minimum.accumulate(limits)
        limit = float(np.interp(place, np.arange(len(limits)), falling))
        return self.gain(self.adversary.least(odds_ratio, one)), limit

    def limit(self, one: WorstCase) -> float:
        return self.gain(one) - self.margin(one)

    def vanishing(self, plain: WorstCase) -> WorstCase:
        """Return the worst case in which nothing is left of the gain."""
        if self.gain(plain) <= 0.0:
            return plain
        return self.adversary.reaching(self.behaved.value, plain)

    def doubtful(self, plain: WorstCase, vanishing: WorstCase) -> float:
        """Return the odds ratio at which nothing is left of the limit (the Illinois algorithm)."""
        one, two = plain, vanishing
        low, high = self.limit(one), self.limit(two)
        if low <= 0.0 or high >= 0.0:
            return one.odds_ratio if low <= 0.0 else two.odds_ratio
        left, right = math.log(one.odds_ratio), math.log(two.odds_ratio)
        at = left + (right - left) * low / (low - high)
        for _ in range(_MOST_STEPS):
            one = self.adversary.least(math.exp(at), one)
            found, last = self.limit(one), at
            # The end that stays counts half: both ends move.
            if found > 0.0:
                left, low, high = at, found, high / 2.0
            else:
                right, high, low = at, found, low / 2.0
            at = left + (right - left) * low / (low - high)
            if abs(at - last) <= _PRECISION:
                break
        return math.exp(at)


def _or_more(odds_ratio: float) -> float:
    return math.inf if odds_ratio >= LARGEST_ODDS_RATIO * (1.0 - _PRECISION) else odds_ratio
