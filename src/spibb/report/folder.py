"""The result folder of ``spibb improve``: all of it, or nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spibb.algorithms.improvement import Improvement
from spibb.report.changes import result_changes
from spibb.report.html import render_report
from spibb.report.summary import result_summary
from spibb.whole_files import write_whole
from spibb.whole_folders import write_folder

# A table beyond this many pairs is for programs, which read Parquet.
_LARGEST_CSV = 200_000
FILES = ("policy.parquet", "policy.csv", "certificate.json", "summary.json", "report.html")


def write_result(result: Improvement, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write a result folder; it appears when it is complete, and not at all if that fails."""
    target = Path(folder)
    write_folder(target, lambda part: fill_result(result, part), overwrite=overwrite, known=FILES)


def fill_result(result: Improvement, folder: Path) -> None:
    """Write the files of a result into a folder."""
    summary = result_summary(result)
    result.policy.write(folder / "policy.parquet", metadata={"algorithm": result.algorithm})
    if result.policy.probabilities.size <= _LARGEST_CSV:
        result.policy.write(folder / "policy.csv")
    write_json(folder / "certificate.json", result.certificate.to_dict())
    write_json(folder / "summary.json", summary)
    report = render_report(result, summary, result_changes(result))
    write_whole(folder / "report.html", report.encode())


def write_json(path: Path, facts: dict[str, Any]) -> None:
    """Write strict JSON."""
    text = json.dumps(facts, indent=2, allow_nan=False, ensure_ascii=False)
    write_whole(path, (text + "\n").encode())
