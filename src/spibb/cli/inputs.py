"""What commands read: logs, policies, declarations, renamed columns."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from spibb.cli.shown_progress import shown_progress
from spibb.data.counts import Counts, refuse_without_transitions
from spibb.data.counts_file import is_counts_file
from spibb.data.declarations import read_allowed, read_start, read_states, read_successors
from spibb.data.log import Log
from spibb.data.minari_sets import is_minari
from spibb.data.readers import read_log
from spibb.errors import OutputError, SettingsError
from spibb.mdp.policy import TabularPolicy
from spibb.problem import Limits, Problem
from spibb.problem.direction import refuse_turning
from spibb.problem.loggers import names_of
from spibb.tables.files import database_kind, find_files

# Options that say where a result goes, not what it is.
_ABOUT_OUTPUT = ("--out", "--format")
ESTIMATE, SEEN = "estimate", "seen"


def read_problem(*given: Any, **options: Any) -> Problem:
    """Read a log, its baseline, and the files that options of a problem name: `read_given`."""
    return Problem.of(**read_given(*given, **options))


def read_given(
    log: str,
    baseline: list[str] | None,
    gamma: float | None,
    columns: str | None,
    by: str | None = None,
    query: str | None = None,
    features: str | None = None,
    *,
    minimize: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Read what a problem is made of, as `Problem.of` takes it."""
    if options.get("initial") is not None:
        options["initial"] = read_start(options["initial"])
    if options.get("successors") not in (None, SEEN):
        options["successors"] = read_successors(options["successors"])
    limits: Limits | None = options.get("limits")
    costs = () if limits is None else limits.cost
    asked = parse_columns(columns), by, query, costs, parse_features(features)
    rows = read_rows(log, *asked, minimize=minimize)
    return {"log": rows, "baseline": read_baseline(baseline, rows), "gamma": gamma, **options}


def read_baseline(given: list[str] | None, rows: Log | Counts) -> Any:
    """Read the policy that made a log, or one for each policy that the log names."""
    names, found = names_of(rows), dict[str | None, Any]()
    for part in given or []:
        name, file = named_file(part, names)
        if name in found:
            raise SettingsError(
                "--baseline is given twice" + ("" if name is None else f" for {name}"),
                expected="one baseline, or NAME=FILE once for each policy that the log names",
            )
        found[name] = ESTIMATE if file == ESTIMATE else TabularPolicy.read(file)
    if None not in found:
        return found or None
    if len(found) > 1:
        raise SettingsError(
            "--baseline is given with and without a name",
            expected="one baseline, or NAME=FILE for each policy",
        )
    return found[None]


def named_file(part: str, names: Collection[str] | None) -> tuple[str | None, str]:
    """Divide NAME=FILE; a file may hold an = itself, so that a name must be known, or no file.

    Args:
        part: What was given.
        names: The policies of the log; None: not known yet.
    """
    name, sign, file = part.partition("=")
    if (
        sign
        and names == ()
        and not Path(part).exists()
        and (file == ESTIMATE or Path(file).exists())
    ):
        raise SettingsError(
            f"--baseline {part} is that of {name!r}, and the log names no policies",
            expected="one baseline, or a log with the column 'policy' (counts do not keep it)",
            hint=f"write --baseline {file}",
        )
    is_plain = not sign or (name not in (names or ()) and (names == () or Path(part).exists()))
    return (None, part) if is_plain else (name, file)


def command_line() -> str:
    """Return the command that makes this result again, wherever it is put and however printed."""
    words = iter(sys.argv[1:])
    kept = ["spibb"]
    for word in words:
        name, _, value = word.partition("=")
        if name in _ABOUT_OUTPUT and not value:
            next(words, None)
        if name not in (*_ABOUT_OUTPUT, "--overwrite"):
            kept.append(word)
    return f"{shlex.join(kept)} --out DIR"


def read_mask(
    log: str, file: str | None, column: str | None, columns: str | None, query: str | None
) -> list[tuple[Any, ...]] | None:
    """Read which actions are allowed where, off a file or the log itself; None: no matter."""
    if file is not None and column is not None:
        raise SettingsError(
            "--allowed and --allowed-column are given", expected="one of them: a mask is one"
        )
    if column is None:
        return None if file is None else read_allowed(file)
    if is_counts_file(log):
        raise SettingsError(f"--allowed-column {column} with counts", expected="the log itself")
    return read_allowed(log, column, parse_columns(columns), query=query)


