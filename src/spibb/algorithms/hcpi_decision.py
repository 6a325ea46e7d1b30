"""HCPI's choice among candidates, its tests, and what the outcome guarantees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.hcpi_candidates import Learnt
from spibb.certify import checks
from spibb.certify.case import Case
from spibb.certify.certificate import Condition, Guarantee
from spibb.compiled.threads import over_chunks
from spibb.ope.bounds import EXACT
from spibb.ope.estimators import MEANS
from spibb.ope.gain import GainBound, Split, Tried, effective_episodes, join_walks
from spibb.ope.normalised import ReturnRange
from spibb.ope.notes import APPROXIMATE
from spibb.ope.trajectories import Trajectories
from spibb.ope.weights import Tables, running_weights, walk


@dataclass(frozen=True)
class HeldOut:
    """The outcome of HCPI on one log.

    Attributes:
        choice: Number of the candidate that was chosen.
        candidate: Its name.
        n_candidates: How many there were.
        predicted: Bound on its gain that was predicted on the training split.
        lower: Lower bound on its gain by the test; -inf where there is none.
        estimate: Its estimated gain.
        ess: Effective held-out episodes.
        min_ess: How many are asked for.
        n_train: Training episodes.
        n_test: Held-out episodes.
        n_truncated: Held-out episodes whose record stops before they end.
        missing: Share of a full value that lies beyond their record, for the candidate and for
            the baseline.
        bound: Which bound was used.
        estimator: Which estimator.
        reach: Range of returns of an exact bound.
        delta: Level of the test: that of HCPI, divided by the number of tests.
        n_tests: How many candidates were tested.
        hidden_loss: What extreme rewards that the log happens not to hold could take from the gain;
            subtracted from the lower bound where that is approximate.
        refusal: Why it was refused; None where it was accepted.
    """

    choice: int
    candidate: str
    n_candidates: int
    predicted: float
    lower: float
    estimate: float
    ess: float
    min_ess: float
    n_train: int
    n_test: int
    n_truncated: int
    missing: tuple[float, float]
    bound: str
    estimator: str
    reach: ReturnRange | None
    delta: float
    n_tests: int
    hidden_loss: float
    refusal: str | None

    @property
    def is_exact(self) -> bool:
        """Whether the bound holds for every process of its range, at any number of episodes."""
        return self.bound in EXACT

    @property
    def is_accepted(self) -> bool:
        """Whether the candidate is returned."""
        return self.refusal is None

    @property
    def outcome(self) -> str:
        """What happened, in a sentence."""
        chosen = f"{self.candidate} was chosen among {self.n_candidates} candidates and "
        if self.is_accepted:
            return chosen + "passed the test."
        return chosen + f"refused, since {self.refusal}: the baseline is returned."

    def refused(self, reason: str) -> HeldOut:
        """Return the same outcome, refused."""
        return replace(self, refusal=reason)

    def without(self, hidden_loss: float) -> HeldOut:
        """Return the outcome with a lower bound from which a loss is subtracted."""
        found = replace(self, lower=self.lower - hidden_loss, hidden_loss=hidden_loss)
        if found.is_accepted and found.lower < 0.0:
            return found.refused(
                f"rewards of the known range that the log happens not to hold could cost "
                f"{hidden_loss:.3g}, and the lower bound on its gain is below that"
            )
        return found


@dataclass(frozen=True)
class Choice:
    """What was chosen on the training split.

    Attributes:
        number: Number of the candidate.
        predicted: The bound on its gain that the test is expected to give.
        rule: How its gain is to be bounded.
    """

    number: int
    predicted: float
    rule: GainBound


def run_tests(
    splits: Sequence[Split],
    learnt: Learnt,
    names: Sequence[str],
    rules: Sequence[GainBound],
    min_ess: float,
    n_tests: int,
    rngs: Sequence[np.random.Generator],
) -> list[HeldOut]:
    """Choose and test, for each problem; of several that pass, the one of largest bound is taken.

    Args:
        splits: Their episodes.
        learnt: Their candidates.
        names: How candidates are called.
        rules: How gains are bounded.
        min_ess: Effective held-out episodes that a candidate needs.
        n_tests: How many candidates are tested.
        rngs: Sources of randomness, one for each problem.
    """
    choices: dict[int, list[Choice]] = {}
    found: dict[tuple[int, int], HeldOut] = {}
    n_tests = min(n_tests, len(names))

    def choose(places: NDArray[np.int64]) -> None:
        for k in places.tolist():
            choices[k] = _choose(splits[k], learnt, k, rules[k], min_ess, n_tests)

    over_chunks(choose, np.arange(len(splits)))
    for turn in range(n_tests):
        tables = learnt.chosen([choices[k][turn].number for k in range(len(splits))])

        def test(places: NDArray[np.int64], turn: int = turn, tables: Tables = tables) -> None:
            for k in places.tolist():
                found[k, turn] = _test(
                    splits[k], tables[k], choices[k][turn], names, min_ess, n_tests, rngs[k]
                )

        over_chunks(test, np.arange(len(splits)))
    return [
        max(
            (found[k, turn] for turn in range(n_tests)),
            key=lambda one: (one.is_accepted, one.lower),
        )
        for k in range(len(splits))
    ]


def _choose(
    split: Split, learnt: Learnt, problem: int, rule: GainBound, min_ess: float, n_tests: int
) -> list[Choice]:
    """Choose candidates of the best predicted bounds, trying each fold as the others teach."""
    training = cross_fitted(split, learnt, problem, rule)
    rule = replace(rule, low=float(training.found.gain.min()))
    n_test = len(split.test)
    predicted = rule.predicted(training, n_test)
    ess = effective_episodes(rule.estimator, training.found)[:-1]
    expected = ess * (n_test / len(split.train))
    predicted = np.where((expected >= min_ess) & ~np.isnan(predicted), predicted, -np.inf)
    # Stable: of equal predictions the first candidate goes first.
    best = np.argsort(-predicted, kind="stable")[:n_tests].tolist()
    return [Choice(c, float(predicted[c]), rule.with_fraction(training, c, n_test)) for c in best]


def cross_fitted(split: Split, learnt: Learnt, problem: int, rule: GainBound) -> Tried:
    """Try the candidates on the training episodes, each fold with what the others teach."""
    parts = [
        _tried(split.episodes, fold, learnt.fold(problem, k), rule)
        for k, fold in enumerate(split.folds)
    ]
    running = [part.running for part in parts if part.running is not None]
    is_taken = bool(running)
    return Tried(
        split.episodes.take(split.train) if is_taken else split.episodes,
        np.arange(len(split.train)) if is_taken else split.train,
        join_walks([part.found for part in parts]),
        np.concatenate(running) if is_taken else None,
    )


def _test(
    split: Split,
    tables: Tables,
    choice: Choice,
    names: Sequence[str],
    min_ess: float,
    n_tests: int,
    rng: np.random.Generator,
) -> HeldOut:
    """Test a chosen candidate on the held-out episodes."""
    rule = choice.rule
    tried = _tried(split.episodes, split.test, tables, rule)
    lower, estimate = rule.tested(tried, rng)
    effective = float(effective_episodes(rule.estimator, tried.found)[0])
    refusal = None if lower >= 0.0 else "the lower bound on its gain is below 0"
    if effective < min_ess:
        refusal = f"the {len(split.test)} held-out episodes count as {effective:.1f} for it"
    beyond = split.episodes.cut(rule.gamma)[split.test]
    return HeldOut(
        choice=choice.number,
        candidate=names[choice.number],
        n_candidates=len(names),
        predicted=choice.predicted,
        lower=lower,
        estimate=estimate,
        ess=effective,
        min_ess=min_ess,
        n_train=len(split.train),
        n_test=len(split.test),
        n_truncated=int(split.episodes.is_cut[split.test].sum()),
        missing=(float((tried.found.weight[:, 0] * beyond).mean()), float(beyond.mean())),
        bound=rule.bound,
        estimator=rule.estimator,
        reach=rule.reach,
        delta=rule.delta,
        n_tests=n_tests,
        hidden_loss=0.0,
        refusal=refusal,
    )


def _tried(
    episodes: Trajectories, chosen: NDArray[np.int64], tables: Tables, rule: GainBound
) -> Tried:
    """Walk along episodes with some candidates and the baseline."""
    found = walk(episodes, chosen, tables, rule.gamma)
    if rule.estimator != "cwpdis":
        return Tried(episodes, chosen, found)
    some = episodes.take(chosen)
    ratio = tables.ratio
    running = [running_weights(some, ratio[..., c]) for c in range(ratio.shape[-1] - 1)]
    return Tried(some, np.arange(len(chosen)), found, np.stack(running, axis=1))


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


def guarantee(case: Case, found: HeldOut) -> Guarantee:
    """State what the test guarantees of the policy that was returned."""
    details = {
        "tested_lower_bound": found.lower,
        "estimated_gain": found.estimate,
        "predicted_lower_bound": found.predicted,
        "n_train_episodes": float(found.n_train),
        "n_test_episodes": float(found.n_test),
        "effective_test_episodes": found.ess,
        "n_candidates": float(found.n_candidates),
        "n_tests": float(found.n_tests),
        "hidden_loss": found.hidden_loss,
    }
    proviso = None
    if found.is_accepted and found.reach is not None and not found.reach.is_known(found.estimator):
        proviso = case.problem.values.proviso
    return Guarantee(
        theorem=f"Held-out test (HCPI, {found.estimator} by {found.bound})",
        statement="A policy that was chosen without the held-out episodes gains at least its lower "
        f"bound on them; the baseline, which is kept otherwise, loses nothing. {found.outcome}",
        conditions=_conditions(case, found),
        assumptions=_assumptions(case, found),
        delta=case.delta,
        bound=_bound(case, found),
        details=details,
        worst_loss=2.0 * case.problem.values.v_max,
        is_exact=(found.is_exact and proviso is None) or not found.is_accepted,
        proviso=proviso,
    )


def _bound(case: Case, found: HeldOut) -> float | None:
    if not found.is_accepted:
        return 0.0
    holds = all(condition.is_satisfied for condition in _conditions(case, found))
    return found.lower if holds else None


def _conditions(case: Case, found: HeldOut) -> tuple[Condition, ...]:
    baseline = case.baseline.policy.probabilities
    outside = np.where(baseline == 0.0, case.policy.policy.probabilities, 0.0).sum(axis=1)
    asked: list[Condition] = [
        Condition(
            name="held-out-episodes",
            statement="there are episodes that chose nothing, at least two",
            is_satisfied=found.n_test >= 2,
            value=float(found.n_test),
            limit=2.0,
        ),
        Condition(
            name="support",
            statement="the policy takes only actions that the baseline takes",
            is_satisfied=not (outside > 0.0).any(),
            value=float(outside.max()),
            limit=0.0,
            n_violations=int((outside > 0.0).sum()),
        ),
    ]
    if not found.is_accepted:
        return tuple(asked)
    asked.append(checks.no_gaps(case))
    if found.is_exact:
        asked.append(
            Condition(
                name="propensities",
                statement="the baseline's probabilities are known, not estimated from the log",
                is_satisfied=not case.baseline.policy.is_estimated,
            )
        )
    if found.estimator not in MEANS:
        asked.append(
            Condition(
                name="unbiased",
                statement="the estimator is a mean of unbiased terms: weighted ones are not, and "
                "their tests pass far too often (docs/algorithms/hcpi.md)",
                is_satisfied=False,
            )
        )
    if found.min_ess > 0.0:
        asked.append(
            Condition(
                name="effective-episodes",
                statement="weights leave enough effective held-out episodes",
                is_satisfied=found.ess >= found.min_ess,
                value=found.ess,
                limit=found.min_ess,
            )
        )
    return tuple(asked)


def _assumptions(case: Case, found: HeldOut) -> tuple[str, ...]:
    if not found.is_accepted:
        return ()  # that the baseline is as good as itself rests on nothing
    texts = ["The log was made by the baseline, and the state it records decides its action."]
    if case.baseline.policy.is_estimated:
        texts.append(
            "The baseline was estimated from the same log, and the estimate is taken to be the "
            "policy that made it."
        )
    texts += [
        "Episodes are independent of each other and alike in distribution.",
        "The log is tested once: to try other settings until one passes voids the level.",
    ]
    if not found.is_exact:
        texts += _approximation(case, found)
    if found.reach is not None:
        texts.append(found.reach.statement(found.estimator))
    if found.n_truncated and not found.is_exact:
        texts.append(_truncation(case, found))
    return tuple(texts)


def _approximation(case: Case, found: HeldOut) -> list[str]:
    """Say how far an approximate bound can be relied upon."""
    least, most = MEASURED[found.estimator, found.bound]
    texts = [
        f"{APPROXIMATE[found.bound]} On simulated logs where nothing is better and nothing rare "
        f"happens, at a level of 5 %, it passed in {least:g} to {most:g} % of them."
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


def _truncation(case: Case, found: HeldOut) -> str:
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
