"""Algorithms as options describe them."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from spibb.algorithms.base import Algorithm
from spibb.cli.inputs import parse_pairs
from spibb.cli.options import DEFAULT_ALGORITHM, OTHERWISE
from spibb.errors import SettingsError
from spibb.mdp.evaluation import LARGEST_DENSE, is_large
from spibb.problem import Problem
from spibb.settings import checked_entry
from spibb.uncertainty.error_functions import ErrorFunction, GivenErrors

# Settings with an option of their own; the others are given by --set.
OPTIONS = ("epsilon", "n_wedge", "delta", "error", "max_iterations", "caution")
_CANDIDATE = r"\s*([\w-]+)\s*(?:\(([^()]*)\))?\s*"


def parse_settings(parts: Iterable[str]) -> dict[str, Any]:
    """Read ``kappa=0.01`` or ``mixtures=0,0.5``, given once for each setting."""
    readers: dict[str, Callable[[str], Any]] = {"error": find_error, "candidates": _candidates}
    pairs = parse_pairs(parts, "--set", "kappa=0.01")
    return {name.replace("-", "_"): readers.get(name, _value)(text) for name, text in pairs.items()}


def _value(text: str) -> Any:
    """Turn a number, or numbers separated by commas, into numbers; leave other words alone."""
    numbers = tuple(_number(part.strip()) for part in text.split(","))
    if None in numbers:
        return text
    return numbers if len(numbers) > 1 else numbers[0]


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if number.is_integer() and abs(number) < 2**63 and not {*".eE"} & {*text}:
        return int(text)
    # Digits beyond what a float holds are not to be taken for a setting without limit.
    return None if math.isinf(number) and "inf" not in text.lower() else number


def find_error(name: str) -> ErrorFunction:
    """Return an error function by its id; given errors are an array, which no option can hold."""
    known = dict(ErrorFunction.members())
    if name not in known:  # a plugin may have it
        known = ErrorFunction.known()
    del known[GivenErrors.id]
    return checked_entry(name, known, "error function")()


def chosen_algorithms(
    settings: dict[str, Any],
    name: str | None,
    compared: str | None,
    guarantee: float | None,
    *,
    is_decided: bool,
) -> list[Algorithm]:
    """Build what is asked for: one algorithm, several to compare, or one to keep a promise.

    Args:
        settings: By name.
        name: The algorithm's id; None: none was named.
        compared: Algorithms to compare.
        guarantee: The promise to be kept.
        is_decided: Whether something is asked of which who chooses by the log has no choice.
    """
    names = [name or _default(settings, is_decided)]
    if compared is not None:
        if name is not None or guarantee is not None:
            raise SettingsError("--compare goes without --algorithm and --guarantee")
        return _compared(compared, settings)
    if guarantee is not None:
        names = ["pi-b-spibb"]
        if name not in (None, *names) or "n_wedge" in settings:
            raise SettingsError(
                "--guarantee chooses n_wedge of pi-b-spibb",
                hint="leave out --algorithm and --n-wedge, or leave out --guarantee",
            )
    return build_algorithms(names, settings)


def _default(settings: dict[str, Any], is_decided: bool) -> str:
    """Return what is run where no algorithm is named; a budget is none for one that chooses it."""
    own = {item.name for item in fields(Algorithm.named(DEFAULT_ALGORITHM))} & settings.keys()
    others = settings.keys() - own
    if own and (others or is_decided):
        told = _option(next(iter(own)))
        raise SettingsError(
            f"{told} is for {DEFAULT_ALGORITHM}, which chooses all else",
            hint="leave it out, or the rest; --algorithm names another",
        )
    return OTHERWISE if others or is_decided else DEFAULT_ALGORITHM


def too_large(problem: Problem) -> str | None:
    """Say why another algorithm is run than the one that chooses by itself; None: it need not."""
    n_states = problem.counts.n_states
    if not is_large(n_states):
        return None
    return (
        f"{DEFAULT_ALGORITHM}, which chooses algorithm and setting by the log, judges models of at "
        f"most {LARGEST_DENSE:,} states; there are {n_states:,}, so {OTHERWISE} is run with its "
        "own settings. Choose by --algorithm, or group states."
    )


def _compared(text: str, settings: dict[str, Any]) -> list[Algorithm]:
    """Build algorithms to compare; settings of one alone stand behind it in brackets."""
    found = _parts(text, "--compare")
    own = [parse_settings(_settings_in(inner)) for _, inner in found]
    # What is given for all goes to those that have it and say nothing else of it.
    build_algorithms([name for name, _ in found], settings)
    algorithms = []
    for (name, _), given in zip(found, own, strict=True):
        known = {item.name for item in fields(Algorithm.named(name))}
        shared = {key: value for key, value in settings.items() if key in known}
        algorithms += build_algorithms([name], shared | given)
    if any(one in algorithms[:place] for place, one in enumerate(algorithms)):
        raise SettingsError(f"--compare is {text!r}", expected="different algorithms, as a,b,c")
    return algorithms


def build_algorithms(names: list[str], settings: dict[str, Any]) -> list[Algorithm]:
    """Build algorithms by their ids; each setting goes to those that have it."""
    known = {name: [item.name for item in fields(Algorithm.named(name))] for name in names}
    options = {_option(setting): None for have in known.values() for setting in have}
    for setting in map(_option, settings):
        if setting not in options:
            raise SettingsError(
                f"no setting {setting} in {', '.join(names)}",
                expected=f"one of {', '.join(options)}" if options else "none at all",
                hint="leave it out, or choose another algorithm with --algorithm",
            )
    return [
        _build(name, {key: value for key, value in settings.items() if key in have})
        for name, have in known.items()
    ]


def _build(name: str, settings: dict[str, Any]) -> Algorithm:
    try:
        return Algorithm.named(name)(**settings)
    except SettingsError:
        raise
    except (TypeError, ValueError, OverflowError):  # a word where a number belongs
        raise SettingsError(
            f"{name} cannot be built from {reprlib.repr(settings)}",
            expected="numbers where it takes numbers",
        ) from None


def _candidates(text: str) -> list[Algorithm]:
    """Read ``approx-soft-spibb(epsilon=0.1), pi-b-spibb`` as algorithms."""
    found = _parts(text, "candidates")
    return [
        build_algorithms([name], parse_settings(_settings_in(inner)))[0] for name, inner in found
    ]


def _settings_in(brackets: str) -> list[str]:
    """Divide settings in brackets at the commas before a name: a setting may hold several."""
    return re.split(r",(?=\s*[\w-]+\s*=)", brackets)


def _parts(text: str, what: str) -> list[tuple[str, str]]:
    """Divide a list of algorithms into ids and what stands in brackets behind them."""
    if not re.fullmatch(rf"{_CANDIDATE}(?:,{_CANDIDATE})*,?", text):
        raise SettingsError(
            f"{what} is {text!r}",
            expected="algorithms, as approx-soft-spibb(epsilon=0.1),pi-b-spibb(n_wedge=5)",
        )
    return re.findall(rf"{_CANDIDATE}(?:,|$)", text)


def _option(setting: str) -> str:
    return f"--{setting.replace('_', '-')}" if setting in OPTIONS else f"--set {setting}=..."
