"""Draws of models, policies evaluated in them, and what they say of risk."""

from dataclasses import replace

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
from spibb.compiled import threads
from spibb.envs.garnet import Garnet
from spibb.envs.queue import Queue
from spibb.envs.rare_action import RareAction
from spibb.errors import SettingsError
from spibb.posterior import performance
from spibb.posterior.draws import Surroundings, draw_baseline, draw_models
from spibb.posterior.posterior import Posterior
from spibb.posterior.risk import Gain, told_share
from spibb.posterior.together import widened
from spibb.testing import reference_posterior as reference
from spibb.testing.adversaries import ADVERSARIES
from spibb.testing.checks import random_problem


def garnet_problem(seed=0, n_episodes=30, eta=0.5):
    rng = np.random.default_rng(seed)
    garnet = Garnet.random(rng)
    baseline = garnet.baseline(eta, rng)
    counts = Counts.sample(garnet.mdp, baseline, n_episodes=n_episodes, rng=rng)
    return garnet.mdp, Problem.of(counts, baseline=baseline, gamma=0.95)


def drawn(problem, numbered=range(40), seed=0, hazards=None):
    around = Posterior(problem).surroundings
    return draw_models(problem.outcomes, around, numbered=numbered, seed=seed, hazards=hazards)


def test_draws_scatter_around_the_shrunk_model_as_a_dirichlet_does():
    """Of values in all states: mean p.f, variance (p.f^2 - (p.f)^2) / (N + m + 1)."""
    _, baseline, log = random_problem(2, n_states=8, n_actions=2, n_episodes=40)
    problem = Problem.of(log, baseline=baseline, gamma=0.9)
    n_draws = 1_000
    draws = drawn(problem, range(n_draws))
    model, outcomes = problem.estimate("shrunk"), problem.outcomes
    f, live = problem.expected_values, np.flatnonzero(outcomes.live)
    rows = np.array([reference.dense_draw(draws, k)[live] for k in range(n_draws)])
    n_pairs = outcomes.n_sa.size
    mean = np.zeros((n_pairs, outcomes.n_states))
    for pair in range(n_pairs):
        for k in range(model.rows.indptr[pair], model.rows.indptr[pair + 1]):
            mean[pair, model.rows.indices[k]] = model.rows.data[k]
    mean = mean.reshape(*outcomes.n_sa.shape, -1)[live]
    values, expected = rows @ f, mean @ f
    size = outcomes.n_sa[live] + problem.prior.strength[live, None]
    spread = np.sqrt((mean @ f**2 - expected**2) / (size + 1.0))
    np.testing.assert_allclose(
        values.mean(axis=0), expected, atol=float(5 * spread.max() / n_draws**0.5)
    )
    # Six outcomes stand for the prior: up to a sixth less than its variance, or a little more.
    ratio = values.std(axis=0) / spread
    assert 0.85 < np.median(ratio) < 1.1
    assert ratio.max() < 1.5


@pytest.mark.parametrize("strength", [1.0, 32.0, 256.0])
def test_draws_of_strong_priors_are_at_most_somewhat_too_wide(strength):
    """A pair never seen: Var_p / (m + 1), and for strong priors up to half as much beside it."""
    rng, n_states = np.random.default_rng(0), 60
    transition = np.repeat(rng.dirichlet(np.ones(n_states))[None, None], n_states, axis=0)
    mdp = TabularMDP(transition, np.zeros((n_states, 1)), 0.9)
    baseline = TabularPolicy.uniform(n_states, 1)
    counts = Counts.sample(mdp, baseline, n_episodes=40, max_steps=10, rng=rng)
    problem = Problem.of(counts, baseline=baseline, gamma=0.9)
    worth, unseen = np.append(rng.normal(size=n_states), 0.0), int(counts.n_sa[:, 0].argmin())
    assert counts.n_sa[unseen, 0] == 0
    of_all = {"strength": np.full(n_states, strength), "share": np.full(n_states, np.inf)}
    prior = problem.prior._replace(**of_all)
    around = Surroundings.of(problem.outcomes, prior, worth)
    draws = draw_models(problem.outcomes, around, numbered=range(4_000), seed=0, hazards=None)
    first, last = draws.indptr[unseen], draws.indptr[unseen + 1]
    drawn = (draws.weights * worth[draws.indices])[:, first:last].sum(axis=1)
    g = prior.frequencies
    variance = (g @ worth**2 - (g @ worth) ** 2) / (strength + 1.0)
    assert 0.7 < drawn.var() / variance < 1.7
    assert drawn.mean() == pytest.approx(g @ worth, abs=0.1)


