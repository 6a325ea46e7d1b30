"""RaMDP, R-MIN, DUIPI, Lower- and Adv-Soft-SPIBB: equal to slow loops, and what each promises."""

import numpy as np
import pytest

from spibb import (
    DUIPI,
    AdvApproxSoftSPIBB,
    ApproxSoftSPIBB,
    BasicRL,
    Counts,
    EmpiricalBernstein,
    ExactAdvSoftSPIBB,
    ExactLowerSoftSPIBB,
    ExactSoftSPIBB,
    HoeffdingQ,
    HoeffdingReturns,
    Log,
    LowerApproxSoftSPIBB,
    RaMDP,
    RMin,
    TabularMDP,
    TabularPolicy,
    evaluate,
)
from spibb.data.returns import first_visit_returns
from spibb.errors import DataError, SettingsError
from spibb.testing import reference
from spibb.testing import reference_successors as slow
from spibb.testing.checks import random_problem

GAMMA = 0.9


def model_of(log):
    counts = Counts.from_log(log)
    model = counts.to_mdp(GAMMA)
    return counts, model


def slow_values(policy, model):
    return reference.evaluate(model.dense, model.reward, GAMMA, policy)[0]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kappa", [0.01, 0.3, 2.0])
def test_ramdp_equals_planning_with_penalised_rewards(seed, kappa):
    _, baseline, log = random_problem(seed, n_states=7, n_actions=3, n_episodes=25)
    counts, model = model_of(log)
    with np.errstate(divide="ignore"):
        penalised = model.reward - kappa / np.sqrt(counts.n_sa)
    tried = counts.n_sa > 0

    def row(q, x):
        if not tried[x].any():
            return baseline.probabilities[x]
        return reference.greedy_row(np.where(tried[x], q, -np.inf))

    start = np.where(tried, baseline.probabilities, 0.0)
    start = np.where(tried.any(axis=1, keepdims=True), start, baseline.probabilities)
    start /= start.sum(axis=1, keepdims=True)
    reward = np.where(tried, penalised, 0.0)
    policy, *_ = reference.policy_iteration(model.dense, reward, GAMMA, start, row)
    result = RaMDP(kappa=kappa).improve(log, baseline=baseline, gamma=GAMMA)
    np.testing.assert_allclose(result.v, slow_values(policy, model), atol=1e-8)


def test_ramdp_without_penalty_is_basic_rl():
    _, baseline, log = random_problem(1)
    free = BasicRL().improve(log, baseline=baseline, gamma=GAMMA)
    result = RaMDP(kappa=0.0).improve(log, baseline=baseline, gamma=GAMMA)
    np.testing.assert_allclose(result.v, free.v, atol=1e-10)


def goal_process(rng, n_states=20, n_actions=3):
    """A random process whose only reward is 1 on entering its terminal goal."""
    transition = rng.dirichlet(np.full(n_states, 0.15), (n_states, n_actions))
    terminal = np.arange(n_states) == n_states - 1
    initial = np.eye(n_states)[0]
    return TabularMDP(transition, transition[:, :, -1].copy(), 0.95, initial, terminal)


def released_ramdp(log, baseline, kappa):
    """As released: counts start at 1e-5 for every pair, the goal's own pairs among them."""
    counts = Counts.from_log(log)
    model = counts.to_mdp(0.95)
    reward = model.reward - kappa / np.sqrt(counts.n_sa + 1e-5)
    transition = model.dense.copy()
    policy, *_ = reference.policy_iteration(
        transition, reward, 0.95, baseline.probabilities, lambda q, x: reference.greedy_row(q)
    )
    return policy


def test_ramdp_has_no_cliff_at_the_published_threshold():
    """The published cliff came from penalising the goal, where nothing is ever done."""
    kappas = [0.0030, 0.0033, 0.0034, 0.0036, 0.0040]
    n_processes = 24
    ours, released = np.zeros((2, n_processes, len(kappas)))
    for k in range(n_processes):
        rng = np.random.default_rng(k)
        mdp = goal_process(rng)
        baseline = TabularPolicy(rng.dirichlet(np.ones(3), 20))
        log = Log.sample(mdp, baseline, n_episodes=200, max_steps=100, rng=rng)
        for j, kappa in enumerate(kappas):
            found = RaMDP(kappa=kappa).improve(log, baseline=baseline, gamma=0.95).policy
            ours[k, j] = evaluate(mdp, found).performance
            released[k, j] = evaluate(mdp, released_ramdp(log, baseline, kappa)).performance
    ours, released = ours.mean(axis=0), released.mean(axis=0)
    assert np.abs(np.diff(ours)).max() < 0.02 * ours.mean(), ours
    # 1 / (0.95 sqrt(1e5)) = 0.00333: below it the goal is worth reaching, above it not.
    assert released[0] - released[-1] > 0.2 * released[0]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n_wedge", [1, 4, 15])
