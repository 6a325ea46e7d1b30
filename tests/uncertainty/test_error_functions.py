"""Error functions: closed forms, large state spaces, and what they promise."""

import numpy as np
import pytest

from spibb import (
    Counts,
    EmpiricalBernstein,
    GivenErrors,
    HoeffdingP,
    HoeffdingQ,
    Log,
    TabularMDP,
    TabularPolicy,
)
from spibb.errors import DataError, SettingsError
from spibb.problem import Problem, ProblemBatch
from spibb.problem.ranges import ValueRange


def problem_of(log, gamma: float = 0.9, reward_range=None) -> Problem:
    return Problem.of(log, baseline="estimate", gamma=gamma, reward_range=reward_range)


def bandit(n_pulls: list[int], rewards: list[float]) -> Log:
    """One state, one step an episode, the a-th action pulled n_pulls[a] times."""
    action = np.repeat(np.arange(len(n_pulls)), n_pulls)
    return Log.from_arrays(
        state=np.zeros(len(action), int),
        action=action,
        reward=np.asarray(rewards),
        terminated=np.ones(len(action), bool),
        episode=np.arange(len(action)),
        n_actions=len(n_pulls) + 1,
    )


def test_hoeffding_errors_match_their_formulas():
    problem = problem_of(bandit([3, 8], [0.0] * 11))
    n_states, n_actions, delta = 1, 3, 0.05
    e_q = HoeffdingQ().errors(problem, delta)
    e_p = HoeffdingP().errors(problem, delta)
    pairs = 2 * n_states * n_actions
    np.testing.assert_allclose(e_q[0, :2], np.sqrt(2 / np.array([3, 8]) * np.log(pairs / delta)))
    np.testing.assert_allclose(
        e_p[0, :2], np.sqrt(2 / np.array([3, 8]) * np.log(pairs * 2**n_states / delta))
    )
    assert np.isinf(e_q[0, 2])
    assert np.isinf(e_p[0, 2])


def test_thousands_of_states_do_not_overflow():
    log = Log.from_arrays(state=[0], action=[0], reward=[1.0], next_state=[0], n_states=5_000)
    error = HoeffdingP().errors(problem_of(log), 1e-6)[0, 0]
    expected = np.sqrt(2 * (np.log(2 * 5_000 / 1e-6) + 5_000 * np.log(2)))
    assert error == pytest.approx(expected)


def test_empirical_bernstein_by_hand():
    rewards = [0.0, 1.0, 0.0, 1.0]
    problem = problem_of(bandit([4], rewards), gamma=0.0, reward_range=(0.0, 1.0))
    log_term = np.log(4 * 2 / 0.1)  # one state, two actions
    # Rewards in [0, 1], gamma = 0: values have range 1, so they are scaled already; s^2 = 1/3.
    expected = 2 * (np.sqrt(2 * (1 / 3) / 4 * log_term) + 7 * log_term / (3 * 3))
    errors = EmpiricalBernstein().errors(problem, 0.1)
    assert errors[0, 0] == pytest.approx(expected)
    assert np.isinf(errors[0, 1])


def test_truncation_widens_the_empirical_bernstein_error():
    common = {"state": [0, 0] * 6, "action": [0, 0] * 6, "reward": [1.0, 0.0] * 6,
              "next_state": [0, 0] * 6, "episode": np.repeat(np.arange(6), 2)}  # fmt: skip
    ended = Log.from_arrays(**common, terminated=[False, True] * 6)
    cut = Log.from_arrays(**common, truncated=[False, True] * 6, terminated=[False] * 12)
    gap = (
        EmpiricalBernstein().errors(problem_of(cut, 0.5), 0.1)
        - EmpiricalBernstein().errors(problem_of(ended, 0.5), 0.1)
    )[0, 0]
    # After two steps 0.5^2 of a value is not known. Rewards in [0, 1] make values in [0, 2], and
    # the log's average, 1/2 / (1 - 1/2) = 1, stands for it: at most one half-range away. So much
    # may be missing from the mean, and so much may the spread be larger.
    n, log_term = 6, np.log(4 * 1 / 0.1)
    spread = np.sqrt(n / (n - 1)) * 0.5**2 / 2
    assert gap == pytest.approx(0.5**2 + 2 * spread * np.sqrt(2 * log_term / n))


def test_empirical_bernstein_needs_episodes_and_says_so():
    log = Log.from_arrays(state=[0], action=[0], reward=[1.0], next_state=[0])
    with pytest.raises(DataError, match="no episodes"):
        EmpiricalBernstein().errors(problem_of(log), 0.1)
    counts = Counts.from_log(log)
    with pytest.raises(DataError, match="only counts were given"):
        EmpiricalBernstein().errors(problem_of(counts), 0.1)


@pytest.mark.parametrize("bad", [[[-1.0]], [[np.nan]], [1.0, 2.0]])
def test_given_errors_are_checked(bad):
    with pytest.raises(SettingsError, match="numbers >= 0"):
        GivenErrors(bad)


def test_errors_that_algorithms_share_cannot_be_written_to():
    log = Log.from_arrays(state=[0, 1], action=[0, 0], reward=[1.0, 1.0], next_state=[1, 0])
    batch = ProblemBatch.of([problem_of(log)])
    shared = HoeffdingQ().of_batch(batch, 0.1)
    assert HoeffdingQ().of_batch(batch, 0.1) is shared
    with pytest.raises(ValueError, match="read-only"):
        shared[:] = 0.0
    np.testing.assert_array_equal(shared[0], HoeffdingQ().errors(problem_of(log), 0.1))


def test_given_errors_must_fit_the_log():
    log = Log.from_arrays(state=[0], action=[0], reward=[1.0], next_state=[0])
    with pytest.raises(SettingsError, match=r"shape \(2, 2\)"):
        GivenErrors(np.ones((2, 2))).errors(problem_of(log), 0.1)


def test_value_range_includes_the_end():
    counts = Counts.from_log(bandit([2], [3.0, 5.0]))
    values = ValueRange.of(counts, 0.5, None)
    assert values.is_observed
    assert values.v_max == pytest.approx(5.0 / 2 / 0.5)  # from 0, the end, to 5
    assert ValueRange.of(counts, 0.5, (-5.0, 5.0)).v_max == pytest.approx(10.0)
    with pytest.raises(SettingsError, match="rewards from 3 to 5"):
        ValueRange.of(counts, 0.5, (0.0, 4.0))


@pytest.mark.statistical
def test_e_p_covers_the_truth():
    """Over 400 logs, some pair's P or R lies outside e_P no more often than delta allows."""
    rng = np.random.default_rng(5)
    transition = rng.dirichlet(np.ones(3), (3, 2))
    mdp = TabularMDP(transition, rng.random((3, 2)), 0.9)
    policy = TabularPolicy.uniform(3, 2)
    delta, n_logs, misses = 0.5, 400, 0
    for _ in range(n_logs):
        log = Log.sample(mdp, policy, n_episodes=3, max_steps=20, rng=rng)
        problem = problem_of(log, reward_range=(0.0, 1.0))
        errors = HoeffdingP().errors(problem, delta)
        model = problem.counts.to_mdp(0.9)
        seen = problem.counts.n_sa > 0
        distance = np.abs(model.dense - transition).sum(axis=2)
        misses += bool((distance[seen] > errors[seen]).any())
    # Fewer than delta misses by far more than chance; the bound is conservative, not wrong.
    assert misses <= delta * n_logs
