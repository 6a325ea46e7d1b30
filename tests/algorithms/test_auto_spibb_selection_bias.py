"""The choice does not believe what chance alone makes of a log, and finds what is there."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from spibb import AutoSPIBB, Counts, Log, PiLeqBSPIBB, Problem, TabularPolicy, evaluate, risk
from spibb.envs import Garnet, RareAction
from spibb.mdp.model import TabularMDP
from spibb.posterior.model import PosteriorModel
from spibb.posterior.unseen_rates import UnseenRates
from spibb.studies.generators.corridors import corridors_and_wards

PAYS = np.array([0.5, *[0.45] * 5])
GIVEN = np.array([0.7, *[0.06] * 5])


def one_step_log(state, action, reward, n_states, n_actions):
    n = len(state)
    return Log.from_arrays(
        state=state, action=action, reward=reward, n_states=n_states, n_actions=n_actions,
        episode=np.arange(n), terminated=np.ones(n, dtype=bool),
    )  # fmt: skip


def true_gain(process, policy, baseline):
    return evaluate(process, policy).performance - evaluate(process, baseline).performance


@pytest.mark.parametrize(("n_states", "n_rows"), [(1, 200), (10, 1_000), (40, 4_000)])
def test_a_policy_made_from_the_log_of_alike_arms_is_not_believed(n_states, n_rows):
    """Whoever leaves the usual arm loses: of 240 such logs 7 led to a policy that does."""
    baseline = TabularPolicy(np.tile(GIVEN, (n_states, 1)))
    worse = 0
    for seed in range(12):
        rng = np.random.default_rng([seed, n_states])
        action = rng.choice(6, n_rows, p=GIVEN)
        reward = (rng.random(n_rows) < PAYS[action]).astype(float)
        log = one_step_log(rng.integers(0, n_states, n_rows), action, reward, n_states, 6)
        found = AutoSPIBB().improve(log, baseline=baseline, gamma=0.9, accept_baseline=True)
        worse += (found.policy.probabilities @ PAYS).mean() < GIVEN @ PAYS - 1e-9
    assert worse <= 1


def test_the_greedy_policy_of_alike_arms_is_expected_to_gain_next_to_nothing():
    """Its plain estimate gains more than four fifths of a deviation of a mean, by luck alone."""
    rng = np.random.default_rng(0)
    n_states, n_rows = 40, 8_000
    action = rng.integers(6, size=n_rows)
    state = rng.integers(0, n_states, n_rows)
    log = one_step_log(state, action, rng.normal(size=n_rows), n_states, 6)
    uniform = TabularPolicy.uniform(n_states, 6)
    counts = Counts.from_log(log)
    mean = counts.reward_sum / counts.n_sa
    plain = float((mean.max(axis=1) - mean.mean(axis=1)).mean())
    assert plain > 0.15
    lucky = TabularPolicy(np.eye(6)[mean.argmax(axis=1)])
    found = risk(log, lucky, baseline=uniform, gamma=0.9)
    assert found.gain.shown < 0.15 * plain
    assert found.probability_of_harm > 0.2


@pytest.mark.parametrize("differ", [0.0, 0.1, 1.0, 5.0])
def test_expected_rewards_are_nearer_to_the_truth_than_means_are(differ):
    before, after = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        worth = rng.normal(size=(15, 1)) + differ * rng.normal(size=(15, 4))
        n = rng.integers(2, 20, size=worth.shape)
        state, action = (np.repeat(one.ravel(), n.ravel()) for one in np.indices(worth.shape))
        log = one_step_log(state, action, rng.normal(worth[state, action]), 15, 4)
        problem = Problem.of(
            log, baseline=TabularPolicy.uniform(15, 4), gamma=0.9, accept_baseline=True
        )
        mean = problem.counts.reward_sum / n
        before.append(((mean - worth) ** 2).mean())
        after.append(((PosteriorModel.of(problem).reward - worth) ** 2).mean())
    # The least pseudo-count is a quarter of a row: too much where actions differ by that much.
    most = {0.0: 0.6, 0.1: 0.6, 1.0: 1.03, 5.0: 1.2}
    assert np.mean(after) < most[differ] * np.mean(before)


@pytest.mark.parametrize(("cures", "n_each", "most"), [(0.8, 8, 0.04), (0.9, 16, 0.02)])
def test_who_cured_all_of_a_few_patients_is_not_sure_of_it(cures, n_each, most):
    """Drugs are all alike. With its own variance, that of an arm that never failed is tiny."""
    flattered = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        state, action = np.repeat(np.arange(20), 5 * n_each), np.tile(np.arange(5), 20 * n_each)
        reward = (rng.random(len(state)) < cures).astype(float)
        log = one_step_log(state, action, reward, 20, 5)
        problem = Problem.of(log, baseline=TabularPolicy.uniform(20, 5), gamma=0.9)
        expected = PosteriorModel.of(problem).reward
        flattered.append((expected.max(axis=1) - cures).mean())
    assert np.mean(flattered) < most


def test_a_jackpot_of_a_small_sample_is_not_believed():
    """One reward in a hundred is 30 more, whoever is paid it: no pair is better for it.

    Jackpots are events of rewards, whose rates the likelihood finds to be alike in all states.
    """
    rng = np.random.default_rng(0)
    state, action = np.repeat(np.arange(100), 44), np.tile([0] * 40 + [1, 2, 3, 3], 100)
    worth = rng.normal(size=(100, 4))
    reward = worth[state, action] + rng.normal(size=4_400) + 30.0 * (rng.random(4_400) < 0.01)
    log = one_step_log(state, action, reward, 100, 4)
    uniform = TabularPolicy.uniform(100, 4)
    problem = Problem.of(log, baseline=uniform, gamma=0.9, accept_baseline=True)
    n = problem.counts.n_sa
    lucky = (problem.counts.reward_sum / n > 10.0) & (n <= 2)
    assert lucky.any(axis=1).sum() >= 3
    going = np.where(lucky.any(axis=1, keepdims=True), lucky, uniform.probabilities)
    going /= going.sum(axis=1, keepdims=True)
    more = going - uniform.probabilities
    assert (more * worth).sum(axis=1).mean() < 0.01
    found = risk(problem, TabularPolicy(going))
    assert found.probability_of_harm > 0.2
    assert abs(found.mean) < 0.1 * (more * 30.0 * lucky).sum(axis=1).mean()


def test_a_pair_that_was_paid_once_is_not_believed():
    """The usual action won 100 once in 19 rows, the other pays 1: whoever leaves it loses."""
    n = 24
    log = Log.from_arrays(
        state=np.zeros(n, dtype=int), action=[0] * 19 + [1] * 5,
        reward=[100.0] + [0.0] * 18 + [1.0] * 5, next_state=[1] + [2] * 18 + [3] * 5,
        n_states=4, n_actions=2, episode=np.arange(n), terminated=np.ones(n, dtype=bool),
    )  # fmt: skip
    usual = TabularPolicy([[0.8, 0.2], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    found = AutoSPIBB().improve(log, baseline=usual, gamma=0.9)
    np.testing.assert_array_equal(found.policy.probabilities, usual.probabilities)
    leaving = TabularPolicy([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    assert risk(log, leaving, baseline=usual, gamma=0.9).probability_of_harm > 0.2


@pytest.mark.parametrize(("n_episodes", "most"), [(10, 0), (50, 3)])
def test_jackpots_lead_few_logs_astray(n_episodes, most):
    """Random MDPs where one reward in a hundred is 3 more, and all are as expected on average.

    That of 50 episodes 3 logs of 20 led to a worse policy is a known limit, as above.
    """
    worse, losses = 0, []
    for seed in range(20):
        rng = np.random.default_rng([seed, n_episodes])
        garnet = Garnet.random(rng)
        baseline = garnet.baseline(0.9, rng)
        log = Log.sample(garnet.mdp, baseline, n_episodes=n_episodes, max_steps=50, rng=rng)
        log = replace(log, reward=log.reward + 3.0 * (rng.random(len(log)) < 0.01) - 0.03)
        policy = AutoSPIBB().improve(log, baseline=baseline, gamma=0.95).policy
        gain = true_gain(garnet.mdp, policy, baseline)
        worse, losses = worse + (gain < -1e-9), [*losses, gain]
    assert worse <= most
    assert np.mean(losses) > -0.005


@pytest.mark.parametrize("n_episodes", [50, 100])
def test_no_ward_behind_corridors_is_chosen_for_its_luck(n_episodes):
    worse = 0
    for seed in range(12):
        rng = np.random.default_rng([seed, n_episodes])
        instance = corridors_and_wards(rng)
        log = instance.log(n_episodes, rng)
        found = AutoSPIBB().improve(
            log, baseline=instance.baseline, gamma=instance.process.gamma
        ).policy  # fmt: skip
        worse += true_gain(instance.process, found, instance.baseline) < -1e-9
    assert worse <= 1


def test_a_bold_policy_of_lucky_wards_is_not_believed():
    rng = np.random.default_rng(5)
    instance = corridors_and_wards(rng)
    log, baseline = instance.log(50, rng), instance.baseline
    asked = {"baseline": baseline, "gamma": instance.process.gamma}
    bold = PiLeqBSPIBB(n_wedge=1).improve(log, **asked).policy
    found = risk(log, bold, **asked)
    low, high = found.interval(0.95)
    assert low <= true_gain(instance.process, bold, baseline) <= high


def test_an_order_that_was_seen_is_not_turned_round():
    """What a usual action pays is not given to a rare one, nor the other way round."""
    rng = np.random.default_rng(0)
    pays = np.array([2.0, -4.0])
    state, action = rng.integers(12, size=3_000), (rng.random(3_000) < 0.1).astype(int)
    log = Log.from_arrays(
        state=state, action=action, reward=pays[action], next_state=np.roll(state, -1),
        n_states=12, n_actions=2, terminated=np.zeros(3_000, bool),
    )  # fmt: skip
    problem = Problem.of(log, baseline=TabularPolicy([[0.9, 0.1]] * 12), gamma=0.9)
    reward = PosteriorModel.of(problem).reward
    assert (reward[:, 0] > reward[:, 1] + 1.0).all()


@pytest.mark.parametrize("n_episodes", [20, 60])
def test_known_limit_the_ruinous_drug_is_sometimes_given(n_episodes):
    """Errors of one action are correlated over states: the model takes them for independent.

    Some policies are therefore a little worse; none is ruinous (docs/risk-failures.md).
    """
    env = RareAction(is_ruinous=True)
    process, baseline = env.to_mdp(0.9), env.baseline(0.3)
    ruined = true_gain(process, TabularPolicy(np.eye(3)[[2] * 11]), baseline)
    gains = []
    for seed in range(15):
        rng = np.random.default_rng([seed, n_episodes])
        log = Log.sample(process, baseline, n_episodes=n_episodes, max_steps=40, rng=rng)
        policy = AutoSPIBB().improve(log, baseline=baseline, gamma=0.9).policy
        gains.append(true_gain(process, policy, baseline))
    assert min(gains) > 0.1 * ruined
    assert np.mean(gains) > 0.0
    assert np.sum(np.array(gains) < -1e-9) <= 2


def dreaded(n_lost):
    """Action 1 loses `n_lost` of 20 in state 0 and none of 20 in state 1; state 2 is bad."""
    rows = [(0, 0, 1)] * 40 + [(1, 0, 0)] * 40 + [(1, 1, 0)] * 20 + [(2, 0, 2)] * 30
    rows += [(0, 1, 2)] * n_lost + [(0, 1, 1)] * (20 - n_lost) + [(0, 0, 2)]
    states, actions, following = zip(*rows, strict=True)
    reward = np.where(np.array(states) == 2, -5.0, 1.0)
    log = Log.from_arrays(
        state=states, action=actions, reward=reward, next_state=following,
        episode=range(len(rows)), truncated=[True] * len(rows),
    )  # fmt: skip
    return Problem.of(log, baseline=TabularPolicy([[0.7, 0.3]] * 3), gamma=0.9)


def test_an_action_that_ruins_in_one_state_is_dreaded_in_the_others():
    """Rates at which losses are expected in state 1, where none was seen."""
    rates = [UnseenRates(PosteriorModel.of(dreaded(n)), True).price(0.0)[1] for n in (4, 0)]
    assert rates[0][1] > 1.2 * rates[1][1]
    assert rates[0][1] > rates[0][0]


def test_a_trap_that_the_log_names_and_never_entered_is_feared():
    """A declared range says that something worse than all of the log exists."""
    rng = np.random.default_rng(0)
    n = 1_000
    action = (rng.random(n) < 0.05).astype(int)
    log = one_step_log(np.zeros(n, int), action, 0.2 * action + rng.random(n), 1, 2)
    baseline, bold = TabularPolicy([[0.95, 0.05]]), TabularPolicy([[0.0, 1.0]])
    plain, warned = (
        risk(log, bold, baseline=baseline, gamma=0.9, reward_range=bounds)
        for bounds in (None, (-50.0, 2.0))
    )
    assert plain.probability_of_harm < 0.1
    assert warned.probability_of_harm > 2.0 * plain.probability_of_harm
    found = AutoSPIBB().improve(log, baseline=baseline, gamma=0.9, reward_range=(-50.0, 2.0))
    assert found.policy.probabilities[0, 1] < 0.5


def slippery_road(slip, back, n_states=40, gamma=0.98):
    """Return a road whose fast action moves two places, or slips back by a number of places."""
    transition = np.zeros((n_states, 2, n_states))
    reward, ending = np.zeros((n_states, 2)), np.zeros((n_states, 2))
    for x, (action, step, p) in itertools.product(range(n_states), ((0, 1, 0.0), (1, 2, slip))):
        if x + step >= n_states:
            ending[x, action], reward[x, action] = 1.0 - p, 100.0 * (1.0 - p)
        else:
            transition[x, action, x + step] = 1.0 - p
        transition[x, action, max(x - back, 0)] += p
    start = np.full(n_states, 1.0 / n_states)
    return TabularMDP(transition, reward, gamma, start, ending=ending)


def test_known_limit_slips_along_a_road_are_sometimes_overlooked():
    """A pair that has not slipped yet is taken for a safe one (docs/risk-failures.md)."""
    process, baseline = slippery_road(0.3, 6), TabularPolicy([[0.9, 0.1]] * 40)
    always = true_gain(process, TabularPolicy([[0.0, 1.0]] * 40), baseline)
    gains = []
    for seed in range(15):
        rng = np.random.default_rng([seed, 300])
        log = Log.sample(process, baseline, n_episodes=300, max_steps=60, rng=rng)
        policy = AutoSPIBB().improve(log, baseline=baseline, gamma=0.98).policy
        gains.append(true_gain(process, policy, baseline))
    assert always < -40.0
    assert min(gains) > 0.25 * always
    assert np.sum(np.array(gains) < -1e-9) <= 5
