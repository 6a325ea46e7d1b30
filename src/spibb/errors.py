"""The errors a user can meet.

Every message follows one template: what is wrong, where (the first index or row), what was
expected, and what to do about it. The command line prints the message and exits with code 2.
"""

import math
import reprlib
import sys
from importlib import import_module
from operator import index
from typing import Any

# Whole numbers up to here are themselves as float64 too, and leave int64 room for sums.
MOST_WHOLE = 2**53
# The largest number that is finite, and the smallest above 0.
LARGEST, SMALLEST = sys.float_info.max, math.ulp(0.0)


class SpibbError(ValueError):
    """Something the caller can put right.

    Args:
        what: What is wrong, with the offending value.
        where: The first place where it is wrong: a row, a state, a file.
        expected: What would have been accepted.
        hint: What to do about it.
        episode: The id of the episode that is meant. It is no part of the message, since logs are
            about patients; it is kept as an attribute, and --show-ids prints it.

    Example:
        >>> print(SpibbError("epsilon is -1", expected="a number >= 0", hint="drop the sign"))
        epsilon is -1; expected a number >= 0. To fix it: drop the sign.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
        episode: object = None,
    ) -> None:
        self.episode = None if episode is None else str(episode)
        message = what
        if where is not None:
            message += f" (first at {where})"
        if expected is not None:
            message += f"; expected {expected}"
        message += "."
        if hint is not None:
            message += f" To fix it: {hint}."
        super().__init__(message)


def checked_number(
    value: Any,
    name: str,
    expected: str = "a number",
    *,
    least: float = -math.inf,
    most: float = math.inf,
) -> float:
    """Return a setting as a float, or refuse it; text is no number, whatever it says.

    Args:
        value: What was given.
        name: What it is called.
        expected: What would have been accepted, in words.
        least: The smallest number that is accepted.
        most: The largest; NaN is not accepted where one of the two is given.

    Example:
        >>> checked_number(3, "epsilon", "a budget >= 0", least=0)
        3.0
    """
    try:
        number = math.nan if isinstance(value, str | bytes | bytearray) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    is_free = (least, most) == (-math.inf, math.inf) and isinstance(value, float)
    if not (least <= number <= most or is_free):
        raise SettingsError(f"{name} is {reprlib.repr(value)}", expected=expected)
    return number


def checked_whole(value: Any, name: str, *, least: int = 1) -> int:
    """Return a setting as an int from ``least`` to 2^53, or refuse it; true is no number.

    Example:
        >>> checked_whole(3, "n_steps")
        3
    """
    try:
        if not isinstance(value, bool) and least <= index(value) <= MOST_WHOLE:
            return index(value)
    except TypeError:
        pass
    raise SettingsError(f"{name} is {value!r}", expected=f"a whole number from {least} to 2^53")


def checked_wholes(values: Any, name: str) -> tuple[int, ...]:
    """Return a setting as whole numbers > 0, or refuse it."""
    try:
        parts = tuple(values)
    except TypeError:
        raise SettingsError(
            f"{name} is {values!r}", expected="whole numbers, as (32, 32)"
        ) from None
    return tuple(checked_whole(part, name) for part in parts)


class DataError(SpibbError):
    """A log, a table of counts or an input file is not usable."""


class PolicyError(SpibbError):
    """A policy is not a table of distributions, or does not fit the log."""


class ModelError(SpibbError):
    """The arrays given as an MDP do not describe one."""


class SettingsError(SpibbError):
    """A setting of an algorithm, an error function or a command is out of range."""


class OutputError(SpibbError):
    """A result could not be written."""


class MissingDependencyError(SpibbError, ImportError):
    """An optional package is needed and absent."""


def import_extra(module: str, what: str, extra: str) -> Any:
    """Return a module of an optional package, or say how to install it.

    Args:
        module: Its name.
        what: What needs it, in words.
        extra: The extra of spibb that brings it along.
    """
    try:
        return import_module(module)
    except ImportError:
        raise MissingDependencyError(what, hint=f'run: pip install "spibb[{extra}]"') from None
