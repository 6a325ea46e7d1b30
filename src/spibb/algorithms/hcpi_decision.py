"""HCPI's choice among candidates, its one test, and what the outcome guarantees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.hcpi_candidates import Learnt
from spibb.certify.case import Case
from spibb.certify.certificate import Condition, Guarantee
from spibb.mdp.parallel import over_chunks
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
        reach: Range of returns of the concentration inequality.
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
    refusal: str | None

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
    rngs: Sequence[np.random.Generator],
) -> list[HeldOut]:
    """Choose and test, for each problem.

    Args:
        splits: Their episodes.
        learnt: Their candidates.
        names: How candidates are called.
        rules: How gains are bounded.
        min_ess: Effective held-out episodes that a candidate needs.
        rngs: Sources of randomness, one for each problem.
    """
    choices: dict[int, Choice] = {}
    found: dict[int, HeldOut] = {}

    def choose(places: NDArray[np.int64]) -> None:
        for k in places.tolist():
            choices[k] = _choose(splits[k], learnt, k, rules[k], min_ess)

    over_chunks(choose, np.arange(len(splits)))
    tables = learnt.chosen([choices[k].number for k in range(len(splits))])

    def test(places: NDArray[np.int64]) -> None:
        for k in places.tolist():
            found[k] = _test(splits[k], tables[k], choices[k], names, min_ess, rngs[k])

    over_chunks(test, np.arange(len(splits)))
    return [found[k] for k in range(len(splits))]


def _choose(split: Split, learnt: Learnt, problem: int, rule: GainBound, min_ess: float) -> Choice:
    """Choose the candidate of the best predicted bound, trying each fold as the others teach."""
    parts = [
        _tried(split.episodes, fold, learnt.fold(problem, k), rule)
        for k, fold in enumerate(split.folds)
    ]
    running = [part.running for part in parts if part.running is not None]
    training = Tried(
        split.episodes.take(split.train) if running else split.episodes,
        join_walks([part.found for part in parts]),
        np.concatenate(running) if running else None,
    )
    rule = replace(rule, low=float(training.found.gain.min()))
    predicted = rule.predicted(training, len(split.test))
    ess = effective_episodes(rule.estimator, training.found)[:-1]
    expected = ess * (len(split.test) / len(split.train))
    predicted = np.where((expected >= min_ess) & ~np.isnan(predicted), predicted, -np.inf)
    number = int(np.argmax(predicted))
    return Choice(number, float(predicted[number]), rule)


def _test(
    split: Split,
    tables: Tables,
    choice: Choice,
    names: Sequence[str],
    min_ess: float,
    rng: np.random.Generator,
) -> HeldOut:
    """Test the chosen candidate on the held-out episodes, once."""
    rule = choice.rule
    tried = _tried(split.episodes, split.test, tables, rule)
    lower, estimate = rule.tested(tried, rng)
    effective = float(effective_episodes(rule.estimator, tried.found)[0])
    refusal = None if lower >= 0.0 else "the lower bound on its gain is below 0"
    if effective < min_ess:
        refusal = f"the {len(split.test)} held-out episodes count as {effective:.1f} for it"
    is_cut = split.episodes.is_cut[split.test]
    beyond = np.where(is_cut, rule.gamma ** split.episodes.lengths[split.test], 0.0)
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
        n_truncated=int(is_cut.sum()),
        missing=(float((tried.found.weight[:, 0] * beyond).mean()), float(beyond.mean())),
        bound=rule.bound,
        estimator=rule.estimator,
        reach=rule.reach,
        refusal=refusal,
    )


def _tried(
    episodes: Trajectories, chosen: NDArray[np.int64], tables: Tables, rule: GainBound
) -> Tried:
    """Walk along episodes with some candidates and the baseline."""
    found = walk(episodes, chosen, tables, rule.gamma)
    if rule.estimator != "cwpdis":
        return Tried(episodes, found)
    some = episodes.take(chosen)
    ratio = tables.ratio
    running = [running_weights(some, ratio[..., c]) for c in range(ratio.shape[-1] - 1)]
    return Tried(some, found, np.stack(running, axis=1))


# Least and largest share of logs, in %, in which a test at 5 % passed although nothing was better:
# docs/algorithms/hcpi.md, held to by tests/algorithms/test_hcpi.py.
MEASURED = {
    ("dr", "student-t"): (1.0, 9.6),
    ("dr", "bca"): (4.8, 13.6),
    ("pdis", "student-t"): (1.4, 2.6),
    ("pdis", "bca"): (4.6, 8.2),
    ("is", "student-t"): (1.2, 2.6),
    ("is", "bca"): (4.4, 7.8),
    ("wis", "bca"): (4.0, 32.0),
    ("cwpdis", "bca"): (5.0, 25.0),
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
    }
    return Guarantee(
        theorem="Held-out test (HCPI)",
        statement="A policy that was chosen without the held-out episodes gains at least its lower "
        f"bound on them; the baseline, which is kept otherwise, loses nothing. {found.outcome}",
        conditions=_conditions(case, found),
        assumptions=_assumptions(case, found),
        delta=case.delta,
        bound=_bound(case, found),
        details=details,
        worst_loss=2.0 * case.evidence.values.v_max,
    )


def _bound(case: Case, found: HeldOut) -> float | None:
    if not found.is_accepted:
        return 0.0
    holds = all(condition.is_satisfied for condition in _conditions(case, found))
    return found.lower if holds else None


def _conditions(case: Case, found: HeldOut) -> tuple[Condition, ...]:
    baseline = case.baseline.policy.probabilities
    outside = np.where(baseline == 0.0, case.policy.policy.probabilities, 0.0).sum(axis=1)
    asked = [
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
    gaps = Trajectories.from_log(case.evidence.log).n_gaps
    asked.append(
        Condition(
            name="whole-episodes",
            statement="no step is missing inside an episode",
            is_satisfied=gaps == 0,
            value=float(gaps),
            limit=0.0,
            n_violations=gaps,
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
    if found.bound in APPROXIMATE:
        least, most = MEASURED[found.estimator, found.bound]
        texts.append(
            f"{APPROXIMATE[found.bound]} On simulated logs where nothing is better, at a level of "
            f"5 %, it passed in {least:g} to {most:g} % of them."
        )
    if found.reach is not None:
        texts.append(found.reach.statement)
    if found.n_truncated:
        texts.append(_truncation(case, found))
    return tuple(texts)


def _truncation(case: Case, found: HeldOut) -> str:
    values = case.evidence.values
    if values.gamma >= 1.0:
        least, most = -math.inf, math.inf
    else:
        low, high = (end / (1.0 - values.gamma) for end in (min(0.0, values.low), values.high))
        mine, theirs = found.missing
        least = mine * low - theirs * max(0.0, high)
        most = mine * max(0.0, high) - theirs * low
    return (
        f"Performance is the return as far as it is recorded: {found.n_truncated} of "
        f"{found.n_test} held-out episodes are truncated, and beyond their record the gain may "
        f"change by {least:.4g} to {most:+.4g}."
    )
