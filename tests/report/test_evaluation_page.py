"""The page of ``spibb evaluate``."""

import json
import math
from dataclasses import replace

import pytest

import spibb
from spibb.report.evaluation import evaluation_facts, render_evaluation, statement
from spibb.testing.checks import random_problem


@pytest.fixture(scope="module")
def found():
    _, baseline, log = random_problem(3, n_episodes=60)
    problem = spibb.Problem.of(log, baseline=baseline, gamma=0.9)
    return spibb.evaluate_policy(problem, policy=baseline, estimators=["is", "dr"])


def told(found, *intervals):
    one = found.estimates[0]
    parts = [replace(one, estimate=sum(ends) / 2, interval=ends) for ends in intervals]
    return statement(replace(found, estimates=tuple(parts)))


def test_the_statement(found):
    today = found.baseline.estimate
    above, below = (today + 1, today + 2), (today - 2, today - 1)
    assert told(found, above).startswith("More than the ")
    assert told(found, above, above).endswith("by all of 2 intervals.")
    assert told(found, below).startswith("Less than the ")
    assert told(found, above, (today - 1, today + 1)).endswith(
        "of 2 intervals 1 lie above it, 0 below."
    )
    assert told(found, (math.nan, math.nan)).startswith("The log does not tell")
    none = replace(found.estimates[0], interval=(-math.inf, math.inf))
    assert "too little for an interval" in statement(replace(found, estimates=(none,)))


def test_the_page_says_what_the_json_says(found):
    facts = evaluation_facts(found, "spibb evaluate ...")
    page = render_evaluation(found, facts)
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert f'<h1 id="verdict">{facts["statement"]}</h1>' in page
    assert page.count('class="span"') == 1 + 3
    assert page.count("<li>") == len(found.assumptions) + len(found.warnings) + sum(
        len(one.warnings) for one in found.estimates
    )
    assert "spibb evaluate ..." in page


def test_a_policy_without_estimates_has_a_page_too(found):
    nothing = replace(found.estimates[0], estimate=math.nan, interval=(-math.inf, math.inf))
    bare = replace(found, estimates=(nothing,))
    assert "every estimate is withheld" in render_evaluation(bare, evaluation_facts(bare))


def test_the_command_writes_a_folder(tmp_path, monkeypatch, capsys):
    from importlib import resources

    from spibb.cli.app import main

    folder = resources.files("spibb.cli") / "demo"
    words = ["evaluate", str(folder / "log.csv"), "--baseline", str(folder / "baseline.csv"),
             "--policy", str(folder / "baseline.csv"), "--gamma", "0.95", "--estimator", "dr",
             "--out", str(tmp_path / "out")]  # fmt: skip
    monkeypatch.setattr("sys.argv", ["spibb", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    facts = json.loads((tmp_path / "out/evaluation.json").read_text("utf-8"))
    begun = " ".join([*facts["objective"]["sentences"], facts["statement"]])
    assert " ".join(capsys.readouterr().out.split()).startswith(begun)
    assert facts["command"].endswith("--estimator dr --out DIR")
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert "exists already" in capsys.readouterr().err
