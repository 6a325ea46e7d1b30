"""Verdicts on the time to convergence follow from the timings."""

from dataclasses import replace

import pyarrow as pa
import pytest

from spibb.studies.complexity.claims import findings, times, to_table
from spibb.studies.registry import PLANS

PLAN = replace(PLANS["complexity"], sizes=(4, 8, 16, 32))
BASIC, PI_B, EXACT, APPROX = (setting.label for setting in PLAN.settings)


def timings(**seconds):
    """Return a table in which one log takes what a function of the number of actions says."""
    rows = [
        {"setting": label, "n_actions": size, "n_problems": n, "seconds": seconds[name](size) / n}
        for name, label in (("basic", BASIC), ("pi_b", PI_B), ("exact", EXACT), ("approx", APPROX))
        for size in PLAN.sizes
        for n in (1, 50)
    ]
    return pa.Table.from_pylist(rows)


RIGHT = {
    "basic": lambda n: 1.0,
    "pi_b": lambda n: 3.0,
    "exact": lambda n: 0.5 * n,
    "approx": lambda n: 2.0,
}


def verdicts(**changes):
    return [found.verdict for found in findings(timings(**RIGHT | changes), PLAN)]


def test_where_the_paper_is_right():
    assert verdicts() == ["confirmed"] * 3


@pytest.mark.parametrize(("change", "expected"), [
    ({"pi_b": lambda n: 1.0}, ["not confirmed", "confirmed", "confirmed"]),
    ({"pi_b": lambda n: n / 3}, ["in part", "confirmed", "confirmed"]),
    ({"basic": lambda n: 2.0}, ["confirmed", "not confirmed", "confirmed"]),
    ({"exact": lambda n: n**2.0}, ["confirmed", "confirmed", "not confirmed"]),
])  # fmt: skip
def test_where_it_is_not(change, expected):
    assert verdicts(**change) == expected


def test_only_logs_that_were_solved_alone_count():
    assert times(timings(**RIGHT), PLAN)[EXACT].tolist() == [2.0, 4.0, 8.0, 16.0]
    assert "| 8 | 1,000,000 µs | 3,000,000 µs |" in to_table(timings(**RIGHT), PLAN)
