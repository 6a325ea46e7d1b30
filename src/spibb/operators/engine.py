"""Engines that carry some of the operators, and refuse the others by name.

The row functions, on CPU and GPU, carry all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from spibb.errors import SettingsError
from spibb.operators.rows import Operator

# What can be done from Q, a baseline and counts of the log, with nothing to learn besides.
FROM_COUNTS = frozenset(operator for operator in Operator if not operator.needs.q_baseline)


class Engine(NamedTuple):
    """An engine.

    Attributes:
        name: What it is called in messages.
        operators: Those that it carries.
        others: Who carries the others.
    """

    name: str
    operators: frozenset[Operator]
    others: str | None = None

    def check_carried(self, operators: Iterable[Operator]) -> None:
        """Raise unless it carries all of these operators."""
        for operator in sorted(set(operators) - self.operators):
            raise SettingsError(
                f"{self.name} does not carry the operator {operator.name}",
                expected=f"one of {', '.join(known.name for known in sorted(self.operators))}",
                hint=self.others,
            )
