"""evaluate_policy and ``spibb evaluate``: what they say, and what they refuse."""

import csv
import io
import json
import math

import numpy as np
import pytest

from spibb import Counts, Log, TabularPolicy, estimate_baseline
from spibb.cli.evaluate_command import evaluate
from spibb.cli.printing import console
from spibb.errors import DataError, PolicyError, SettingsError
from spibb.ope import evaluate_policy
from spibb.ope.estimators import ESTIMATORS
from spibb.testing.checks import random_problem

GAMMA = 0.9


@pytest.fixture(scope="module")
def case():
    _, baseline, log = random_problem(3, n_episodes=120)
    rng = np.random.default_rng(0)
    policy = TabularPolicy(0.8 * baseline.probabilities + 0.2 * rng.dirichlet(np.ones(3), 6))
    return log, policy, baseline


def test_every_estimator_with_an_interval_around_it(case):
    log, policy, baseline = case
    found = evaluate_policy(log, policy=policy, baseline=baseline, gamma=GAMMA)
    assert [part.estimator for part in found.estimates] == list(ESTIMATORS)
    for part in found.estimates:
        lower, upper = part.interval
        assert -math.inf < lower <= part.estimate <= upper < math.inf
        assert found[part.estimator] is part
    assert found["is"].ess == found["wis"].ess
    assert found["model"].ess is None
    assert found.baseline.ess == pytest.approx(120)
    assert found.n_episodes == 120
    assert found.bound == "bca"
    assert any("approximate" in text for text in found.assumptions)
    assert any("not learnt from these episodes" in text for text in found.assumptions)


def test_it_is_strict_json_and_repeats(case):
    log, policy, baseline = case
    one, other = (
        evaluate_policy(log, policy=policy, baseline=baseline, gamma=GAMMA).to_dict()
        for _ in range(2)
    )
    assert json.dumps(one, allow_nan=False) == json.dumps(other, allow_nan=False)
    assert one["format"] == "spibb-evaluation"
    drawn = evaluate_policy(
        log, policy=policy, baseline=baseline, gamma=GAMMA, rng=np.random.default_rng(5)
    )
    assert drawn["pdis"].estimate == one["estimates"][1]["estimate"]
    assert drawn["pdis"].interval != tuple(one["estimates"][1]["interval"])


def test_smaller_levels_give_wider_intervals(case):
    log, policy, baseline = case
    for bound in ("bca", "student-t", "concentration"):
        widths = []
        for delta in (0.5, 0.1, 0.01):
            found = evaluate_policy(
                log, policy=policy, baseline=baseline, gamma=GAMMA, bound=bound, delta=delta,
                estimators=["is"],
            )["is"].interval  # fmt: skip
            widths.append(found[1] - found[0])
        assert widths[0] <= widths[1] <= widths[2], bound


def test_bounds_choose_their_estimators(case):
    log, policy, baseline = case

    def names(bound, **more):
        found = evaluate_policy(
            log, policy=policy, baseline=baseline, gamma=GAMMA, bound=bound, **more
        )
        return [part.estimator for part in found.estimates]

    assert names("student-t") == ["is", "pdis", "dr"]
    assert log.reward.min() < 0
    assert names("concentration") == ["is"]
    positive = Log.from_arrays(
        state=log.state, action=log.action, reward=np.abs(log.reward), next_state=log.next_state,
        terminated=log.terminated, episode=log.episode, n_states=6, n_actions=3,
    )  # fmt: skip
    found = evaluate_policy(
        positive, policy=policy, baseline=baseline, gamma=GAMMA, bound="concentration",
        reward_range=(0.0, 3.0),
    )  # fmt: skip
    assert [part.estimator for part in found.estimates] == ["is", "pdis"]
    assert any("Rewards lie in [0, 3], as given" in text for text in found.assumptions)
    for part in found.estimates:
        assert 0.0 <= part.interval[0] <= part.estimate <= part.interval[1] <= 30.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimators": ["pdiss"]}, r"no estimator is called 'pdiss'.*use 'pdis'"),
        ({"estimators": "is"}, "a list of ids"),
        ({"estimators": []}, "a list of ids"),
        ({"bound": "student"}, "use 'student-t'"),
        ({"bound": "student-t", "estimators": ["wis"]}, "no mean of terms.*'bca'"),
        ({"bound": "concentration", "estimators": ["dr"]}, "does not hold for 'dr'"),
        ({"bound": "concentration", "estimators": ["pdis"]}, "'pdis' has negative terms"),
        ({"bound": "concentration", "gamma": 1.0}, "gamma is 1"),
        ({"bound": "concentration", "return_range": (0, 0.1)}, "widen return_range"),
        ({"delta": 0.0}, r"a level in \(0, 1\)"),
        ({"delta": 1.0}, r"a level in \(0, 1\)"),
        ({"gamma": 1.5}, "a discount in"),
        ({"reward_range": (0.0, 0.1)}, "widen reward_range"),
    ],
)
def test_bad_settings(case, settings, message):
    log, policy, baseline = case
    asked = {"gamma": GAMMA, **settings}
    with pytest.raises(SettingsError, match=message):
        evaluate_policy(log, policy=policy, baseline=baseline, **asked)


