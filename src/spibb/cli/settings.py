"""Algorithms as options describe them."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from typer import BadParameter

from spibb.algorithms.base import Algorithm
from spibb.cli.options import DEFAULT_ALGORITHM
from spibb.errors import SettingsError
from spibb.settings import checked_entry
from spibb.uncertainty.error_functions import ErrorFunction, GivenErrors

# Settings with an option of their own; the others are given by --set.
OPTIONS = ("epsilon", "n_wedge", "delta", "error", "max_iterations")
_CANDIDATE = r"\s*([\w-]+)\s*(?:\(([^()]*)\))?\s*"


def parse_settings(parts: Iterable[str]) -> dict[str, Any]:
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
    if None in numbers:
        return text
    return numbers if len(numbers) > 1 else numbers[0]


def _number(text: str) -> float | None:
    try:
        if abs(int(text)) < 2**63:
            return int(text)
    except ValueError:  # no whole number, or one of thousands of digits
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    # Digits beyond what a float holds are not to be taken for a setting without limit.
    return None if math.isinf(number) and "inf" not in text.lower() else number


def find_error(name: str) -> ErrorFunction:
    """Return an error function by its id; given errors are an array, which no option can hold."""
    known = dict(ErrorFunction.members())
    if name not in known:  # a plugin may have it
        known = ErrorFunction.known()
    del known[GivenErrors.id]
    return checked_entry(name, known, "error function")()


def build_algorithm(name: str, settings: dict[str, Any]) -> Algorithm:
    """Build the settings object, refusing what the algorithm does not have."""
    kind = Algorithm.named(name)
    known = _names(kind)
    for setting in settings:
        if setting not in known:
            raise SettingsError(
                f"{name} has no setting {_option(setting)}",
                expected=f"one of {', '.join(map(_option, known))}" if known else "none at all",
                hint="leave it out, or choose another algorithm",
            )
    built = dict(settings)
    if isinstance(settings.get("candidates"), str):
        built["candidates"] = _candidates(settings["candidates"])
    if "error" in settings:
        built["error"] = find_error(str(settings["error"]))
    try:
        return kind(**built)
    except SettingsError:
        raise
    except (TypeError, ValueError, OverflowError):  # a word where a number belongs
        given = ", ".join(f"{name}={reprlib.repr(value)}" for name, value in built.items())
        raise SettingsError(
            f"{name} cannot be built from {given}", expected="numbers where it takes numbers"
        ) from None


def chosen_algorithms(
    settings: dict[str, Any], name: str | None, compared: str | None, guarantee: float | None
) -> list[Algorithm]:
    """Build what is asked for: one algorithm, several to compare, or one to keep a promise."""
    if compared is not None:
        if name is not None or guarantee is not None:
            raise BadParameter("--compare goes without --algorithm and --guarantee")
        return _build_compared(compared, settings)
    if guarantee is None:
        return [build_algorithm(name or DEFAULT_ALGORITHM, settings)]
    if name not in (None, "pi-b-spibb") or "n_wedge" in settings:
        raise SettingsError(
            "--guarantee chooses n_wedge of pi-b-spibb",
            hint="leave out --algorithm and --n-wedge, or leave out --guarantee",
        )
    return [build_algorithm("pi-b-spibb", settings)]


def _build_compared(names: str, settings: dict[str, Any]) -> list[Algorithm]:
    """Build several algorithms; each setting goes to those that have it."""
    listed = [name.strip() for name in names.split(",") if name.strip()]
    if len(set(listed)) != len(listed) or not listed:
        raise SettingsError(f"--compare is {names!r}", expected="different ids, as a,b,c")
    known = {name: _names(Algorithm.named(name)) for name in listed}
    for setting in settings:
        if not any(setting in have for have in known.values()):
            raise SettingsError(f"none of {names} has a setting {setting!r}")
    return [
        build_algorithm(name, {key: settings[key] for key in settings if key in have})
        for name, have in known.items()
    ]


def _candidates(text: str) -> list[Algorithm]:
    """Read ``approx-soft-spibb(epsilon=0.1), pi-b-spibb`` as algorithms."""
    if not re.fullmatch(rf"{_CANDIDATE}(?:,{_CANDIDATE})*", text):
        raise SettingsError(
            f"candidates is {text!r}",
            expected="algorithms, as approx-soft-spibb(epsilon=0.1),pi-b-spibb(n_wedge=5)",
        )
    return [
        build_algorithm(name, parse_settings(filter(str.strip, inner.split(","))))
        for name, inner in re.findall(rf"{_CANDIDATE}(?:,|$)", text)
    ]


def _names(kind: type[Algorithm]) -> list[str]:
    return [item.name for item in fields(kind)]


def _option(setting: str) -> str:
    return f"--{setting.replace('_', '-')}" if setting in OPTIONS else f"--set {setting}=..."
