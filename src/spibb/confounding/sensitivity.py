"""How much an unrecorded cause of actions and outcomes could take from an expected gain."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spibb.confounding.worst_case import LARGEST_ODDS_RATIO, Adversary, Line, WorstCase
from spibb.data.log import Log
from spibb.display import Card, Display
from spibb.errors import DataError, SettingsError
from spibb.mdp.policy import TabularPolicy
from spibb.problem import Problem
from spibb.representation.refined_gain import LARGEST_DISCOUNT, Valued, behaviour_value
from spibb.representation.steps import Array, Steps
from spibb.strict_json import strict_json

# Level of each limit, in normal standard errors: 95 % on its side.
LEVEL, _ERRORS = 0.95, 1.6449
# The search for an odds ratio ends with a step of this share, or after so many. The next step would
# be much smaller: most are found within 2 %.
_PRECISION, _MOST_MARGINS = 0.05, 8
# Rows beyond which some blocks stand for all of them; and states: each is a row of a linear system.
MOST_ROWS, MOST_STATES = 300_000, 2_000
MEMORY = (
    "This takes the cause to be drawn anew in each step; one that lasts over steps can do the same "
    "with smaller changes of odds."
)


@dataclass(frozen=True)
class GainBounds:
    """Between what an unrecorded cause can make of a gain.

    Attributes:
        odds_ratio: Factor by which it changes the odds of logged actions, up or down, at most.
        lower: The least gain.
        upper: The largest gain.
        lower_limit: Lower 95 % confidence limit of the least gain.
        upper_limit: Upper 95 % confidence limit of the largest gain.
    """

    odds_ratio: float
    lower: float
    upper: float
    lower_limit: float
    upper_limit: float


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Display):
    """How strong an unrecorded cause must be to cancel the gain of a policy.

    Its strength is the odds ratio of the marginal sensitivity model (Tan, 2006): given the recorded
    state, the cause changes the odds of each logged action by at most this factor, up or down. The
    gain is counted from what the behaviour earned in the log, and computed without a prior.

    Attributes:
        gain: The gain if there is no such cause.
        odds_ratio: The least at which the gain may vanish; 1 where there is none; infinite where
            more than 100 is needed.
        lower_odds_ratio: The same for the lower 95 % confidence limit of the gain.

    Example:
        >>> from spibb import Log, Problem, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 80, action=[0] * 40 + [1] * 40, episode=range(80),
        ...                       reward=[0.0, 1.0, 0.0, 1.0] * 10 + [1.0, 1.0, 0.0, 1.0] * 10,
        ...                       terminated=[True] * 80)
        >>> problem = Problem.of(log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9)
        >>> found = sensitivity(problem, TabularPolicy([[0.0, 1.0]]))
        >>> round(found.gain, 3), round(found.odds_ratio, 2)
        (0.125, 2.0)
    """

    gain: float
    odds_ratio: float
    lower_odds_ratio: float
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
        model = self._model
        least, most = model.adversary.least(odds_ratio), model.adversary.most(odds_ratio)
        lower, upper = model.gain(least), model.gain(most)
        low, high = lower - model.margin(least), upper + model.margin(most)
        return GainBounds(odds_ratio, lower, upper, low, high)

    def to_dict(self) -> dict[str, Any]:
        """Return strict JSON values; an infinite odds ratio is "inf"."""
        names = "gain", "odds_ratio", "lower_odds_ratio"
        found: dict[str, Any] = strict_json({name: getattr(self, name) for name in names})
        return found | {"level": LEVEL}

    def _card(self) -> Card:
        return Card("Sensitivity to an unrecorded cause", {
            "gain": f"{self.gain:+.4g} without one",
            "odds ratio": f"{in_words(self.odds_ratio)}, from which on the gain may vanish",
            "95 % limit": in_words(self.lower_odds_ratio),
        })  # fmt: skip


def in_words(odds_ratio: float) -> str:
    """Return an odds ratio with two figures after the point or fewer, rounded down."""
    if math.isinf(odds_ratio):
        return f"more than {LARGEST_ODDS_RATIO:g}"
    scale = 100.0 if odds_ratio < 10.0 else 1.0
    return f"{math.floor(odds_ratio * scale + 1e-9) / scale:g}"


def find_sensitivity(
    log: Log | None, table: Array, baseline: Array, gamma: float
) -> Sensitivity | str:
    """Return how strong a cause must be to cancel the gain of a policy; or why that is not known.

    Args:
        log: The log; None where only counts are known.
        table: The policy, shape (S, A).
        baseline: The baseline, shape (S, A).
        gamma: The discount.
    """
    if np.array_equal(table, baseline):
        return "the policy is the baseline"
    if log is None:
        return "only counts are known"
    if len(table) > MOST_STATES:
        return f"there are {len(table):,} states, more than {MOST_STATES:,}"
    steps = Steps.of(log)
    if steps is None:
        return "rows are not connected by episodes"
    model = _Model.of(steps.sample(MOST_ROWS), table, baseline, gamma)
    plain = model.adversary.least(1.0)
    vanishing = model.leaving(0.0, plain, plain)
    doubtful = model.leaving(1.0, plain, vanishing)
    return Sensitivity(
        gain=model.gain(plain),
        odds_ratio=_or_more(vanishing.odds_ratio),
        lower_odds_ratio=_or_more(min(doubtful.odds_ratio, vanishing.odds_ratio)),
        _model=model,
    )


def sensitivity(problem: Problem, policy: TabularPolicy) -> Sensitivity:
    """Return how strong an unrecorded cause must be to cancel the gain of a policy.

    Args:
        problem: The log and the baseline.
        policy: The policy; one that was made of the same log is flattered by it.

    Raises:
        DataError: It cannot be computed; the message says why.
    """
    tables = problem.align(policy).probabilities, problem.baseline.probabilities
    found = find_sensitivity(problem.log, *tables, problem.gamma)
    if isinstance(found, str):
        raise DataError(
            f"how strong an unrecorded cause must be cannot be computed: {found}",
            expected="a policy other than the baseline, and a log whose rows have episodes",
        )
    return found


@dataclass(frozen=True, eq=False)
class _Model:
    """A policy under an adverse cause, beside what the behaviour earned."""

    adversary: Adversary
    behaved: Valued

    @classmethod
    def of(cls, steps: Steps, table: Array, baseline: Array, gamma: float) -> _Model:
        behaved = behaviour_value(steps, table.shape, min(gamma, LARGEST_DISCOUNT))
        return cls(Adversary.of(steps, table, baseline, gamma), behaved)

    def gain(self, one: WorstCase) -> float:
        return one.value - one.optimism - self.behaved.value

    def margin(self, one: WorstCase) -> float:
        """Return what a confidence limit is away from the gain."""
        influence = one.influence - self.behaved.influence
        n = len(influence)
        variance = float((influence**2).sum()) * n / max(1, n - 1)
        return _ERRORS * math.hypot(math.sqrt(variance), one.optimism_error)

    def leaving(self, margins: float, plain: WorstCase, near: WorstCase) -> WorstCase:
        """Return the worst case in which nothing is left of the gain but so many margins.

        Args:
            margins: How many.
            plain: That without an unrecorded cause, which is the answer if nothing is left there.
            near: One to start from.
        """
        if self.gain(plain) <= margins * self.margin(plain):
            return plain
        before, last = plain, near
        for _ in range(_MOST_MARGINS):
            near = self.adversary.reaching(self._wanted(margins, before, last), last)
            before, last = last, near
            if abs(math.log(last.odds_ratio / before.odds_ratio)) <= _PRECISION:
                break
        return min(last, before, key=lambda one: one.odds_ratio)

    def _wanted(self, margins: float, before: WorstCase, last: WorstCase) -> Line:
        """Return the values that leave so many margins, by those of two odds ratios."""
        (x, y), (x_last, y_last) = (
            (math.log(one.odds_ratio), one.optimism + margins * self.margin(one))
            for one in (before, last)
        )
        slope = (y_last - y) / (x_last - x) if x_last != x else 0.0
        return Line(self.behaved.value + y_last, x_last, slope)


def _or_more(odds_ratio: float) -> float:
    return math.inf if odds_ratio >= LARGEST_ODDS_RATIO * (1.0 - _PRECISION) else odds_ratio