def test_r_min_equals_planning_with_the_least_value(seed, n_wedge):
    _, baseline, log = random_problem(seed, n_states=7, n_actions=3, n_episodes=25)
    counts, model = model_of(log)
    # Nothing is done in a terminal state: it is worth 0, not the least there is.
    rare = (counts.n_sa < n_wedge) & ~counts.terminal[:, None]
    least = counts.reward_range[0] / (1 - GAMMA)
    transition = np.where(rare[:, :, None], 0.0, model.dense)
    reward = np.where(rare, least, model.reward)
    v = np.zeros(7)
    for _ in range(500):
        q = reward + GAMMA * transition @ v
        v = q.max(axis=1)
    policy = np.array(
        [
            baseline.probabilities[x]
            if rare[x].all()
            else reference.greedy_row(np.where(rare[x], -np.inf, q[x]))
            for x in range(7)
        ]
    )
    result = RMin(n_wedge=n_wedge).improve(log, baseline=baseline, gamma=GAMMA)
    np.testing.assert_allclose(result.v, slow_values(policy, model), atol=1e-7)


def test_r_min_does_not_shun_the_end_where_rewards_are_costs():
    """Each step costs 1; action 1 ends at once, action 0 goes on, and both were seen often."""
    log = Log.from_arrays(
        state=[0] * 40, action=[0, 1] * 20, reward=[-1.0] * 40, next_state=[0, 1] * 20,
        terminated=[False, True] * 20, episode=np.repeat(np.arange(20), 2),
    )  # fmt: skip
    result = RMin(n_wedge=3).improve(log, baseline=TabularPolicy.uniform(2, 2), gamma=GAMMA)
    np.testing.assert_array_equal(result.policy.probabilities[0], [0.0, 1.0])
    assert result.v[0] == pytest.approx(-1.0)


def test_r_min_needs_a_discount():
    _, baseline, log = random_problem(1)
    with pytest.raises(SettingsError, match="gamma < 1"):
        RMin().improve(log, baseline=baseline, gamma=1.0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("xi", "prior"), [(0.0, 0.0), (1.0, 0.0), (2.0, 0.1), (-0.5, 0.3)])
def test_duipi_equals_its_slow_loop(seed, xi, prior):
    _, baseline, log = random_problem(seed, n_states=6, n_actions=3, n_episodes=20)
    counts, model = model_of(log)
    result = DUIPI(xi=xi, prior=prior, max_iterations=40).improve(
        log, baseline=baseline, gamma=GAMMA
    )
    expected = slow.duipi(
        model.dense, model.ending, model.reward, counts.n_sa.astype(float), GAMMA,
        baseline.probabilities, xi=xi, prior=prior, n_sweeps=result.n_iterations,
    )  # fmt: skip
    np.testing.assert_allclose(result.policy.probabilities, expected, atol=1e-9)


def test_duipi_avoids_what_is_uncertain():
    # Action 1 was seen once and ended well; action 0 a hundred times, and is nearly as good.
    log = Log.from_arrays(
        state=[0] * 101, action=[0] * 100 + [1], reward=[0.9] * 100 + [1.0],
        next_state=[1] * 101, terminated=[True] * 101, episode=np.arange(101),
    )  # fmt: skip
    baseline = TabularPolicy([[0.9, 0.1], [0.5, 0.5]])
    bold = DUIPI(xi=0.0).improve(log, baseline=baseline, gamma=GAMMA).policy.probabilities[0]
    shy = DUIPI(xi=1.0).improve(log, baseline=baseline, gamma=GAMMA).policy.probabilities[0]
    assert bold[1] == 1.0
    assert shy[0] == 1.0


@pytest.mark.parametrize("kind", [LowerApproxSoftSPIBB, ExactLowerSoftSPIBB])
def test_lower_variants_keep_the_one_sided_budget_and_claim_nothing(kind):
    for seed in range(20):
        _, baseline, log = random_problem(seed, n_states=8, n_actions=4)
        result = kind(epsilon=0.6).improve(log, baseline=baseline, gamma=GAMMA)
        check = result.certificate.check("constraint")
        assert check.is_satisfied
        assert "max(0, pi - pi_b)" in check.statement
        assert result.certificate.others == (), "no theorem of its own"
        assert (result.v - result.baseline.v >= -1e-9).all()


def test_lower_is_at_least_as_free_as_two_sided():
    for seed in range(20):
        _, baseline, log = random_problem(seed, n_states=8, n_actions=4)
        lower = ExactLowerSoftSPIBB(epsilon=0.6).improve(log, baseline=baseline, gamma=GAMMA)
        both = ExactSoftSPIBB(epsilon=0.6).improve(log, baseline=baseline, gamma=GAMMA)
        assert (lower.v - both.v >= -1e-8).all()


