"""A log in which nothing says what follows a row: each is a decision of its own."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb import (
    Assessment,
    Counts,
    ExactSoftSPIBB,
    HoeffdingQ,
    Log,
    Problem,
    TabularPolicy,
    count_log,
    evaluate_policy,
    improve_many,
    read_log,
)
from spibb.algorithms.base import Algorithm
from spibb.algorithms.registry import ALGORITHMS
from spibb.data import counting
from spibb.errors import SettingsError
from spibb.tables.source import NotStreamedError

MEANS = np.array([[0.1, 0.3], [0.2, 0.1]])
ASKED = np.array([0.7, 0.3])  # how often each context comes
RULE = TabularPolicy([[0.8, 0.2], [0.5, 0.5]])


def clicks(rng, n):
    """Return contexts, actions of the rule, and rewards of 0 and 1."""
    state = (rng.random(n) < ASKED[1]).astype(np.int64)
    action = (rng.random(n) < RULE.probabilities[state, 1]).astype(np.int64)
    return state, action, (rng.random(n) < MEANS[state, action]).astype(np.float64)


def one_step(rng, n=400):
    state, action, reward = clicks(rng, n)
    return Log.from_arrays(state=state, action=action, reward=reward)


ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(-3, 3).map(float)),
    min_size=1, max_size=30,
)  # fmt: skip


@settings(max_examples=60)
@given(rows=ROWS)
def test_it_is_the_log_whose_rows_are_episodes_that_end(rows):
    """Against the same rows with every column written out."""
    state, action, reward = (np.array(part) for part in zip(*rows, strict=True))
    found = Log.from_arrays(state=state, action=action, reward=reward)
    told = Log.from_arrays(
        state=state, action=action, reward=reward, episode=np.arange(len(rows)),
        terminated=[True] * len(rows),
    )  # fmt: skip
    assert (found.is_one_step, told.is_one_step) == (True, False)
    assert found.content_hash == told.content_hash
    for name in ("state", "action", "reward", "next_state", "terminated", "truncated", "episode"):
        np.testing.assert_array_equal(getattr(found, name), getattr(told, name))
    one, other = Counts.from_log(found), Counts.from_log(told)
    np.testing.assert_array_equal(one.n_initial, other.n_initial)
    assert one.is_one_step
    assert one.n_ended == len(rows)


@pytest.mark.parametrize("in_memory", [False, True])
def test_files_tables_and_counts_agree(tmp_path, monkeypatch, in_memory):
    columns = clicks(np.random.default_rng(1), 99)
    frame = pd.DataFrame(dict(zip(("state", "action", "reward"), columns, strict=True)))
    frame.to_csv(tmp_path / "clicks.csv", index=False)
    frame.to_parquet(tmp_path / "clicks.parquet")
    if in_memory:

        def refuse(*_, **__):
            raise NotStreamedError("asked for")

        monkeypatch.setattr(counting, "_counted", refuse)
    log = Log.from_dataframe(frame)
    expected = Counts.from_log(log)
    for name in ("clicks.csv", "clicks.parquet"):
        assert read_log(tmp_path / name).content_hash == log.content_hash
        assert read_log(tmp_path / name).is_one_step
        found = count_log(tmp_path / name, keep_ends=True, gamma=0.0)
        for part in ("n_sa", "reward_sum", "n_initial"):
            np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))
        assert found.is_one_step
        assert found.ends is None, "no row can go on, so that nothing of it is kept"
        twice = found.update(tmp_path / name)
        np.testing.assert_array_equal(twice.n_sa, 2 * expected.n_sa)
        assert twice.is_one_step


def test_a_discount_may_be_left_out_where_every_row_ends():
    rng = np.random.default_rng(2)
    log = one_step(rng)
    written = Log.from_arrays(
        state=log.state, action=log.action, reward=log.reward, episode=log.episode
    )
    for data in (log, written, Counts.from_log(log)):
        assert Problem.of(data, baseline=RULE).gamma == 0.0
        assert Problem.of(data, baseline=RULE, gamma=0.0).gamma == 0.0
    assert Problem.of(written, baseline=RULE, gamma=0.9).gamma == 0.9, "as ever"
    many = improve_many([ExactSoftSPIBB()], [log, log], baselines=RULE)
    assert many.probabilities.shape == (1, 2, 2, 2)


def test_a_discount_needs_what_follows_and_what_follows_needs_a_discount():
    log = one_step(np.random.default_rng(3))
    with pytest.raises(SettingsError, match=r"gamma is 0.9, but no column .*leave gamma out"):
        Problem.of(log, baseline=RULE, gamma=0.9)
    walk = Log.from_arrays(
        state=[0, 1, 0], action=[0, 1, 0], reward=[0.0, 1.0, 0.0], episode=[0, 0, 1]
    )
    with pytest.raises(SettingsError, match=r"gamma is not given.*and 1 do not"):
        Problem.of(walk, baseline=RULE)
    cut = Log.from_arrays(
        state=[0, 1], action=[0, 1], reward=[0.0, 1.0], episode=[0, 1], truncated=[False, True]
    )
    with pytest.raises(SettingsError, match=r"gamma is not given.*and 1 do not"):
        Problem.of(cut, baseline=RULE)


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_every_algorithm_takes_it(name):
    """And what it returns is judged by weights and audited without a discount."""
    log = one_step(np.random.default_rng(4), 3_000)
    result = Algorithm.named(name)().improve(log, baseline=RULE, reward_range=(0.0, 1.0))
    assert np.isfinite(result.values.performance)
    assert any(
        text.startswith("A one-step log: each row") for text in Assessment.of(result).findings
    )
    truth = (ASKED[:, None] * (result.policy.probabilities - RULE.probabilities) * MEANS).sum()
    assert result.certificate.bound is None or result.certificate.bound <= truth


def test_theorem_1_is_claimed_and_holds():
    """Q^ is a mean, e_Q bounds its error, and where contexts come from is counted, not known."""
    wrong, bounds = 0, []
    for seed in range(200):
        log = one_step(np.random.default_rng(seed), 3_000)
        problem = Problem.of(log, baseline=RULE, reward_range=(0.0, 1.0))
        result = ExactSoftSPIBB(epsilon=0.1).improve(problem)
        claim = next(one for one in result.certificate.others if "Theorem 1" in one.theorem)
        moved = result.policy.probabilities - RULE.probabilities
        assert claim.bound is not None
        bounds.append(claim.bound)
        wrong += claim.bound > (ASKED[:, None] * moved * MEANS).sum()
    assert wrong <= 3
    assert np.median(bounds) > -0.05, "and says something"


def test_its_error_is_the_radius_of_a_mean():
    """At gamma = 0, V_max e_Q is Hoeffding's radius of the mean of rewards in [0, 1]."""
    problem = Problem.of(one_step(np.random.default_rng(5)), baseline=RULE, reward_range=(0.0, 1.0))
    n, error = problem.counts.n_sa, HoeffdingQ().errors(problem, 0.05)
    radius = np.sqrt(np.log(2 * n.size / 0.05) / (2 * n))
    np.testing.assert_allclose(error * problem.values.v_max, radius)


def test_weights_of_one_step_are_those_of_the_pair():
    log = one_step(np.random.default_rng(6))
    policy = TabularPolicy([[0.3, 0.7], [0.5, 0.5]])
    found = evaluate_policy(log, policy=policy, baseline=RULE)
    weight = (policy.probabilities / RULE.probabilities)[log.state, log.action]
    assert found["is"].estimate == pytest.approx((weight * log.reward).mean())
    assert found["pdis"].estimate == pytest.approx(found["is"].estimate)
    assert found["wis"].estimate == pytest.approx(np.average(log.reward, weights=weight))
