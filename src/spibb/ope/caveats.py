"""What to know before trusting an off-policy estimate, in words and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from spibb.data.baseline_fit import FIT_LEVEL
from spibb.mdp.evaluation import evaluate_batch
from spibb.ope.bounds import Ends
from spibb.ope.fitted import fit_models
from spibb.ope.rare_events import hidden_loss
from spibb.ope.rare_rewards import RareTerms
from spibb.ope.statistics import Array, Statistic
from spibb.ope.weights import effective_sample_size, largest_share
from spibb.problem import Problem
from spibb.problem.origin import TOLD, Origin
from spibb.problem.ranges import ValueRange

if TYPE_CHECKING:
    from spibb.ope.confidence import Bound
    from spibb.ope.off_policy import OffPolicy

# Below so many effective episodes, a sample need not hold the rare heavy ones at all: see
# docs/evaluation.md for what that does to approximate bounds.
LEAST_ESS = 30.0
LARGEST_SHARE = 0.1
# A mean weight outside of this says that the sample is not one of the baseline's usual ones.
_USUAL_MEAN = (0.5, 2.0)
# On benign processes, logs of 60 to 200 episodes miss too often (docs/adversarial.md), 250 do not.
# Of normal terms, whose kurtosis is 3, the squares of 250 count as so many equal ones.
_FEWEST_SQUARES = 250 / 3
# Rewards that count as fewer equal ones than this are too few to be resampled.
_TELLING = 50.0
# What the baseline does so seldom, and which share of the policy's decisions may be of that kind.
_RARE, _RARE_SHARE = 0.05, 0.01

CONTRADICTION = (
    "The two ends contradict each other, which is rare where the baseline made the log and its "
    "episodes are independent: check both. Nothing is said beyond the range of returns."
)


def estimate_warnings(
    statistic: Statistic, weight: Array | None, interval: Ends
) -> tuple[str, ...]:
    """Return the warnings that concern one estimate."""
    found = [*([] if weight is None else weight_warnings(weight)), *statistic.warnings]
    if math.isnan(statistic.estimate):
        found.append("There is no estimate: no episode has any weight.")
    elif not math.isfinite(interval[0]) and not math.isfinite(interval[1]):
        found.append("There is no interval: the episodes do not vary enough to judge their spread.")
    return tuple(found)


def weight_warnings(weight: Array) -> list[str]:
    """Say where weights degenerate: few episodes carry all of them."""
    n, ess, share = len(weight), float(effective_sample_size(weight)), largest_share(weight)
    if ess >= n / 2:
        return []
    found = []
    if ess < LEAST_ESS:
        found.append(
            f"The weights degenerate: {n} episodes count as {ess:.1f}. The policy does too seldom "
            "what was logged; a policy closer to the baseline, or a longer log, is needed."
        )
    if share > LARGEST_SHARE:
        found.append(f"One episode has {100 * share:.0f} % of all weight.")
    if not _USUAL_MEAN[0] <= weight.mean() <= _USUAL_MEAN[1]:
        found.append(
            f"The mean weight is {weight.mean():.2g}, and 1 is expected: the log lacks episodes "
            "that are common under the policy, or the baseline did not make it."
        )
    return found


def origin_warnings(origin: Origin, *, is_shown: bool) -> tuple[str, ...]:
    """Say where a log judges the policy that was made of it.

    Args:
        origin: Whether it does.
        is_shown: Whether intervals were asked for all the same.
    """
    if origin != "same":
        return ()
    flattered = "whatever was chosen with its help looks better on it than it is"
    withheld = (
        "the intervals do not allow for it"
        if is_shown
        else "intervals are withheld, as their levels do not hold (--same-log gives them). Judge "
        "it by episodes that it was not made of, or by the regret test (spibb audit), which holds "
        "for every policy at once"
    )
    return (f"{TOLD['same']} {flattered.capitalize()}: {withheld}.",)


def spread_warnings(terms: Array) -> tuple[str, ...]:
    """Say that the spread of an approximate interval rests on too few of its terms.

    With d the terms less their mean, sum d^2 estimates the variance as well as (sum d^2)^2 / sum
    d^4 equal squares would: n over the kurtosis. docs/evaluation.md derives the rule.
    """
    squares = (terms - terms.mean()) ** 2
    if len(terms) >= _FEWEST_SQUARES and not squares.any():
        return ()
    found = float(effective_sample_size(squares))
    if found >= _FEWEST_SQUARES:
        return ()
    return (
        f"The width of the interval rests on few episodes: the squares of its {len(terms)} terms "
        f"count as {found:.0f} equal ones. Approximate intervals then miss the truth up to several "
        "times as often as they say (docs/evaluation.md).",
    )


def log_warnings(off: OffPolicy, problem: Problem) -> tuple[str, ...]:
    """Return the warnings that concern every estimate."""
    episodes, n_gaps, found = off.episodes, problem.counts.n_gaps, []
    if problem.declared.initial is not None:
        found.append(
            "Estimates are of episodes that begin as those of the log do: the first state that was "
            "declared (initial) is not used."
        )
    visited = np.flatnonzero(np.bincount(episodes.state))
    outside = visited[off.unsupported[visited] > 0.0]
    # An estimate beside recorded propensities knows only what happened, not what might have.
    is_table_known = episodes.logged is None or not (problem.baseline.is_estimated or off.is_mixed)
    if len(outside) and is_table_known:
        found.append(
            f"In {len(outside)} visited states the policy takes actions that the baseline never "
            f"takes (first: {problem.counts.states[int(outside[0])]}, with probability "
            f"{off.unsupported[outside[0]]:.3g}): no weight accounts for them, and weighted "
            "estimates are off by what those actions earn."
        )
    if n_gaps:
        found.append(
            f"In {n_gaps} places steps of an episode are missing, and so are their factors in "
            "the weights: no interval is to be relied upon."
        )
    if episodes.n_after_end:
        found.append(
            f"{episodes.n_after_end} rows follow the end of their episode and are left out."
        )
    return tuple(found)


def fit_warnings(off: OffPolicy, problem: Problem) -> tuple[str, ...]:
    """Say that the log contradicts its baseline, however little they differ."""
    if off.is_mixed:
        return _mixed_fit_warnings(problem)
    fit = problem.fit if off.episodes.logged is None else None
    if fit is None or fit.p_value >= FIT_LEVEL:
        return ()
    return (
        f"The actions of the log contradict that the baseline made it (p = {fit.p_value:.1g}, "
        f"first look at {problem.worst_fit(fit)}): weights rest on that, and no interval is exact. "
        "Give the policy that made the log, or record the probability of each action (propensity).",
    )


def _mixed_fit_warnings(problem: Problem) -> tuple[str, ...]:
    """Say that the log contradicts baselines of a mixture; each has its part of the level."""
    fits = problem.logger_fits
    return tuple(
        f"The actions of {name!r} contradict that its baseline made them (p = {fit.p_value:.1g}, "
        f"first look at {problem.worst_fit(fit)}): weights rest on "
        "that, and no interval is exact. Give the policy that made these episodes."
        for name, fit in fits.items()
        if fit.p_value < FIT_LEVEL / len(fits)
    )


def support_warnings(given: float | None, largest: float) -> tuple[str, ...]:
    """Say that a largest weight that was given is not used."""
    if given is None or math.isfinite(largest):
        return ()
    return (
        "largest_weight is not used: the policy takes actions that the baseline never takes, which "
        "have no weight.",
    )


def range_warnings(chosen: Sequence[Bound]) -> tuple[str, ...]:
    """Say where exact bounds rest on a range that was read off the log."""
    known, estimators = chosen[0].known, [bound.estimator for bound in chosen]
    if not chosen[0].is_exact or known is None or known.is_known(*estimators):
        return ()
    or_returns = ", --return-range" if all(one.is_of_returns for one in estimators) else ""
    return (
        f"The bound is exact only {known.rewards.proviso}: a rare reward outside of it voids the "
        f"level. Give the range that is possible (--reward-range{or_returns}).",
    )


def rare_warnings(rare: RareTerms | None, chosen: Sequence[Bound]) -> tuple[str, ...]:
    """Say where rare rewards make intervals by resampling too narrow, and whose are not."""
    others = [one.estimator.id for one in chosen if not one.estimator.has_safe_tails]
    if rare is None or rare.n_telling >= _TELLING or not others:
        return ()
    return (
        f"Rewards are rare: those of the log count as {rare.n_telling:.0f} equal ones, and ends of "
        f"{', '.join(others)} by resampling miss the truth several times as often as they say "
        "(docs/evaluation.md). Those of is and pdis allow for it.",
    )


def sample_warnings(off: OffPolicy, problem: Problem, delta: float) -> tuple[str, ...]:
    """Say where a log looks like those on which approximate intervals fail."""
    found = []
    share = _rare_share(off)
    if share > _RARE_SHARE:
        found.append(
            f"{100 * share:.1f} % of the policy's decisions are actions that the baseline takes in "
            f"less than {100 * _RARE:g} % of the cases: approximate intervals are too narrow where "
            "the baseline is nearly deterministic (docs/evaluation.md)."
        )
    paid, hidden = off.episodes.reward, _hidden(off, problem, delta)
    return (*found, *hidden_warnings(paid, off.plain.gain, problem.values, hidden))


def _rare_share(off: OffPolicy) -> float:
    """Return which share of the policy's decisions the baseline hardly ever makes."""
    if off.is_by_row:
        # In expectation a row's ratio is worth what the policy does beside what was logged.
        ratio = off.wanted / off.logged
        return float(np.where((off.logged < _RARE) & (ratio > 2.0), ratio, 0.0).mean())
    policy, baseline = off.table, off.baseline
    is_rare = (baseline > 0.0) & (baseline < _RARE) & (policy > 2.0 * baseline)
    return float(np.where(is_rare, policy, 0.0).sum(axis=1)[off.episodes.state].mean())


