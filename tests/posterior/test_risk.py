"""What the posterior says of a policy: properties that a risk has whatever the model."""

from dataclasses import astuple, replace

import numpy as np
import pytest

from spibb import (
    ApproxSoftSPIBB,
    AutoSPIBB,
    Counts,
    Log,
    Problem,
    TabularMDP,
    TabularPolicy,
    evaluate,
    risk,
)
from spibb.envs import Garnet, Queue, RareAction
from spibb.errors import SettingsError
from spibb.posterior.settings import ModelSettings
from spibb.testing.adversaries import ADVERSARIES
from spibb.testing.checks import random_problem

DRUG = TabularPolicy(np.tile([0.0, 0.0, 1.0], (11, 1)))


def garnet_problem(seed=0, n_episodes=30):
    rng = np.random.default_rng(seed)
    garnet = Garnet.random(rng)
    baseline = garnet.baseline(0.5, rng)
    counts = Counts.sample(garnet.mdp, baseline, n_episodes=n_episodes, rng=rng)
    return garnet.mdp, Problem.of(counts, baseline=baseline, gamma=0.95)


def relabelled(log, policies, states, actions):
    """Return a log and policies whose states and actions have other numbers."""
    ends = log.next_state < 0
    moved = replace(
        log,
        state=states[log.state],
        action=actions[log.action],
        next_state=np.where(ends, log.next_state, states[log.next_state]),
    )
    tables = []
    for policy in policies:
        table = np.empty_like(policy.probabilities)
        table[np.ix_(states, actions)] = policy.probabilities
        tables.append(TabularPolicy(table))
    return moved, tables


def random_log(seed, n_episodes=40):
    _, baseline, log = random_problem(seed, n_states=6, n_actions=3, n_episodes=n_episodes)
    rng = np.random.default_rng(seed)
    policy = TabularPolicy(rng.dirichlet(np.ones(3), 6))
    return log, baseline, policy, rng


