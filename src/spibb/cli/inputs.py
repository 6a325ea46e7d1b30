"""What commands read: logs, policies, declarations, renamed columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from spibb.cli.shown_progress import shown_progress
from spibb.data.counts import Counts, refuse_without_transitions
from spibb.data.counts_file import is_counts_file
from spibb.data.declarations import read_start, read_successors
from spibb.data.log import Log
from spibb.data.readers import read_log
from spibb.errors import OutputError, SettingsError
from spibb.mdp.policy import TabularPolicy
from spibb.problem import Problem
from spibb.table_files import find_files

ESTIMATE, SEEN = "estimate", "seen"


def read_problem(
    log: str, baseline: str, gamma: float, columns: str | None, **options: Any
) -> Problem:
    """Read a log, its baseline, and the files that options of a problem name."""
    if options.get("initial") is not None:
        options["initial"] = read_start(options["initial"])
    if options.get("successors") not in (None, SEEN):
        options["successors"] = read_successors(options["successors"])
    renamed = parse_columns(columns)
    rows = read_rows(log, renamed)
    policy: Any = ESTIMATE if baseline == ESTIMATE else TabularPolicy.read(baseline)
    return Problem.of(rows, baseline=policy, gamma=gamma, **options)


def read_rows(log: str, columns: Mapping[str, str]) -> Log | Counts:
    """Read a log, or the counts of one."""
    if is_counts_file(log):
        counts = Counts.load(log)
        if not counts.n_sa.any():
            refuse_without_transitions()
        return counts
    with shown_progress("Reading", "rows") as progress:
        return read_log(log, columns, progress=progress)


def parse_columns(columns: str | None) -> dict[str, str]:
    """Read what --columns says."""
    return parse_pairs((columns or "").split(","), "--columns", "state=ward,reward=score")


def check_inputs_outside(out: Path, *names: str | None) -> None:
    """Refuse to replace a folder that holds what is read."""
    if not out.exists():
        return
    given = [name for name in names if name not in (None, ESTIMATE, SEEN)]
    for file in chain.from_iterable(_files(str(name)) for name in given):
        if out.resolve() in file.resolve().parents:
            raise OutputError(
                f"{out} holds {file}, which is read, so it is not replaced",
                hint="choose another folder",
            )


def _files(name: str) -> list[Path]:
    return [Path(name)] if is_counts_file(name) else find_files(name, what="input")


def parse_pairs(parts: Iterable[str], option: str, example: str) -> dict[str, str]:
    """Read what an option gives as NAME=VALUE; parts that are empty are none."""
    pairs: dict[str, str] = {}
    for part in filter(str.strip, parts):
        name, _, value = (word.strip() for word in part.partition("="))
        if not name or not value or name in pairs:
            raise SettingsError(
                f"{option} holds {part!r}", expected=f"NAME=VALUE, each name once, as {example}"
            )
        pairs[name] = value
    return pairs
