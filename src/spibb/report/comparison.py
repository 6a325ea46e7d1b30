"""Several algorithms on one log, side by side."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from spibb.algorithms.base import DEFAULT_DELTA, Algorithm
from spibb.assessment.assessment import Assessment
from spibb.assessment.findings import start_remarks
from spibb.atomic_files import write_json, write_whole
from spibb.atomic_folders import write_folder
from spibb.display import Card, Display
from spibb.problem import Problem, ProblemOptions
from spibb.problem.problem import Baseline
from spibb.report.changes import result_changes
from spibb.report.comparison_page import comparison_statement, render_comparison
from spibb.report.cross_fitting import cross_fit
from spibb.report.folder import fill_result
from spibb.report.representation import representation_line
from spibb.report.sensitivity import sensitivity_facts, sensitivity_line
from spibb.report.summary import made_by_algorithm, result_facts
from spibb.strict_json import VERSION
from spibb.uncertainty.error_functions import checked_delta
from spibb.words import said_once

HEAD = ("algorithm", "gain, est.", "guaranteed", "moved", "off-policy", "ess")


@dataclass(frozen=True, kw_only=True)
class ComparisonRow:
    """One algorithm's row.

    Attributes:
        algorithm: Its id.
        estimated_gain: Gain over the baseline in the estimated model: optimistic; None where the
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
    is_vacuous: bool = False
    moved: float
    off_policy: float | None = None
    off_policy_low: float | None = None
    off_policy_high: float | None = None
    status: str
    ess: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        """The row for people, under :data:`HEAD`."""
        guaranteed = "none" if self.bound is None else f"{self.bound:+.3g}"
        low = "-inf" if self.off_policy_low is None else f"{self.off_policy_low:.3g}"
        high = "inf" if self.off_policy_high is None else f"{self.off_policy_high:.3g}"
        judged = f"{self.off_policy:.3g} [{low}, {high}]" if self.off_policy is not None else None
        return (
            self.algorithm,
            "withheld" if self.estimated_gain is None else f"{self.estimated_gain:+.3g}",
            "vacuous" if self.is_vacuous else guaranteed,
            f"{100 * self.moved:.0f}%",
            judged or "no or few episodes",
            "" if self.ess is None else f"{self.ess:.0f}",
        )


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Display):
    """What several algorithms come to on one problem.

    Attributes:
        problem: The log and its baseline.
        rows: One for the baseline, and one for each algorithm.
        assessments: One for each algorithm, of what it returned.
        delta: Level of the off-policy intervals.
    """

    problem: Problem
    rows: tuple[ComparisonRow, ...]
    assessments: tuple[Assessment, ...]
    delta: float

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to know of the rows, and how to read them, in sentences."""
        return (
            *said_once((row.algorithm, text) for row in self.rows for text in row.warnings),
            "Gain, est.: over the baseline, in the model made from the log, which is optimistic. "
            "Guaranteed: lower bound on the true gain; vacuous if it allows any loss. Moved: "
            "probability taken from the baseline, over the rows. Off-policy: performance with its "
            f"{100 * (1 - self.delta):g} % interval, each half of the episodes judging the policy "
            "made of the other half (doubly robust, Student's t: approximate). Ess: effective "
            "episodes behind it.",
            *start_remarks(self.problem),
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """What is left of each gain in finer states, a line each; none without raw columns."""
        log = self.problem.log
        if log is None or log.features is None:
            return ()
        return self._by_name(
            representation_line(one.representation, one.representation_remark)
            for one in self.assessments
        )

    @property
    def sensitivity_lines(self) -> tuple[str, ...]:
        """How strong a hidden cause must be to explain each gain, a line each."""
        return self._by_name(
            sensitivity_line(sensitivity_facts(one.sensitivity, one.sensitivity_remark))
            for one in self.assessments
        )

    def _by_name(self, lines: Iterable[str]) -> tuple[str, ...]:
        names = [row.algorithm for row in self.rows[1:]]
        return tuple(f"{name}: {line}" for name, line in zip(names, lines, strict=True))

    def _card(self) -> Card:
        facts = {"remarks": f"{len(self.remarks)}, in .remarks; write(folder) writes all results"}
        rows = [row.cells for row in self.rows]
        return Card(f"Comparison of {len(self.assessments)} algorithms", facts, HEAD, rows)

    def records(self) -> Iterator[list[Any]]:
        """Yield the rows of a CSV file, names of the columns first."""
        yield [item.name for item in fields(ComparisonRow)]
        for row in self.rows:
            yield list((asdict(row) | {"warnings": " | ".join(row.warnings)}).values())

    def to_dict(self, command: str | None = None) -> dict[str, Any]:
        """Return plain JSON values: the rows, and what is to be said of each result."""
        settings = [result_facts(one, result_changes(one)) for one in self.assessments]
        return {
            "format": "spibb-comparison",
            "version": VERSION,
            "objective": self.problem.objective.to_dict(),
            "statement": comparison_statement(settings),
            "delta": self.delta,
            "results": [asdict(row) for row in self.rows],
            "settings": settings,
            "command": command,
        }

    def write(
        self, folder: str | Path, *, overwrite: bool = False, command: str | None = None
    ) -> dict[str, Any]:
        """Write the table, a page, and one result folder for each algorithm, or nothing.

        Args:
            folder: Where it shall appear, when it is complete.
            overwrite: Replace an earlier comparison.
            command: What makes it again, where it was made by a command.

        Returns:
            What ``comparison.json`` holds.
        """
        names = [row.algorithm for row in self.rows[1:]]
        facts = self.to_dict(command)

        def fill(part: Path) -> None:
            text = io.StringIO(newline="")
            csv.writer(text).writerows(self.records())
            write_whole(part / "comparison.csv", text.getvalue().encode())
            write_json(part / "comparison.json", facts)
            write_whole(
                part / "report.html",
                render_comparison(facts, self.remarks, self.lines, self.sensitivity_lines).encode(),
            )
            for name, one in zip(names, self.assessments, strict=True):
                (part / name).mkdir()
                fill_result(one, part / name, command)

        write_folder(Path(folder), fill, overwrite=overwrite, known=comparison_files(names))
        return facts


def row_names(algorithms: Sequence[Algorithm]) -> list[str]:
    """Return what algorithms are called in a comparison: several of one id are numbered."""
    ids = [one.id for one in algorithms]
    numbers = [ids[:place].count(name) for place, name in enumerate(ids)]
    return [f"{name}-{n + 1}" if n else name for name, n in zip(ids, numbers, strict=True)]


def comparison_files(names: Sequence[str]) -> set[str]:
    """Return what the folder of a comparison of these algorithms holds."""
    return {"comparison.csv", "comparison.json", "report.html", *names}


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
    assessments = tuple(
        Assessment.of(one.improve(problem, certificate_delta=certificate_delta))
        for one in algorithms
    )
    judged = cross_fit(problem, problem.baseline, lambda part: part.baseline, level)
    baseline_row = ComparisonRow(
        algorithm="baseline", estimated_gain=0.0, bound=0.0, moved=0.0, status="as-it-is", **judged
    )
    rows = [baseline_row]
    for name, algorithm, one in zip(row_names(algorithms), algorithms, assessments, strict=True):
        rows.append(_row(name, algorithm, one, level))
    return Comparison(problem, tuple(rows), assessments, level)


def _row(name: str, algorithm: Algorithm, assessment: Assessment, delta: float) -> ComparisonRow:
    result = made_by_algorithm(assessment)
    certificate, withheld = assessment.certificate, assessment.withheld
    proviso = None if certificate.bound is None else certificate.guarantee.proviso
    notes = {
        f"Estimates by the model are withheld: {withheld}.": withheld,
        f"What is guaranteed holds {proviso}.": proviso,
    }
    told = (text for text, reason in notes.items() if reason is not None)
    judged = cross_fit(
        result.problem, result.policy, lambda part: algorithm.improve(part).policy, delta
    )
    judged["warnings"] = (*told, *judged.get("warnings", ()))
    return ComparisonRow(
        algorithm=name,
        estimated_gain=result.estimated_gain if withheld is None else None,
        bound=certificate.bound,
        is_vacuous=certificate.guarantee.is_vacuous,
        moved=float(np.average(certificate.states.moved, weights=certificate.states.n_rows)),
        status=result.status.name.lower().replace("_", "-"),
        **judged,
    )
