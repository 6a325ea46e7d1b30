"""What commands read: logs, baselines, renamed columns, error functions."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from spibb.data.baseline import estimate_baseline
from spibb.data.declarations import read_start, read_successors
from spibb.data.estimate import Unseen, checked_unseen
from spibb.data.log import Log
from spibb.data.readers import read_log
from spibb.errors import OutputError, SettingsError
from spibb.mdp.policy import TabularPolicy
from spibb.names import nearest
from spibb.tables import find_files
from spibb.uncertainty.error_functions import ERROR_FUNCTIONS, GivenErrors

ESTIMATE = "estimate"
SEEN = "seen"
# Given errors are an array, which no option can hold.
_ERRORS = {name: kind for name, kind in ERROR_FUNCTIONS.items() if kind is not GivenErrors}


def read_inputs(log: str, baseline: str, columns: str | None) -> tuple[Log, TabularPolicy]:
    """Read a log and its baseline."""
    rows = read_log(log, columns=parse_columns(columns))
    if baseline == ESTIMATE:
        return rows, estimate_baseline(rows)
    return rows, TabularPolicy.read(baseline)


def refuse_inputs_in(out: Path, *names: str | None) -> None:
    """Refuse to replace a folder that holds what is read."""
    if not out.exists():
        return
    target = out.resolve()
    for name in names:
        if name is None or name in (ESTIMATE, SEEN):
            continue
        for file in find_files(name, what="input"):
            if target in file.resolve().parents:
                raise OutputError(
                    f"{out} holds {file}, which is read, so it is not replaced",
                    hint="choose another folder",
                )


@dataclass(frozen=True)
class Declared:
    """What options declare about the process; the fields are keywords of ``improve`` and ``audit``.

    Attributes:
        reward_range: Smallest and largest possible reward.
        initial: Distribution of the first state, by name.
        unseen: What pairs without data do in the estimated model.
        states_complete: There are no other states.
        never_ends: The process never ends.
        successors: What may follow, by name, or "seen".
        files: What was read for them.
    """

    reward_range: tuple[float, float] | None = None
    initial: dict[str, float] | None = None
    unseen: Unseen = "average"
    states_complete: bool = False
    never_ends: bool = False
    successors: Any = None
    files: tuple[str | None, ...] = ()

    @classmethod
    def of(
        cls,
        reward_range: tuple[float, float] | None,
        initial: str | None,
        unseen: str | None,
        states_complete: bool,
        never_ends: bool,
        successors: str | None,
    ) -> Declared:
        """Read the files that options name."""
        followed: Any = successors
        if successors is not None and successors != SEEN:
            followed = read_successors(successors)
        return cls(
            reward_range,
            None if initial is None else read_start(initial),
            checked_unseen("average" if unseen is None else unseen),
            states_complete,
            never_ends,
            followed,
            files=tuple(name for name in (initial, successors) if name not in (None, SEEN)),
        )

    @property
    def keywords(self) -> dict[str, Any]:
        """The declarations as keywords."""
        return {
            item.name: getattr(self, item.name) for item in fields(self) if item.name != "files"
        }


def parse_columns(text: str | None) -> dict[str, str]:
    """Read ``state=ward,reward=score``."""
    renamed: dict[str, str] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        name, equals, column = part.partition("=")
        if not equals or not name.strip() or not column.strip():
            raise SettingsError(
                f"--columns holds {part!r}",
                expected="name=column pairs, separated by commas",
                hint="write it as --columns state=ward,reward=score",
            )
        if name.strip() in renamed:
            raise SettingsError(
                f"--columns gives {name.strip()!r} twice", expected="each name once"
            )
        renamed[name.strip()] = column.strip()
    return renamed


def parse_settings(parts: list[str]) -> dict[str, Any]:
    """Read ``kappa=0.01`` or ``mixtures=0,0.5``, given once for each setting."""
    settings: dict[str, Any] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise SettingsError(f"--set holds {part!r}", expected="NAME=VALUE, as --set kappa=0.01")
        settings[name.strip().replace("-", "_")] = _value(value.strip())
    return settings


def _value(text: str) -> Any:
    """Turn a number, or numbers separated by commas, into numbers; leave other words alone."""
    numbers = tuple(_number(part.strip()) for part in text.split(","))
    if any(isinstance(part, str) for part in numbers):
        return text
    return numbers if len(numbers) > 1 else numbers[0]


def _number(text: str) -> int | float | str:
    try:
        value = int(text)
        if abs(value) < 2**63:
            return value
    except ValueError:  # no whole number, or one of thousands of digits
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    # Digits beyond what a float holds are not to be taken for a setting without limit.
    return text if math.isinf(number) and "inf" not in text.lower() else number


def find_error(name: str) -> Any:
    """Return an error function by its id."""
    if name not in _ERRORS:
        near = nearest(name, _ERRORS)
        raise SettingsError(
            f"no error function is called {name!r}",
            expected=f"one of {', '.join(_ERRORS)}",
            hint=f"use {near!r}" if near else None,
        )
    return _ERRORS[name]()
