"""Logs of several policies: what is pooled, what is not, and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from spibb import (
    HCPI,
    ApproxSoftSPIBB,
    Assessment,
    BasicRL,
    Counts,
    DecisionPoints,
    HoeffdingReturns,
    Limits,
    Log,
    PiBSPIBB,
    Problem,
    TabularMDP,
    TabularPolicy,
    audit,
    count_log,
    estimate_baseline,
    evaluate,
    evaluate_policy,
    improve_many,
    inspect,
    risk,
)
from spibb.errors import DataError, PolicyError, SettingsError
from spibb.testing.adversaries import ADVERSARIES, joined_logs

GAMMA = 0.9
TWO = ADVERSARIES["two-loggers"]
LOG = TWO.draw(np.random.default_rng(5))
OLD = LOG.take(LOG.acted.policy == LOG.acted.names.index("old"))
UNIFORM = TabularPolicy.uniform(5, 3)
ASKED = {"baseline": TWO.baseline, "gamma": GAMMA, "improve_on": "old"}


def test_transitions_are_pooled_and_first_states_are_not():
    problem, everything = Problem.of(LOG, **ASKED), Counts.from_log(LOG)
    assert (problem.counts.n_sa == everything.n_sa).all()
    assert (problem.counts.n_sas != everything.n_sas).nnz == 0
    assert problem.counts.n_initial.tolist() == Counts.from_log(OLD).n_initial.tolist()
    assert problem.counts.n_initial.sum() == 60
    assert problem.loggers.n_episodes == {"new": 60, "old": 60}
    assert problem.whole is not problem.log
    assert len(problem.log) == len(OLD) < len(problem.whole)
    assert "60 episodes of 'old' alone" in problem.loggers.used
    assert "policies" in str(problem)


def test_what_rests_on_returns_takes_the_episodes_of_the_policy_that_runs():
    problem, alone = Problem.of(LOG, **ASKED), Problem.of(OLD, **ASKED | {"improve_on": None})
    assert alone.loggers is None
    assert np.array_equal(problem.returns().mean, alone.returns().mean)
    error = HoeffdingReturns()
    assert np.array_equal(error.errors(problem, 0.1), error.errors(alone, 0.1))
    found = [evaluate_policy(one, policy=TWO.policy) for one in (problem, alone)]
    assert found[0].estimates == found[1].estimates
    assert found[0].baseline == found[1].baseline
    assert found[0].improved_on == "old"
    assert found[1].improved_on is None
    assert any("60 episodes of 'old' alone" in text for text in found[0].assumptions)


@pytest.mark.parametrize("algorithm", [HCPI(), DecisionPoints()])
def test_held_out_tests_are_those_of_its_own_episodes(algorithm):
    both, alone = (
        algorithm.improve(one, rng=np.random.default_rng(1))
        for one in (Problem.of(LOG, **ASKED), Problem.of(OLD, **ASKED | {"improve_on": None}))
    )
    assert np.array_equal(both.policy.probabilities, alone.policy.probabilities)
    claimed = [
        {one.theorem: one.bound for one in (made.certificate.guarantee, *made.certificate.others)}
        for made in (both, alone)
    ]
    for found in claimed:
        del found["Regret test"]  # of pooled transitions, and so another
    assert claimed[0] == claimed[1]


def test_the_result_says_who_acted():
    result = ApproxSoftSPIBB().improve(LOG, **ASKED)
    found = Assessment.of(result)
    assert any("60 episodes of 'old' alone" in text for text in found.findings)
    assumed = " ".join(result.certificate.guarantee.assumptions)
    assert "Transitions of 'new', 'old' are counted together" in assumed
    assert found.log_return.n_episodes == 60
    assert result.policy.log_hash == LOG.content_hash
    assert evaluate_policy(LOG, policy=result.policy, **ASKED).origin == "same"


def test_an_action_that_one_logger_never_tries():
    """In state 0 the third action is best; the policy that runs has never taken it."""
    mdp = TabularMDP(np.zeros((1, 3, 1)), [[0.0, 0.1, 1.0]], 0.5, [1.0])
    old, new = TabularPolicy([[0.5, 0.5, 0.0]]), TabularPolicy([[0.1, 0.1, 0.8]])
    logs = [
        Log.sample(mdp, policy, n_episodes=200, max_steps=1, rng=np.random.default_rng(k))
        for k, policy in enumerate((old, new))
    ]
    both = joined_logs(logs, ("old", "new"))
    asked = {"baseline": old, "gamma": 0.5}
    alone = PiBSPIBB(n_wedge=10).improve(logs[0], **asked).policy.probabilities
    pooled = PiBSPIBB(n_wedge=10).improve(both, **asked, improve_on="old")
    assert alone.tolist() == [[0.0, 1.0, 0.0]]
    assert pooled.policy.probabilities.tolist() == [[0.0, 0.0, 1.0]]
    assert Assessment.of(pooled).log_return.mean == pytest.approx(logs[0].reward.mean())
    # Weights of the old policy's episodes know nothing of it: the estimate is careful, and says so.
    found = evaluate_policy(both, policy=pooled.policy, **asked, improve_on="old", same_log=True)
    assert found["is"].estimate == 0.0
    assert any("actions that the baseline never takes" in text for text in found.warnings)
    swapped = evaluate_policy(
        both, policy=old, baseline={"new": new}, gamma=0.5, improve_on="new", estimators=["is"]
    )
    assert swapped["is"].estimate == pytest.approx(0.05, abs=0.03)


def test_episodes_in_which_several_acted_serve_for_transitions_alone():
    log = Log.from_arrays(
        state=[0, 1, 0, 1, 0, 1], action=[0, 1, 0, 0, 1, 1], reward=[0.0, 1.0, 0.0, 5.0, 0.0, 2.0],
        episode=[0, 0, 1, 1, 2, 2], policy=["a", "a", "a", "b", "b", "b"],
    )  # fmt: skip
    problem = Problem.of(log, baseline=TabularPolicy.uniform(2, 2), gamma=1.0, improve_on="a")
    assert problem.loggers.n_mixed == 1
    assert problem.loggers.n_episodes == {"a": 1, "b": 1}
    assert "1 of several" in problem.loggers.used
    assert problem.counts.n_sa.sum() == 6
    assert problem.log.reward.tolist() == [0.0, 1.0]
    with pytest.raises(SettingsError, match="no episode was made by 'a' alone"):
        Problem.of(log.take(log.episode == 1), baseline="estimate", gamma=1.0, improve_on="a")


def test_logs_without_episodes_are_divided_by_rows():
    log = Log.from_arrays(
        state=[0, 0, 0], action=[0, 1, 1], reward=[0.0, 1.0, 1.0], next_state=[0, 0, 0],
        policy=["a", "b", "b"],
    )  # fmt: skip
    problem = Problem.of(log, baseline="estimate", gamma=0.5, improve_on="b")
    assert problem.baseline.probabilities.tolist() == [[0.0, 1.0]]
    assert problem.counts.n_sa.tolist() == [[1, 2]]
    assert "'b' acted in 2 of 3 rows" in problem.loggers.used


def test_one_baseline_for_each():
    each = {"old": TWO.baseline, "new": UNIFORM}
    problem = Problem.of(LOG, baseline=each, gamma=GAMMA, improve_on="new")
    assert np.array_equal(problem.baseline.probabilities, UNIFORM.probabilities)
    estimated = Problem.of(LOG, baseline={"old": "estimate"}, gamma=GAMMA, improve_on="old")
    expected = estimate_baseline(OLD).probabilities
    assert np.array_equal(estimated.baseline.probabilities, expected)
    assert estimated.baseline.is_estimated
    tilted = TabularPolicy(np.tile([0.8, 0.1, 0.1], (5, 1)))
    with pytest.raises(PolicyError, match="the baseline of 'new' does not make the actions"):
        Problem.of(LOG, baseline=each | {"new": tilted}, gamma=GAMMA, improve_on="old")
    with pytest.raises(PolicyError, match="the baseline of 'new' gives probability 0"):
        Problem.of(LOG, baseline=each | {"new": TWO.baseline}, gamma=GAMMA, improve_on="old")
    with pytest.raises(PolicyError, match="the baseline gives probability 0 to actions"):
        Problem.of(LOG, **ASKED | {"improve_on": "new"})
    bounds = improve_many([PiBSPIBB()], [LOG], baselines=each, gamma=GAMMA, improve_on="old")
    assert bounds.probabilities.shape == (1, 1, 5, 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"improve_on": None}, r"2 policies made the log: 'new', 'old'.*--improve-on new"),
        ({"improve_on": "odl"}, r"'odl', which the log does not name.*'new', 'old'.*write 'old'"),
        ({"baseline": {"older": UNIFORM}}, "a baseline is given for 'older'.*among 'new', 'old'"),
        ({"baseline": {"new": UNIFORM}}, "baseline is not given"),
        ({"baseline": {"old": 3}}, "baseline is 3"),
    ],
)
def test_refused(given, message):
    with pytest.raises(SettingsError, match=message):
        Problem.of(LOG, **ASKED | given)


def test_names_need_the_column():
    plain = replace(LOG, acted=None)
    with pytest.raises(SettingsError, match="a log with the column 'policy'"):
        Problem.of(plain, **ASKED)
    with pytest.raises(SettingsError, match="one baseline without a name"):
        Problem.of(plain, baseline={"old": UNIFORM}, gamma=GAMMA)


def test_one_name_needs_no_choice():
    assert OLD.acted.names == ("old",)
    for more in ({}, {"improve_on": "old"}):
        given = Problem.of(OLD, baseline={"old": TWO.baseline}, gamma=GAMMA, **more)
        assert given.loggers is None


def test_propensities_are_held_to_the_baseline_in_its_own_rows():
    kept = ("state", "action", "reward", "next_state", "terminated", "episode", "step")
    rows = {name: getattr(LOG, name) for name in kept}
    who = np.array(LOG.acted.names)[LOG.acted.policy]
    p = np.where(who == "old", TWO.baseline.probabilities[LOG.state, LOG.action], 1 / 3)
    log = Log.from_arrays(**rows, policy=who, propensity=p)
    found = evaluate_policy(log, policy=TWO.policy, gamma=GAMMA, improve_on="old")
    expected = evaluate_policy(LOG, policy=TWO.policy, **ASKED)
    assert found["is"].estimate == pytest.approx(expected["is"].estimate)
    assert found.n_episodes == 60
    Problem.of(log, baseline={"old": TWO.baseline, "new": UNIFORM}, gamma=GAMMA, improve_on="new")
    wrong = Log.from_arrays(**rows, policy=who, propensity=np.full(len(LOG), 1 / 3))
    with pytest.raises(DataError, match="the log says that"):
        Problem.of(wrong, **ASKED)


def test_inspect_holds_actions_to_the_policy_that_took_them():
    found = inspect(LOG, baseline=TWO.baseline, improve_on="old")
    assert not found.is_refused
    assert found.facts["policies"] == {"new": int((LOG.acted.policy == 0).sum()),
                                       "old": int((LOG.acted.policy == 1).sum())}  # fmt: skip
    assert inspect(LOG, baseline=TWO.baseline, improve_on="new").is_refused
    with pytest.raises(SettingsError, match="2 policies made the log"):
        inspect(LOG, baseline=TWO.baseline)
    drift = {one.check: one for one in inspect(LOG).tests}["drift"]
    assert drift.p_value is None
    assert "several policies acted" in drift.remark
    problem = Problem.of(LOG, **ASKED)
    assert inspect(problem).to_dict()["baseline"] == found.to_dict()["baseline"]


@pytest.mark.statistical
def test_intervals_cover_with_two_loggers():
    """Intervals at 80 % over 300 logs; not if all episodes are taken for those of one mixture.

    The other logger's episodes begin where it is best.
    """
    truth, n = TWO.value(TWO.policy), 300
    missed, fooled = 0, 0
    asked = {"policy": TWO.policy, "gamma": GAMMA, "bound": "student-t", "estimators": ["pdis"],
             "delta": 0.2}  # fmt: skip
    own, misled = [], []
    for k in range(n):
        log = TWO.draw(np.random.default_rng([3, k]))
        found = evaluate_policy(log, baseline=TWO.baseline, improve_on="old", **asked)["pdis"]
        missed += not found.interval[0] <= truth <= found.interval[1]
        own.append(found.estimate)
        mixed = TabularPolicy(0.5 * TWO.baseline.probabilities + 0.5 / 3)
        pooled = evaluate_policy(
            replace(log, acted=None), baseline=mixed, accept_baseline=True, **asked
        )["pdis"]  # fmt: skip
        fooled += not pooled.interval[0] <= truth <= pooled.interval[1]
        misled.append(pooled.estimate)
    assert abs(np.mean(own) - truth) < 4 * np.std(own) / math.sqrt(n)
    assert abs(np.mean(misled) - truth) > 8 * np.std(misled) / math.sqrt(n)
    assert missed <= 0.2 * n + 3 * math.sqrt(0.16 * n)
    assert fooled > missed


@pytest.mark.statistical
def test_the_start_row_is_that_of_the_policy_that_runs():
    """Two starts that never meet, one of them the other logger's: a certificate must not mix them.

    The new policy gains where the other logger begins and loses where the policy that runs does.
    """
    transition = np.zeros((2, 2, 2))
    transition[0, :, 0] = transition[1, :, 1] = 1.0
    reward = [[0.6, 0.4], [0.0, 1.0]]
    mdp, there = (TabularMDP(transition, reward, 0.5, start) for start in ([1.0, 0.0], [0.0, 1.0]))
    half = TabularPolicy.uniform(2, 2)
    policy = TabularPolicy([[0.0, 1.0], [0.0, 1.0]])
    truth = evaluate(mdp, policy).performance - evaluate(mdp, half).performance
    assert truth < 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        logs = [Log.sample(one, half, n_episodes=n, max_steps=200, rng=rng)
                for one, n in ((mdp, 60), (there, 200))]  # fmt: skip
        log = joined_logs(logs, ("old", "new"))
        found = audit(log, policy=policy, baseline=half, gamma=0.5, improve_on="old",
                      reward_range=(0.0, 1.0), states_complete=True)  # fmt: skip
        assert found.bound is not None
        assert found.bound <= truth


def looking_further(n=4_000):
    """A log of 'day', who sees what is not recorded and acts on it, and of 'night', who does not.

    Action 1 pays where h is 1, which 'day' knows: pooled, it looks good in every case.
    """
    rng = np.random.default_rng(0)
    h, is_day = rng.integers(0, 2, n), np.arange(n) >= 20
    p = np.where(is_day, np.where(h == 1, 0.9, 0.1), 0.5)
    action = (rng.random(n) < p).astype(int)
    return Log.from_arrays(
        state=[0] * n, action=action, reward=np.where(action == 1, 0.8 * h, 0.5),
        propensity=np.where(action == 1, p, 1.0 - p), policy=np.where(is_day, "day", "night"),
    )  # fmt: skip


def test_nothing_is_made_of_a_log_whose_propensities_say_that_more_was_looked_at():
    log = looking_further()
    half = TabularPolicy([[0.5, 0.5]])
    given = {"baseline": {"night": half}, "improve_on": "night", "reward_range": (0.0, 1.0)}
    problem = Problem.of(log, **given)
    always = TabularPolicy([[0.0, 1.0]])
    for ask in (
        lambda: BasicRL().improve(problem),
        lambda: BasicRL().improve(log, baseline="estimate", improve_on="day"),
        lambda: HCPI().improve(log, baseline="estimate", improve_on="day"),
        lambda: improve_many([BasicRL()], [problem]),
        lambda: audit(problem, policy=always),
        lambda: risk(problem, always),
        lambda: evaluate_policy(
            log, policy=always, baseline={"day": "estimate", "night": half}, improve_on="night",
            all_episodes=True,
        ),
    ):  # fmt: skip
        with pytest.raises(DataError, match="used more than the state"):
            ask()
    found = evaluate_policy(log, policy=always, baseline={"day": "estimate"}, improve_on="day")
    low, high = found["is"].interval
    assert low < 0.4 < high < 0.45, "row by row it can be judged"
    seen = inspect(log, baseline={"night": half}, improve_on="night")
    assert seen.is_refused
    assert "hidden-state" in [one.check for one in seen.findings]


def test_inspection_refuses_a_baseline_that_the_propensities_contradict():
    log = Log.from_arrays(state=[0] * 4, action=[0, 1] * 2, reward=[0.0] * 4, propensity=[0.5] * 4)
    assert not inspect(log, baseline=TabularPolicy([[0.5, 0.5]])).is_refused
    found = inspect(log, baseline=TabularPolicy([[0.6, 0.4]]))
    assert [one.check for one in found.findings if one.severity == "refused"] == ["propensity"]


def test_counts_keep_no_names_and_refuse_several(tmp_path):
    rows = {"episode": [0, 0, 1, 1], "state": [0, 0, 1, 0], "action": [0, 1, 0, 1],
            "reward": [0.0, 1.0, 0.0, 1.0], "policy": ["a", "a", "b", "b"]}  # fmt: skip
    pd.DataFrame(rows).to_csv(tmp_path / "two.csv", index=False)
    with pytest.raises(DataError, match="2 policies made the log: 'a', 'b'"):
        count_log(tmp_path / "two.csv")
    pd.DataFrame(rows | {"policy": ["a"] * 4}).to_csv(tmp_path / "one.csv", index=False)
    assert count_log(tmp_path / "one.csv").n_sa.sum() == 4


def test_a_list_of_states_that_the_log_drew_up_is_paid_for():
    n = 4_000
    action = np.random.default_rng(0).integers(0, 2, n)
    log = Log.from_arrays(state=[0] * n, action=action, reward=action / 1.0,
                          propensities=[[0.5, 0.5]] * n)  # fmt: skip
    undeclared, declared = (
        BasicRL().improve(log, reward_range=(0.0, 1.0), states_complete=told).certificate.bound
        for told in (False, True)
    )
    assert 0.0 < undeclared < declared
    told = audit(log, policy=TabularPolicy([[0.0, 1.0]]), reward_range=(0.0, 1.0))
    assert told.bound == pytest.approx(undeclared)


def test_a_log_that_made_a_policy_is_known_among_others():
    """The policy was made of the old policy's rows, which are all that judge it."""
    made = BasicRL().improve(OLD, baseline=TWO.baseline, gamma=GAMMA)
    assert evaluate_policy(LOG, policy=made.policy, **ASKED).origin == "same"