def test_bad_data(case):
    log, policy, baseline = case
    with pytest.raises(DataError, match="only counts were given"):
        evaluate_policy(Counts.from_log(log), policy=policy, baseline=baseline, gamma=GAMMA)
    loose = Log.from_arrays(state=[0], action=[0], reward=[1.0], next_state=[0], n_states=6,
                            n_actions=3)  # fmt: skip
    with pytest.raises(DataError, match="the log has no episodes"):
        evaluate_policy(loose, policy=policy, baseline=baseline, gamma=GAMMA)
    one = Log.from_arrays(state=[0], action=[0], reward=[1.0], episode=[0])
    half = TabularPolicy([[0.5, 0.5]])
    with pytest.raises(DataError, match=r"1 episodes.*at least 2"):
        evaluate_policy(one, policy=half, baseline=half, gamma=GAMMA)
    two = Log.from_arrays(state=[0, 0], action=[0, 1], reward=[1.0, 0.0], episode=[0, 1])
    with pytest.raises(DataError, match="at least 3 for an interval by concentration"):
        evaluate_policy(two, policy=half, baseline=half, gamma=GAMMA, bound="concentration")
    with pytest.raises(PolicyError, match="probability 0 to actions that were taken in 1 rows"):
        evaluate_policy(two, policy=half, baseline=TabularPolicy([[1.0, 0.0]]), gamma=GAMMA)
    with pytest.raises(PolicyError, match="the policy has action '2', which neither"):
        evaluate_policy(two, policy=TabularPolicy([[0.5, 0.5, 0.0]]), baseline=half, gamma=GAMMA)


def test_labels_are_brought_together():
    log = Log.from_arrays(
        state=[0, 1, 0, 1], action=[0, 1, 1, 0], reward=[1.0, 2.0, 3.0, 4.0],
        episode=[0, 0, 1, 1], state_labels=("a", "b"), action_labels=("x", "y"),
    )  # fmt: skip
    baseline = TabularPolicy([[0.5, 0.5], [0.5, 0.5]], ("b", "a"), ("y", "x"))
    policy = TabularPolicy([[0.25, 0.75], [1.0, 0.0]], ("a", "b"), ("x", "y"))
    found = evaluate_policy(log, policy=policy, baseline=baseline, gamma=1.0, estimators=["is"])
    # Episode 0 takes x in a and y in b: weight 0; episode 1 y and x: 1.5 times 2.
    assert found["is"].estimate == pytest.approx(3.0 * 7.0 / 2)


def test_unknown_propensities_are_estimated_and_said(case):
    log, policy, _ = case
    found = evaluate_policy(
        log, policy=policy, baseline="estimate", gamma=GAMMA, estimators=["pdis"]
    )
    assert found.is_baseline_estimated
    assert "estimated from this log" in found.assumptions[0]
    given = evaluate_policy(
        log, policy=policy, baseline=estimate_baseline(log), gamma=GAMMA, estimators=["pdis"]
    )
    assert given["pdis"] == found["pdis"]


def test_degenerate_weights_are_warned_of():
    rng = np.random.default_rng(0)
    n = 300
    log = Log.from_arrays(
        state=np.zeros(n, int), action=(rng.random(n) < 0.01).astype(int), reward=rng.random(n),
        episode=np.arange(n), n_actions=2,
    )  # fmt: skip
    found = evaluate_policy(
        log, policy=TabularPolicy([[0.0, 1.0]]), baseline=TabularPolicy([[0.99, 0.01]]),
        gamma=GAMMA, estimators=["is", "dr"],
    )  # fmt: skip
    for part in found.estimates:
        assert part.ess < 10
        assert any("300 episodes count as" in text for text in part.warnings)
        assert any("of all weight" in text for text in part.warnings)
    same = evaluate_policy(
        log, policy=TabularPolicy([[0.99, 0.01]]), baseline=TabularPolicy([[0.99, 0.01]]),
        gamma=GAMMA, estimators=["is", "dr"],
    )  # fmt: skip
    assert not any(part.warnings for part in same.estimates)
    assert same["is"].estimate == pytest.approx(log.reward.mean())
    assert same["is"].ess == pytest.approx(n)


