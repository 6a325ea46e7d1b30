"""The result folder of ``spibb improve``: all of it, or nothing."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from spibb.algorithms.improvement import Improvement
from spibb.report.html import render_report
from spibb.report.inspection import render_inspection
from spibb.report.summary import result_summary
from spibb.whole_files import write_json, write_whole
from spibb.whole_folders import write_folder

# A table beyond this many pairs is for programs, which read Parquet.
_LARGEST_CSV = 200_000
# So are so many changes: without lines of their own they are written faster.
_MOST_READ = 5_000
FILES = ("policy.parquet", "policy.csv", "certificate.json", "summary.json", "report.html")


def write_result(
    result: Improvement,
    folder: str | Path,
    *,
    overwrite: bool = False,
    command: str | None = None,
) -> dict[str, Any]:
    """Write a result folder; it appears when it is complete, and not at all if that fails.

    Args:
        result: The result.
        folder: Where it shall appear.
        overwrite: Replace an earlier result.
        command: What makes it again, where it was made by a command.

    Returns:
        What ``summary.json`` holds.
    """
    summary: dict[str, Any] = {}
    write_folder(
        Path(folder), lambda part: summary.update(fill_result(result, part, command)),
        overwrite=overwrite, known=FILES,
    )  # fmt: skip
    return summary


def fill_result(result: Improvement, folder: Path, command: str | None = None) -> dict[str, Any]:
    """Write the files of a result into a folder, and return the summary."""
    # Nothing is decided where everything is over.
    policy, deciding = result.policy, ~result.problem.counts.terminal
    metadata = {"algorithm": result.algorithm}
    policy.write(folder / "policy.parquet", metadata=metadata, states=deciding)
    if policy.probabilities.size <= _LARGEST_CSV:
        policy.write(folder / "policy.csv", states=deciding)
    write_json(folder / "certificate.json", result.certificate.to_dict())
    hashes = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in FILES
        if (folder / name).exists()
    }
    _compute(result)
    summary = result_summary(result, command=command, hashes=hashes)
    write_json(folder / "summary.json", summary, is_long=len(summary["changes"]) > _MOST_READ)
    page = render_report(result, summary, render_inspection(result.inspection))
    write_whole(folder / "report.html", page.encode())
    return summary


def _compute(result: Improvement) -> None:
    """Draw models and look at the log side by side: neither needs the other, nor all cores."""
    with ThreadPoolExecutor(1) as beside:
        inspected = beside.submit(getattr, result, "inspection")
        _ = result.state_risks
        inspected.result()