def test_where_ending_is_bad_the_careful_prior_ends():
    """One step each, and pay: an action tried three times must not look better for its rarity."""
    n = 200
    rng = np.random.default_rng(0)
    log = Log.from_arrays(
        state=[0] * (n + 3), action=[0] * n + [1] * 3, reward=10.0 + rng.random(n + 3),
        terminated=[True] * (n + 3), episode=range(n + 3),
    )  # fmt: skip
    baseline = TabularPolicy([[0.98, 0.02]])
    found = risk(log, TabularPolicy([[0.0, 1.0]]), baseline=baseline, gamma=0.95)
    assert found.gains["careful"].mean <= found.gains["neutral"].mean + 0.01
    assert Problem.of(log, baseline=baseline, gamma=0.95).hazards.state == 1  # the end


def test_the_level_of_rewards_hides_no_noise():
    found = []
    for level in (0.0, 1e6):
        rng = np.random.default_rng(1)
        log = Log.from_arrays(
            state=[0] * 60, action=[0, 1] * 30, reward=rng.normal(size=60) + level,
            next_state=[0] * 60, episode=range(60), terminated=[False] * 60, truncated=[True] * 60,
        )  # fmt: skip
        policy, baseline = TabularPolicy([[0.0, 1.0]]), TabularPolicy([[0.5, 0.5]])
        found.append(risk(log, policy, baseline=baseline, gamma=0.5).gains["neutral"])
    assert found[1].deviation == pytest.approx(found[0].deviation, rel=1e-4)
    assert found[1].mean == pytest.approx(found[0].mean, abs=1e-4)


def test_performances_are_those_of_the_obvious_loop():
    _, problem = garnet_problem()
    draws = drawn(problem, range(3), hazards=problem.hazards)
    policies = np.stack([problem.baseline.probabilities, np.full((50, 4), 0.25)])
    starts = np.random.default_rng(0).dirichlet(np.ones(50), 3)
    found = performance.performances(draws, policies, starts, 0.95)
    for c, policy in enumerate(policies):
        for k in range(3):
            expected = reference.performance(
                reference.dense_draw(draws, k), draws.reward[k], policy, starts[k], 0.95
            )
            assert found[c, k] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n_corrections", [40, 0], ids=["corrected", "one by one"])
@pytest.mark.parametrize("gamma", [0.95, 1.0])
def test_large_systems_agree_with_small_ones(monkeypatch, n_corrections, gamma):
    _, problem = garnet_problem(n_episodes=5)
    draws = drawn(problem, range(12))
    policies, starts = problem.baseline.probabilities[None], np.eye(50)[np.zeros(12, int)]
    small = performance.performances(draws, policies, starts, gamma)
    monkeypatch.setattr(performance, "LARGEST_COMPILED", 10)
    monkeypatch.setattr(performance, "_N_CORRECTIONS", n_corrections)
    large = performance.performances(draws, policies, starts, gamma)
    np.testing.assert_allclose(large, small, rtol=1e-5)


def test_a_draw_depends_on_its_number_alone(monkeypatch):
    _, problem = garnet_problem()
    whole, part = drawn(problem), drawn(problem, range(17, 23))
    monkeypatch.setattr(threads, "n_threads", lambda: 1)
    alone = drawn(problem)
    for one, other in ((whole.weights[17:23], part.weights), (whole.weights, alone.weights)):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(drawn(problem, seed=1).weights, whole.weights)


def test_nothing_is_gained_by_the_baseline():
    _, problem = garnet_problem()
    found = risk(problem, problem.baseline)
    assert {(g.mean, g.harm) for g in found.gains.values()} == {(0.0, 0.0)}


