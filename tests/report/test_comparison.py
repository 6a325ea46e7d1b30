"""``spibb.compare``: several algorithms on one log, and the folder it writes."""

import csv
import json

import pytest

import spibb
from spibb.errors import OutputError, SettingsError
from spibb.testing.checks import random_problem


@pytest.fixture(scope="module")
def case():
    _, baseline, log = random_problem(3, n_episodes=60)
    return log, baseline


@pytest.fixture(scope="module")
def table(case):
    log, baseline = case
    algorithms = [spibb.PiBSPIBB(n_wedge=2), spibb.BasicRL(), spibb.PiBSPIBB(n_wedge=5)]
    return spibb.compare(log, algorithms, baseline=baseline, gamma=0.9, reward_range=(-5, 5))


def test_rows_are_the_baseline_and_each_algorithm(table):
    names = ["baseline", "pi-b-spibb", "basic-rl", "pi-b-spibb-2"]
    assert [row.algorithm for row in table.rows] == names
    assert [one.algorithm["algorithm"] for one in table.assessments] == [
        "pi-b-spibb", "basic-rl", "pi-b-spibb",
    ]  # fmt: skip
    assert table.rows[2].bound == table.assessments[1].certificate.bound
    assert table.problem is table.assessments[0].problem


def test_a_problem_gives_the_same(case, table):
    log, baseline = case
    problem = spibb.Problem.of(log, baseline=baseline, gamma=0.9, reward_range=(-5, 5))
    assert spibb.compare(problem, [spibb.PiBSPIBB(n_wedge=2)]).rows == table.rows[:2]


def test_it_writes_the_table_and_every_result(table, tmp_path):
    table.write(str(tmp_path / "out"))
    found = json.loads((tmp_path / "out/comparison.json").read_text("utf-8"))
    assert [row["algorithm"] for row in found["results"]] == [row.algorithm for row in table.rows]
    with (tmp_path / "out/comparison.csv").open(newline="") as file:
        assert [row["algorithm"] for row in csv.DictReader(file)] == [
            row.algorithm for row in table.rows
        ]
    for row in table.rows[1:]:
        assert (tmp_path / "out" / row.algorithm / "report.html").exists()
    with pytest.raises(OutputError, match="exists already"):
        table.write(tmp_path / "out")
    table.write(tmp_path / "out", overwrite=True)


def test_the_level_moves_the_intervals_and_the_certificates(case, table):
    log, baseline = case
    wide = spibb.compare(
        log, [spibb.BasicRL()], baseline=baseline, gamma=0.9, reward_range=(-5, 5), delta=0.01,
        certificate_delta=0.01,
    )  # fmt: skip
    assert wide.rows[1].off_policy_low < table.rows[2].off_policy_low
    assert wide.assessments[0].certificate.delta == 0.01
    with pytest.raises(SettingsError, match="delta is 7"):
        spibb.compare(log, [spibb.BasicRL()], baseline=baseline, gamma=0.9, delta=7)


def test_it_shows_a_line_for_each(table):
    lines = repr(table).splitlines()
    assert len(lines) <= 8
    assert "gain, est." in lines[2]
    assert lines[3].split()[0] == "baseline"
    assert table._repr_html_().count("<tr>") == 6


def test_a_promise_and_the_algorithm_that_keeps_it(case):
    log, baseline = case
    asked = {"baseline": baseline, "gamma": 0.9, "reward_range": (-5, 5)}
    promise = spibb.plan_promise(log, zeta=1e-3, **asked)
    assert promise.summary.startswith("No change of the baseline is certified")
    result = promise.algorithm.improve(log, **asked)
    assert (result.policy.probabilities == result.baseline.policy.probabilities).all()


def test_it_has_a_page_that_says_what_its_json_says(table, tmp_path):
    facts = table.write(tmp_path / "out")
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert json.loads((tmp_path / "out/comparison.json").read_text("utf-8")) == json.loads(
        json.dumps(facts)
    )
    assert f'<h1 id="verdict">{facts["statement"]}</h1>' in page
    for row, fact in zip(table.rows[1:], facts["settings"], strict=True):
        assert f'<a href="{row.algorithm}/report.html">{row.algorithm}</a>' in page
        assert fact["verdict"]["headline"] in page
    assert page.count('class="span"') == 2 + 3 + 4, "axes, gains, off-policy estimates"
