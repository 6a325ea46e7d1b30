"""HCPI's choice among candidates, its tests, and what the outcome guarantees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from spibb.algorithms.hcpi_candidates import Candidates
from spibb.certify import checks
from spibb.certify.case import Case
from spibb.certify.certificate import Condition, Guarantee
from spibb.certify.theorems import MADE_BY_BASELINE
from spibb.ope.confidence import Bound
from spibb.ope.estimators.base import MeanEstimator, WeightedEstimator
from spibb.ope.split import Split
from spibb.ope.weights import ImportanceWeights, effective_sample_size

if TYPE_CHECKING:
    from spibb.algorithms.hcpi import HCPI


@dataclass(frozen=True)
class Choice:
    """A candidate that was chosen on the training split.

    Attributes:
        number: Its number.
        predicted: The bound on its gain that the test is expected to give.
        bound: How its gain is to be bounded, at the level of HCPI over the number of tests.
    """

    number: int
    predicted: float
    bound: Bound


@dataclass(frozen=True)
class HeldOutTest:
    """The outcome of HCPI on one log.

    Attributes:
        settings: What was to be tested.
        choice: The candidate that was chosen.
        lower: Lower bound on its gain by the test; -inf where there is none.
        estimate: Its estimated gain.
        ess: Effective held-out episodes.
        n_train: Training episodes.
        n_test: Held-out episodes.
        n_truncated: Held-out episodes whose record stops before they end.
        missing: Share of a full value that lies beyond their record, for the candidate and for
            the baseline.
        refusal: Why it was refused; None where it was accepted.
        hidden_loss: What extreme rewards that the log happens not to hold could take from the gain;
            subtracted from the lower bound where that is approximate.
    """

    settings: HCPI
    choice: Choice
    lower: float
    estimate: float
    ess: float
    n_train: int
    n_test: int
    n_truncated: int
    missing: tuple[float, float]
    refusal: str | None
    hidden_loss: float = 0.0

    @property
    def is_accepted(self) -> bool:
        """Whether the candidate is returned."""
        return self.refusal is None

    def without(self, hidden_loss: float) -> HeldOutTest:
        """Return the outcome with a lower bound from which a loss is subtracted."""
        found = replace(self, lower=self.lower - hidden_loss, hidden_loss=hidden_loss)
        if not found.is_accepted or found.lower >= 0.0:
            return found
        reason = (
            f"rewards of the known range that the log happens not to hold could cost "
            f"{hidden_loss:.3g}, and the lower bound on its gain is below that"
        )
        return replace(found, refusal=reason)


def run_tests(
    settings: HCPI,
    candidates: Candidates,
    bounds: Sequence[Bound],
    rngs: Sequence[np.random.Generator],
) -> list[HeldOutTest]:
    """Choose and test, for each problem; of several that pass, the one of largest bound is taken.

    Args:
        settings: What is tested.
        candidates: The candidates of the problems.
        bounds: How gains are bounded.
        rngs: Sources of randomness, one for each problem.
    """
    turns, splits = [], candidates.splits
    choices = [_choose(settings, candidates, k, bound) for k, bound in enumerate(bounds)]
    for chosen in zip(*choices, strict=True):
        walks = candidates.held_out([choice.number for choice in chosen])
        tested = zip(splits, walks, chosen, rngs, strict=True)
        turns.append([_test(settings, *one) for one in tested])
    return [
        max(tests, key=lambda one: (one.is_accepted, one.lower))
        for tests in zip(*turns, strict=True)
    ]


def _estimator(bound: Bound) -> WeightedEstimator:
    assert isinstance(bound.estimator, WeightedEstimator)  # HCPI takes no others
    return bound.estimator


def _choose(settings: HCPI, candidates: Candidates, problem: int, bound: Bound) -> list[Choice]:
    """Choose candidates of the best predicted bounds, trying each fold as the others teach."""
    split, training = candidates.splits[problem], candidates.cross_fitted(problem)
    bound = replace(bound, low=float(training.gain.min()))
    n_test = len(split.test)
    predicted = bound.predicted(training, n_test)
    effective = effective_sample_size(_estimator(bound).weight(training))
    expected = effective[:-1] * (n_test / len(split.train))
    predicted = np.where(
        (expected >= settings.least_ess) & ~np.isnan(predicted), predicted, -np.inf
    )
    # Stable: of equal predictions the first candidate goes first.
    best = np.argsort(-predicted, kind="stable")[: settings.n_tested].tolist()
    return [Choice(c, float(predicted[c]), bound.fitted(training, c, n_test)) for c in best]


def _test(
    settings: HCPI, split: Split, found: ImportanceWeights, choice: Choice, rng: np.random.Generator
) -> HeldOutTest:
    """Test a chosen candidate by the walk along the held-out episodes."""
    bound, n_test = choice.bound, len(split.test)
    gain = _estimator(bound).gain(found, 0, bound.low)
    lower = bound.tested(gain, found, rng)
    effective = float(effective_sample_size(_estimator(bound).weight(found))[0])
    refusal = None if lower >= 0.0 else "the lower bound on its gain is below 0"
    if effective < settings.least_ess:
        refusal = f"the {n_test} held-out episodes count as {effective:.1f} for it"
    return HeldOutTest(
        settings=settings,
        choice=choice,
        lower=lower,
        estimate=gain.estimate,
        ess=effective,
        n_train=len(split.train),
        n_test=n_test,
        n_truncated=int(split.episodes.is_cut[split.test].sum()),
        missing=(float((found.weight[:, 0] * found.cut).mean()), float(found.cut.mean())),
        refusal=refusal,
    )


# Least and largest share of logs, in %, in which a test at 5 % passed although nothing was better,
# under noise that hides no rare events: docs/algorithms/hcpi.md, held to by
# tests/algorithms/test_hcpi.py.
MEASURED = {
    ("dr", "student-t"): (1.2, 3.8),
    ("dr", "bca"): (5.6, 7.4),
    ("pdis", "student-t"): (1.4, 2.6),
    ("pdis", "bca"): (5.0, 7.0),
    ("is", "student-t"): (1.2, 2.8),
    ("is", "bca"): (4.4, 7.0),
    ("wis", "bca"): (4.0, 30.2),
    ("cwpdis", "bca"): (5.0, 22.6),
}


def guarantee(case: Case, found: HeldOutTest) -> Guarantee:
    """State what the test guarantees of the policy that was returned."""
    bound, names, conditions = found.choice.bound, found.settings.names, _conditions(case, found)
    outcome = "passed the test"
    if not found.is_accepted:
        outcome = f"refused, since {found.refusal}: the baseline is returned"
    details = {
        "tested_lower_bound": found.lower,
        "estimated_gain": found.estimate,
        "predicted_lower_bound": found.choice.predicted,
        "n_train_episodes": float(found.n_train),
        "n_test_episodes": float(found.n_test),
        "effective_test_episodes": found.ess,
        "n_candidates": float(len(names)),
        "n_tests": float(found.settings.n_tested),
        "hidden_loss": found.hidden_loss,
    }
    gain, holds = found.lower if found.is_accepted else 0.0, all(c.is_satisfied for c in conditions)
    proviso = None
    if found.is_accepted and bound.known and not bound.known.is_known(bound.estimator):
        proviso = case.problem.values.proviso
    return Guarantee(
        theorem=f"Held-out test (HCPI, {bound.estimator.id} by {bound.id})",
        statement="A policy that was chosen without the held-out episodes gains at least its lower "
        "bound on them; the baseline, which is kept otherwise, loses nothing. "
        f"{names[found.choice.number]} was chosen among {len(names)} candidates and {outcome}.",
        conditions=conditions,
        assumptions=_assumptions(case, found),
        delta=case.delta,
        bound=gain if holds or not found.is_accepted else None,
        details=details,
        worst_loss=2.0 * case.problem.values.v_max,
        is_exact=(bound.is_exact and proviso is None) or not found.is_accepted,
        proviso=proviso,
    )


def _conditions(case: Case, found: HeldOutTest) -> tuple[Condition, ...]:
    baseline, bound, n_test = case.problem.baseline, found.choice.bound, float(found.n_test)
    policy, least = case.policy.policy.probabilities, found.settings.least_ess
    outside = np.where(baseline.probabilities == 0.0, policy, 0.0).sum(axis=1)
    episodes = "there are episodes that chose nothing, at least two"
    support = "the policy takes only actions that the baseline takes"
    always = (
        Condition("held-out-episodes", episodes, True, n_test >= 2, n_test, 2.0),
        checks.in_all(case, "support", support, outside > 0.0, float(outside.max())),
    )
    if not found.is_accepted:
        return always
    start = (
        "episodes begin as those of the log do: held-out ones say nothing of another first state, "
        "which was declared (initial)"
    )
    is_own = Condition("own-start", start, is_satisfied=case.problem.declared.initial is None)
    further = [is_own, checks.no_gaps(case)]
    if bound.is_exact:
        known = "the baseline's probabilities are known, not estimated from the log"
        further.append(Condition("propensities", known, is_satisfied=not baseline.is_estimated))
        further.append(checks.made_by_baseline(case))
    if not isinstance(bound.estimator, MeanEstimator):
        unbiased = (
            "the estimator is a mean of unbiased terms: weighted ones are not, and their tests "
            "pass far too often (docs/algorithms/hcpi.md)"
        )
        further.append(Condition("unbiased", unbiased, is_satisfied=False))
    if least > 0.0:
        enough, ess = "weights leave enough effective held-out episodes", found.ess
        further.append(Condition("effective-episodes", enough, True, ess >= least, ess, least))
    return (*always, *further)


def _assumptions(case: Case, found: HeldOutTest) -> tuple[str, ...]:
    if not found.is_accepted:
        return ()  # that the baseline is as good as itself rests on nothing
    bound = found.choice.bound
    texts = [MADE_BY_BASELINE]
    if case.baseline.policy.is_estimated:
        texts.append(
            "The baseline was estimated from the same log, and the estimate is taken to be the "
            "policy that made it."
        )
    texts += [
        "Episodes are independent of each other and alike in distribution.",
        "The log is tested once: to try other settings until one passes voids the level.",
    ]
    if not bound.is_exact:
        texts += _approximation(case, found)
    if bound.known is not None:
        texts.append(bound.known.statement(bound.estimator))
    if found.n_truncated and not bound.is_exact:
        texts.append(_truncation(case, found))
    return tuple(texts)


def _approximation(case: Case, found: HeldOutTest) -> list[str]:
    """Say how far an approximate bound can be relied upon."""
    bound = found.choice.bound
    shares = MEASURED.get((bound.estimator.id, bound.id))
    passed = "how often it passes was not measured"
    if shares is not None:
        passed = f"at a level of 5 %, it passed in {shares[0]:g} to {shares[1]:g} % of them"
    texts = [
        f"{bound.approximation} On simulated logs where nothing is better and nothing rare "
        f"happens, {passed}."
    ]
    if case.problem.values.is_observed:
        texts.append(
            "Nothing happens that the log does not show: rare losses or gains, unseen in it, void "
            "the level altogether. Give the range of rewards, or use the bound 'betting'."
        )
    elif found.hidden_loss > 0.0:
        texts.append(
            f"Rewards of the given range that the log happens not to hold may cost "
            f"{found.hidden_loss:.4g}, which is subtracted; rare events of other kinds, such as "
            "transitions to states the log lacks, are not foreseen."
        )
    return texts


def _truncation(case: Case, found: HeldOutTest) -> str:
    values = case.problem.values
    if values.gamma >= 1.0:
        least, most = -math.inf, math.inf
    else:
        low, high = (end / (1.0 - values.gamma) for end in values.ends)
        mine, theirs = found.missing
        least, most = mine * low - theirs * high, mine * high - theirs * low
    return (
        f"Performance is the return as far as it is recorded: {found.n_truncated} of "
        f"{found.n_test} held-out episodes are truncated, and beyond their record the gain may "
        f"change by {least:.4g} to {most:+.4g}, as their weights estimate it."
    )