def hidden_warnings(paid: Array, gain: Array, rewards: ValueRange, loss: float) -> tuple[str, ...]:
    """Say where extremes that a log happens not to hold could matter more than its spread."""
    if loss <= float(gain.std(ddof=1)) / math.sqrt(len(gain)):
        return ()
    return (
        f"Rewards may lie in [{rewards.low:g}, {rewards.high:g}], and those of the log reach from "
        f"{paid.min():g} to {paid.max():g}: extremes that it happens not to hold could be worth "
        f"{loss:.3g}, and approximate intervals know nothing of them.",
    )


def _hidden(off: OffPolicy, problem: Problem, delta: float) -> float:
    if problem.values.is_observed:
        return 0.0
    episodes, rewards = off.episodes, problem.values
    if off.policy is None:
        # What n episodes may hide is met with probability log(1 / delta) / n, under the policy as
        # many times as often as the largest weight says.
        gap = max(episodes.reward.min() - rewards.low, rewards.high - episodes.reward.max())
        most = float(off.plain.weight.max()) * -math.log(delta) / len(episodes)
        return float(gap) * min(1.0, most)
    models = fit_models([(episodes, episodes.everything)], off.gamma, unseen=off.unseen).models
    _, _, ends = evaluate_batch(models, off.policy[None].copy())
    return hidden_loss(problem, models, 0, off.policy, delta) if ends[0] else 0.0


