"""Several algorithms on one log, side by side."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from spibb.algorithms.base import Algorithm
from spibb.algorithms.improvement import Improvement
from spibb.data.log import Log
from spibb.ope import OffPolicy, Trajectories, student_t
from spibb.report.folder import fill_result, write_folder, write_json
from spibb.report.summary import summarise

# Below this an interval from halves says nothing.
_FEWEST_EPISODES = 8


@dataclass(frozen=True)
class Compared:
    """One algorithm's row.

    Attributes:
        algorithm: Its id.
        estimated_gain: Gain over the baseline in the estimated model: flattering.
        bound: Guaranteed lower bound on the true gain; None where nothing is guaranteed.
        is_vacuous: Whether that bound allows the worst loss there is anyway.
        moved: Probability moved away from the baseline, averaged over the rows of the log.
        off_policy: Doubly robust estimate of the performance, cross-fitted: each half of the
            episodes judges the policy that the algorithm makes of the other half.
        off_policy_low: Lower end of its interval, by Student's t.
        off_policy_high: Upper end.
        status: How the run ended.
    """

    algorithm: str
    estimated_gain: float
    bound: float | None
    is_vacuous: bool
    moved: float
    off_policy: float | None
    off_policy_low: float | None
    off_policy_high: float | None
    status: str


def compare(
    log: Log,
    algorithms: Sequence[Algorithm],
    results: Sequence[Improvement],
    *,
    delta: float,
    reward_range: tuple[float, float] | None = None,
) -> list[Compared]:
    """Line up results on the same log, the baseline first.

    Too few episodes give no off-policy estimate.
    """
    rows = [_baseline_row(log, results[0], delta)]
    for algorithm, result in zip(algorithms, results, strict=True):
        states, guarantee = result.certificate.states, result.certificate.guarantee
        estimate, low, high = _cross_fitted(log, algorithm, result, delta, reward_range)
        row = Compared(
            algorithm=algorithm.id,
            estimated_gain=result.estimated_gain,
            bound=result.certificate.bound,
            is_vacuous=guarantee is not None and guarantee.is_vacuous,
            moved=float(np.average(states.moved, weights=states.n_rows)),
            off_policy=_finite(estimate),
            off_policy_low=_finite(low),
            off_policy_high=_finite(high),
            status=result.status.name.lower().replace("_", "-"),
        )
        rows.append(row)
    return rows


def _baseline_row(log: Log, result: Improvement, delta: float) -> Compared:
    """Return the baseline's own row: its off-policy estimate is the mean return of the log."""
    estimate, low, high = np.nan, np.nan, np.nan
    if log.n_episodes >= _FEWEST_EPISODES:
        returns = Trajectories.from_log(log).returns(result.model.gamma)
        estimate, (low, high) = float(returns.mean()), student_t(returns, delta / 2)
    return Compared(
        algorithm="baseline",
        estimated_gain=0.0,
        bound=0.0,
        is_vacuous=False,
        moved=0.0,
        off_policy=_finite(estimate),
        off_policy_low=_finite(low),
        off_policy_high=_finite(high),
        status="as-it-is",
    )


def _cross_fitted(
    log: Log,
    algorithm: Algorithm,
    result: Improvement,
    delta: float,
    reward_range: tuple[float, float] | None,
) -> tuple[float, float, float]:
    """Let each half of the episodes judge the policy made of the other, by doubly robust terms.

    A policy judged by the log that made it looks better than it is; its own estimate would not help
    to choose.
    """
    if log.episode is None or log.n_episodes < _FEWEST_EPISODES:
        return np.nan, np.nan, np.nan
    baseline, gamma = result.baseline.policy, result.model.gamma
    first = np.unique(log.episode, return_inverse=True)[1] % 2 == 0
    terms = []
    for judges in (first, ~first):
        made = algorithm.improve(
            log.take(~judges), baseline=baseline, gamma=gamma, reward_range=reward_range
        )
        episodes = Trajectories.from_log(log.take(judges))
        if (made.policy.probabilities == baseline.probabilities).all():
            terms.append(episodes.returns(gamma))  # the log's own policy needs no estimator
            continue
        off = OffPolicy(episodes, made.policy.probabilities, baseline.probabilities, gamma)
        statistic = off.statistic("dr", np.random.default_rng(0))
        assert statistic.terms is not None, "doubly robust is a mean"
        terms.append(statistic.terms)
    joined = np.concatenate(terms)
    return (float(joined.mean()), *student_t(joined, delta / 2))


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def write_comparison(
    rows: Sequence[Compared],
    results: Sequence[Improvement],
    folder: Path,
    *,
    overwrite: bool = False,
) -> None:
    """Write the table, and one result folder for each algorithm, or nothing."""
    names = [result.algorithm["algorithm"] for result in results]

    def fill(part: Path) -> None:
        with (part / "comparison.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, [item.name for item in fields(Compared)])
            writer.writeheader()
            writer.writerows(asdict(row) for row in rows)
        facts = {"format": "spibb-comparison", "version": 1, "results": [asdict(r) for r in rows]}
        write_json(part / "comparison.json", facts | {"settings": [summarise(r) for r in results]})
        for name, result in zip(names, results, strict=True):
            (part / name).mkdir()
            fill_result(result, part / name)

    known = {"comparison.csv", "comparison.json", *names}
    write_folder(folder, fill, overwrite=overwrite, known=known)
