"""What fields of plans are: each kind carries the function that refuses what it cannot be."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Any

from spibb.data.estimate import Unseen, checked_unseen
from spibb.errors import SettingsError

# Rows hold runs and sizes as numbers of 32 bits.
_LARGEST = 2**31 - 1


def check(holds: bool, value: object, name: str, expected: str) -> None:
    """Refuse a value of which something does not hold."""
    if not holds:
        raise SettingsError(f"{name} is {value!r}", expected=expected)


def check_text(value: Any, name: str) -> None:
    """Refuse what is no text, or none that can be printed and drawn."""
    check(isinstance(value, str), value, name, "a text")
    check(value.isprintable(), value, name, "a text of letters that can be seen")


def check_whole(value: Any, name: str, least: int = 1) -> None:
    """Refuse what is no whole number, or too small or too large a one."""
    check(type(value) is not bool and isinstance(value, int), value, name, "a whole number")
    check(value >= least, value, name, f"at least {least}")
    check(name == "seed" or value <= _LARGEST, value, name, f"at most {_LARGEST}")


def check_number(value: Any, name: str) -> None:
    """Refuse what is no finite number; a whole one may be finite and yet have no float."""
    is_number = isinstance(value, int | float) and type(value) is not bool
    check(is_number and abs(value) <= sys.float_info.max, value, name, "a finite number")


def check_discount(value: Any, name: str) -> None:
    """Refuse what is no discount."""
    check_number(value, name)
    check(0 <= value <= 1, value, name, "a discount in [0, 1]")


Text = Annotated[str, check_text]
Count = Annotated[int, check_whole]
Whole = Annotated[int, partial(check_whole, least=0)]
Number = Annotated[float, check_number]
Discount = Annotated[float, check_discount]
Treatment = Annotated[Unseen, lambda value, name: checked_unseen(value)]
