"""What the posterior says of a policy: what it would gain, and how likely it does harm.

These are Bayesian statements: probabilities given the log and a prior. They are no confidence
statement and no certificate. How much they depend on the prior is told as a range.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.display import Card, Display
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.policy import TabularPolicy
from spibb.ope.support import LOW_COUNT, Visits
from spibb.posterior.cross_validation import Halves, HeldOut
from spibb.posterior.gain import TAIL, Gain
from spibb.posterior.gain_moments import GainMoments
from spibb.posterior.model import PosteriorModel
from spibb.posterior.settings import ModelSettings
from spibb.posterior.states import StateRisks
from spibb.problem import Problem

Array = NDArray[np.float64]

# Other priors: unseen losses are rarer, or more common, and actions differ more, or less.
OTHER_PRIORS = (
    ModelSettings(prior_losses=0.25),
    ModelSettings(prior_losses=2.0, prior_groups=3.0),
    ModelSettings(equal_actions=0.05),
    ModelSettings(equal_actions=0.5),
)


class PriorRange(NamedTuple):
    """How much a risk depends on the prior: least and largest figures over several priors.

    Attributes:
        mean: Of the expected gain.
        probability_of_harm: Of the probability of harm.
    """

    mean: tuple[float, float]
    probability_of_harm: tuple[float, float]


@dataclass(frozen=True, eq=False, repr=False)
class Risk(Display):
    """How risky a policy is, given its log and a prior.

    Attributes:
        gain: Distribution of its gain over the baseline.
        low_count: Share of its visits on pairs seen fewer than five times.
        states: What each state adds to the gain.
        prior_range: How much gain and harm depend on the prior.
        cross_fitted: What each half of the log expects of the policy that the other half makes, on
            average. It has hardly any selection bias, but uses half of the data. None: not known.
        held_out: What the episodes of each half say of that, without models.
    """

    gain: Gain
    low_count: float
    states: StateRisks
    prior_range: PriorRange
    cross_fitted: float | None = None
    held_out: HeldOut | None = None

    def with_halves(self, halves: Halves | None) -> Risk:
        """Return the same with what halves of the log say."""
        if halves is None:
            return self
        return replace(self, cross_fitted=halves.expected, held_out=halves.held_out)

    @property
    def mean(self) -> float:
        """Expected gain."""
        return self.gain.mean

    @property
    def deviation(self) -> float:
        """Standard deviation of the gain."""
        return self.gain.deviation

    @property
    def probability_of_harm(self) -> float:
        """Probability that the policy is worse than the baseline."""
        return self.gain.probability_of_harm

    @property
    def lower_tail_mean(self) -> float:
        """Mean gain in the worst 10 % of scenarios."""
        return self.gain.lower_tail_mean

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return where the gain lies with a probability of `level`.

        Args:
            level: A probability, between 0 and 1.
        """
        return self.gain.interval(level)

    @property
    def scenarios(self) -> tuple[float, ...]:
        """A hundred equally likely gains, from bad to good."""
        return self.gain.scenarios

    @property
    def by_state(self) -> Array:
        """What each state adds in the worst 10 % of scenarios, to first order, shape (S,)."""
        if self.gain.deviation == 0.0:
            return self.states.gain
        below = (self.lower_tail_mean - self.mean) / self.gain.deviation
        return np.asarray(self.states.gain + below * self.states.deviation**2 / self.gain.deviation)

    @property
    def statement(self) -> str:
        """What is to be expected, in words."""
        low, high = self.interval()
        return (
            f"Expected gain {self.mean:.4g}, from {low:.4g} to {high:.4g} at 95 %; probability of "
            f"harm {format_share(self.probability_of_harm)}; mean of the worst "
            f"{100 * TAIL:.0f} % {self.lower_tail_mean:.4g}"
        )

    def _card(self) -> Card:
        low, high = self.interval()
        least, most = self.prior_range.probability_of_harm
        facts = {
            "expected gain": f"{self.mean:.4g}, 95 % [{low:.4g}, {high:.4g}]",
            "probability of harm": f"{format_share(self.probability_of_harm)}, from "
            f"{format_share(least)} to {format_share(most)} under other priors",
            "worst 10 %": f"gain {self.lower_tail_mean:.4g} on average",
        }
        if self.cross_fitted is not None:
            facts["cross-fitted"] = f"gain {self.cross_fitted:.4g}, by halves of the log"
        if self.held_out is not None:
            facts["held out"] = format_held_out(self.held_out)
        facts["low counts"] = (
            f"{100 * self.low_count:.0f} % of its visits are to pairs with fewer than {LOW_COUNT} "
            "rows"
        )
        return Card("Risk given the log and a prior", facts)


