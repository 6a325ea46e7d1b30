"""Mean and deviation of gains without a draw."""

from dataclasses import replace

import numpy as np
import pytest

from spibb import Counts, Log, Problem, TabularMDP, TabularPolicy, evaluate
from spibb.envs import Garnet, Queue, RareAction
from spibb.posterior import performance
from spibb.posterior.draws import Draws
from spibb.posterior.moments import POOLED, SELECTED, SELECTED_FOR_PAY, SURER, moments
from spibb.posterior.posterior import Posterior
from spibb.posterior.risk import Gain
from spibb.posterior.together import widening, widening_where_solved
from spibb.testing import reference_posterior


def counts_of(process, baseline, seed, n_episodes, max_steps=15):
    rng = np.random.default_rng(seed)
    return Counts.sample(process, baseline, n_episodes=n_episodes, max_steps=max_steps, rng=rng)


def garnet_problem(seed):
    """A goal that ends episodes, few rows, pairs that were never tried."""
    rng = np.random.default_rng(seed)
    garnet = Garnet.random(rng, n_states=6, n_actions=3, n_successors=2)
    baseline = garnet.baseline(0.5, rng)
    counts = counts_of(garnet.mdp, baseline, seed, 4 + 5 * seed)
    return Problem.of(counts, baseline=baseline, gamma=0.9)


def drug_problem(seed):
    """Ruin leads to a state, prices differ between actions."""
    drug = RareAction(is_ruinous=True)
    baseline = drug.baseline(0.3)
    counts = counts_of(drug.to_mdp(0.9), baseline, seed, 10 + 20 * seed)
    return Problem.of(counts, baseline=baseline, gamma=0.9)


def noisy_problem(seed):
    """One state, several places to begin, noise on rewards, and records that stop."""
    rng = np.random.default_rng(seed)
    n = 24
    log = Log.from_arrays(
        state=np.tile([0, 1], n), action=rng.integers(0, 2, 2 * n), reward=rng.normal(size=2 * n),
        next_state=np.tile([1, 2], n), episode=np.repeat(np.arange(n), 2),
        step=np.tile([0, 1], n), truncated=np.tile([False, True], n),
    )  # fmt: skip
    begun = log.take(np.arange(2 * n) != 0)  # one episode begins in state 1
    return Problem.of(begun, baseline=TabularPolicy([[0.5, 0.5]] * 3), gamma=0.9)


def strong_problem(seed):
    """A prior that is stronger than spreads are pooled."""
    problem = garnet_problem(seed)
    problem.__dict__["prior"] = problem.prior._replace(strength=np.full(6, 64.0))
    return problem


def strong_noisy_problem(seed):
    """Rewards that vary, and what follows a pair is not its own in two of three states."""
    problem = noisy_problem(seed)
    problem.__dict__["prior"] = problem.prior._replace(strength=np.array([64.0, 2.0, 64.0]))
    return problem


def endless_problem(seed):
    """No discount, and every step costs: episodes end, here in a goal."""
    rng = np.random.default_rng(seed)
    garnet = Garnet.random(rng, n_states=6, n_actions=3, n_successors=2)
    baseline = garnet.baseline(0.5, rng)
    log = Log.sample(garnet.mdp, baseline, n_episodes=60, max_steps=200, rng=rng)
    return Problem.of(replace(log, reward=log.reward - 0.1), baseline=baseline, gamma=1.0)


def begun_problem(seed):
    """Where episodes begin is known."""
    problem = garnet_problem(seed)
    return Problem.of(
        problem.counts, baseline=problem.baseline, gamma=0.9, initial=[0.5, 0.5, 0, 0, 0, 0]
    )


def solved(problem, tried):
    model, gamma = problem.expected, min(problem.gamma, performance.LARGEST_DISCOUNT)
    return performance.values_and_visits(Draws.single(model), tried, model.initial, gamma)


def widening_where_alike(problem, policies):
    """Return what a choice widens gains by: pairs of states with c above 8 err apart."""
    tried = np.concatenate([problem.baseline.probabilities[None], policies])
    return widening_where_solved(problem, tried, *solved(problem, tried), 8.0)


