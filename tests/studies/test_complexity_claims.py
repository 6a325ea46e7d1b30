"""Verdicts on the time to convergence follow from the timings."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from spibb.studies.complexity.page import complexity_pages, findings, times
from spibb.studies.complexity.timings import FILE, write_timings
from spibb.studies.registry import PLANS
from spibb.studies.results.aggregates import Results

PLAN = replace(PLANS["complexity"], actions=(4, 8, 16, 32))
BASIC, PI_B, EXACT, APPROX = (setting.label for setting in PLAN.settings)


def timings(**seconds):
    """Return a table in which one log takes what a function of the number of actions says."""
    rows = [
        {"setting": label, "n_actions": size, "n_problems": n, "seconds": seconds[name](size) / n}
        for name, label in (("basic", BASIC), ("pi_b", PI_B), ("exact", EXACT), ("approx", APPROX))
        for size in PLAN.actions
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


def test_a_plan_without_the_settings_or_actions_says_less():
    table = timings(**RIGHT)

    def claims(**changes):
        return [one.claim.split(" is ")[0] for one in findings(table, replace(PLAN, **changes))]

    assert len(claims()) == 3
    assert claims(settings=PLAN.settings[1:]) == ["Approx-Soft-SPIBB", "Exact-Soft-SPIBB"]
    assert claims(settings=PLAN.settings[:3]) == []
    assert "Exact-Soft-SPIBB" not in claims(actions=(4, 8))


def test_only_logs_that_were_solved_alone_count():
    assert times(timings(**RIGHT), PLAN)[EXACT].tolist() == [2.0, 4.0, 8.0, 16.0]


def test_the_page_tells_times_machine_and_verdicts(tmp_path):
    facts = {"format": 1, "fingerprint": PLAN.fingerprint, "plan": PLAN.name, "machine": "abacus"}
    table = timings(**RIGHT).replace_schema_metadata({"spibb": json.dumps(facts)})
    write_timings(table, tmp_path / FILE)
    (page,) = complexity_pages([Results(PLAN, None, tmp_path)]).values()
    assert "| 8 | 1,000,000 µs | 3,000,000 µs |" in page["complexity"]
    assert "one thread (machine abacus)" in page["complexity"]
    assert page["complexity-claims"].count("| **confirmed** |") == 3
    assert complexity_pages([]) == {}
