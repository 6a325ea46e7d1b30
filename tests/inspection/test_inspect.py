"""What is wrong with a log is found, and what is not wrong is not."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import spibb
from spibb import Log, TabularPolicy, inspect
from spibb.errors import DataError, PolicyError, SettingsError
from spibb.inspection.registry import family_level
from spibb.report.inspection import render_inspection
from spibb.testing.clean_logs import KINDS, clean_log

DEMO = Path(spibb.__file__).parent / "cli/demo"
FRAME = pd.read_csv(DEMO / "log.csv")
BASELINE = TabularPolicy.read(DEMO / "baseline.csv")
BARE = ["step", "next_state", "terminated", "truncated"]


def found_in(log, **given):
    """Return findings by the names of their checks."""
    return {one.check: one for one in inspect(log, **given).findings}


def test_nothing_is_found_in_the_demo():
    found = inspect(FRAME, baseline=BASELINE, reward_range=(-10, 10))
    assert not found.findings
    assert not found.is_refused
    assert {one.check for one in found.tests if one.p_value is not None} == {
        "baseline", "duplicates", "drift", "process-drift", "markov", "costs", "memory",
        "persistent-rewards", "alignment",
    }  # fmt: skip
    assert found.facts["rows"] == len(FRAME)
    assert found.facts["episodes"] == FRAME["episode"].nunique()
    assert found.facts["states_met"] == FRAME["state"].nunique()
    assert found.facts["lengths"]["largest"] == FRAME.groupby("episode").size().max()
    assert found.facts["rewards"]["least"] == FRAME["reward"].min()
    seen = FRAME.groupby(["state", "action"]).size()
    by_times = {part["seen"]: part for part in found.coverage}
    assert by_times["1 to 9"]["pairs"] == int((seen < 10).sum())
    assert by_times["100+"]["pairs"] == int((seen >= 100).sum())
    assert sum(part["share_of_visits"] for part in found.coverage) == pytest.approx(1.0)
    assert by_times["0"]["share_of_visits"] > 0.0  # the rule would sometimes go there
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["format"] == "spibb-inspection"


def test_a_wrong_baseline():
    uniform = TabularPolicy(
        np.full((BASELINE.n_states, BASELINE.n_actions), 1 / BASELINE.n_actions),
        BASELINE.state_labels,
        BASELINE.action_labels,
    )
    found = inspect(FRAME, baseline=uniform)
    assert found.is_refused
    assert found.findings[0].check == "baseline"
    assert found.findings[0].places[0]["rows"] > 300
    assert 0.2 < found.fit.distance < 0.4
    for call in (
        lambda **more: spibb.BasicRL().improve(FRAME, baseline=uniform, gamma=0.9, **more),
        lambda **more: spibb.audit(FRAME, policy=uniform, baseline=uniform, gamma=0.9, **more),
        lambda **more: spibb.evaluate_policy(
            FRAME, policy=uniform, baseline=uniform, gamma=0.9, **more
        ),
    ):
        with pytest.raises(PolicyError, match=r"does not make the actions .* accept_baseline=True"):
            call()
        call(accept_baseline=True)


def test_a_baseline_that_cannot_have_made_the_log():
    table = BASELINE.probabilities.copy()
    table[0] = [1.0, 0.0, 0.0, 0.0]
    found = inspect(FRAME, baseline=TabularPolicy(table, BASELINE.state_labels,
                                                  BASELINE.action_labels))  # fmt: skip
    assert found.is_refused
    assert "probability 0" in found.findings[0].found
    assert found.findings[0].places[0]["in_baseline"] == 0.0


def changed_half_way(n_episodes, max_steps, rng):
    """Return the log of a policy that was replaced after half of the episodes, or steps."""
    process = spibb.envs.WetChicken().to_mdp(gamma=0.95)
    old = spibb.envs.WetChicken().baseline(epsilon=0.2)
    new = TabularPolicy(np.roll(old.probabilities, 1, axis=1))
    parts = [
        Log.sample(process, policy, n_episodes=max(1, n_episodes // 2), max_steps=max_steps,
                   rng=rng)
        for policy in (old, new)
    ]  # fmt: skip
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("state", "action", "reward", "next_state")
    }
    episode = np.concatenate([parts[0].episode, parts[1].episode + n_episodes])
    if n_episodes == 1:
        episode = np.zeros_like(episode)
    terminated = np.zeros(len(episode), dtype=bool)
    return Log.from_arrays(**columns, episode=episode, terminated=terminated)


@pytest.mark.parametrize(("n_episodes", "max_steps"), [(100, 20), (1, 1_500), (6, 400)])
def test_a_policy_that_changed_half_way(n_episodes, max_steps):
    log = changed_half_way(n_episodes, max_steps, np.random.default_rng(5))
    for baseline in (None, "estimate"):
        found = found_in(log, baseline=baseline)
        assert "drift" in found, baseline
        assert found["drift"].share > 0.3
        assert found["drift"].places


def test_a_file_read_twice():
    again = FRAME.assign(episode=FRAME["episode"] + 10_000)
    found = found_in(pd.concat([FRAME, again]), baseline=BASELINE)
    assert list(found) == ["duplicates"]  # copies do not make the other tests sure of anything
    assert found["duplicates"].share == pytest.approx(0.5, abs=0.01)
    thrice = pd.concat([FRAME, again, FRAME.assign(episode=FRAME["episode"] + 20_000)])
    assert "duplicates" in found_in(thrice)
    part = pd.concat([FRAME, again[again["episode"] < 10_100]])
    assert "duplicates" in found_in(part)
    # The numbers of the episodes twice as well: with steps the log is refused, without them found.
    with pytest.raises(DataError, match="a file may have been read twice"):
        inspect(pd.concat([FRAME, FRAME]))
    assert "duplicates" in found_in(pd.concat([FRAME, FRAME]).drop(columns="step"))


def test_transitions_without_episodes_that_are_there_twice():
    rng = np.random.default_rng(0)
    rows = {"state": rng.integers(0, 20, 500), "action": rng.integers(0, 4, 500),
            "reward": rng.integers(0, 5, 500), "next_state": rng.integers(0, 20, 500)}  # fmt: skip
    assert "duplicates" not in found_in(Log.from_arrays(**rows))
    twice = {name: np.tile(values, 2) for name, values in rows.items()}
    assert "duplicates" in found_in(Log.from_arrays(**twice))


def test_a_shuffled_episode_column():
    rng = np.random.default_rng(1)
    shuffled = FRAME.assign(episode=rng.permutation(FRAME["episode"]))
    with pytest.raises(DataError, match="the episode column may be shuffled"):
        inspect(shuffled)
    assert found_in(shuffled.drop(columns="step"))["shuffled"].share > 0.8
    # Nothing but the order of the rows says what follows.
    assert "unrelated" in found_in(shuffled.drop(columns=BARE))
    bare = FRAME.drop(columns=["episode", "step"], errors="ignore")
    mixed = bare.assign(next_state=rng.permutation(bare["next_state"]))
    assert found_in(mixed)["unrelated"].severity == "biased"
    assert "unrelated" not in found_in(bare)
    # 32 of its records are truncated, which nothing says now.
    assert list(found_in(FRAME.drop(columns=BARE))) == ["assumed-ends"]


def remembering(n_episodes, n_steps, rng, by_reward=False):
    """Return a log in which the last action still decides: by the next state, or the reward."""
    rows = []
    for episode in range(n_episodes):
        state, before = 0, 0
        for step in range(n_steps):
            action = int(rng.random() < 0.5)
            likely = 0.5 if by_reward else (0.8 if before else 0.2)
            after = int(rng.random() < likely) + (2 if action else 0)
            reward = rng.normal() + (2.0 * before if by_reward else 0.0)
            rows.append((episode, step, state, action, reward, after))
            state, before = after, action
    table = pd.DataFrame(
        rows, columns=["episode", "step", "state", "action", "reward", "next_state"]
    )
    return table.assign(terminated=False)


@pytest.mark.parametrize("by_reward", [False, True])
@pytest.mark.parametrize(("n_episodes", "n_steps"), [(200, 10), (1, 3_000)])
def test_a_log_that_remembers(n_episodes, n_steps, by_reward):
    log = remembering(n_episodes, n_steps, np.random.default_rng(2), by_reward)
    # States that say what was done last are states enough.
    told = log.assign(
        state=log["state"].astype(str)
        + log.groupby("episode")["action"].shift(fill_value=0).map(str)
    ).drop(columns="next_state")
    assert "markov" not in found_in(told)
    hidden = log.assign(state=log["state"] % 2, next_state=log["next_state"] % 2)
    assert "markov" in found_in(hidden)


def test_costs_with_a_range():
    costs = FRAME.assign(reward=-(FRAME["reward"] - FRAME["reward"].min()))
    found = inspect(costs, baseline=BASELINE, reward_range=(0.0, 30.0))
    assert found.is_refused
    assert found.findings[0].check == "reward-range"
    assert "are they costs?" in found.findings[0].found
    mixed = found_in(FRAME, reward_range=(-1.0, 10.0))
    assert "costs" not in mixed["reward-range"].found


def test_costs_without_a_range():
    rng = np.random.default_rng(3)
    process = spibb.envs.Cliff().to_mdp(gamma=0.95)
    baseline = spibb.envs.Cliff().baseline(epsilon=0.3)
    log = Log.sample(process, baseline, n_episodes=300, max_steps=50, rng=rng)
    assert "costs" not in found_in(log, baseline=baseline)
    for known in (baseline, None):
        found = inspect(replace(log, reward=-log.reward), baseline=known)
        asked = {one.check: one for one in found.findings}["costs"]
        assert "Are these costs" in asked.effect
        assert not found.is_refused


def test_missing_steps_ends_and_unknown_states():
    gaps = FRAME[~((FRAME["step"] == 2) & (FRAME["episode"] < 20))]
    assert found_in(gaps)["gaps"].severity == "weaker"
    ends = FRAME.assign(terminated=FRAME["terminated"] | (FRAME["step"] == 1))
    assert "ends-inside" in found_in(ends)
    cut = FRAME.assign(terminated=False).drop(columns="next_state")
    assert found_in(cut)["unknown-next-state"].share > 0.05


def test_columns_that_are_something_else():
    rng, n = np.random.default_rng(4), 400
    frame = pd.DataFrame({"episode": np.arange(n) // 10, "state": rng.integers(0, 5, n),
                          "action": rng.integers(0, 3, n), "reward": rng.random(n)})  # fmt: skip
    assert "state-index" in found_in(frame.assign(state=np.arange(n)))
    assert "action-index" in found_in(frame.assign(action=rng.permutation(n)))
    assert "continuous-states" in found_in(frame.assign(state=rng.normal(size=n).round(5)))
    assert "one-action" in found_in(frame.assign(action=0))
    # Of arrays, that is: in tables integers are labels.
    columns = {name: frame[name].to_numpy() for name in frame}
    sparse = Log.from_arrays(**columns | {"state": 1_000 * columns["state"]})
    assert "state-gaps" in {one.check for one in inspect(sparse).findings}
    assert "state-gaps" not in found_in(frame.assign(state=frame["state"] * 1_000))
    worst = inspect(sparse.take(sparse.action == 0)).findings
    assert [one.check for one in worst[:1]] == ["one-action"]
    assert worst[-1].check == "state-gaps"


def test_findings_are_ranked_by_what_they_do_to_the_result():
    gaps = FRAME[~((FRAME["step"] == 2) & (FRAME["episode"] < 20))]
    uniform = TabularPolicy(np.full((30, 4), 0.25), BASELINE.state_labels, BASELINE.action_labels)
    twice = pd.concat([gaps, gaps.assign(episode=gaps["episode"] + 10_000)])
    found = inspect(twice, baseline=uniform, reward_range=(-10, 10))
    assert [one.check for one in found.findings] == ["baseline", "duplicates", "gaps"]
    assert "2 more below" in found.statement


@pytest.mark.statistical
def test_sound_logs_of_every_shape_are_left_alone():
    n = 20 * len(KINDS)
    noted = 0
    for seed in range(n):
        _, log, baseline = clean_log(seed)
        found = inspect(log, baseline=baseline)
        assert not found.is_refused, seed
        noted += any(one.p_value is not None for one in found.findings)
    assert noted <= binom.ppf(0.999, n, family_level())


def test_a_log_of_bearable_size_is_taken_of_a_large_one():
    """Windows and rows chosen at random stand for the rest, and the remark says so."""
    rng, n = np.random.default_rng(6), 500_000
    state = rng.integers(0, 4, n)
    action = (rng.random(n) < np.where(np.arange(n) < n // 2, 0.5, 0.55)).astype(int)
    log = Log.from_arrays(
        state=state, action=action, reward=rng.random(n), episode=np.arange(n) // 50
    )
    found = inspect(log)
    remarks = {one.check: one.remark for one in found.tests}
    assert "200,000 rows" in remarks["drift"]
    assert "windows of 2,000" in remarks["markov"]
    assert "drift" in {one.check for one in found.findings}


def test_a_problem_a_path_a_frame(tmp_path):
    # The discount of twenty steps, which a log without a problem is inspected with.
    problem = spibb.Problem.of(FRAME, baseline=BASELINE, gamma=0.95, reward_range=(-10, 10))
    expected = inspect(FRAME, baseline=BASELINE, reward_range=(-10, 10)).to_dict()
    assert inspect(problem).to_dict() == expected
    path = DEMO / "log.csv"
    assert inspect(path, baseline=BASELINE, reward_range=(-10, 10)).to_dict() == expected
    result = spibb.PiBSPIBB(n_wedge=5).improve(problem)
    assert spibb.Assessment.of(result).inspection.to_dict() == expected
    counted = spibb.PiBSPIBB(n_wedge=5).improve(problem.counts, baseline=BASELINE, gamma=0.95)
    assert spibb.Assessment.of(counted).inspection is None


def test_bad_input():
    with pytest.raises(SettingsError, match="baseline is 3"):
        inspect(FRAME, baseline=3)
    with pytest.raises(SettingsError, match=r"reward_range is \(1, 0\)"):
        inspect(FRAME, reward_range=(1, 0))
    with pytest.raises(SettingsError, match="reward_range is 'ab'"):
        inspect(FRAME, reward_range="ab")
    with pytest.raises(DataError, match="only counts were given"):
        inspect(spibb.Counts.from_log(Log.from_dataframe(FRAME)))
    with pytest.raises(DataError, match="no such log"):
        inspect("nowhere.csv")
    with pytest.raises(PolicyError, match="lacks 2 states"):
        inspect(FRAME, baseline=TabularPolicy(BASELINE.probabilities[2:],
                BASELINE.state_labels[2:], BASELINE.action_labels))  # fmt: skip
    problem = spibb.Problem.of(FRAME, baseline=BASELINE, gamma=0.9)
    with pytest.raises(SettingsError, match="and more beside it"):
        inspect(problem, baseline=BASELINE)


def test_names_stay_names_in_what_is_shown():
    evil = "<script>alert(1)</script>"
    log = Log.from_arrays(
        state=np.zeros(200, int), action=np.arange(200) % 2, reward=np.arange(200) % 7,
        episode=np.arange(200), state_labels=(evil,), action_labels=("\x1b[31m", "O'Brien & Söhne"),
    )  # fmt: skip
    found = inspect(log, baseline=TabularPolicy([[0.99, 0.01]], (evil,), log.action_labels))
    assert found.is_refused
    assert "\x1b" not in repr(found)
    assert "<script" not in found._repr_html_()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_any_log_can_be_inspected(seed):
    """Whatever columns a small log has, and whatever they hold."""
    rng = np.random.default_rng(seed)
    n, n_states, n_actions = (int(rng.integers(1, top)) for top in (40, 8, 5))
    columns = {
        "state": rng.integers(0, n_states, n),
        "action": rng.integers(0, n_actions, n),
        "reward": rng.choice([0.0, 1.0, -1e100, 1e-300, 3.0], n),
    }
    if rng.random() < 0.7:
        columns["episode"] = rng.integers(0, int(rng.integers(1, n + 1)), n)
    if "episode" not in columns or rng.random() < 0.5:
        columns["next_state"] = rng.integers(-1, n_states, n)
        columns["next_state"][0] = 0
    for name in ("terminated", "truncated"):
        if rng.random() < 0.5:
            columns[name] = rng.random(n) < 0.3
    log = Log.from_arrays(**columns, n_states=n_states, n_actions=n_actions)
    baseline = TabularPolicy(rng.dirichlet(np.ones(n_actions), n_states))
    try:
        spibb.Counts.from_log(log)
    except DataError:
        return  # no row says what followed
    for given_baseline in (None, baseline):
        found = inspect(log, baseline=given_baseline, reward_range=(-1.0, 1.0))
        json.dumps(found.to_dict(), allow_nan=False)
        assert [one.rank for one in found.findings] == sorted(one.rank for one in found.findings)
        assert repr(found)
        assert "<svg" in render_inspection(found)
