"""The result folder of ``spibb improve``: all of it, or nothing."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from spibb.algorithms.improvement import Improvement
from spibb.errors import OutputError
from spibb.report.changes import list_changes
from spibb.report.html import render_report
from spibb.report.summary import summarise

# A table beyond this many pairs is for programs, which read Parquet.
_LARGEST_CSV = 200_000
FILES = ("policy.parquet", "policy.csv", "certificate.json", "summary.json", "report.html")


def refuse_existing(folder: Path, *, overwrite: bool, known: Collection[str] = FILES) -> None:
    """Refuse a folder that exists, or that holds anything but the known names."""
    try:
        if not folder.exists():
            return
        is_folder = folder.is_dir()
        foreign = sorted({part.name for part in folder.iterdir()} - {*known}) if is_folder else []
    except OSError as error:
        raise _not_written(folder, error) from None
    if not is_folder:
        raise OutputError(f"{folder} is a file", expected="a folder", hint="choose another name")
    if not overwrite:
        raise OutputError(
            f"{folder} exists already", hint="choose another folder, or add --overwrite"
        )
    if foreign:
        raise OutputError(
            f"{folder} holds {foreign[0]!r}, which is not part of a result, so it is not replaced",
            hint="choose another folder",
        )


def write_result(result: Improvement, folder: Path, *, overwrite: bool = False) -> None:
    """Write a result folder; it appears when it is complete, and not at all if that fails."""
    write_folder(folder, lambda part: fill_result(result, part), overwrite=overwrite)


def write_folder(
    folder: Path,
    fill: Callable[[Path], None],
    *,
    overwrite: bool = False,
    known: Collection[str] = FILES,
) -> None:
    """Let ``fill`` write into a folder that appears when it is complete, or not at all.

    Args:
        folder: Where it shall appear.
        fill: Writes the files into the folder it is given.
        overwrite: Replace an earlier folder, if it holds nothing but the known names.
        known: Names that such a folder may hold.
    """
    folder = Path(folder)
    refuse_existing(folder, overwrite=overwrite, known=known)
    try:
        # Resolved, so that "." and links stand for the folder that they mean.
        target = folder.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name[:100]}-", dir=target.parent))
    except OSError as error:
        raise _not_written(folder, error) from None
    try:
        unfinished.chmod(0o755)
        fill(unfinished)
        _replace(target, unfinished)
    except OSError as error:
        raise _not_written(folder, error) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _replace(target: Path, finished: Path) -> None:
    """Put a finished folder in place; an earlier one is given up only when that has worked."""
    if not target.exists():
        finished.rename(target)
        return
    earlier = finished.with_name(f"{finished.name}-earlier")
    target.rename(earlier)
    try:
        finished.rename(target)
    except OSError:
        earlier.rename(target)
        raise
    shutil.rmtree(earlier)


def _not_written(folder: Path, error: OSError) -> OutputError:
    return OutputError(
        f"cannot write {folder}: {error.strerror or error}",
        hint="check that the disk has room and that you may write there",
    )


def fill_result(result: Improvement, folder: Path) -> None:
    """Write the files of a result into a folder."""
    summary = summarise(result)
    result.policy.write(folder / "policy.parquet", metadata={"algorithm": result.algorithm})
    if result.policy.probabilities.size <= _LARGEST_CSV:
        result.policy.write(folder / "policy.csv")
    write_json(folder / "certificate.json", result.certificate.to_dict())
    write_json(folder / "summary.json", summary)
    changes = list_changes(result.policy, result.baseline.policy, result.certificate.states)
    report = render_report(result, summary, changes)
    (folder / "report.html").write_text(report, encoding="utf-8")


def write_json(path: Path, facts: dict[str, Any]) -> None:
    """Write strict JSON."""
    text = json.dumps(facts, indent=2, allow_nan=False, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
