"""What was paid once, and may have been chance."""

from dataclasses import replace

import numpy as np
import pytest

from spibb import AutoSPIBB, Log, Problem, TabularPolicy, evaluate
from spibb.data.once import paid_once, paid_twice
from spibb.data.outcomes import Outcomes
from spibb.posterior.moments import luck
from spibb.posterior.posterior import Posterior
from spibb.posterior.selection import owed_to_once
from spibb.posterior.together import solve_expected
from spibb.studies.risk.problems import PROBLEMS
from spibb.testing import reference_posterior as reference


def problem_of(log, baseline=None):
    """With the uniform baseline."""
    uniform = TabularPolicy.uniform(log.n_states, log.n_actions)
    return Problem.of(log, baseline=baseline or uniform, gamma=0.9, accept_baseline=True)


def certain_log(rng, n_rows, n_states=4):
    """A log whose rewards depend on pair and successor."""
    paid = rng.integers(0, 5, size=(n_states, 2, n_states)).astype(float)
    state = rng.integers(0, n_states, n_rows + 1)
    action = rng.integers(0, 2, n_rows)
    return Log.from_arrays(
        state=state[:-1], action=action, reward=paid[state[:-1], action, state[1:]],
        next_state=state[1:], episode=np.zeros(n_rows, dtype=int), n_states=n_states, n_actions=2,
    )  # fmt: skip


@pytest.mark.parametrize("n_rows", [1, 2, 5, 12])
def test_what_was_paid_twice_is_what_plain_loops_find(n_rows):
    rng = np.random.default_rng(n_rows)
    for _ in range(30):
        seen = problem_of(certain_log(rng, n_rows)).outcomes
        each = np.repeat(np.arange(len(seen.counts)), seen.counts.astype(int))
        assert len(each) == n_rows
        rows = list(zip(seen.pair[each], seen.indices[each], seen.rewards[each], strict=True))
        assert paid_twice(seen) == reference.paid_twice(rows)


@pytest.mark.parametrize("off", [0.0, -7.0, 1e6])
def test_cut_off_it_is_what_models_expect_less(off):
    """By so much expected rewards fall if nothing was paid but what was paid twice."""
    n_tried = 0
    for seed in range(40):
        log = certain_log(np.random.default_rng(seed), 12)
        log = replace(log, reward=log.reward + off + 30.0 * (np.arange(12) == 5))
        problem = problem_of(log)
        if problem.outcomes.is_noisy or paid_once(problem.outcomes) is None:
            continue
        n_tried += 1
        cut = problem_of(replace(log, reward=np.minimum(log.reward, paid_twice(problem.outcomes))))
        fall = problem.expected.reward - cut.expected.reward
        np.testing.assert_allclose(problem.paid_once, np.maximum(fall, 0.0), atol=1e-6)
    assert n_tried > 10


def test_a_goal_that_was_reached_twice_is_nothing_of_it():
    problem, *_ = drawn("random-mdps-0.5", 20, 0)
    assert paid_once(problem.outcomes) is None
    assert (problem.paid_once == 0.0).all()


def drawn(name, size, seed):
    """A problem of the study, its truth and its baseline."""
    rng = np.random.default_rng([seed, size, 4242])
    cell = PROBLEMS[name]
    truth, baseline = made = cell.make(rng)
    counts = cell.count(made, size, rng)
    return Problem.of(counts, baseline=baseline, gamma=truth.gamma), truth, baseline


def test_gains_do_not_count_on_it():
    """Of a policy that goes for it, gains err by what they owe to it; of others by nothing."""
    problem, *_ = drawn("jackpots", 10, JACKPOTS[0])
    once = problem.paid_once
    b = problem.baseline.probabilities
    going = 0.5 * b + 0.5 * (once / np.maximum(once.sum(axis=1, keepdims=True), 1e-300))
    going = np.where(once.sum(axis=1, keepdims=True) > 0.0, going, b)
    tried = np.stack([b, going, b])
    values, visits = solve_expected(problem, tried)
    plain = [
        sum(
            max(visits[c, x] * tried[c, x, a] - visits[0, x] * b[x, a], 0.0) * once[x, a]
            for x in range(b.shape[0])
            for a in range(b.shape[1])
        )
        for c in (1, 2)
    ]
    np.testing.assert_allclose(owed_to_once(once, tried, visits), plain)
    assert plain[0] > 0.0
    assert plain[1] == 0.0
    assert luck(problem, tried, values, visits)[0] >= plain[0]


# Logs of ten episodes with one jackpot, on which a policy that went for it was chosen, and worse.
JACKPOTS = (403, 457, 530, 575, 686)


@pytest.mark.parametrize("seed", JACKPOTS)
def test_a_single_jackpot_is_not_believed(seed):
    problem, truth, baseline = drawn("jackpots", 10, seed)
    found = AutoSPIBB().improve(problem).policy
    old, new = evaluate(truth, baseline), evaluate(truth, found)
    assert new.performance >= old.performance - 1e-9


def test_what_is_left_is_not_set_off():
    """The usual action won 100 once in 19 rows, the other pays 1: whoever leaves it loses."""
    n = 24
    log = Log.from_arrays(
        state=np.zeros(n, dtype=int), action=[0] * 19 + [1] * 5,
        reward=[100.0] + [0.0] * 18 + [1.0] * 5, next_state=[1] + [2] * 18 + [3] * 5,
        n_states=4, n_actions=2, episode=np.arange(n), terminated=np.ones(n, dtype=bool),
    )  # fmt: skip
    usual = TabularPolicy([[0.8, 0.2], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    problem = problem_of(log, usual)
    assert problem.paid_once[0, 0] > 1.0
    found = AutoSPIBB().improve(problem)
    np.testing.assert_array_equal(found.policy.probabilities, usual.probabilities)
    leaving = np.array([[[0.0, 1.0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]])
    for gain in Posterior(problem).gains(leaving, 200).values():
        assert (gain < 0.0).mean() > 0.2


def test_nothing_varies_and_nothing_was_paid():
    for reward in (0.0, 1e9, -1e-12):
        log = certain_log(np.random.default_rng(0), 30)
        outcomes = Outcomes.of(problem_of(replace(log, reward=np.full(30, reward))).counts)
        assert paid_once(outcomes) is None