def beyond_the_record(off: OffPolicy, rewards: ValueRange) -> tuple[float, float]:
    """Return the least and the most that may be earned after truncated records stop.

    An estimate, no bound: the mean of w_T gamma^h over episodes cut off after h steps estimates how
    much of a full value lies beyond the record under the policy; values reach from min(0, low) to
    max(0, high), over 1 - gamma.
    """
    if not off.episodes.is_cut.any():
        return 0.0, 0.0
    if off.gamma >= 1.0:
        return -math.inf if rewards.low < 0 else 0.0, math.inf if rewards.high > 0 else 0.0
    share = float((off.plain.weight[:, 0] * off.plain.cut).mean()) / (1.0 - off.gamma)
    return share * min(0.0, rewards.low), share * max(0.0, rewards.high)


def _who_acted(off: OffPolicy, problem: Problem) -> str:
    if off.is_mixed:
        return (
            "Each policy that made the log did so by its baseline, and the state that the log "
            "records is all that decides its action."
        )
    if off.episodes.logged is not None:
        return (
            "The logged actions were taken with the probabilities that the log records "
            "(propensity), whatever else the policy that acted looked at."
        )
    if problem.baseline.is_estimated:
        return (
            "The baseline was estimated from this log: weights rest on estimated probabilities, "
            "and the intervals do not show the error of that."
        )
    return (
        "The log was made by the baseline, and the state it records is all that decides the action."
    )


