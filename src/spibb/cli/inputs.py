"""What commands read: logs, policies, declarations, renamed columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spibb.data.declarations import read_start, read_successors
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
    rows = read_log(log, columns=parse_columns(columns))
    policy: Any = ESTIMATE if baseline == ESTIMATE else TabularPolicy.read(baseline)
    return Problem.of(rows, baseline=policy, gamma=gamma, **options)


def check_inputs_outside(out: Path, *names: str | None) -> None:
    """Refuse to replace a folder that holds what is read."""
    if not out.exists():
        return
    target = out.resolve()
    for name in names:
        if name in (None, ESTIMATE, SEEN):
            continue
        for file in find_files(name, what="input"):
            if target in file.resolve().parents:
                raise OutputError(
                    f"{out} holds {file}, which is read, so it is not replaced",
                    hint="choose another folder",
                )


def parse_columns(text: str | None) -> dict[str, str]:
    """Read ``state=ward,reward=score``."""
    renamed: dict[str, str] = {}
    for part in filter(str.strip, (text or "").split(",")):
        name, _, column = (word.strip() for word in part.partition("="))
        if not name or not column:
            raise SettingsError(
                f"--columns holds {part!r}",
                expected="name=column pairs, separated by commas",
                hint="write it as --columns state=ward,reward=score",
            )
        if name in renamed:
            raise SettingsError(f"--columns gives {name!r} twice", expected="each name once")
        renamed[name] = column
    return renamed
