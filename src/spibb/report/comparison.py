"""Several algorithms on one log, side by side."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import Algorithm
from spibb.algorithms.improvement import Improvement
from spibb.files import write_whole
from spibb.folders import write_folder
from spibb.ope import OffPolicy, Trajectories, effective_sample_size, student_t
from spibb.ope.notes import few_warnings, log_warnings, sample_warnings, weight_warnings
from spibb.ope.return_range import ReturnRange
from spibb.problem import Problem
from spibb.report.folder import fill_result, write_json
from spibb.report.summary import summarise

Array = NDArray[np.float64]

# Below this an interval from halves says nothing.
_FEWEST_EPISODES = 8


@dataclass(frozen=True)
class Compared:
    """One algorithm's row.

    Attributes:
        algorithm: Its id.
        estimated_gain: Gain over the baseline in the estimated model: flattering; None where the
            model's estimates are withheld.
        bound: Guaranteed lower bound on the true gain; None where nothing is guaranteed.
        is_vacuous: Whether that bound allows the worst loss there is anyway.
        moved: Probability moved away from the baseline, averaged over the rows of the log.
        off_policy: Doubly robust estimate of the performance, cross-fitted: each half of the
            episodes judges the policy that the algorithm makes of the other half.
        off_policy_low: Lower end of its interval, by Student's t.
        off_policy_high: Upper end.
        status: How the run ended.
        ess: Effective episodes behind the off-policy estimate.
        warnings: What to know before trusting the row.
    """

    algorithm: str
    estimated_gain: float | None
    bound: float | None
    is_vacuous: bool
    moved: float
    off_policy: float | None
    off_policy_low: float | None
    off_policy_high: float | None
    status: str
    ess: float | None = None
    warnings: tuple[str, ...] = ()

    def cells(self) -> dict[str, Any]:
        """Return the row of a CSV file."""
        return {**asdict(self), "warnings": " | ".join(self.warnings)}


@dataclass(frozen=True)
class _Judged:
    """A cross-fitted off-policy estimate with what `spibb evaluate` says of one."""

    estimate: float = math.nan
    interval: tuple[float, float] = (math.nan, math.nan)
    ess: float | None = None
    warnings: tuple[str, ...] = ()


def compare(
    problem: Problem,
    algorithms: Sequence[Algorithm],
    results: Sequence[Improvement],
    *,
    delta: float,
) -> list[Compared]:
    """Line up results on the same log, the baseline first.

    Too few episodes give no off-policy estimate.

    Args:
        problem: The log and its baseline.
        algorithms: The algorithms.
        results: What they came to.
        delta: Level of the off-policy intervals.
    """
    rows = [_baseline_row(problem, delta)]
    for algorithm, result in zip(algorithms, results, strict=True):
        states = result.certificate.states
        judged = _cross_fitted(algorithm, result, delta)
        withheld = result.withheld
        notes: tuple[str, ...] = ()
        if withheld is not None:
            notes += (f"Estimates by the model are withheld: {withheld}.",)
        proviso = result.certificate.guarantee.proviso
        if proviso is not None and result.certificate.bound is not None:
            notes += (f"What is guaranteed holds {proviso}.",)
        row = Compared(
            algorithm=algorithm.id,
            estimated_gain=result.estimated_gain if withheld is None else None,
            bound=result.certificate.bound,
            is_vacuous=result.certificate.guarantee.is_vacuous,
            moved=float(np.average(states.moved, weights=states.n_rows)),
            off_policy=_finite(judged.estimate),
            off_policy_low=_finite(judged.interval[0]),
            off_policy_high=_finite(judged.interval[1]),
            status=result.status.name.lower().replace("_", "-"),
            ess=judged.ess,
            warnings=(*notes, *judged.warnings),
        )
        rows.append(row)
    return rows


def merged_warnings(rows: Sequence[Compared]) -> dict[str, list[str]]:
    """Return the warnings of all rows, each with the algorithms it concerns."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for text in row.warnings:
            found.setdefault(text, []).append(row.algorithm)
    return found


def _baseline_row(problem: Problem, delta: float) -> Compared:
    """Return the baseline's own row: its off-policy estimate is the mean return of the log."""
    estimate, low, high = np.nan, np.nan, np.nan
    n_episodes = 0 if problem.log is None else problem.log.n_episodes
    if n_episodes >= _FEWEST_EPISODES:
        returns = Trajectories.from_log(problem.log).returns(problem.gamma)
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
        ess=float(n_episodes) if n_episodes else None,
        warnings=few_warnings(n_episodes) if np.isfinite(estimate) else (),
    )


def _cross_fitted(algorithm: Algorithm, result: Improvement, delta: float) -> _Judged:
    """Let each half of the episodes judge the policy made of the other, by doubly robust terms.

    A policy judged by the log that made it looks better than it is; its own estimate would not help
    to choose.
    """
    problem = result.problem
    log = problem.log
    if log is None or log.episode is None or log.n_episodes < _FEWEST_EPISODES:
        return _Judged()
    first = np.unique(log.episode, return_inverse=True)[1] % 2 == 0
    halves = [
        _judge(problem.part(judges), algorithm.improve(problem.part(~judges)))
        for judges in (first, ~first)
    ]
    terms, weight = (np.concatenate(part) for part in zip(*halves, strict=True))
    warnings = [*_looks(result, delta), *weight_warnings(weight)]
    estimate, ends = float(terms.mean()), student_t(terms, delta / 2)
    if result.model.gamma < 1.0:
        reach = ReturnRange.of(result.problem.values, None, terms)
        estimate, ends, told = reach.kept_inside(estimate, ends)
        warnings += told
    return _Judged(estimate, ends, float(effective_sample_size(weight)), tuple(warnings))


def _looks(result: Improvement, delta: float) -> tuple[str, ...]:
    """Say where log and policy look like those on which approximate intervals fail."""
    if not result.certificate.states.moved.any():
        return few_warnings(result.problem.episodes().n_episodes)
    off = OffPolicy.of(result.problem, result.policy)
    return (
        *log_warnings(off, result.policy, result.counts.n_gaps),
        *sample_warnings(off, result.problem, delta),
    )


def _judge(half: Problem, made: Improvement) -> tuple[Array, Array]:
    """Return doubly robust terms of one half's episodes, and their weights."""
    off = OffPolicy.of(half, made.policy)
    if (off.policy == off.baseline).all():
        # The log's own policy needs no estimator.
        return off.episodes.returns(off.gamma), np.ones(len(off.episodes))
    statistic, weight = off.statistic("dr", np.random.default_rng(0)), off.weight("dr")
    assert statistic.terms is not None, "doubly robust is a mean"
    assert weight is not None, "of weighted terms"
    return statistic.terms, weight


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
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, [item.name for item in fields(Compared)])
        writer.writeheader()
        writer.writerows(row.cells() for row in rows)
        write_whole(part / "comparison.csv", text.getvalue().encode())
        facts = {"format": "spibb-comparison", "version": 2, "results": [asdict(r) for r in rows]}
        write_json(part / "comparison.json", facts | {"settings": [summarise(r) for r in results]})
        for name, result in zip(names, results, strict=True):
            (part / name).mkdir()
            fill_result(result, part / name)

    known = {"comparison.csv", "comparison.json", *names}
    write_folder(folder, fill, overwrite=overwrite, known=known)