@pytest.mark.parametrize("kind", [AdvApproxSoftSPIBB, ExactAdvSoftSPIBB])
@pytest.mark.parametrize("error", [HoeffdingReturns(), EmpiricalBernstein()])
def test_adv_variants_are_advantageous_by_returns_and_theorem_1_applies(kind, error):
    moved = 0
    for seed in range(150):
        _, baseline, log = random_problem(seed, n_states=6, n_actions=3, n_episodes=60)
        result = kind(epsilon=2.0, error=error).improve(log, baseline=baseline, gamma=GAMMA)
        returns = first_visit_returns(log, GAMMA)
        difference = result.policy.probabilities - baseline.probabilities
        assert ((returns.mean * difference).sum(axis=1) >= -1e-9).all()
        (own,) = result.certificate.others
        assert own.applies, own.summary
        assert "by returns" in own.theorem
        moved += np.abs(difference).max() > 0.01
    assert moved > 100, "hardly any policy moved: the test says little"


@pytest.mark.parametrize("kind", [AdvApproxSoftSPIBB, ExactAdvSoftSPIBB])
def test_adv_with_errors_of_the_model_is_bound_to_what_soft_spibb_is(kind):
    _, baseline, log = random_problem(3)
    result = kind(error=HoeffdingQ()).improve(log, baseline=baseline, gamma=GAMMA)
    (own,) = result.certificate.others
    assert "by returns" not in own.theorem
    assert any("by the estimated model" in part.statement for part in own.conditions)
    assert "one-step" in [part.name for part in own.failed]


def test_adv_bound_by_hand():
    _, baseline, log = random_problem(3, n_episodes=100)
    initial = Counts.from_log(log).initial
    result = AdvApproxSoftSPIBB(epsilon=0.2, delta=0.1).improve(
        log, baseline=baseline, gamma=GAMMA, reward_range=(-4.0, 4.0), initial=initial
    )
    returns = first_visit_returns(log, GAMMA)
    difference = result.policy.probabilities - baseline.probabilities
    # Values reach from -40 to 40, and what was cut off was put at the log's average.
    reach = (40.0 + abs(returns.completion)) / 40.0
    errors = np.sqrt(2 / np.maximum(returns.n, 1) * np.log(2 * returns.n.size / 0.1))
    errors += reach * returns.cut
    errors[returns.n == 0] = 0.0  # nothing moves there
    spent = (errors * np.abs(difference)).sum(axis=1).max()
    advantage = result.problem.model.initial @ (returns.mean * difference).sum(axis=1)
    v_max = 4.0 / (1 - GAMMA)
    (own,) = result.certificate.others
    assert own.bound == pytest.approx(advantage - spent * v_max / (1 - GAMMA))


def test_adv_needs_the_log():
    _, baseline, log = random_problem(3)
    with pytest.raises(DataError, match="only counts were given"):
        AdvApproxSoftSPIBB().improve(Counts.from_log(log), baseline=baseline, gamma=GAMMA)
    loose = Log.from_arrays(state=[0], action=[0], reward=[1.0], next_state=[0])
    with pytest.raises(DataError, match="no episodes"):
        AdvApproxSoftSPIBB().improve(loose, baseline=TabularPolicy([[1.0]]), gamma=GAMMA)


@pytest.mark.statistical
def test_adv_certificates_are_broken_no_more_often_than_delta():
    rng = np.random.default_rng(4)
    mdp, baseline, _ = random_problem(4, n_states=4, n_actions=2)
    broken = 0
    for _ in range(300):
        log = Log.sample(mdp, baseline, n_episodes=60, max_steps=30, rng=rng)
        result = AdvApproxSoftSPIBB(epsilon=0.001, delta=0.3).improve(
            log, baseline=baseline, gamma=GAMMA, reward_range=(-3.0, 3.0)
        )
        gain = evaluate(mdp, result.policy).performance
        gain -= evaluate(mdp, baseline).performance
        broken += gain < result.certificate.others[0].bound
    assert broken <= 0.3 * 300


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RaMDP(kappa=-1.0), "kappa is -1"),
        (lambda: RaMDP(kappa=np.inf), "kappa is inf"),
        (lambda: RMin(n_wedge=-1), "n_wedge is -1"),
        (lambda: DUIPI(xi=np.nan), "xi is nan"),
        (lambda: DUIPI(prior=-0.1), "prior is -0.1"),
        (lambda: ApproxSoftSPIBB(error=[[-1.0]]), "numbers >= 0"),
    ],
)
def test_bad_settings_are_refused(build, message):
    with pytest.raises(SettingsError, match=message):
        build()