def one_sided_by_differences(problem, policies):
    """Return what gains err by if all that is done more often errs on one side."""
    errors = reference_posterior.errors_of_advantages(problem, POOLED, SURER)
    _, visits = solved(problem, policies)
    more = np.maximum(policies - problem.baseline.probabilities, 0.0)
    of_pay = reference_posterior.errors_of_advantages(problem, POOLED, SURER, paid_alone=True)
    for x, a in np.ndindex(errors.shape):
        n, strength = problem.outcomes.n_sa[x, a], problem.prior.strength[x]
        counted = 1.0 if n <= 1 or strength == 0.25 else SELECTED + (1.0 - SELECTED) / n
        errors[x, a] *= counted
        if strength >= POOLED:
            errors[x, a] = SELECTED_FOR_PAY * problem.outcomes.is_noisy * of_pay[x, a]
    return [(visits[k][:, None] * more[k] * errors).sum() for k in range(len(policies))]


def nothing(errors, tried, visits):
    return np.zeros(len(tried) - 1)


@pytest.mark.parametrize("largest", [128, 2])
@pytest.mark.parametrize(
    "make",
    [
        garnet_problem,
        drug_problem,
        noisy_problem,
        strong_problem,
        strong_noisy_problem,
        endless_problem,
        begun_problem,
    ],
)
def test_they_are_what_differences_in_all_that_varies_say(monkeypatch, make, largest):
    """Small systems are eliminated, large ones factored."""
    monkeypatch.setattr(performance, "LARGEST_COMPILED", largest)
    for seed in (0, 2):
        problem, rng = make(seed), np.random.default_rng(seed)
        n_states, n_actions = problem.outcomes.n_sa.shape
        policies = rng.dirichlet(np.ones(n_actions), (2, n_states))
        policies[0] = np.eye(n_actions)[-1]
        found = moments(problem, policies, None)
        wider = widening_where_alike(problem, policies)
        lucky = one_sided_by_differences(problem, policies)
        for name, hazards in (("neutral", None), ("careful", problem.hazards)):
            for k, policy in enumerate(policies):
                mean, deviation = reference_posterior.moments(
                    problem, policy, POOLED, SURER, hazards
                )
                assert found[name].mean[k] == pytest.approx(mean, rel=1e-5, abs=1e-4 * deviation)
                expected = wider[k] * deviation
                if name == "neutral":
                    expected = np.hypot(expected, lucky[k])
                assert found[name].deviation[k] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("make", [garnet_problem, drug_problem])
def test_drawn_models_say_the_same(monkeypatch, make):
    """Where spreads are a pair's own, priors count in full, and pairs err alike as in a report."""
    monkeypatch.setattr("spibb.posterior.moments.POOLED", 0.0)
    monkeypatch.setattr("spibb.posterior.moments.SURER", np.inf)
    monkeypatch.setattr("spibb.posterior.moments.one_sided", nothing)
    problem = make(4)
    n_actions = problem.outcomes.n_sa.shape[1]
    policies = np.stack([problem.baseline.probabilities, np.full_like(
        problem.baseline.probabilities, 1.0 / n_actions)])  # fmt: skip
    policies[0] = 0.5 * policies[0] + 0.5 * np.eye(n_actions)[-1]
    drawn = Posterior(problem).gains(policies, 4_000)["neutral"]
    found = Posterior(problem).moments(policies)["neutral"]
    # A report widens both.
    wider = widening(problem, policies) / widening_where_alike(problem, policies)
    assert drawn.std(axis=1) == pytest.approx(wider * found.deviation, rel=0.2)
    assert np.abs(drawn.mean(axis=1) - found.mean).max() < 0.25 * found.deviation.min()


def test_the_baseline_itself_gains_nothing_for_certain():
    problem = garnet_problem(2)
    for found in Posterior(problem).moments(problem.baseline.probabilities[None]).values():
        assert found.mean == 0.0
        assert found.deviation == pytest.approx(0.0, abs=1e-9)


LUCKY = np.array([[[0.0, 1.0]] * 3])


def lucky_problem(strength):
    """In state 0 action 0 wins half of 40 times, action 1 won all three times it was tried."""
    rows = [(0, 0, 1.0)] * 20 + [(0, 0, 0.0)] * 20 + [(0, 1, 1.0)] * 3
    states, actions, rewards = zip(*rows, strict=True)
    log = Log.from_arrays(
        state=states, action=actions, reward=rewards,
        next_state=np.where(np.array(rewards) > 0.0, 1, 2), episode=range(len(rows)),
        terminated=[True] * len(rows),
    )  # fmt: skip
    problem = Problem.of(
        log, baseline=TabularPolicy([[0.95, 0.05]] * 3), gamma=0.9, accept_baseline=True
    )
    # As other logs have it.
    problem.__dict__["prior"] = problem.prior._replace(strength=np.full(3, strength))
    return problem