def test_no_weight_at_all():
    n = 30
    log = Log.from_arrays(
        state=np.zeros(n, int), action=np.zeros(n, int), reward=np.arange(n) / n,
        episode=np.arange(n), n_actions=2,
    )  # fmt: skip
    found = evaluate_policy(
        log,
        policy=TabularPolicy([[0.0, 1.0]]),
        baseline=TabularPolicy([[0.5, 0.5]]),
        gamma=GAMMA,
        accept_baseline=True,
    )
    assert found["is"].estimate == 0.0
    assert math.isnan(found["wis"].estimate)
    assert found["wis"].interval == (-math.inf, math.inf)
    assert any("no estimate" in text for text in found["wis"].warnings)
    assert any("mean weight is 0" in text for text in found["is"].warnings)
    assert any("without data" in text for text in found["model"].warnings)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    by_name = {part["estimator"]: part for part in plain["estimates"]}
    assert by_name["wis"]["estimate"] is None
    assert by_name["wis"]["interval"] == ["-inf", "inf"]


def test_support_gaps_ends_and_few_episodes_are_warned_of():
    log = Log.from_arrays(
        state=[0, 1, 1, 0, 1], action=[0, 0, 0, 0, 1], reward=[1.0, 0.0, 9.0, 2.0, 3.0],
        next_state=[1, 0, 1, 0, 0], terminated=[False, True, False, False, True],
        episode=[0, 0, 0, 1, 1], n_actions=3,
    )  # fmt: skip
    baseline = TabularPolicy([[0.5, 0.5, 0.0]] * 2)
    policy = TabularPolicy([[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]])
    found = evaluate_policy(log, policy=policy, baseline=baseline, gamma=GAMMA, estimators=["is"])
    text = " ".join(found.warnings)
    assert "the squares of its 2 terms count as" in " ".join(found["is"].warnings)
    assert "In 1 visited states the policy takes actions that the baseline never takes" in text
    assert "first: 0, with probability 0.25" in text
    assert "In 1 places steps of an episode are missing" in text
    assert "1 rows follow the end of their episode" in text


def test_what_lies_beyond_a_truncated_record():
    """Two of four episodes are cut after one step: half of gamma times a full value is missing."""
    log = Log.from_arrays(
        state=[0] * 4, action=[0, 1, 0, 1], reward=[1.0, -1.0, 0.5, 0.0], next_state=[0] * 4,
        terminated=[True, True, False, False], truncated=[False, False, True, True],
        episode=range(4),
    )  # fmt: skip
    half = TabularPolicy([[0.5, 0.5]])
    found = evaluate_policy(log, policy=half, baseline=half, gamma=GAMMA, estimators=["is", "dr"])
    assert found.n_truncated == 2
    assert found.missing == pytest.approx((-0.5 * 0.9 * 10, 0.5 * 0.9 * 10))
    assert any("2 of 4 episodes are truncated" in text for text in found.assumptions)
    endless = evaluate_policy(log, policy=half, baseline=half, gamma=1.0, estimators=["is"])
    assert endless.missing == (-math.inf, math.inf)


def test_large_models_have_an_estimate_without_interval():
    _, baseline, log = random_problem(2, n_states=130, n_episodes=400)
    found = evaluate_policy(
        log, policy=baseline, baseline=baseline, gamma=GAMMA, estimators=["model"]
    )
    assert math.isfinite(found["model"].estimate)
    assert found["model"].interval == (-math.inf, math.inf)
    assert any("not refitted" in text for text in found["model"].warnings)


def test_a_model_that_knows_nothing_of_the_policy_gives_no_number():
    """All that the policy does was never tried: what it earns is not in the log."""
    log = Log.from_arrays(
        state=[0] * 50, action=[0] * 50, reward=[1.0, 0.0] * 25, episode=np.arange(50), n_actions=2
    )
    found = evaluate_policy(
        log, policy=TabularPolicy([[0.1, 0.9]]), baseline=TabularPolicy([[0.99, 0.01]]),
        gamma=0.9, estimators=["model"],
    )["model"]  # fmt: skip
    assert math.isnan(found.estimate)
    assert found.interval == (-math.inf, math.inf)
    assert any("withheld: 90 % of the policy's visits" in text for text in found.warnings)