@pytest.mark.parametrize("seed", range(6))
def test_names_of_states_and_actions_do_not_matter(seed):
    log, baseline, policy, rng = random_log(seed)
    states, actions = rng.permutation(6), rng.permutation(3)
    moved, (other_baseline, other) = relabelled(log, (baseline, policy), states, actions)
    here = risk(log, policy, baseline=baseline, gamma=0.9)
    there = risk(moved, other, baseline=other_baseline, gamma=0.9)
    assert astuple(there.gain) == pytest.approx(astuple(here.gain), rel=1e-6)
    np.testing.assert_allclose(there.states.gain[states], here.states.gain, atol=1e-9)
    np.testing.assert_allclose(there.states.harm[states], here.states.harm, atol=1e-6)
    assert there.prior_range.mean == pytest.approx(here.prior_range.mean, rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_counts_say_what_their_log_says_where_rewards_follow_from_transitions(seed):
    log, baseline, policy, rng = random_log(seed)
    paid = rng.integers(0, 5, size=(6, 3, 7)).astype(float)
    log = replace(log, reward=paid[log.state, log.action, log.next_state])
    here, there = (
        risk(data, policy, baseline=baseline, gamma=0.9) for data in (log, Counts.from_log(log))
    )
    assert astuple(there.gain) == pytest.approx(astuple(here.gain), rel=1e-6)
    np.testing.assert_allclose(there.states.deviation, here.states.deviation, rtol=1e-6)


def test_the_order_of_rows_of_a_log_does_not_matter():
    log, baseline, policy, rng = random_log(0)
    episodes = rng.permutation(np.unique(log.episode))
    order = np.concatenate([np.flatnonzero(log.episode == one) for one in episodes])
    here, there = (
        risk(one, policy, baseline=baseline, gamma=0.9) for one in (log, log.take(order))
    )
    assert astuple(there.gain) == pytest.approx(astuple(here.gain), rel=1e-9)


@pytest.mark.parametrize("unit", [1e-6, 1e6, 1e99])
def test_the_unit_of_rewards_does_not_matter(unit):
    log, baseline, policy, _ = random_log(1)
    here, there = (
        risk(replace(log, reward=one * log.reward), policy, baseline=baseline, gamma=0.9)
        for one in (1.0, unit)
    )
    assert there.mean == pytest.approx(unit * here.mean, rel=1e-6)
    assert there.deviation == pytest.approx(unit * here.deviation, rel=1e-6)
    assert there.probability_of_harm == pytest.approx(here.probability_of_harm, abs=1e-6)


def test_a_constant_on_every_reward_changes_no_risk_where_nothing_ends():
    log, baseline, policy, _ = random_log(5)
    log = replace(
        log, terminated=np.zeros(len(log), bool), truncated=log.terminated | log.truncated
    )
    asked = {"baseline": baseline, "gamma": 0.9, "never_ends": True}
    plain, *others = (
        risk(replace(log, reward=log.reward + c), policy, **asked) for c in (0.0, -70.0, 1_000.0)
    )
    for other in others:
        assert astuple(other.gain) == pytest.approx(astuple(plain.gain), rel=1e-6)


def test_the_level_of_rewards_hides_no_noise():
    found = []
    for level in (0.0, 1e6):
        rng = np.random.default_rng(1)
        log = Log.from_arrays(
            state=[0] * 60, action=[0, 1] * 30, reward=rng.normal(size=60) + level,
            next_state=[0] * 60, episode=range(60), terminated=[False] * 60, truncated=[True] * 60,
        )  # fmt: skip
        policy, baseline = TabularPolicy([[0.0, 1.0]]), TabularPolicy([[0.5, 0.5]])
        found.append(risk(log, policy, baseline=baseline, gamma=0.5, never_ends=True))
    assert found[1].deviation == pytest.approx(found[0].deviation, rel=1e-4)
    assert found[1].mean == pytest.approx(found[0].mean, abs=1e-4)


def test_nothing_is_gained_by_the_baseline():
    _, problem = garnet_problem()
    found = risk(problem, problem.baseline)
    assert astuple(found.gain) == (0.0, 0.0, 0.0, 0.0)
    assert found.probability_of_harm == 0.0
    assert found.prior_range.probability_of_harm == (0.0, 0.0)
    assert (found.states.harm == 0.0).all()


def test_rounding_is_no_harm():
    """A policy that differs only where nobody comes is the baseline."""
    onward = 0.3 * np.eye(5) + 0.7 * np.eye(5)[[1, 2, 0, 0, 0]]  # nothing leads to 3 and 4
    reward = np.arange(10.0).reshape(5, 2)
    mdp = TabularMDP(np.stack([onward, onward], axis=1), reward, 0.95, np.eye(5)[0])
    baseline = TabularPolicy.uniform(5, 2)
    log = Log.sample(mdp, baseline, n_episodes=20, max_steps=30, rng=np.random.default_rng(0))
    table = baseline.probabilities.copy()
    table[3:] = [1.0, 0.0]
    found = risk(log, TabularPolicy(table), baseline=baseline, gamma=0.95)
    assert (found.mean, found.deviation, found.probability_of_harm) == (0.0, 0.0, 0.0)


def test_one_row_is_enough_to_say_how_little_is_known():
    log = Log.from_arrays(state=[0], action=[1], reward=[1.0], terminated=[True], episode=[0])
    found = risk(log, TabularPolicy([[0.0, 1.0]]), baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9)
    assert np.isfinite([found.mean, found.deviation, *found.scenarios, *found.interval()]).all()
    assert "Risk given the log and a prior" in repr(found)


def test_counts_without_a_transition_have_a_risk():
    log = Log.from_arrays(
        state=[0] * 40, action=[0, 1] * 20, reward=[0.0, 5.0] * 20, episode=range(40),
        terminated=[True] * 40,
    )  # fmt: skip
    counts = Counts.from_log(log)
    assert counts.n_sas.nnz == 0
    found = risk(
        counts, TabularPolicy([[0.0, 1.0]]), baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9
    )
    assert 2.0 < found.mean < 2.6


def test_too_many_states_are_refused_by_their_number():
    log = Log.from_arrays(
        state=[0], action=[0], reward=[0.0], terminated=[True], episode=[0], n_states=2_001,
        n_actions=2,
    )  # fmt: skip
    uniform = TabularPolicy.uniform(2_001, 2)
    with pytest.raises(SettingsError, match=r"2,001 states.*at most 2,000"):
        risk(log, uniform, baseline=uniform, gamma=0.9)


def test_intervals_cover_the_truth_of_a_policy_that_no_log_chose():
    """95 % intervals of 30 logs of 15 garnets: at least 25 cover (24 or fewer: 1 in 1,000)."""
    covered = 0
    for seed in range(30):
        mdp, problem = garnet_problem(seed // 2, n_episodes=(20, 100)[seed % 2])
        rng = np.random.default_rng(seed)
        policy = TabularPolicy(rng.dirichlet(np.ones(4), 50))
        low, high = risk(problem, policy).interval(0.95)
        truth = evaluate(mdp, policy).performance - evaluate(mdp, problem.baseline).performance
        covered += low <= truth <= high
    assert covered >= 25


@pytest.mark.parametrize("n_episodes", [50, 100])
def test_slow_service_is_not_believed_to_be_harmless(n_episodes):
    """Slow service lets a queue fill that seldom did: the log is on the safe side.

    It loses 2.4. That is a known limit: harm is likely on average over logs, but some of them show
    so few long queues that a gain of two, give or take one, is expected.
    """
    queue, baseline = Queue().to_mdp(), Queue().baseline()
    table = baseline.probabilities.copy()
    table[:6] = [1.0, 0.0, 0.0]
    slow = TabularPolicy(table)
    assert evaluate(queue, slow).performance < evaluate(queue, baseline).performance - 2.0
    harm = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        log = Log.sample(queue, baseline, n_episodes=n_episodes, max_steps=50, rng=rng)
        harm.append(risk(log, slow, baseline=baseline, gamma=0.95).probability_of_harm)
    assert np.mean(harm) > 0.2
    assert min(harm) > 0.04


def test_a_rare_ruin_that_was_never_seen_is_not_ruled_out():
    """The drug was given about a dozen times without harm: is that enough? It is not."""
    env = RareAction(is_ruinous=True)
    mdp, baseline = env.to_mdp(), env.baseline(0.06)
    assert evaluate(mdp, DRUG).performance < evaluate(mdp, baseline).performance
    sure = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        log = Log.sample(mdp, baseline, n_episodes=20, max_steps=40, rng=rng)
        found = risk(log, DRUG, baseline=baseline, gamma=0.9)
        assert found.gain.loss_mean > 0.0
        sure += found.probability_of_harm < 0.05
    assert sure == 0


def test_rarer_data_allow_for_more_unseen_loss():
    """An action that was taken 5, 50 or 500 times without a loss."""
    losses = []
    for n in (5, 50, 500):
        log = Log.from_arrays(
            state=[0] * (500 + n), action=[0] * 500 + [1] * n,
            reward=[0.0, 1.0] * 250 + [1.0] * n, episode=range(500 + n),
            terminated=[True] * (500 + n),
        )  # fmt: skip
        found = risk(
            log, TabularPolicy([[0.0, 1.0]]), baseline=TabularPolicy([[0.9, 0.1]]), gamma=0.9,
            reward_range=(-10.0, 1.0), accept_baseline=True,
        )  # fmt: skip
        losses.append(found.gain.loss_mean)
    assert losses[0] > 4.0 * losses[1] > 16.0 * losses[2] > 0.0


def test_a_range_that_reaches_further_makes_it_more_careful():
    log, baseline, _, _ = random_log(3)
    policy = ApproxSoftSPIBB(epsilon=2.0).improve(log, baseline=baseline, gamma=0.9).policy
    seen, given = (
        risk(log, policy, baseline=baseline, gamma=0.9, reward_range=bounds).gain
        for bounds in (None, (-1_000.0, 1_000.0))
    )
    assert given.loss_mean > 5 * seen.loss_mean
    assert given.deviation > 5 * seen.deviation
    assert given.shown == pytest.approx(seen.shown)


def test_a_state_where_records_stop_is_the_worst_there_is():
    """The smallest case that broke the SPIBB bound: what follows was never acted in."""
    case = ADVERSARIES["truncation"]
    log = case.draw(np.random.default_rng(0))
    asked = {"baseline": case.baseline, "gamma": case.mdp.gamma, "reward_range": case.reward_range}
    found = risk(log, TabularPolicy([[0.0, 1.0], [0.5, 0.5]]), **asked)
    assert found.probability_of_harm > 0.9
    # To stop at once costs 0.9, and to go on 1 / (1 - 0.5) from the next step on.
    chosen = AutoSPIBB().improve(log, **asked).policy
    assert chosen.probabilities[0, 0] >= 0.5
    assert case.gain(chosen) >= 0.0


def test_states_that_are_changed_carry_the_risk():
    """A drug given in state 5 alone: there, and nowhere else, something is at stake."""
    env = RareAction(is_ruinous=True)
    baseline = env.baseline(0.06)
    log = Log.sample(
        env.to_mdp(), baseline, n_episodes=30, max_steps=40, rng=np.random.default_rng(0)
    )
    table = baseline.probabilities.copy()
    table[5] = [0.0, 0.0, 1.0]
    found = risk(log, TabularPolicy(table), baseline=baseline, gamma=0.9)
    assert np.flatnonzero(np.abs(found.by_state) > 1e-12).tolist() == [5]
    assert found.by_state[5] < found.states.gain[5]


def test_an_estimated_baseline_makes_gains_less_certain():
    """How often each action was taken is uncertain, too, besides what it pays.

    Of 20 visits 10 took action 1, which alone pays. Always to take it gains 1 - p of what it pays
    more, where p is Beta(10.5, 10.5): a mean of a half, a deviation of 0.107.
    """
    log = Log.from_arrays(state=[0] * 20, action=[0, 1] * 10, reward=[0.0, 1.0] * 10)
    always = TabularPolicy([[0.0, 1.0]])
    known = risk(log, always, baseline=TabularPolicy([[0.5, 0.5]])).gain
    guessed = risk(log, always, baseline="estimate").gain
    assert guessed.mean == pytest.approx(known.mean, abs=0.06)
    spread = np.sqrt(guessed.deviation**2 - known.deviation**2) / ModelSettings().dispersion
    assert spread == pytest.approx(0.107 * 2.0 * known.mean, rel=0.25)


def test_the_range_over_priors_holds_the_figures():
    log, baseline, policy, _ = random_log(2)
    found = risk(log, policy, baseline=baseline, gamma=0.9)
    (low, high), (least, most) = found.prior_range.mean, found.prior_range.probability_of_harm
    assert low < found.mean < high
    assert 0.0 <= least <= found.probability_of_harm <= most <= 1.0
    assert least < most
