"""How strong an unrecorded cause must be: what is found, what it covers, and where it is told."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import spibb
from spibb.confounding.sensitivity import (
    MOST_ROWS,
    MOST_STATES,
    Sensitivity,
    find_sensitivity,
    in_words,
)
from spibb.errors import DataError, SettingsError
from spibb.report.sensitivity import QUESTION, sensitivity_line, sensitivity_sentences
from spibb.testing.confounded import PROCESSES, lasting

# Logs of the statistical tests, and episodes of each.
N_LOGS = 60
EPISODES = {"treatment": 300, "queue": 40, "machine": 40}


def found_in(process, n_episodes, seed):
    log = process.draw(n_episodes, seed)
    return find_sensitivity(log, process.policy, process.baseline, process.gamma)


def two_actions(n, share, pays, gain):
    """A log of one decision: a share of n cases has the second action, which pays more."""
    rng = np.random.default_rng(0)
    action = rng.permutation(np.arange(n) < share * n).astype(int)
    reward = (rng.random(n) < pays + gain * action).astype(float)
    return spibb.Log.from_arrays(
        state=np.zeros(n, int), action=action, reward=reward, terminated=np.ones(n, bool),
        episode=np.arange(n),
    )  # fmt: skip


def always(action):
    return spibb.TabularPolicy(np.eye(2)[[action]])


def problem_of(log):
    return spibb.Problem.of(log, baseline=spibb.estimate_baseline(log), gamma=0.9)


def test_one_decision_by_hand():
    # Of 80 cases with the second action 60 are well, of 80 with the first 40: the behaviour's mean
    # is 100 / 160. If all cases were treated, a cause of odds ratio G would leave, of the treated,
    # half as they are; of the others a share of well ones with weights 1 / G at most.
    log = spibb.Log.from_arrays(
        state=[0] * 160, action=[0] * 80 + [1] * 80, terminated=[True] * 160, episode=range(160),
        reward=[1.0] * 40 + [0.0] * 40 + [1.0] * 60 + [0.0] * 20,
    )  # fmt: skip
    found = spibb.sensitivity(problem_of(log), always(1))
    assert found.gain == pytest.approx(0.125)
    # Weights of the well, 1 / G: value = .375 + .5 * .75 / G where 1 / 4 <= 1 / (1 + G) fails no
    # more; else the unwell have weight G: value = .375 + .5 * (1 - G / 4). Both are compared below.
    for odds_ratio in (1.5, 2.0, 4.0):
        well = max(0.75 / odds_ratio, 1.0 - 0.25 * odds_ratio)
        bounds = found.bounds(odds_ratio)
        assert bounds.lower == pytest.approx(0.375 + 0.5 * well - 0.625, abs=0.006)
        assert bounds.lower_limit < bounds.lower < found.gain < bounds.upper < bounds.upper_limit
    assert found.odds_ratio == pytest.approx(2.0, rel=0.05)
    assert 1.0 < found.lower_odds_ratio < found.odds_ratio


@pytest.mark.parametrize(("gain", "n"), [(0.3, 400), (0.2, 4_000)])
def test_at_the_odds_ratio_nothing_is_left(gain, n):
    found = spibb.sensitivity(problem_of(two_actions(n, 0.4, 0.3, gain)), always(1))
    assert found.bounds(found.odds_ratio).lower == pytest.approx(0.0, abs=0.01)
    assert found.bounds(found.lower_odds_ratio).lower_limit == pytest.approx(0.0, abs=0.01)


def test_a_worse_policy_needs_no_hidden_cause():
    found = spibb.sensitivity(problem_of(two_actions(400, 0.4, 0.3, 0.5)), always(0))
    assert (found.odds_ratio, found.lower_odds_ratio) == (1.0, 1.0)
    assert sensitivity_sentences(facts(found)) == [
        "By the frequencies of the log alone there is no gain that it could explain."
    ]


def test_a_gain_that_chance_explains():
    found = spibb.sensitivity(problem_of(two_actions(60, 0.4, 0.4, 0.2)), always(1))
    assert found.odds_ratio > found.lower_odds_ratio == 1.0
    said = "With chance allowed for (95 %), no hidden cause is needed."
    assert said in sensitivity_sentences(facts(found))[0]


def test_a_gain_that_no_cause_takes():
    # The second action never pays less than the first.
    log = spibb.Log.from_arrays(
        state=[0] * 200, action=[0, 1] * 100, terminated=[True] * 200, episode=range(200),
        reward=[0.0, 1.0] * 100,
    )  # fmt: skip
    found = spibb.sensitivity(problem_of(log), always(1))
    assert math.isinf(found.odds_ratio)
    assert found.to_dict()["odds_ratio"] == "inf"
    assert "by a factor of more than 100, up or down" in sensitivity_sentences(facts(found))[0]
    assert "more than 100" in str(found)


def facts(found):
    return {"sensitivity": found.to_dict(), "sensitivity_remark": None}


@pytest.mark.parametrize(
    ("odds_ratio", "said"),
    [(1.239, "1.23"), (9.999, "9.99"), (12.9, "12"), (math.inf, "more than 100")],
)
def test_it_is_rounded_down(odds_ratio, said):
    assert in_words(odds_ratio) == said


@pytest.mark.parametrize("odds_ratio", [0.5, -1.0, math.inf, math.nan])
def test_no_such_odds_ratio(odds_ratio):
    found = spibb.sensitivity(problem_of(two_actions(100, 0.5, 0.3, 0.3)), always(1))
    with pytest.raises(SettingsError, match="finite number of at least 1"):
        found.bounds(odds_ratio)


def test_what_it_cannot_be_computed_for():
    log = two_actions(100, 0.5, 0.3, 0.3)
    baseline, table = np.full((1, 2), 0.5), np.eye(2)[[1]]
    assert find_sensitivity(log, baseline, baseline, 0.9) == "the policy is the baseline"
    assert find_sensitivity(None, table, baseline, 0.9) == "only counts are known"
    loose = spibb.Log.from_arrays(state=[0, 0], action=[0, 1], reward=[0, 1], next_state=[0, 0])
    assert find_sensitivity(loose, table, baseline, 0.9) == "rows are not connected by episodes"
    with pytest.raises(DataError, match="the policy is the baseline"):
        spibb.sensitivity(problem_of(log), spibb.TabularPolicy(baseline))


def test_too_many_states():
    n = MOST_STATES + 1
    log = spibb.Log.from_arrays(
        state=[0, n - 1], action=[0, 1], reward=[0, 1], terminated=[True, True], episode=[0, 1],
    )  # fmt: skip
    tables = np.tile([0.0, 1.0], (n, 1)), np.full((n, 2), 0.5)
    assert "more than 2,000" in find_sensitivity(log, *tables, 0.9)


def test_a_part_of_a_large_log_stands_for_it(monkeypatch):
    log = two_actions(4_000, 0.5, 0.3, 0.3)
    whole = spibb.sensitivity(problem_of(log), always(1))
    monkeypatch.setattr("spibb.confounding.sensitivity.MOST_ROWS", 1_000)
    part = spibb.sensitivity(problem_of(log), always(1))
    assert len(log) < MOST_ROWS
    assert part.gain != whole.gain
    assert part.lower_odds_ratio < part.odds_ratio == pytest.approx(whole.odds_ratio, rel=0.4)


@pytest.mark.statistical
@pytest.mark.parametrize("name", PROCESSES)
def test_limits_cover_the_truth_at_the_true_odds_ratio(name):
    process, covered = PROCESSES[name](), 0
    for seed in range(N_LOGS):
        bounds = found_in(process, EPISODES.get(name, 200), seed).bounds(process.odds_ratio)
        covered += bounds.lower_limit <= process.gain <= bounds.upper_limit
    # Of 60 limits at 95 %, fewer than 51 are right once in a thousand times.
    assert covered >= 51


@pytest.mark.statistical
def test_a_cause_that_lasts_does_more_with_the_same_changes_of_odds():
    # What the page says of memory: this process breaks the assumption, and the limits do not hold.
    process = lasting()
    covered = 0
    for seed in range(N_LOGS):
        bounds = found_in(process, 300, seed).bounds(process.odds_ratio)
        covered += bounds.lower_limit <= process.gain
    assert covered < N_LOGS / 2
    # If the cause is drawn anew, the same numbers are covered.
    anew = replace(process, lasts=False)
    held = [found_in(anew, 300, seed).bounds(anew.odds_ratio) for seed in range(N_LOGS)]
    assert sum(bounds.lower_limit <= anew.gain for bounds in held) >= 51


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A log on disk, a result of `improve` with a gain, and what commands print of it."""
    from typer.testing import CliRunner

    from spibb.cli.app import app

    folder = tmp_path_factory.mktemp("told")
    process = PROCESSES["treatment"]()
    log = process.draw(2_000, 0)
    pd.DataFrame({
        "episode": log.episode, "step": log.step, "state": log.state, "action": log.action,
        "reward": log.reward - 0.3 * (log.action == 0) * (log.state > 0),
        "terminated": log.terminated,
    }).to_csv(folder / "log.csv", index=False)  # fmt: skip
    path, out = str(folder / "log.csv"), str(folder / "out")
    common = ("--baseline", "estimate", "--gamma", "1.0")

    def run(*words):
        ran = CliRunner().invoke(app, list(words))
        assert ran.exit_code == 0, ran.output
        return ran.output

    printed = {"improve": run("improve", path, *common, "--out", out)}
    policy = str(folder / "out" / "policy.csv")
    algorithms = "pi-b-spibb,basic-rl"
    compared = str(folder / "compared")
    printed["compare"] = run("improve", path, *common, "--compare", algorithms, "--out", compared)
    for command in ("audit", "evaluate"):
        words = (command, path, "--policy", policy, *common)
        printed[command] = run(*words)
        printed[f"{command} json"] = json.loads(run(*words, "--format", "json"))
    printed["evaluate page"] = run(
        "evaluate", path, "--policy", policy, *common, "--out", str(folder / "evaluation")
    )
    return folder, printed