@pytest.fixture
def files(case, tmp_path):
    log, policy, baseline = case
    rows = ["episode,state,action,reward,next_state,terminated"]
    for k in range(len(log)):
        rows.append(
            f"{log.episode[k]},{log.state[k]},{log.action[k]},{log.reward[k]!r},"
            f"{log.next_state[k]},{bool(log.terminated[k])}".lower()
        )
    (tmp_path / "log.csv").write_text("\n".join(rows).replace("np.float64(", "").replace(")", ""))
    baseline.write(tmp_path / "baseline.csv")
    policy.write(tmp_path / "policy.csv")
    return {name: str(tmp_path / f"{name}.csv") for name in ("log", "baseline", "policy")}


def run(files, printed, **asked):
    baseline = asked.pop("baseline", files["baseline"])
    given = {"baseline": [baseline], "policy": files["policy"]}
    evaluate(files["log"], GAMMA, **given, printed=printed, **asked)


def test_command_prints_a_table_of_80_columns(files, capsys, monkeypatch):
    monkeypatch.setattr(console, "width", 80)
    run(files, "table")
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    for name in (*ESTIMATORS, "baseline (mean return)", "Assumed", "120 episodes"):
        assert name in out


def test_command_prints_json_and_csv(case, files, capsys):
    run(files, "json", estimator="is, dr", bound="student-t", delta=0.1)
    printed = json.loads(capsys.readouterr().out)
    assert [part["estimator"] for part in printed["estimates"]] == ["is", "dr"]
    assert printed["delta"] == 0.1
    run(files, "csv", estimator="is,wis,model")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["estimator"] for row in rows] == ["mean", "is", "wis", "model"]
    assert float(rows[1]["lower"]) <= float(rows[1]["estimate"]) <= float(rows[1]["upper"])
    assert rows[3]["ess"] == ""
    log, policy, baseline = case
    found = evaluate_policy(log, policy=policy, baseline=baseline, gamma=GAMMA)
    assert float(rows[2]["estimate"]) == pytest.approx(found["wis"].estimate)


def test_command_estimates_the_baseline_and_merges_warnings(files, capsys):
    run(files, "table", baseline="estimate", estimator="is,pdis")
    out = " ".join(capsys.readouterr().out.split())
    assert "estimated from this log" in out


def test_command_says_once_what_several_estimators_share(tmp_path, capsys):
    rng = np.random.default_rng(0)
    lines = ["episode,state,action,reward"]
    lines += [f"{k},0,{int(rng.random() < 0.02)},{rng.random():.3f}" for k in range(200)]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    TabularPolicy([[0.98, 0.02]]).write(tmp_path / "baseline.csv")
    TabularPolicy([[0.0, 1.0]]).write(tmp_path / "policy.csv")
    files = {name: str(tmp_path / f"{name}.csv") for name in ("log", "baseline", "policy")}
    run(files, "table", estimator="is,pdis,dr")
    out = " ".join(capsys.readouterr().out.split())
    assert "is, pdis, dr: The weights degenerate" in out


def test_command_refuses_unknown_names(files):
    with pytest.raises(SettingsError, match="use 'cwpdis'"):
        run(files, "json", estimator="cwpdi")
    with pytest.raises(SettingsError, match="use 'concentration'"):
        run(files, "json", bound="concentrate")


def test_a_model_that_contradicts_its_own_log_gives_no_number():
    """Two states under one name: what follows depends on what the record does not say."""
    n = 400
    paid = np.zeros((n, 3))
    paid[:, 0] = 1 + 2 * (np.arange(n) % 2)  # the first of three steps alone pays
    log = Log.from_arrays(
        state=np.zeros(3 * n, int), action=np.zeros(3 * n, int), reward=paid.ravel(), n_actions=2,
        episode=np.repeat(np.arange(n), 3), terminated=np.tile([False, False, True], n),
    )  # fmt: skip
    baseline = TabularPolicy([[1.0, 0.0]])
    found = evaluate_policy(log, policy=baseline, baseline=baseline, gamma=0.9,
                            estimators=["model"], bound="bca")["model"]  # fmt: skip
    assert math.isnan(found.estimate)
    assert any("the model puts the baseline at" in text for text in found.warnings)


def test_what_lies_beyond_the_record_is_called_an_estimate():
    log = Log.from_arrays(
        state=[0] * 40, action=[0, 1] * 20, reward=[0.0, 1.0] * 20, episode=np.arange(40),
        truncated=[True] * 40, next_state=[0] * 40,
    )  # fmt: skip
    found = evaluate_policy(
        log, policy=TabularPolicy([[0.2, 0.8]]), baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.5,
        reward_range=(0.0, 1.0), bound="student-t",
    )  # fmt: skip
    assert any("by an estimate" in text for text in found.assumptions)