def test_intervals_cover_the_truth_of_a_policy_that_no_log_chose():
    """95 % intervals of 30 logs of 15 garnets: at least 25 cover (24 or fewer: 1 in 1,000)."""
    covered = 0
    for seed in range(30):
        mdp, problem = garnet_problem(seed // 2, n_episodes=(20, 100)[seed % 2])
        rng = np.random.default_rng(seed)
        policy = TabularPolicy(rng.dirichlet(np.ones(4), 50))
        low, high = risk(problem, policy, n_draws=200).gains["neutral"].interval_95
        truth = evaluate(mdp, policy).performance - evaluate(mdp, problem.baseline).performance
        covered += low <= truth <= high
    assert covered >= 25


@pytest.mark.parametrize("n_episodes", [50, 100])
def test_the_careful_prior_knows_of_the_frontier(n_episodes):
    """Slow service lets a queue fill that seldom did: the log is on the safe side."""
    queue, baseline = Queue().to_mdp(), Queue().baseline()
    table = baseline.probabilities.copy()
    table[:6] = [1.0, 0.0, 0.0]
    slow = TabularPolicy(table)
    assert evaluate(queue, slow).performance < evaluate(queue, baseline).performance
    for seed in range(5):
        rng = np.random.default_rng(seed)
        log = Log.sample(queue, baseline, n_episodes=n_episodes, max_steps=50, rng=rng)
        found = risk(log, slow, baseline=baseline, gamma=0.95, n_draws=200)
        assert found.gain.harm > 0.2
        assert found.gain is max(found.gains.values(), key=lambda gain: gain.harm)


def test_a_rare_ruin_that_was_never_seen_is_not_ruled_out():
    """The drug was given about a dozen times without harm: is that enough? It is not."""
    env = RareAction(is_ruinous=True)
    mdp, baseline = env.to_mdp(), env.baseline(0.06)
    drug = TabularPolicy(np.tile([0.0, 0.0, 1.0], (11, 1)))
    assert evaluate(mdp, drug).performance < evaluate(mdp, baseline).performance
    sure = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        log = Log.sample(mdp, baseline, n_episodes=20, max_steps=40, rng=rng)
        found = risk(log, drug, baseline=baseline, gamma=0.9, n_draws=200)
        assert found.gains["careful"].mean < found.gains["neutral"].mean
        sure += found.gain.harm < 0.05
    assert sure == 0


def test_a_range_that_reaches_further_makes_it_more_careful():
    _, baseline, log = random_problem(3, n_episodes=40)
    policy = ApproxSoftSPIBB(epsilon=2.0).improve(log, baseline=baseline, gamma=0.9).policy
    seen, given = (
        risk(log, policy, baseline=baseline, gamma=0.9, reward_range=bounds).gains
        for bounds in (None, (-1_000.0, 1_000.0))
    )
    assert given["careful"].deviation > 5 * seen["careful"].deviation
    assert given["neutral"] == seen["neutral"]


def test_a_constant_on_every_reward_changes_no_risk():
    _, baseline, log = random_problem(5, n_episodes=30)
    log = replace(
        log, terminated=np.zeros(len(log), bool), truncated=log.terminated | log.truncated
    )
    policy = TabularPolicy(np.roll(baseline.probabilities, 1, axis=1))
    here, there = (
        risk(replace(log, reward=log.reward + c), policy, baseline=baseline, gamma=0.9, n_draws=50)
        for c in (0.0, -70.0)
    )
    for name, gain in here.gains.items():
        assert there.gains[name].mean == pytest.approx(gain.mean, abs=1e-7)


def test_one_row_is_enough_to_say_how_little_is_known():
    log = Log.from_arrays(state=[0], action=[1], reward=[1.0], terminated=[True], episode=[0])
    found = risk(log, TabularPolicy([[0.0, 1.0]]), baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9)
    assert all(np.isfinite([g.mean, g.deviation]).all() for g in found.gains.values())
    assert "Risk given the log and two priors" in repr(found)


def test_what_states_add_sums_to_the_gain_and_names_who_carries_the_risk():
    _, problem = garnet_problem()
    posterior, policy = Posterior(problem), np.full((50, 4), 0.25)
    found, added = posterior.gains_and_parts(policy[None], 4, 4)
    for prior in ("neutral", "careful"):
        gains, parts = found[prior][0], added[prior].sum(axis=1)
        assert (gains == posterior.gains(policy[None], 4)[prior][0]).all()
        wider = widened({prior: parts[None]}, *posterior._wider(policy[None]))[prior][0]
        assert wider == pytest.approx(gains, abs=1e-9)
    # A drug given in state 5 alone: there, and nowhere else, something is at stake.
    env = RareAction(is_ruinous=True)
    baseline = env.baseline(0.06)
    log = Log.sample(
        env.to_mdp(), baseline, n_episodes=30, max_steps=40, rng=np.random.default_rng(0)
    )
    table = baseline.probabilities.copy()
    table[5] = [0.0, 0.0, 1.0]
    found = risk(log, TabularPolicy(table), baseline=baseline, gamma=0.9, n_draws=200)
    assert np.flatnonzero(np.abs(found.by_state) > 1e-12).tolist() == [5]
    # The gain as a whole is wider about its mean than what is drawn of it.
    problem = Problem.of(log, baseline=baseline, gamma=0.9)
    (times,), (besides,) = Posterior(problem)._wider(table[None])
    assert times > 1.1
    assert besides > 0.0
    mean, wide = found.gain.mean, found.gain.deviation
    wider = times * wide / np.sqrt(wide**2 - besides**2)
    assert mean + wider * (found.by_state[5] - mean) == pytest.approx(found.gain.worst_tenth)


def test_gain_of_draws():
    gain = Gain.of(np.arange(-5.0, 95.0))
    assert (gain.mean, gain.harm, gain.worst_tenth) == (44.5, 0.05, -0.5)
    assert gain.interval_80 == pytest.approx((4.9, 84.1))
    assert gain.mean_error == pytest.approx(gain.deviation / 10)
    assert (told_share(0.0, 400), told_share(0.02, 400)) == ("none in 400 draws", "2 +- 0.7 %")


def test_rounding_is_no_harm():
    """A policy that differs only where nobody comes is the baseline, in every draw."""
    onward = 0.3 * np.eye(5) + 0.7 * np.eye(5)[[1, 2, 0, 0, 0]]  # nothing leads to 3 and 4
    reward = np.arange(10.0).reshape(5, 2)
    mdp = TabularMDP(np.stack([onward, onward], axis=1), reward, 0.95, np.eye(5)[0])
    baseline = TabularPolicy.uniform(5, 2)
    log = Log.sample(mdp, baseline, n_episodes=20, max_steps=30, rng=np.random.default_rng(0))
    table = baseline.probabilities.copy()
    table[3:] = [1.0, 0.0]
    found = risk(log, TabularPolicy(table), baseline=baseline, gamma=0.95, n_draws=100)
    assert {(gain.mean, gain.harm) for gain in found.gains.values()} == {(0.0, 0.0)}


def test_a_state_where_records_stop_is_the_worst_there_is():
    """The smallest case that broke the SPIBB bound: what follows was never acted in."""
    case = ADVERSARIES["truncation"]
    log = case.draw(np.random.default_rng(0))
    asked = {"baseline": case.baseline, "gamma": case.mdp.gamma, "reward_range": case.reward_range}
    found = risk(log, TabularPolicy([[0.0, 1.0], [0.5, 0.5]]), **asked)
    assert found.gains["neutral"].harm == 0.0, "a neutral prior cannot know"
    assert found.gain is found.gains["careful"]
    assert found.gain.harm > 0.9
    assert AutoSPIBB().improve(log, **asked).choice.chosen is None


def test_too_many_states_are_refused_by_their_number():
    log = Log.from_arrays(
        state=[0],
        action=[0],
        reward=[0.0],
        terminated=[True],
        episode=[0],
        n_states=2_001,
        n_actions=2,
    )
    with pytest.raises(SettingsError, match=r"2,001 states.*at most 2,000"):
        risk(
            log,
            TabularPolicy.uniform(2_001, 2),
            baseline=TabularPolicy.uniform(2_001, 2),
            gamma=0.9,
        )


def test_an_estimated_baseline_is_drawn_too():
    """How often each action was taken is uncertain, too, besides what it pays.

    Of 20 visits 10 took action 1, which alone pays. Always to take it gains 1 - p of what it pays
    more, where p is Beta(10.5, 10.5): a mean of a half, a deviation of 0.107.
    """
    log = Log.from_arrays(state=[0] * 20, action=[0, 1] * 10, reward=[0.0, 1.0] * 10)
    always = TabularPolicy([[0.0, 1.0]])
    known = risk(log, always, baseline=TabularPolicy([[0.5, 0.5]]), n_draws=400)
    guessed = risk(log, always, baseline="estimate", n_draws=400)
    for name, gain in guessed.gains.items():
        before = known.gains[name]
        assert gain.mean == pytest.approx(before.mean, abs=0.06)
        spread = np.sqrt(gain.deviation**2 - before.deviation**2)
        assert spread == pytest.approx(0.107 * 2.0 * before.mean, rel=0.25)
    again = risk(log, always, baseline="estimate", n_draws=400)
    assert again.gain == guessed.gain, "the same log, the same numbers"


def test_draws_of_a_baseline_keep_what_was_never_done():
    shapes = np.array([[3.0, 0.0, 5.0], [1e-9, 1e-9, 0.0], [2.0, 2.0, 2.0]])
    drawn = np.stack([draw_baseline(shapes, number, 0) for number in range(2_000)])
    np.testing.assert_allclose(drawn.sum(axis=2), 1.0)
    assert not drawn[:, shapes == 0.0].any()
    mean = shapes[[0, 2]] / shapes[[0, 2]].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(drawn[:, [0, 2]].mean(axis=0), mean, atol=0.02)