def test_every_command_tells_it(told):
    folder, printed = told
    summary = json.loads((folder / "out" / "summary.json").read_text("utf-8"))
    found = summary["sensitivity"]
    assert set(found) == {"gain", "odds_ratio", "lower_odds_ratio", "level"}
    assert 1.0 < found["lower_odds_ratio"] < found["odds_ratio"]
    assert summary["sensitivity_remark"] is None
    sentence = sensitivity_sentences(summary)[0]
    for command in ("improve", "audit", "evaluate"):
        text = " ".join(printed[command].split())
        assert QUESTION in text
        assert sentence in text
    for command in ("audit", "evaluate"):
        assert printed[f"{command} json"]["sensitivity"] == found


@pytest.mark.parametrize("page", ["out/report.html", "evaluation/report.html"])
def test_every_page_tells_it(told, page):
    folder, _ = told
    summary = json.loads((folder / "out" / "summary.json").read_text("utf-8"))
    text = (folder / page).read_text("utf-8")
    assert '<h2 id="sensitivity">' in text
    assert sensitivity_sentences(summary)[0] in text


def test_a_comparison_tells_it_of_each_algorithm(told):
    folder, printed = told
    facts = json.loads((folder / "compared" / "comparison.json").read_text("utf-8"))
    text = (folder / "compared" / "report.html").read_text("utf-8")
    assert QUESTION in text
    for name, one in zip(("pi-b-spibb", "basic-rl"), facts["settings"], strict=True):
        said = f"by a factor of {in_words(one['sensitivity']['odds_ratio'])} or more"
        assert f"{name}: only one that changes odds of actions {said}" in text
        assert said in " ".join(printed["compare"].split())


@pytest.mark.parametrize(
    ("odds_ratios", "said"),
    [
        ((1.0, 1.0), "there is no gain by the frequencies of the log alone"),
        ((1.5, 1.0), "a factor of 1.5 or more; with chance allowed for (95 %), no hidden cause"),
        ((math.inf, 3.0), "more than 100; with chance allowed for (95 %), it takes a factor of 3"),
    ],
)
def test_a_line(odds_ratios, said):
    found = Sensitivity(0.1, *odds_ratios, None)
    assert said in sensitivity_line(found, "")
    assert sensitivity_line(None, "only counts are known") == "not computed: only counts are known"