def read_limits(
    forbid: list[str] | None,
    no_increase: list[str] | None,
    allowed: list[tuple[Any, ...]] | None,
    lock: str | None,
    cap: list[str] | None,
    cap_increase: list[str] | None,
    max_states: int | None,
    min_gain: float | None,
    cost: list[str] | None = None,
) -> Limits | None:
    """Read limits as options give them, with the files that they name; None: there are none."""
    found = Limits(
        forbid=_once(forbid, "--forbid"),
        no_increase=_once(no_increase, "--no-increase"),
        allowed=allowed,
        lock=() if lock is None else read_states(lock),
        cap=_shares(cap, "--cap"),
        cap_increase=_shares(cap_increase, "--cap-increase"),
        max_states=max_states,
        min_gain=min_gain,
        cost=_once(cost, "--cost", "column"),
    )
    return found if found.given else None


def _once(names: list[str] | None, option: str, what: str = "action") -> list[str]:
    given = names or []
    for place, name in enumerate(given):
        if name in given[:place]:
            raise SettingsError(f"{option} {name} is given twice", expected=f"each {what} once")
    return given


def _shares(parts: list[str] | None, option: str) -> dict[str, float]:
    """Read ``drug-b=0.1``; the last = counts, as names may hold others."""
    found: dict[str, float] = {}
    for part in parts or []:
        name, _, text = part.rpartition("=")
        try:
            number = float(text)
        except ValueError:
            name = ""
        if not name or name in found:
            raise SettingsError(
                f"{option} holds {part!r}",
                expected="ACTION=PROBABILITY, each action once, as drug-b=0.1",
            )
        found[name] = number
    return found


def read_rows(
    log: str,
    columns: Mapping[str, str],
    by: str | None = None,
    query: str | None = None,
    costs: Sequence[str] = (),
    features: Sequence[str] = (),
    *,
    minimize: bool = False,
) -> Log | Counts:
    """Read a log, or the counts of one, which know neither groups, costs nor features."""
    if is_counts_file(log):
        asked = (
            ("--by", by),
            ("--query", query),
            ("--cost", costs[0] if costs else None),
            ("--features", ",".join(features) or None),
        )
        for option, given in asked:
            if given is not None:
                raise SettingsError(f"{option} {given} with counts", expected="the log itself")
        counts = Counts.load(log)
        if not counts.n_sa.any():
            refuse_without_transitions()
        if minimize and not counts.minimize:
            refuse_turning(counts)
        return counts
    with shown_progress("Reading", "rows") as progress:
        return read_log(
            log, columns, by, query=query, costs=costs, features=features, minimize=minimize,
            progress=progress,
        )  # fmt: skip


def parse_columns(columns: str | None) -> dict[str, str]:
    """Read what --columns says."""
    return parse_pairs((columns or "").split(","), "--columns", "state=ward,reward=score")


def parse_features(features: str | None) -> tuple[str, ...]:
    """Read what --features says: names of columns, with commas between them."""
    if features is None:
        return ()
    names = tuple(name.strip() for name in features.split(","))
    if not all(names):
        raise SettingsError(
            f"--features {features!r} holds an empty name",
            expected="COLUMN,..., as --features lactate,map,age",
        )
    return names


def check_inputs_outside(out: Path, *names: str | None) -> None:
    """Refuse to replace a folder that holds what is read."""
    if not out.exists():
        return
    plain = [None if name is None else named_file(name, None)[1] for name in names]
    given = [name for name in plain if name not in (None, ESTIMATE, SEEN)]
    for file in chain.from_iterable(_files(str(name)) for name in given):
        if out.resolve() in file.resolve().parents:
            raise OutputError(
                f"{out} holds {file}, which is read, so it is not replaced",
                hint="choose another folder",
            )


def _files(name: str) -> list[Path]:
    if is_minari(name):
        return []
    is_file = is_counts_file(name) or database_kind(name) is not None
    return [Path(name)] if is_file else find_files(name, what="input")


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