def test_halves_see_their_own_costs_alone():
    rng = np.random.default_rng(1)
    n = 60
    log = Log.from_arrays(
        state=rng.integers(0, 2, n), action=rng.integers(0, 2, n), reward=rng.random(n),
        episode=np.arange(n), policy=["a"] * 40 + ["b"] * 20, cost={"harm": rng.random(n)},
    )  # fmt: skip
    half, limits = TabularPolicy([[0.5, 0.5]] * 2), Limits(cost=["harm"])
    problem = Problem.of(log, baseline={"a": half}, improve_on="a", gamma=0.9, limits=limits)
    part = problem.part(np.arange(40) < 20)
    alone = Problem.of(log.take(np.arange(n) < 20), baseline=half, gamma=0.9, limits=limits)
    np.testing.assert_allclose(part.cost_advantages, alone.cost_advantages)


def test_a_recorded_policy_is_not_known_where_others_have_been():
    log = Log.from_arrays(
        state=[0, 1], action=[0, 0], reward=[0.0, 1.0], episode=[0, 1], policy=["a", "b"],
        propensities=[[0.5, 0.5]] * 2,
    )  # fmt: skip
    with pytest.raises(SettingsError, match="does not record what 'a' does in 1 states"):
        Problem.of(log, improve_on="a", gamma=0.9)