def test_a_pair_that_was_always_lucky_does_not_know_its_spread(monkeypatch):
    monkeypatch.setattr("spibb.posterior.moments.one_sided", nothing)
    problem = lucky_problem(1.0)
    found = Posterior(problem).moments(LUCKY)["neutral"]
    own = reference_posterior.moments(problem, LUCKY[0], 0.0, SURER)
    assert found.mean[0] == pytest.approx(own[0])
    assert found.deviation[0] > 1.3 * own[1]
    # As wide as a coin that is known by three throws, one of the prior and one.
    assert found.deviation[0] == pytest.approx(0.5 / np.sqrt(5), rel=0.15)


def test_a_prior_makes_nothing_surer_than_a_row_would(monkeypatch):
    """However strongly pairs are expected to be alike, a pair is known by its own rows."""
    monkeypatch.setattr("spibb.posterior.moments.one_sided", nothing)
    weak, strong = (Posterior(lucky_problem(m)).moments(LUCKY)["neutral"] for m in (1.0, 64.0))
    assert strong.mean[0] < 0.2 * weak.mean[0]  # it is drawn to what surrounds it
    assert strong.deviation[0] == pytest.approx(weak.deviation[0], rel=0.1)


def test_pairs_of_an_action_err_alike_only_where_actions_of_a_state_are_alike(monkeypatch):
    monkeypatch.setattr("spibb.posterior.moments.one_sided", nothing)
    drugs, garnets = drug_problem(4), garnet_problem(4)
    assert drugs.prior.share.max() <= 8.0 < garnets.prior.share.min()
    for problem, is_wider in ((drugs, True), (garnets, False)):
        n_states, n_actions = problem.outcomes.n_sa.shape
        always = np.tile(np.eye(n_actions)[-1], (1, n_states, 1))
        found = Posterior(problem).moments(always)["neutral"].deviation[0]
        apart = reference_posterior.moments(problem, always[0], POOLED, SURER)[1]
        assert widening(problem, always)[0] > 1.2
        assert (found > 1.2 * apart) == is_wider
        assert is_wider or found == pytest.approx(apart, rel=1e-4)


def test_an_estimated_baseline_makes_gains_less_certain():
    queue = Queue()
    baseline = queue.baseline(0.3)
    rng = np.random.default_rng(0)
    log = Log.sample(queue.to_mdp(0.9), baseline, n_episodes=30, max_steps=20, rng=rng)
    estimated = Problem.of(log, baseline="estimate", gamma=0.9)
    posterior = Posterior(estimated)
    slow = np.tile([1.0, 0.0, 0.0], (1, estimated.counts.n_states, 1))
    wider = widening(estimated, slow)[0]  # actions of a queue are alike
    known = moments(estimated, slow, None)["neutral"].deviation[0] / wider
    found = posterior.moments(slow)["neutral"].deviation[0] / wider
    model = TabularMDP.of_arrays(estimated.expected, estimated.counts.terminal)
    drawn = [
        evaluate(model, TabularPolicy(posterior._baseline(k, 0))).performance for k in range(400)
    ]
    assert found**2 - known**2 == pytest.approx(np.var(drawn), rel=0.25)


def test_a_normal_gain_says_what_its_mean_and_deviation_do():
    found = Gain.normal(1.0, 0.5)
    drawn = Gain.of(1.0 + 0.5 * np.random.default_rng(0).standard_normal(200_000))
    assert found.harm == pytest.approx(drawn.harm, abs=0.002)
    assert found.worst_tenth == pytest.approx(drawn.worst_tenth, abs=0.01)
    assert [*found.interval_80, *found.interval_95] == pytest.approx(
        [*drawn.interval_80, *drawn.interval_95], abs=0.01
    )
    assert found.mean_error == 0.0
    assert Gain.normal(0.2, 0.0).harm == 0.0
    assert Gain.normal(-0.2, 0.0).harm == 1.0