def assumptions(
    chosen: Sequence[Bound],
    off: OffPolicy,
    problem: Problem,
    origin: Origin,
    rare: RareTerms | None = None,
) -> tuple[str, ...]:
    """Return what the estimates rest on and the log cannot show."""
    bound, missing = chosen[0], beyond_the_record(off, problem.values)
    found = [
        _who_acted(off, problem),
        "Episodes are independent of each other and alike in distribution.",
    ]
    if problem.loggers is not None:
        found.append(problem.loggers.mixed if off.is_mixed else problem.loggers.used)
    if bound.is_exact and bound.largest < math.inf and off.is_by_row:
        found.append(f"No episode can have a weight above {bound.largest:g}, as given.")
    is_used = bound.largest < math.inf and (bound.is_exact or rare is not None)
    if is_used and off.is_by_row and off.policy is not None:
        found.append(
            "Whatever the policy to be evaluated may do was possible to the behaviour policy. The "
            "logged actions alone cannot show that (a mean weight far below 1 would deny it)."
        )
    if off.policy is None:
        found.append(
            "target_probability is what the policy to be evaluated gives the logged action, by "
            "what it looks at. Whatever it may do was possible to the behaviour policy. The logged "
            "actions alone cannot show that (a mean weight far below 1 would deny it)."
        )
    if origin != "same":
        found.append(
            "The policy was not learnt from these episodes: one that was looks better on them than "
            f"it is (HCPI keeps episodes apart for that reason). {TOLD[origin]}"
        )
    if not bound.is_exact:
        found.append(bound.approximation)
        if rare is not None and any(one.estimator.has_safe_tails for one in chosen):
            found.append(
                "Rewards are rare: ends of is and pdis are those of the gamma interval for "
                f"weighted counts: no weight can exceed {bound.largest:.3g}"
                f"{', the largest of the log' if math.isinf(off.largest_weight) else ''}"
                f"{'' if problem.values.proviso is None else ', ' + problem.values.proviso}."
            )
    elif bound.known is not None:
        found.append(bound.known.statement(*(one.estimator for one in chosen)))
    n_cut, n = int(off.episodes.is_cut.sum()), len(off.episodes)
    if n_cut and bound.is_exact:
        found.append(
            f"{n_cut} of {n} episodes are truncated: estimates are of the return up to "
            "there, intervals of the whole return all the same."
        )
    elif n_cut:
        found.append(
            f"{n_cut} of {n} episodes are truncated: weighted estimates are of the "
            "return up to there. What lies beyond may add as much as from "
            f"{missing[0] + 0.0:.4g} to {missing[1]:.4g} by an estimate, the mean weight of the "
            "episodes that were cut, which is far too small where the policy is cut more often."
        )
    return tuple(found)
