"""What each state adds to a gain, and how many more rows would tell."""

import numpy as np
import pytest

import spibb
from spibb.posterior.states import StateRisks


def two_states(n):
    """A process of one step in two states: in the first action 1 pays 1 more, in the second 0.1."""
    rng = np.random.default_rng(0)
    state, action = np.arange(4 * n) % 2, np.arange(4 * n) // 2 % 2
    reward = action * np.where(state == 0, 1.0, 0.1) + rng.normal(size=4 * n)
    return spibb.Log.from_arrays(
        state=state, action=action, reward=reward, episode=np.arange(4 * n),
        terminated=np.ones(4 * n, bool),
    )  # fmt: skip


@pytest.fixture(scope="module")
def result():
    baseline = spibb.TabularPolicy.uniform(2, 2)
    return spibb.BasicRL().improve(two_states(100), baseline=baseline, gamma=0.9)


@pytest.fixture(scope="module")
def judged(result):
    return spibb.Assessment.of(result)


def test_parts_sum_to_the_gain(judged):
    """Apart from losses of actions that the log has not shown, which no state carries alone."""
    parts, gain = judged.state_risks, judged.risk.gain
    assert gain.mean <= parts.gain.sum() <= gain.shown
    assert parts.gain.sum() == pytest.approx(gain.mean, abs=0.5 * gain.deviation)


def test_a_sure_change_needs_nothing_and_a_doubtful_one_more_rows(judged):
    parts, n_rows = judged.state_risks, judged.certificate.states.n_rows
    assert parts.harm[0] <= 0.05 < parts.harm[1]
    needed = parts.more_rows(n_rows, 0.05)
    assert needed[0] == 0.0
    assert needed[1] > n_rows[1] / 10


def test_rows_needed_by_hand():
    """z = 1.645 for 5 %: mean 1 with deviation 1 takes 1.645^2 times the rows."""
    parts = StateRisks(
        gain=np.array([1.0, 1.0, -1.0, 1.0]), deviation=np.array([1.0, 0.1, 1.0, 1.0]),
        harm=np.array([0.16, 0.0, 0.8, 0.16]),
    )  # fmt: skip
    found = parts.more_rows(np.array([1_000, 1_000, 1_000, 0]), 0.05)
    np.testing.assert_array_equal(found, [1_706, 0, np.inf, np.inf])


def test_so_many_more_rows_are_about_enough(result, judged):
    """The same rows again, as often as were asked for: what was doubtful is about at the limit."""
    log, n_rows = result.problem.log, result.certificate.states.n_rows
    times = int(np.ceil(1.0 + judged.state_risks.more_rows(n_rows, 0.05)[1] / n_rows[1]))
    assert times > 1
    n = times * len(log)
    again = spibb.Log.from_arrays(
        state=np.tile(log.state, times), action=np.tile(log.action, times),
        reward=np.tile(log.reward, times), episode=np.arange(n), terminated=np.ones(n, bool),
    )  # fmt: skip
    baseline = spibb.TabularPolicy.uniform(2, 2)
    after = spibb.BasicRL().improve(again, baseline=baseline, gamma=0.9)
    after = spibb.Assessment.of(after)
    assert after.state_risks.harm[1] <= 0.07 < judged.state_risks.harm[1]


def test_scenarios_hold_as_much_harm_as_the_distribution():
    log = two_states(5)
    found = spibb.risk(
        log, spibb.TabularPolicy([[0.0, 1.0], [1.0, 0.0]]), gamma=0.9,
        baseline=spibb.TabularPolicy.uniform(2, 2),
    )  # fmt: skip
    assert len(found.scenarios) == 100
    assert list(found.scenarios) == sorted(found.scenarios)
    lost = sum(gain < 0.0 for gain in found.scenarios)
    assert 0 < lost < 100
    assert lost == pytest.approx(100 * found.probability_of_harm, abs=0.5)
    assert np.mean(found.scenarios[:10]) == pytest.approx(
        found.lower_tail_mean, abs=0.05 * found.deviation
    )
