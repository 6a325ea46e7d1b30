"""The result folder of ``spibb improve``: all of it, or nothing."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from spibb.algorithms.improvement import Improvement
from spibb.assessment.assessment import Assessment
from spibb.atomic_files import write_json, write_whole
from spibb.atomic_folders import write_folder
from spibb.report.html import render_report
from spibb.report.inspection import render_inspection
from spibb.report.summary import made_by_algorithm, result_summary

# A table beyond this many pairs is for programs, which read Parquet.
_LARGEST_CSV = 200_000
# So are so many changes: without lines of their own they are written faster.
_MOST_READ = 5_000
FILES = ("policy.parquet", "policy.csv", "certificate.json", "summary.json", "report.html")


def write_result(
    judged: Improvement | Assessment,
    folder: str | Path,
    *,
    overwrite: bool = False,
    command: str | None = None,
) -> dict[str, Any]:
    """Write a result folder; it appears when it is complete, and not at all if that fails.

    Args:
        judged: What an algorithm returned, or its assessment: what that has computed already is
            not computed again.
        folder: Where it shall appear.
        overwrite: Replace an earlier result.
        command: What makes it again, where it was made by a command.

    Returns:
        What ``summary.json`` holds.
    """
    assessment = judged if isinstance(judged, Assessment) else Assessment.of(judged)
    summary: dict[str, Any] = {}
    write_folder(
        Path(folder), lambda part: summary.update(fill_result(assessment, part, command)),
        overwrite=overwrite, known=FILES,
    )  # fmt: skip
    return summary


def fill_result(assessment: Assessment, folder: Path, command: str | None = None) -> dict[str, Any]:
    """Write the files of a result into a folder, and return the summary."""
    result = made_by_algorithm(assessment)
    # Nothing is decided where everything is over.
    policy, deciding = result.policy, ~result.problem.counts.terminal
    metadata = {"algorithm": result.algorithm}
    policy.write(folder / "policy.parquet", metadata=metadata, states=deciding)
    if policy.probabilities.size <= _LARGEST_CSV:
        policy.write(folder / "policy.csv", states=deciding)
    certificate = {"objective": result.problem.objective.to_dict()}
    certificate |= assessment.certificate.to_dict()
    write_json(folder / "certificate.json", certificate)
    hashes = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in FILES
        if (folder / name).exists()
    }
    _compute(assessment)
    summary = result_summary(assessment, command=command, hashes=hashes)
    write_json(folder / "summary.json", summary, is_long=len(summary["changes"]) > _MOST_READ)
    page = render_report(assessment, summary, render_inspection(assessment.inspection))
    write_whole(folder / "report.html", page.encode())
    return summary


def _compute(assessment: Assessment) -> None:
    """Draw models and look at the log side by side: neither needs the other, nor all cores."""
    with ThreadPoolExecutor(1) as beside:
        inspected = beside.submit(getattr, assessment, "inspection")
        _ = assessment.risk
        inspected.result()
