"""Policies that a log knows row by row: propensity and target_probability in place of tables."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb import Log, Problem, TabularPolicy, estimate_baseline, evaluate_policy
from spibb.errors import DataError, SettingsError
from spibb.ope import OffPolicy
from spibb.ope.estimators import ESTIMATORS
from spibb.testing import reference_ope as reference
from spibb.testing.checks import random_problem

GAMMA = 0.9
ROWS = ("state", "action", "reward", "next_state", "terminated", "truncated", "episode", "step")


def with_columns(log, **more):
    """The same log with columns of the behaviour policy."""
    rows = {name: getattr(log, name) for name in ROWS}
    return Log.from_arrays(**rows, n_states=log.n_states, n_actions=log.n_actions, **more)


def logged(log, policy):
    return policy.probabilities[log.state, log.action]


@pytest.fixture(scope="module")
def case():
    _, baseline, log = random_problem(3, n_episodes=120)
    rng = np.random.default_rng(0)
    policy = TabularPolicy(0.8 * baseline.probabilities + 0.2 * rng.dirichlet(np.ones(3), 6))
    return log, policy, baseline


@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_weights_by_row_are_those_of_plain_loops(seed, gamma):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    columns = {"propensity": rng.uniform(0.1, 1.0, n), "target_probability": rng.random(n)}
    log = Log.from_arrays(
        state=rng.integers(0, 3, n), action=rng.integers(0, 2, n), reward=rng.normal(size=n),
        episode=rng.integers(0, 4, n), terminated=rng.random(n) < 0.1,
        next_state=rng.integers(0, 3, n), **columns,
    )  # fmt: skip
    off = OffPolicy.of(Problem.of(log, baseline="estimate", gamma=gamma), None)
    # The oracle looks up tables: every row is a state of its own.
    rows = Log.from_arrays(
        state=np.arange(n), action=np.zeros(n, int), reward=log.reward, episode=log.episode,
        terminated=log.terminated, next_state=np.full(n, -1), n_states=n,
    )  # fmt: skip
    episodes = reference.episodes_of(rows)
    tables = log.acted.target_probability[:, None], log.acted.propensity[:, None]
    for name, loop in (("is", reference.importance_sampling), ("pdis", reference.per_decision)):
        terms = off.statistic(name, rng).terms
        assert terms == pytest.approx(np.array(loop(episodes, *tables, gamma)))
    for name, loop in (("wis", reference.weighted), ("cwpdis", reference.stepwise_weighted)):
        if (off.plain.weight > 0.0).all():
            expected = loop(episodes, *tables, gamma)
            assert off.statistic(name, rng).estimate == pytest.approx(expected)


def test_columns_say_what_tables_say(case):
    log, policy, baseline = case
    asked = {"gamma": GAMMA, "bound": "student-t"}
    by_table = evaluate_policy(log, policy=policy, baseline=baseline, **asked)
    both = with_columns(
        log, propensity=logged(log, baseline), target_probability=logged(log, policy)
    )
    by_row = {
        "propensity": evaluate_policy(both, policy=policy, **asked),
        "both": evaluate_policy(both, policy=policy, baseline=baseline, **asked),
        "target": evaluate_policy(both, **asked),
        "target over a table": evaluate_policy(
            with_columns(log, target_probability=logged(log, policy)), baseline=baseline, **asked
        ),
    }
    for name, found in by_row.items():
        for part in found.estimates:
            expected = by_table[part.estimator]
            assert part.estimate == pytest.approx(expected.estimate, rel=1e-12), name
            assert part.interval == pytest.approx(expected.interval, rel=1e-9), name
            assert part.ess == pytest.approx(expected.ess), name
        assert found.baseline.estimate == pytest.approx(by_table.baseline.estimate)
        assert not found.is_baseline_estimated
    assert "(propensity)" in by_row["target"].assumptions[0]
    assert "made by the baseline" in by_row["target over a table"].assumptions[0]


def test_a_target_is_evaluated_by_what_needs_nothing_else(case):
    log, policy, baseline = case
    known = with_columns(
        log, propensity=logged(log, baseline), target_probability=logged(log, policy)
    )
    found = evaluate_policy(known, gamma=GAMMA)
    assert [part.estimator for part in found.estimates] == ["is", "pdis", "wis", "cwpdis"]
    assert "Left out: dr, model" in found.warnings[0]
    for name in ("dr", "model"):
        with pytest.raises(SettingsError, match=f"'{name}' cannot be used: the whole policy"):
            evaluate_policy(known, gamma=GAMMA, estimators=[name])
    exact = evaluate_policy(known, gamma=GAMMA, bound="betting", reward_range=(-5.0, 5.0))
    assert exact.is_exact
    assert any("Whatever it may do was possible" in text for text in exact.assumptions)


def clicks(n=3_000):
    """A one-step log of rare rewards, with the probabilities of its rows."""
    rng = np.random.default_rng(4)
    baseline = TabularPolicy.uniform(2, 20)
    policy = TabularPolicy(rng.dirichlet(np.ones(20), 2))
    state, action = rng.integers(0, 2, n), rng.integers(0, 20, n)
    log = Log.from_arrays(
        state=state, action=action, reward=(rng.random(n) < 0.01).astype(float), n_actions=20,
        n_states=2,
    )  # fmt: skip
    return (
        with_columns(log, propensity=logged(log, baseline), target_probability=logged(log, policy)),
        log,
        policy,
        baseline,
    )


@pytest.mark.parametrize("bound", ["bca", "student-t", "betting", "concentration"])
def test_weights_of_rows_have_the_intervals_of_the_same_weights_of_tables(bound):
    """Rare rewards: upper ends were five times as far where weights are those of rows."""
    by_row, log, policy, baseline = clicks()
    asked = {"reward_range": (0.0, 1.0), "bound": bound, "estimators": ["is", "pdis"]}
    by_table = evaluate_policy(log, policy=policy, baseline=baseline, **asked)
    # An exact bound needs to know the largest weight; an approximate one takes the log's.
    largest = (policy.probabilities / baseline.probabilities).max()
    known = {"largest_weight": largest} if by_table.is_exact else {}
    found = evaluate_policy(by_row, **asked, **known)
    assert found.is_exact == by_table.is_exact
    for name in ("is", "pdis"):
        assert found[name].interval == pytest.approx(by_table[name].interval, rel=1e-9)
    told = " ".join(found.assumptions)
    if by_table.is_exact:
        assert f"No episode can have a weight above {largest:g}, as given." in told
        wide = evaluate_policy(by_row, **asked)
        assert wide.is_exact
        assert wide["is"].interval[1] > 1.5 * found["is"].interval[1]
    else:
        assert "the largest of the log" in told


def test_a_largest_weight_that_the_log_contradicts_is_refused():
    by_row, *_ = clicks(300)
    with pytest.raises(SettingsError, match=r"largest_weight is 0.1, and the log has a weight of"):
        evaluate_policy(by_row, largest_weight=0.1)


def beside_support(q=0.01, n=1_000):
    """A log whose policy never takes action 1 in the rare state 1, where nothing was paid."""
    state = (np.arange(n) < q * n).astype(int)
    action = np.where(state == 0, np.arange(n) % 2, 0)
    log = Log.from_arrays(
        state=state, action=action, reward=np.zeros(n), episode=np.arange(n),
        terminated=np.ones(n, bool), propensity=np.where(state == 0, 0.5, 1.0),
    )  # fmt: skip
    baseline = TabularPolicy([[0.5, 0.5], [1.0, 0.0]])
    return log, baseline, TabularPolicy([[0.6, 0.4], [0.0, 1.0]])


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_largest_weight_is_not_used_where_the_baseline_never_takes_an_action(is_recorded):
    log, baseline, policy = beside_support()
    asked = {"policy": policy, "gamma": 0.9, "bound": "betting", "reward_range": (0.0, 1.0)}
    if not is_recorded:
        log = replace(log, acted=None)
    plain, found = (
        evaluate_policy(log, baseline=baseline, estimators=["is"], **asked, **more)
        for more in ({}, {"largest_weight": 1.2})
    )
    assert found["is"].interval == plain["is"].interval
    assert any("largest_weight is not used" in text for text in found.warnings)
    assert not any("weight above" in text for text in found.assumptions)


def test_what_a_largest_weight_of_rows_rests_on_is_told():
    log, _, policy = beside_support()
    asked = {"policy": policy, "gamma": 0.9, "bound": "betting", "reward_range": (0.0, 1.0)}
    told = "Whatever the policy to be evaluated may do was possible to the behaviour policy"
    for more in ({}, {"largest_weight": 1.2}):
        found = evaluate_policy(log, estimators=["is"], **asked, **more)
        assert any(told in text for text in found.assumptions) == bool(more)


def test_a_largest_weight_below_that_of_the_tables_is_refused():
    _, log, policy, baseline = clicks()
    largest = (policy.probabilities / baseline.probabilities).max()
    seen = logged(log, policy) / logged(log, baseline)
    asked = {"policy": policy, "baseline": baseline, "reward_range": (0.0, 1.0)}
    rare = log.take(seen < seen.max())
    with pytest.raises(SettingsError, match=r"by the tables of policy and baseline a weight may"):
        evaluate_policy(rare, largest_weight=0.95 * largest, accept_baseline=True, **asked)
    evaluate_policy(log, largest_weight=largest, **asked)


def test_a_largest_weight_is_one_of_one_step(case):
    log, policy, baseline = case
    with pytest.raises(SettingsError, match="not every row of the log ends its process"):
        evaluate_policy(log, policy=policy, baseline=baseline, gamma=GAMMA, largest_weight=50.0)


def test_without_a_column_a_policy_is_asked_for(case):
    log, policy, baseline = case
    with pytest.raises(SettingsError, match=r"policy is not given.*target_probability"):
        evaluate_policy(log, baseline=baseline, gamma=GAMMA)
    with pytest.raises(SettingsError, match="baseline is not given"):
        evaluate_policy(log, policy=policy, gamma=GAMMA)


def hidden():
    """Half of the episodes are of a kind that is not recorded, and the logger knows it.

    It takes the action that pays in three of four cases, and so is worth 3/4; the state alone seems
    to be met by a coin. The log holds every case as often as it happens.
    """
    cases = [(h, h if k < 3 else 1 - h) for h in (0, 1) for k in range(4)]
    return of_cases(*np.array(cases).T)


def of_cases(kind, action):
    pays = (kind == action).astype(float)
    return Log.from_arrays(
        state=np.zeros(len(pays), int), action=action, reward=pays, episode=np.arange(len(pays)),
        propensity=np.where(pays > 0, 0.75, 0.25),
    )  # fmt: skip


def test_a_logger_that_looks_at_what_is_not_recorded():
    """By rows the coin is worth 1/2, as it is; by states it would seem to be worth 3/4."""
    log, coin = hidden(), TabularPolicy([[0.5, 0.5]])
    names = ["is", "pdis", "wis"]
    found = evaluate_policy(log, policy=coin, gamma=1.0, estimators=names)
    for name in names:
        assert found[name].estimate == pytest.approx(0.5), name
    rng, drawn = np.random.default_rng(1), []
    for _ in range(300):
        kind = rng.integers(0, 2, 40)
        log = of_cases(kind, np.where(rng.random(40) < 0.75, kind, 1 - kind))
        off = OffPolicy.of(Problem.of(log, baseline="estimate", gamma=1.0), coin)
        drawn.append(off.statistic("dr", rng).estimate)
    assert abs(np.mean(drawn) - 0.5) < 4.0 * np.std(drawn) / math.sqrt(len(drawn))
    assert np.std(drawn) < 0.15  # 3/4 would be far outside
    log = hidden()
    fooled = evaluate_policy(log, policy=coin, baseline=coin, gamma=1.0, estimators=["is"],
                             accept_baseline=True)  # fmt: skip
    assert fooled["is"].estimate == pytest.approx(0.5)  # weights are still the rows'
    unknowing = with_columns(log)
    assert evaluate_policy(unknowing, policy=coin, baseline=coin, gamma=1.0, estimators=["is"])[
        "is"
    ].estimate == pytest.approx(0.75)


def test_a_model_of_states_is_left_out_where_the_logger_looked_at_more():
    log, coin = hidden(), TabularPolicy([[0.5, 0.5]])
    found = evaluate_policy(log, policy=coin, gamma=1.0)
    assert [part.estimator for part in found.estimates] == [n for n in ESTIMATORS if n != "model"]
    assert "Left out: model, since propensities vary in state 0, action 0" in found.warnings[0]
    with pytest.raises(SettingsError, match="used more than the state"):
        evaluate_policy(log, policy=coin, gamma=1.0, estimators=["model"])


def test_a_baseline_that_disagrees_is_refused_by_its_first_row(case):
    log, policy, baseline = case
    p = logged(log, baseline)
    p[[40, 90]] *= 0.9
    known = with_columns(log, propensity=p)
    with pytest.raises(DataError, match=r"2 rows disagree.*row 41.*up to 1 %"):
        evaluate_policy(known, policy=policy, baseline=baseline, gamma=GAMMA)
    with pytest.raises(DataError, match="row 41"):
        Problem.of(known, baseline=baseline, gamma=GAMMA)
    evaluate_policy(known, policy=policy, gamma=GAMMA)
    rounded = with_columns(log, propensity=np.round(logged(log, baseline), 4))
    evaluate_policy(rounded, policy=policy, baseline=baseline, gamma=GAMMA)


def test_the_first_row_is_that_of_the_table_not_of_the_sorted_log():
    baseline = TabularPolicy([[0.5, 0.5]])
    log = Log.from_arrays(
        state=[0] * 3, action=[0, 1, 0], reward=[0.0] * 3, episode=[2, 1, 0],
        propensity=[0.5, 0.4, 0.3],
    )  # fmt: skip
    with pytest.raises(DataError, match="row 2"):
        Problem.of(log, baseline=baseline, gamma=GAMMA)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"propensity": [0.5, 0.0]}, r"propensity is 0 in 1 rows.*row 2.*\(0, 1\]"),
        ({"propensity": [1.2, 0.5]}, "propensity is 1.2 in 1 rows.*row 1"),
        ({"propensity": [0.5, math.nan]}, "propensity is missing in 1 rows.*row 2"),
        ({"propensity": [0.5]}, r"propensity has shape \(1,\)"),
        ({"propensity": ["high", "low"]}, "propensity does not hold numbers"),
        ({"target_probability": [-0.1, 0.5]}, r"target_probability is -0.1.*\[0, 1\]"),
        ({"target_probability": [0.0, math.inf]}, "target_probability is inf.*row 2"),
        ({"propensities": [[0.5, 0.5]]}, r"shape \(1, 2\)"),
        ({"propensities": [[0.5, 0.5], [0.5, 0.6]]}, "0.5, 0.6 in 1 rows.*row 2.*sum to 1"),
        ({"propensities": [[0.0, 1.0], [0.5, 0.5]]}, "propensity is 0.*row 1"),
        ({"propensities": [[0.5, 0.5]] * 2, "propensity": [0.5, 0.6]}, "row 2.*the same in both"),
        ({"policy": ["old", ""]}, "policy is missing in 1 rows.*row 2"),
        ({"policy": ["old", None]}, "policy is missing in 1 rows.*row 2"),
        ({"policy": ["old"]}, "a name for each row"),
    ],
)
def test_bad_columns(column, message):
    with pytest.raises(DataError, match=message):
        Log.from_arrays(state=[0, 0], action=[0, 1], reward=[0.0, 1.0], episode=[0, 1], **column)


def test_a_target_may_be_0_but_not_the_logger():
    log = Log.from_arrays(
        state=[0, 0], action=[0, 1], reward=[1.0, 5.0], episode=[0, 1], propensity=[0.5, 0.5],
        target_probability=[1.0, 0.0],
    )  # fmt: skip
    found = evaluate_policy(log, gamma=1.0, estimators=["is", "wis"])
    assert (found["is"].estimate, found["wis"].estimate) == (1.0, 1.0)


def test_propensities_of_every_action_are_the_baseline(case):
    log, _, baseline = case
    known = with_columns(log, propensities=baseline.probabilities[log.state])
    problem = Problem.of(known, gamma=GAMMA)
    assert not problem.baseline.is_estimated
    met = np.unique(log.state)
    assert problem.baseline.probabilities[met] == pytest.approx(baseline.probabilities[met])
    table = baseline.probabilities[log.state]
    table[17] = np.roll(table[17], 1)
    taken = table[17, log.action[17]]
    with pytest.raises(DataError, match=rf"state '{log.state[17]}' vary.*more than the state"):
        Problem.of(with_columns(log, propensities=table), gamma=GAMMA)
    assert taken > 0
    with pytest.raises(SettingsError, match="logged actions alone"):
        Problem.of(with_columns(log, propensity=logged(log, baseline)), gamma=GAMMA)


def test_rows_after_an_end_and_parts_of_a_log_keep_their_columns():
    log = Log.from_arrays(
        state=[0] * 4, action=[0] * 4, reward=[1.0, 2.0, 4.0, 8.0], episode=[1, 1, 0, 0],
        terminated=[True, False, False, True], propensity=[0.5, 0.9, 0.8, 0.4],
        target_probability=[1.0, 0.0, 0.4, 0.2],
    )  # fmt: skip
    found = evaluate_policy(log, gamma=1.0, estimators=["is"])
    assert found["is"].estimate == pytest.approx((2.0 * 1.0 + 0.25 * 12.0) / 2)
    part = log.take(np.array([False, False, True, True]))
    assert part.acted.propensity.tolist() == [0.5, 0.9]
    wider = Log.from_arrays(
        state=[0], action=[0], reward=[0.0], episode=[0], propensities=[[0.25, 0.75]],
        action_labels=("a", "c"),
    ).renamed(log.states, TabularPolicy([[1, 0, 0]], None, ("a", "b", "c")).actions)  # fmt: skip
    assert wider.acted.propensities.tolist() == [[0.25, 0.0, 0.75]]


def test_estimated_tables_do_not_take_the_place_of_the_column(case):
    log, policy, baseline = case
    known = with_columns(log, propensity=logged(log, baseline))
    found = evaluate_policy(known, policy=policy, baseline=estimate_baseline(log), gamma=GAMMA)
    assert not found.is_baseline_estimated
    assert found["is"].estimate == pytest.approx(
        evaluate_policy(log, policy=policy, baseline=baseline, gamma=GAMMA)["is"].estimate
    )
