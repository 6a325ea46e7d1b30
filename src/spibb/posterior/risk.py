"""What a posterior says of a policy: what it would gain, and how likely it is to do harm.

Bayesian: probabilities of models given the log *and the priors*, of which there are two; that under
which harm is likelier comes first. No confidence statement, and no certificate: the priors may be
wrong, and a policy that was made of the same log looks better in its posterior than it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.display import Card, Display
from spibb.errors import checked_whole
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.policy import TabularPolicy
from spibb.ope.support import HARDLY, Visits
from spibb.posterior.halves import Halves, HeldOut
from spibb.posterior.posterior import Posterior
from spibb.posterior.states import StateRisks, n_parts
from spibb.problem import Problem

Array = NDArray[np.float64]

# The share of draws that are called the worst.
_WORST = 0.1
# Pairs of all draws together, and how few and how many draws there are for it.
_PAIRS_DRAWN, _LIMITS = 2_000_000, (100, 400)
_N_WORLDS = 100


def _n_worst(n_draws: int) -> int:
    return max(1, round(_WORST * n_draws))


@dataclass(frozen=True)
class Gain:
    """Gain of a policy over the baseline under one prior, in draws or by mean and deviation.

    Attributes:
        mean: Its mean.
        deviation: Its standard deviation.
        interval_80: Where it lies with a probability of 80 %.
        interval_95: Where it lies with a probability of 95 %.
        harm: Probability that the policy is worse than the baseline.
        worst_tenth: Mean over the worst tenth of the draws.
        n_draws: Number of draws; 0: it is a normal distribution.
    """

    mean: float
    deviation: float
    interval_80: tuple[float, float]
    interval_95: tuple[float, float]
    harm: float
    worst_tenth: float
    n_draws: int

    @classmethod
    def of(cls, drawn: Array) -> Gain:
        """Summarise draws of the gain."""
        return cls.of_all(drawn[None])[0]

    @classmethod
    def of_all(cls, drawn: Array) -> list[Gain]:
        """Summarise draws of the gains of C policies, shape (C, K)."""
        n_draws = drawn.shape[1]
        quantiles = np.quantile(drawn, [0.025, 0.1, 0.9, 0.975], axis=1)
        worst = np.sort(drawn, axis=1)[:, : _n_worst(n_draws)].mean(axis=1)
        facts = drawn.mean(axis=1), drawn.std(axis=1), (drawn < 0.0).mean(axis=1), worst, *quantiles
        return [
            cls(mean, deviation, (least, most), (low, high), harm, tenth, n_draws)
            for mean, deviation, harm, tenth, low, least, most, high in np.transpose(facts).tolist()
        ]

    @classmethod
    def normal(cls, mean: float, deviation: float) -> Gain:
        """Return a gain of which mean and deviation are known."""
        if deviation == 0.0:
            return cls(mean, 0.0, (mean, mean), (mean, mean), float(mean < 0.0), mean, 0)
        about, unit = NormalDist(mean, deviation), NormalDist()
        low, least, most, high = map(about.inv_cdf, (0.025, 0.1, 0.9, 0.975))
        # The mean below a quantile z of probability p is mu - sigma phi(z) / p.
        worst = mean - deviation * unit.pdf(unit.inv_cdf(_WORST)) / _WORST
        return cls(mean, deviation, (least, most), (low, high), about.cdf(0.0), worst, 0)

    @property
    def mean_error(self) -> float:
        """Standard error of the mean, of the number of draws alone."""
        return self.deviation / math.sqrt(self.n_draws) if self.n_draws else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Risk(Display):
    """How risky a policy is, given its log and two priors.

    Attributes:
        gains: Its gain over the baseline by prior, that under which harm is likelier first.
        hardly: Share of its visits on pairs seen fewer than five times.
        strength: Rows that the prior of a pair is worth.
        by_state: What each state adds to the gain in the worst tenth of the draws of `states`,
            before these are widened: the most negative carry the risk; shape (S,).
        worlds: The gain under that prior in a hundred equally likely worlds, from bad to good.
        cross_fitted: What each half of the log expects of the policy that the other half makes, on
            average: less than the whole log would gain, and not flattered by it. None: not known.
        held_out: What the episodes of each half say of that, without models.
        states: What each state adds to the gain under the first prior: in the first draws, fewer
            than all where there are many states.
    """

    gains: dict[str, Gain]
    hardly: float
    strength: float
    by_state: Array
    worlds: tuple[float, ...]
    cross_fitted: float | None = None
    held_out: HeldOut | None = None
    states: StateRisks | None = None

    def with_halves(self, halves: Halves | None) -> Risk:
        """Return the same with what halves of the log say."""
        if halves is None:
            return self
        return replace(self, cross_fitted=halves.expected, held_out=halves.held_out)

    @property
    def gain(self) -> Gain:
        """The gain under the prior that is harsher on the policy."""
        return next(iter(self.gains.values()))

    @property
    def least_mean(self) -> float:
        """The expected gain under the prior that expects less."""
        return min(gain.mean for gain in self.gains.values())

    @property
    def statement(self) -> str:
        """What is to be expected, in words."""
        gain = self.gain
        low, high = gain.interval_95
        return (
            f"Expected gain {gain.mean:.4g}, from {low:.4g} to {high:.4g} at 95 %; probability of "
            f"harm {told_share(gain.harm, gain.n_draws)}; {gain.worst_tenth:.4g} in the worst tenth"
        )

    def _card(self) -> Card:
        facts = {}
        for name, gain in self.gains.items():
            low, high = gain.interval_95
            facts[name] = (
                f"gain {gain.mean:.4g} +- {gain.mean_error:.1g}, 95 % [{low:.4g}, {high:.4g}], "
                f"harm {told_share(gain.harm, gain.n_draws)}, worst tenth {gain.worst_tenth:.4g}"
            )
        if self.cross_fitted is not None:
            facts["cross-fitted"] = f"gain {self.cross_fitted:.4g}, by halves of the log"
        if self.held_out is not None:
            facts["held out"] = told_held_out(self.held_out)
        facts["hardly seen"] = (
            f"{100 * self.hardly:.0f} % of its visits are to pairs seen fewer than {HARDLY} times"
        )
        n_draws = self.gain.n_draws
        return Card(f"Risk given the log and two priors, {n_draws:,} models drawn of each", facts)


def told_share(share: float, n_draws: int) -> str:
    """Return a probability of harm in words, with its error by the number of draws, if any."""
    if not n_draws:
        return "< 0.1 %" if share < 1e-3 else "> 99 %" if share > 0.99 else f"{100 * share:.2g} %"
    if share == 0.0:
        return f"none in {n_draws:,} draws"
    if share == 1.0:
        return f"certain in {n_draws:,} draws"
    return f"{100.0 * share:.2g} +- {100.0 * math.sqrt(share * (1.0 - share) / n_draws):.1g} %"


def told_held_out(found: HeldOut) -> str:
    """Return what episodes say of each other's policies, in words."""
    low, high = found.interval_95
    return (
        f"gain {found.gain:.4g}, from {low:.4g} to {high:.4g} at 95 % by the episodes of either "
        f"half themselves, about {found.ess:.0f} of which count"
    )


