"""Certificates: the machinery, the theorems' meaning, and what they refuse to claim."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb import (
    ApproxSoftSPIBB,
    BasicRL,
    Counts,
    EmpiricalBernstein,
    ExactSoftSPIBB,
    HoeffdingP,
    HoeffdingQ,
    Log,
    PiBSPIBB,
    TabularMDP,
    TabularPolicy,
    audit,
    estimate_baseline,
    evaluate,
)
from spibb.certify.case import Case, spent_budget
from spibb.certify.kappa import kappa
from spibb.certify.occupancy import occupancy_error
from spibb.certify.theorems import lemma_1, spibb_bound, theorem_2
from spibb.errors import PolicyError, SettingsError
from spibb.problem import Problem
from spibb.problem.declarations import Declarations
from spibb.problem.ranges import ValueRange
from spibb.testing.checks import random_problem
from spibb.testing.strategies import mdps

# What is declared in tests of the theorems themselves.
KNOWN = {"initial": [1.0, 0.0, 0.0, 0.0], "states_complete": True}


def occupancy(mdp: TabularMDP, policy: np.ndarray) -> np.ndarray:
    """d(x' | x), discounted visits, by inverting I - gamma P_pi."""
    p = np.einsum("xa,xay->xy", policy, mdp.dense)
    return np.linalg.inv(np.eye(mdp.n_states) - mdp.gamma * p)


def make_case(
    counts: Counts, baseline: TabularPolicy, policy: TabularPolicy, *, gamma=0.8, delta=0.1
) -> Case:
    values = ValueRange.of(counts, gamma, (-1.0, 1.0))
    problem = Problem(counts, baseline, values, declared=Declarations.of(counts, **KNOWN))
    return Case(problem, evaluate(problem.model, policy), delta)


def own(certificate):
    """What the algorithm was published with, beside the regret test."""
    assert certificate.guarantee.theorem.startswith("Regret test")
    (found,) = certificate.others
    return found


def well_known(seed: int, n_each: int, n_states: int = 4, n_actions: int = 3) -> Counts:
    """Counts of a log that holds every pair equally often: Assumption 1 then holds with kappa 1."""
    rng = np.random.default_rng(seed)
    n_sas = rng.multinomial(n_each, rng.dirichlet(np.ones(n_states)), n_states * n_actions)
    return Counts(
        n_sa=np.full((n_states, n_actions), n_each),
        n_sas=sp.csr_array(n_sas),
        n_end=sp.csr_array((n_states * n_actions, n_states), dtype=np.int64),
        reward_sum=n_each * rng.uniform(-1, 1, (n_states, n_actions)),
        reward_range=(-1.0, 1.0),
        n_initial=np.eye(n_states, dtype=np.int64)[0],
    )


def nearby_models(case: Case, rng: np.random.Generator, n_models: int) -> list[TabularMDP]:
    """Models inside the set of e_P: rows within the L1 ball, rewards within e_P R_max."""
    errors = case.transition_errors
    shape = case.problem.model.dense.shape
    found = []
    for k in range(n_models):
        # Half of them on the very edge, towards single states: the worst ones.
        other = np.eye(shape[2])[rng.integers(0, shape[2], shape[:2])]
        if k % 2:
            other = rng.dirichlet(np.full(shape[2], 0.3), shape[:2])
        gap = np.abs(other - case.problem.model.dense).sum(axis=2)
        mix = np.minimum(1.0, errors / np.maximum(gap, 1e-12))[..., None]
        transition = (1 - mix) * case.problem.model.dense + mix * other
        noise = rng.choice([-1.0, 1.0], shape[:2]) * errors
        reward = np.clip(case.problem.model.reward + noise * case.problem.values.r_max, -1, 1)
        found.append(TabularMDP(transition, reward, case.problem.gamma, case.problem.model.initial))
    return found


def true_gain(mdp: TabularMDP, case: Case) -> float:
    policy, baseline = case.policy.policy, case.baseline.policy
    return evaluate(mdp, policy).performance - evaluate(mdp, baseline).performance


@given(mdp=mdps(), seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_proposition_1(mdp, seed):
    """V_1 - V_2 = d_2 [Q_1 (pi_1 - pi_2)] = d_1 [Q_2 (pi_1 - pi_2)]."""
    rng = np.random.default_rng(seed)
    one, two = (rng.dirichlet(np.ones(mdp.n_actions), mdp.n_states) for _ in range(2))
    at_one, at_two = evaluate(mdp, one), evaluate(mdp, two)
    gap = at_one.v - at_two.v
    scale = max(1.0, np.abs(at_one.q).max(), np.abs(at_two.q).max())
    left = occupancy(mdp, two) @ (at_one.q * (one - two)).sum(axis=1)
    right = occupancy(mdp, one) @ (at_two.q * (one - two)).sum(axis=1)
    np.testing.assert_allclose(left, gap, atol=1e-8 * scale)
    np.testing.assert_allclose(right, gap, atol=1e-8 * scale)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_proposition_2(seed):
    """The gain in one model, written with the gain, the visits and the errors of another."""
    rng = np.random.default_rng(seed)
    n_states, n_actions = 5, 3
    one, two = (rng.dirichlet(np.ones(n_actions), n_states) for _ in range(2))
    true, model = (
        TabularMDP(
            rng.dirichlet(np.ones(n_states), (n_states, n_actions)),
            rng.normal(size=(n_states, n_actions)),
            0.9,
        )
        for _ in range(2)
    )
    q_true, q_model = evaluate(true, one).q, evaluate(model, one).q
    d_true, d_model = occupancy(true, two), occupancy(model, two)
    gain = evaluate(model, one).v - evaluate(model, two).v
    gain = gain + (d_true - d_model) @ (q_model * (one - two)).sum(axis=1)
    gain = gain + d_true @ ((q_true - q_model) * (one - two)).sum(axis=1)
    np.testing.assert_allclose(gain, evaluate(true, one).v - evaluate(true, two).v, atol=1e-8)


def test_an_improvement_need_not_be_advantageous():
    """Converse of the paper's first remark: better in every state, yet not advantageous."""
    # State 0: wait (to state 1, for nothing) or take 1 and end. State 1: bad pays 0, good pays 10.
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 1] = transition[0, 1, 2] = transition[1, :, 2] = transition[2, :, 2] = 1.0
    mdp = TabularMDP(
        transition, [[0.0, 1.0], [0.0, 10.0], [0.0, 0.0]], 0.9, terminal=[False, False, True]
    )
    baseline = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    policy = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    at_baseline, at_policy = evaluate(mdp, baseline), evaluate(mdp, policy)
    assert (at_policy.v >= at_baseline.v).all()
    assert at_policy.v[0] == pytest.approx(9.0)
    advantage = (at_baseline.q * (policy - baseline)).sum(axis=1)
    assert advantage[0] == pytest.approx(-1.0)


def test_kappa_is_the_maximum_over_the_ball():
    """Against a linear program for the worst P in the L1 ball."""
    for seed in range(8):
        _, baseline, log = random_problem(seed, n_states=4, n_actions=2, n_episodes=400)
        counts = Counts.from_log(log)
        for _ in range(7):
            counts = counts + counts  # e_P below 2, so that the ball has an inside
        problem = Problem.of(counts, baseline=baseline, gamma=0.8, accept_baseline=True)
        model = problem.model
        case = Case(problem, problem.baseline_values, 0.1)
        assert (case.transition_errors < 2).any()
        found = kappa(case)
        expected = (baseline.probabilities * case.transition_errors).sum(axis=1)
        expected[model.terminal] = 0.0
        for x, a in np.argwhere(~np.broadcast_to(model.terminal[:, None], found.shape)):
            row = np.append(model.dense[x, a], model.ending[x, a])  # ending is an outcome too
            worst = worst_in_ball(row, np.append(expected, 0.0), case.transition_errors[x, a])
            assert found[x, a] == pytest.approx(worst / case.transition_errors[x, a], abs=1e-7)


def worst_in_ball(row: np.ndarray, value: np.ndarray, radius: float) -> float:
    n = len(row)
    upper = np.block([[np.eye(n), -np.eye(n)], [-np.eye(n), -np.eye(n)]])
    upper = np.vstack([upper, np.append(np.zeros(n), np.ones(n))])
    solution = scipy.optimize.linprog(
        np.append(-value, np.zeros(n)),
        A_ub=upper,
        b_ub=np.concatenate([row, -row, [radius]]),
        A_eq=np.append(np.ones(n), np.zeros(n))[None],
        b_eq=[1.0],
    )
    return -solution.fun


def test_occupancy_bound_holds_for_every_model_in_the_set():
    rng = np.random.default_rng(1)
    for seed in range(10):
        counts = well_known(seed, 2_000)
        baseline = TabularPolicy(rng.dirichlet(np.ones(3), 4))
        case = make_case(counts, baseline, baseline)
        bound = occupancy_error(case)
        here = occupancy(case.problem.model, baseline.probabilities)
        largest = np.zeros(4)
        for mdp in nearby_models(case, rng, 30):
            gap = np.abs(occupancy(mdp, baseline.probabilities) - here).sum(axis=1)
            largest = np.maximum(largest, gap)
        assert (largest <= bound + 1e-9).all()
        assert (largest > 0.05 * bound).any(), "the models are too near to test the bound"


def test_lemma_1_and_theorem_2_hold_for_every_model_in_the_set():
    rng = np.random.default_rng(2)
    for seed in range(10):
        counts = well_known(seed, 200_000)
        baseline = TabularPolicy(rng.dirichlet(np.ones(3), 4))
        result = ExactSoftSPIBB(epsilon=0.01, delta=0.1, error=HoeffdingP()).improve(
            counts,
            baseline=baseline,
            gamma=0.8,
            reward_range=(-1.0, 1.0),
            accept_baseline=True,
            **KNOWN,
        )
        case = make_case(counts, baseline, result.policy)
        bounds, guarantee = lemma_1(case), theorem_2(case)
        assert guarantee.applies, guarantee.summary
        assert guarantee.details["kappa"] == pytest.approx(1.0)
        assert guarantee.bound == pytest.approx(own(result.certificate).bound)
        for mdp in nearby_models(case, rng, 30):
            q = evaluate(mdp, result.policy).q
            assert (np.abs(q - result.q) <= bounds + 1e-9).all()
            assert true_gain(mdp, case) >= guarantee.bound - 1e-9


def test_theorem_2_can_promise_something():
    """With enough data the bound is no longer vacuous, so that the tests above are about it."""
    counts = well_known(3, 10**9)
    baseline = TabularPolicy.uniform(4, 3)
    asked = {"baseline": baseline, "gamma": 0.8, "reward_range": (-1.0, 1.0)}
    algorithm = ExactSoftSPIBB(epsilon=1e-4, delta=0.1, error=HoeffdingP())
    result = algorithm.improve(counts, **asked, **KNOWN)
    assert own(result.certificate).applies
    assert not own(result.certificate).is_vacuous
    unsaid = own(algorithm.improve(counts, **asked).certificate)
    assert {part.name for part in unsaid.failed} == {"start", "states-complete"}


def bandit_log(rng, n=400, means=(0.2, 0.6)):
    """One state, one step an episode, rewards 0 or 1."""
    action = rng.integers(0, 2, n)
    reward = (rng.random(n) < np.array(means)[action]).astype(float)
    return Log.from_arrays(
        state=np.zeros(n, int), action=action, reward=reward, episode=np.arange(n)
    )


@pytest.mark.statistical
def test_theorem_1_by_the_model_holds_for_one_step_logs_and_is_claimed_for_no_others():
    """There Q^ is a mean of observations: 400 logs, at delta = 0.3."""
    rng, delta = np.random.default_rng(3), 0.3
    baseline, truth = TabularPolicy([[0.5, 0.5]]), TabularMDP([[[0.0]] * 2], [[0.2, 0.6]], 0.5)
    broken = 0
    for _ in range(400):
        result = ApproxSoftSPIBB(epsilon=0.02, delta=delta, max_iterations=1).improve(
            bandit_log(rng), baseline=baseline, gamma=0.5, reward_range=(0.0, 1.0), initial=[1.0]
        )
        found = own(result.certificate)
        assert found.applies, found.summary
        gain = evaluate(truth, result.policy).performance - evaluate(truth, baseline).performance
        broken += gain < found.bound
    assert broken <= scipy.stats.binom.ppf(1 - 1e-6, 400, delta)
    _, uniform, longer = random_problem(3)
    refused = own(ApproxSoftSPIBB(max_iterations=1).improve(
        longer, baseline=uniform, gamma=0.9).certificate)  # fmt: skip
    assert [part.name for part in refused.failed] == ["one-step"]
    assert own(ApproxSoftSPIBB(max_iterations=1).improve(
        longer, baseline=uniform, gamma=0.0).certificate).applies  # fmt: skip


def test_theorem_1_is_not_claimed_for_a_policy_that_is_not_advantageous():
    found = 0
    for seed in range(60):
        _, baseline, log = random_problem(seed, n_states=10, n_actions=4, n_episodes=60)
        result = ExactSoftSPIBB(epsilon=2.0, delta=0.5).improve(log, baseline=baseline, gamma=0.95)
        certificate = result.certificate
        if certificate.check("advantage").is_satisfied:
            continue
        found += 1
        theorem = own(certificate)
        assert theorem.bound is None
        assert not theorem.applies
        assert theorem.summary.startswith("Theorem 1 (Soft-SPIBB) does not apply")
        assert "advantageous" in theorem.summary
        failing = certificate.check("advantage")
        assert failing.value < 0
        assert failing.n_violations >= 1
        assert failing.where.startswith("state ")
    assert found >= 3, "no multi-step policy of this kind was met: the test says nothing"


def test_the_spibb_bound_by_hand():
    counts = well_known(4, 50)
    baseline = TabularPolicy.uniform(4, 3)
    result = PiBSPIBB(n_wedge=20, delta=0.1).improve(
        counts, baseline=baseline, gamma=0.8, reward_range=(-1.0, 1.0), **KNOWN
    )
    error = np.sqrt(2 / 20 * np.log(2 * 4 * 3 * 2**4 / 0.1))
    expected = result.estimated_gain - 4 * (1 / 0.2) / 0.2 * error
    assert own(result.certificate).bound == pytest.approx(expected)


def test_the_spibb_bound_holds_for_every_model_in_the_set():
    """Where neither policy takes a rare pair, against models at the edge of the set."""
    rng = np.random.default_rng(6)
    for seed in range(10):
        counts = well_known(seed, 5_000)
        baseline = TabularPolicy(rng.dirichlet(np.ones(3), 4))
        result = PiBSPIBB(n_wedge=5_000, delta=0.1).improve(
            counts,
            baseline=baseline,
            gamma=0.8,
            reward_range=(-1.0, 1.0),
            accept_baseline=True,
            **KNOWN,
        )
        case = make_case(counts, baseline, result.policy)
        found = spibb_bound(case, 5_000)
        assert found.applies
        for mdp in nearby_models(case, rng, 30):
            assert true_gain(mdp, case) >= found.bound - 1e-9


def test_the_spibb_bound_is_refused_to_a_policy_that_leaves_the_baseline():
    counts = well_known(5, 50)
    baseline = TabularPolicy.uniform(4, 3)
    greedy = BasicRL().improve(counts, baseline=baseline, gamma=0.8).policy
    guarantee = spibb_bound(make_case(counts, baseline, greedy), 51)
    assert not guarantee.applies
    assert "less than 51 times" in guarantee.summary


def test_the_spibb_bound_is_refused_where_the_baseline_takes_rare_pairs():
    counts = well_known(5, 50)
    n_sas = counts.n_sas.toarray()
    n_sas[2 * 3 + 1] = [3, 0, 0, 0]
    rare = replace(
        counts, n_sas=sp.csr_array(n_sas), n_sa=n_sas.sum(axis=1).reshape(4, 3),
        reward_sum=counts.reward_sum * n_sas.sum(axis=1).reshape(4, 3) / 50,
    )  # fmt: skip
    baseline = TabularPolicy.uniform(4, 3)
    result = PiBSPIBB(n_wedge=20).improve(
        rare, baseline=baseline, gamma=0.8, reward_range=(-1.0, 1.0), **KNOWN
    )
    found = own(result.certificate)
    assert [part.name for part in found.failed] == ["trusted-pairs"]
    assert found.failed[0].where == "state 2, action 1"


@pytest.mark.parametrize("algorithm", [ApproxSoftSPIBB(delta=1.0), PiBSPIBB(delta=1.0)])
def test_delta_one_claims_no_confidence(algorithm):
    _, baseline, log = random_problem(1)
    certificate = algorithm.improve(log, baseline=baseline, gamma=0.9).certificate
    assert own(certificate).bound is None
    assert "delta < 1" in own(certificate).summary
    assert certificate.bound is not None, "the regret test has a level of its own"


def test_assumption_1_fails_where_data_are_uneven_and_nothing_is_claimed():
    _, baseline, log = random_problem(2, n_episodes=400)
    counts = Counts.from_log(log)
    for _ in range(9):
        counts = counts + counts
    result = ApproxSoftSPIBB(error=HoeffdingP()).improve(
        counts, baseline=baseline, gamma=0.99, states_complete=True, accept_baseline=True
    )
    found = own(result.certificate)
    assert {condition.name for condition in found.failed} == {"assumption-1"}
    assert found.bound is None


def test_what_has_no_theorem_of_its_own_is_held_to_the_regret_test():
    _, baseline, log = random_problem(3)
    for algorithm in (BasicRL(), ApproxSoftSPIBB(error=np.ones((6, 3)))):
        certificate = algorithm.improve(log, baseline=baseline, gamma=0.9).certificate
        assert certificate.others == ()
        assert certificate.guarantee.theorem == "Regret test"
        assert certificate.bound < 0


def test_estimated_baseline_is_said():
    _, _, log = random_problem(4)
    result = ApproxSoftSPIBB(max_iterations=1).improve(
        log, baseline=estimate_baseline(log), gamma=0.9
    )
    assert any(
        "estimated from the same log" in text for text in own(result.certificate).assumptions
    )


def test_observed_and_given_reward_ranges_are_told_apart():
    _, baseline, log = random_problem(5)
    observed = ApproxSoftSPIBB().improve(log, baseline=baseline, gamma=0.9).certificate
    given_range = (float(log.reward.min()) - 1, float(log.reward.max()) + 1)
    told = ApproxSoftSPIBB().improve(
        log, baseline=baseline, gamma=0.9, reward_range=given_range
    ).certificate  # fmt: skip
    assert any("as observed" in text for text in observed.guarantee.assumptions)
    assert any("as given" in text for text in told.guarantee.assumptions)


def test_audit_agrees_with_the_certificate_of_the_result():
    _, baseline, log = random_problem(6)
    result = ApproxSoftSPIBB(epsilon=0.3, max_iterations=1).improve(
        log, baseline=baseline, gamma=0.9
    )
    seen = audit(log, baseline=baseline, policy=result.policy, gamma=0.9, epsilon=0.3, n_wedge=3)
    assert seen.bound == pytest.approx(result.certificate.bound)
    assert seen.guarantee.theorem == result.certificate.guarantee.theorem == "Regret test"
    assert seen.check("constraint").value == pytest.approx(
        result.certificate.check("constraint").value
    )
    assert [other.theorem for other in seen.others] == [
        "Theorem 1 (Soft-SPIBB)",
        "Theorem 2 (Soft-SPIBB)",
        "SPIBB bound (Pi_b)",
    ]
    tight = audit(log, baseline=baseline, policy=result.policy, gamma=0.9, epsilon=0.1)
    assert not tight.check("constraint").is_satisfied
    assert tight.check("constraint").limit == 0.1


def test_audit_by_returns_checks_the_advantage_by_returns():
    _, baseline, log = random_problem(7, n_episodes=300)
    mixed = TabularPolicy(0.9 * baseline.probabilities + 0.1 / 3)
    seen = audit(log, baseline=baseline, policy=mixed, gamma=0.9, error=EmpiricalBernstein())
    assert seen.others[0].theorem == "Theorem 1 (Soft-SPIBB), by returns"
    assert "mean returns" in seen.others[0].conditions[-1].statement


def test_audit_of_the_baseline_itself():
    _, baseline, log = random_problem(8)
    seen = audit(log, baseline=baseline, policy=baseline, gamma=0.9, epsilon=0.0)
    assert seen.bound == 0.0
    assert all(check.is_satisfied for check in seen.checks)
    np.testing.assert_array_equal(seen.states.moved, 0.0)


def test_audit_of_a_worse_policy_says_where():
    log = Log.from_arrays(
        state=[0, 0, 0, 0], action=[0, 0, 1, 1], reward=[1.0, 1.0, 0.0, 0.0],
        terminated=[True] * 4, episode=[0, 1, 2, 3],
    )  # fmt: skip
    worse = audit(
        log,
        baseline=TabularPolicy([[0.5, 0.5]]),
        policy=TabularPolicy([[0.0, 1.0]]),
        gamma=0.9,
    )
    for name in ("advantage", "improvement"):
        assert not worse.check(name).is_satisfied
        assert worse.check(name).value == pytest.approx(-0.5)
        assert worse.check(name).where == "state 0"
    assert worse.bound < -0.5
    assert worse.others[0].bound is None


def test_audit_refuses_what_does_not_fit():
    _, baseline, log = random_problem(9)
    with pytest.raises(PolicyError):
        audit(log, baseline=baseline, policy=TabularPolicy.uniform(9, 3), gamma=0.9)
    with pytest.raises(SettingsError, match="epsilon"):
        audit(log, baseline=baseline, policy=baseline, gamma=0.9, epsilon=-1.0)
    with pytest.raises(SettingsError, match="delta"):
        audit(log, baseline=baseline, policy=baseline, gamma=0.9, delta=0.0)


def test_infinite_error_costs_nothing_where_nothing_moves():
    spent = spent_budget(np.array([[0.0, 0.0], [0.1, -0.1]]), np.array([[np.inf, 1.0], [1.0, 2.0]]))
    np.testing.assert_allclose(spent, [0.0, 0.3])


@pytest.mark.statistical
def test_certificates_are_broken_no_more_often_than_delta():
    """300 logs of one process: the promised bound against the true gain."""
    rng = np.random.default_rng(10)
    mdp, baseline, _ = random_problem(10, n_states=4, n_actions=2)
    delta, broken, promised = 0.3, 0, 0
    for _ in range(300):
        log = Log.sample(mdp, baseline, n_episodes=100, max_steps=30, rng=rng)
        for error in (HoeffdingQ(), EmpiricalBernstein()):
            result = ApproxSoftSPIBB(
                epsilon=0.002, delta=delta, error=error, max_iterations=1
            ).improve(log, baseline=baseline, gamma=0.9, reward_range=(-3.0, 3.0),
                      certificate_delta=delta)  # fmt: skip
            gain = evaluate(mdp, result.policy).performance
            gain -= evaluate(mdp, baseline).performance
            for claim in (result.certificate.guarantee, own(result.certificate)):
                if claim.bound is not None:
                    promised += 1
                    broken += gain < claim.bound
    assert promised > 200
    limit = scipy.stats.binom.ppf(1 - 1e-6, promised, delta)
    assert broken <= limit
