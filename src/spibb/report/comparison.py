"""Several algorithms on one log, side by side."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from spibb.algorithms.base import DEFAULT_DELTA, Algorithm
from spibb.algorithms.improvement import Improvement, start_remarks
from spibb.display import Card, Display
from spibb.ope import Trajectories, student_t
from spibb.ope.caveats import few_warnings
from spibb.problem import Problem, ProblemOptions
from spibb.problem.problem import Baseline
from spibb.report.cross_fitting import FEWEST_EPISODES, CrossFit, cross_fit
from spibb.report.folder import fill_result, write_json
from spibb.report.summary import result_summary
from spibb.uncertainty.error_functions import checked_delta
from spibb.whole_files import write_whole
from spibb.whole_folders import write_folder

HEAD = ("algorithm", "gain, est.", "guaranteed", "moved", "off-policy", "ess")


@dataclass(frozen=True)
class ComparisonRow:
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

    @property
    def cells(self) -> tuple[str, ...]:
        """The row for people, under :data:`HEAD`."""
        guaranteed = "none" if self.bound is None else f"{self.bound:+.3g}"
        return (
            self.algorithm,
            "withheld" if self.estimated_gain is None else f"{self.estimated_gain:+.3g}",
            "vacuous" if self.is_vacuous else guaranteed,
            f"{100 * self.moved:.0f}%",
            self._interval,
            "" if self.ess is None else f"{self.ess:.0f}",
        )

    @property
    def _interval(self) -> str:
        if self.off_policy is None:
            return "no or few episodes"
        low = "-inf" if self.off_policy_low is None else f"{self.off_policy_low:.3g}"
        high = "inf" if self.off_policy_high is None else f"{self.off_policy_high:.3g}"
        return f"{self.off_policy:.3g} [{low}, {high}]"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Display):
    """What several algorithms come to on one problem.

    Attributes:
        problem: The log and its baseline.
        rows: One for the baseline, and one for each algorithm.
        results: What the algorithms returned.
        delta: Level of the off-policy intervals.
    """

    problem: Problem
    rows: tuple[ComparisonRow, ...]
    results: tuple[Improvement, ...]
    delta: float

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to know of the rows, and how to read them, in sentences."""
        found: dict[str, list[str]] = {}
        for row in self.rows:
            for text in row.warnings:
                found.setdefault(text, []).append(row.algorithm)
        return (
            *(f"{', '.join(names)}: {text}" for text, names in found.items()),
            "gain, est.: over the baseline, in the model made from the log, which flatters. "
            "guaranteed: lower bound on the true gain; vacuous if it allows any loss. moved: "
            "probability taken from the baseline, over the rows. off-policy: performance with its "
            f"{100 * (1 - self.delta):g} % interval, each half of the episodes judging the policy "
            "made of the other half (doubly robust, Student's t: approximate). ess: effective "
            "episodes behind it.",
            *start_remarks(self.problem),
        )

    def _card(self) -> Card:
        facts = {"remarks": f"{len(self.remarks)}, in .remarks; write(folder) writes all results"}
        rows = [row.cells for row in self.rows]
        return Card(f"Comparison of {len(self.results)} algorithms", facts, HEAD, rows)

    def records(self) -> Iterator[list[Any]]:
        """Yield the rows of a CSV file, names of the columns first."""
        yield [item.name for item in fields(ComparisonRow)]
        for row in self.rows:
            yield list((asdict(row) | {"warnings": " | ".join(row.warnings)}).values())

    def write(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the table, and one result folder for each algorithm, or nothing."""
        names = [row.algorithm for row in self.rows[1:]]

        def fill(part: Path) -> None:
            text = io.StringIO(newline="")
            csv.writer(text).writerows(self.records())
            write_whole(part / "comparison.csv", text.getvalue().encode())
            facts = {
                "format": "spibb-comparison",
                "version": 2,
                "results": [asdict(row) for row in self.rows],
                "settings": [result_summary(result) for result in self.results],
            }
            write_json(part / "comparison.json", facts)
            for name, result in zip(names, self.results, strict=True):
                (part / name).mkdir()
                fill_result(result, part / name)

        write_folder(Path(folder), fill, overwrite=overwrite, known=comparison_files(names))


def comparison_files(names: Sequence[str]) -> set[str]:
    """Return what the folder of a comparison of these algorithms holds."""
    return {"comparison.csv", "comparison.json", *names}


def compare(
    log: Any,
    algorithms: Sequence[Algorithm],
    *,
    baseline: Baseline | None = None,
    gamma: float | None = None,
    delta: float = DEFAULT_DELTA,
    certificate_delta: float = DEFAULT_DELTA,
    **options: Unpack[ProblemOptions],
) -> Comparison:
    """Run several algorithms on one log and line up what they come to, the baseline first.

    Too few episodes give no off-policy estimate. Algorithms of one id are numbered.

    Args:
        log: The log that the baseline made, or a problem; see :meth:`spibb.Problem.of`.
        algorithms: The algorithms.
        baseline: The policy that made the log, or "estimate".
        gamma: The discount.
        delta: Level of the off-policy intervals.
        certificate_delta: Allowed probability of error of each certificate's regret test.
        **options: As for :meth:`spibb.Problem.of`.
    """
    problem = Problem.of(log, baseline=baseline, gamma=gamma, **options)
    level = checked_delta(delta)
    results = tuple(one.improve(problem, certificate_delta=certificate_delta) for one in algorithms)
    rows = [_baseline_row(problem, level)]
    for place, (algorithm, result) in enumerate(zip(algorithms, results, strict=True)):
        n_before = sum(other.id == algorithm.id for other in algorithms[:place])
        name = f"{algorithm.id}-{n_before + 1}" if n_before else algorithm.id
        rows.append(_row(name, algorithm, result, level))
    return Comparison(problem, tuple(rows), results, level)


def _row(name: str, algorithm: Algorithm, result: Improvement, delta: float) -> ComparisonRow:
    certificate, withheld = result.certificate, result.withheld
    judged = cross_fit(algorithm, result, delta)
    notes: tuple[str, ...] = ()
    if withheld is not None:
        notes += (f"Estimates by the model are withheld: {withheld}.",)
    proviso = certificate.guarantee.proviso
    if proviso is not None and certificate.bound is not None:
        notes += (f"What is guaranteed holds {proviso}.",)
    return ComparisonRow(
        algorithm=name,
        estimated_gain=result.estimated_gain if withheld is None else None,
        bound=certificate.bound,
        is_vacuous=certificate.guarantee.is_vacuous,
        moved=float(np.average(certificate.states.moved, weights=certificate.states.n_rows)),
        status=result.status.name.lower().replace("_", "-"),
        **_off_policy(judged, notes),
    )


def _baseline_row(problem: Problem, delta: float) -> ComparisonRow:
    """Return the baseline's own row: its off-policy estimate is the mean return of the log."""
    n_episodes = 0 if problem.log is None else problem.log.n_episodes
    judged = CrossFit(ess=float(n_episodes) if n_episodes else None)
    if n_episodes >= FEWEST_EPISODES:
        returns = Trajectories.from_log(problem.log).returns(problem.gamma)
        estimate, ends = float(returns.mean()), student_t(returns, delta / 2)
        told = few_warnings(n_episodes) if np.isfinite(estimate) else ()
        judged = CrossFit(estimate, ends, judged.ess, told)
    return ComparisonRow(
        algorithm="baseline",
        estimated_gain=0.0,
        bound=0.0,
        is_vacuous=False,
        moved=0.0,
        status="as-it-is",
        **_off_policy(judged),
    )


def _off_policy(judged: CrossFit, notes: tuple[str, ...] = ()) -> dict[str, Any]:
    numbers = (judged.estimate, *judged.interval)
    found = (number if np.isfinite(number) else None for number in numbers)
    names = ("off_policy", "off_policy_low", "off_policy_high")
    told = {"ess": judged.ess, "warnings": (*notes, *judged.warnings)}
    return dict(zip(names, found, strict=True)) | told