def told_halves(cross_fitted: float) -> str:
    """Return what halves of a log say, in words."""
    return (
        f"Made of one half of the episodes and judged by the other, it gains {cross_fitted:.4g}: "
        "half a log makes less of a policy, but does not flatter it."
    )


def risk(
    problem: Any,
    policy: TabularPolicy,
    *,
    n_draws: int | None = None,
    seed: int = 0,
    **given: Any,
) -> Risk:
    """Say what a policy would gain, and how likely it is to do harm, given a log and two priors.

    Args:
        problem: A problem, or the log that the baseline made.
        policy: The policy.
        n_draws: Models drawn under each prior; None: 400, or fewer where models are large.
        seed: Source of randomness.
        **given: Baseline, discount and what else is known, where a log was given; see
            :meth:`spibb.Problem.of`.

    Example:
        >>> from spibb import Log
        >>> log = Log.from_arrays(state=[0] * 40, action=[0] * 20 + [1] * 20,
        ...                       reward=[0.0, 1.0] * 10 + [5.0, 6.0] * 10, episode=range(40),
        ...                       terminated=[True] * 40)
        >>> found = risk(log, TabularPolicy([[0.0, 1.0]]), gamma=0.9,
        ...              baseline=TabularPolicy([[0.5, 0.5]]))
        >>> found.gain.harm, 2.0 < found.gain.mean < 2.6
        (0.0, True)
    """
    problem = Problem.of(problem, **given)
    problem.check_state()
    if n_draws is None:
        n_draws = int(np.clip(_PAIRS_DRAWN // problem.counts.n_sa.size, *_LIMITS))
    checked_whole(n_draws, "n_draws", least=2)
    posterior, table = Posterior(problem), problem.align(policy).probabilities
    n_kept = min(n_parts(problem.counts.n_states), n_draws)
    drawn, parts = posterior.gains_and_parts(table[None], n_draws, n_kept, seed)
    gains = {name: Gain.of(values[0]) for name, values in drawn.items()}
    order = harsher_first(gains)
    added = parts[order[0]]
    worst = np.argsort(drawn[order[0]][0][:n_kept], kind="stable")[: _n_worst(n_kept)]
    return Risk(
        by_state=added[np.sort(worst)].mean(axis=0),
        states=StateRisks.of(added),
        worlds=_worlds(drawn[order[0]][0]),
        gains={name: gains[name] for name in order},
        hardly=_hardly(problem, table),
        strength=float(np.median(problem.prior.strength)),
    )


def harsher_first(gains: dict[str, Gain]) -> list[str]:
    """Return priors, that under which harm is likelier before the other.

    Hazards are careful with what a policy does more often than the baseline; where it only gives
    up an action, they are on its side, and the neutral prior is the harsher one.
    """
    return sorted(gains, key=lambda name: (-gains[name].harm, gains[name].worst_tenth))


def _worlds(drawn: Array) -> tuple[float, ...]:
    """Return draws at equal steps of probability, so that as many are harmful as are of all."""
    places = (np.arange(_N_WORLDS) + 0.5) * len(drawn) / _N_WORLDS
    return tuple(np.sort(drawn)[places.astype(np.int64)].tolist())


def _hardly(problem: Problem, table: Array) -> float:
    batch = ModelBatch.stack([problem.model])
    v, _, _ = evaluate_batch(batch, table[None].copy())
    visits = Visits.of(batch, table, v[0], problem.counts.n_sa, problem.model.terminal)
    return visits.hardly