def format_share(share: float) -> str:
    """Return a probability in words."""
    if share < 1e-3:
        return "below 0.1 %"
    return "above 99 %" if share > 0.99 else f"{100 * share:.2g} %"


def format_held_out(found: HeldOut) -> str:
    """Return what episodes say of each other's policies, in words."""
    low, high = found.interval_95
    return (
        f"gain {found.gain:.4g}, from {low:.4g} to {high:.4g} at 95 % by the episodes of each "
        f"half themselves; about {found.ess:.0f} of them count"
    )


def format_cross_validation(cross_fitted: float) -> str:
    """Return what halves of a log say, in words."""
    return (
        f"A policy made on one half of the episodes gains {cross_fitted:.4g} as judged by the "
        "other half. That figure has hardly any selection bias, but each policy uses half of the "
        "data."
    )


def risk(problem: Any, policy: TabularPolicy, **given: Any) -> Risk:
    """Say what a policy would gain, and how likely it does harm, given a log and a prior.

    Args:
        problem: A problem, or the log that the baseline made.
        policy: The policy.
        **given: Baseline, discount and what else is known, where a log was given; see
            :meth:`spibb.Problem.of`.

    Example:
        >>> from spibb import Log
        >>> log = Log.from_arrays(state=[0] * 40, action=[0] * 20 + [1] * 20,
        ...                       reward=[0.0, 1.0] * 10 + [5.0, 6.0] * 10, episode=range(40),
        ...                       terminated=[True] * 40)
        >>> found = risk(log, TabularPolicy([[0.0, 1.0]]), gamma=0.9,
        ...              baseline=TabularPolicy([[0.5, 0.5]]))
        >>> found.probability_of_harm < 0.01, 2.0 < found.mean < 2.6
        (True, True)
    """
    problem = Problem.of(problem, **given)
    problem.check_state()
    return assess_risk(PosteriorModel.of(problem), problem.align(policy).probabilities)


def assess_risk(model: PosteriorModel, table: Array) -> Risk:
    """Return the risk of a policy under a fitted model.

    Args:
        model: The posterior model.
        table: The policy, shape (S, A).
    """
    moments = GainMoments.of(model)
    gain = moments.gains(table[None])[0]
    return Risk(
        gain=gain,
        low_count=_share_of_low_counts(model.problem, table),
        states=StateRisks.of(*moments.by_state(table)),
        prior_range=_prior_range(model, table, gain),
    )


def _prior_range(model: PosteriorModel, table: Array, gain: Gain) -> PriorRange:
    """Return least and largest figures over the priors in use and the others."""
    found = [gain]
    if gain.deviation > 0.0:
        others = (model.with_settings(settings) for settings in OTHER_PRIORS)
        found += [GainMoments.of(other).gains(table[None])[0] for other in others]
    means = [one.mean for one in found]
    harm = [one.probability_of_harm for one in found]
    return PriorRange((min(means), max(means)), (min(harm), max(harm)))


def _share_of_low_counts(problem: Problem, table: Array) -> float:
    batch = ModelBatch.stack([problem.model])
    v, _, _ = evaluate_batch(batch, table[None].copy())
    visits = Visits.of(batch, table, v[0], problem.counts.n_sa, problem.model.terminal)
    return visits.low_count
