"""Every algorithm: equal to the slow loops, right in the limits, never below the baseline."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spibb
from spibb import (
    ApproxSoftSPIBB,
    BasicRL,
    Counts,
    ExactSoftSPIBB,
    HoeffdingP,
    Log,
    PiBSPIBB,
    PiLeqBSPIBB,
    Status,
    TabularMDP,
    TabularPolicy,
    improve_many,
)
from spibb.algorithms.registry import ALGORITHMS
from spibb.errors import SettingsError, SpibbError
from spibb.testing import reference
from spibb.testing.checks import check_algorithm, random_problem

GAMMA = 0.9
SETTINGS = [
    BasicRL(),
    PiBSPIBB(n_wedge=4),
    PiLeqBSPIBB(n_wedge=4),
    ExactSoftSPIBB(epsilon=1.0),
    ApproxSoftSPIBB(epsilon=1.0),
    ExactSoftSPIBB(epsilon=0.7, delta=1.0, max_iterations=1),
    ApproxSoftSPIBB(epsilon=0.7, delta=1.0, max_iterations=1),
    ExactSoftSPIBB(epsilon=3.0, error=HoeffdingP()),
]
SAFE_IN_MODEL = [*SETTINGS]


def name_of(algorithm):
    return "-".join(str(part) for part in algorithm.to_config().values())


def reference_step(algorithm, log, baseline):
    """The slow row function that belongs to some settings, written from their definition."""
    n_sa = np.zeros((log.n_states, log.n_actions))
    for x, a in zip(log.state, log.action, strict=True):
        n_sa[x, a] += 1
    b = baseline.probabilities
    if isinstance(algorithm, BasicRL):
        return lambda q, x: reference.greedy_row(q)
    if isinstance(algorithm, PiBSPIBB):
        return lambda q, x: reference.pi_b_row(q, b[x], n_sa[x] >= algorithm.n_wedge)
    if isinstance(algorithm, PiLeqBSPIBB):
        return lambda q, x: reference.pi_leq_b_row(q, b[x], n_sa[x] >= algorithm.n_wedge)
    states = log.n_states * np.log(2) if isinstance(algorithm.error, HoeffdingP) else 0.0
    log_term = np.log(2 * n_sa.size / algorithm.delta) + states
    with np.errstate(divide="ignore"):
        errors = np.sqrt(2 * log_term / n_sa)
    row = (
        reference.soft_exact_row
        if isinstance(algorithm, ExactSoftSPIBB)
        else reference.soft_approx_row
    )
    return lambda q, x: row(q, b[x], errors[x], algorithm.epsilon)


@pytest.mark.parametrize("algorithm", SETTINGS, ids=name_of)
@pytest.mark.parametrize("seed", range(4))
def test_equals_the_slow_loop(algorithm, seed):
    _, baseline, log = random_problem(seed, n_states=7, n_actions=4, n_episodes=40)
    result = algorithm.improve(log, baseline=baseline, gamma=GAMMA)
    terminal = np.flatnonzero(Counts.from_log(log).terminal).tolist()
    transition, reward, _ = reference.maximum_likelihood(
        log.state, log.action, log.reward, log.next_state, log.terminated, 7, 4, terminal=terminal
    )
    _, q, v, n_iterations = reference.policy_iteration(
        transition,
        reward,
        GAMMA,
        baseline.probabilities,
        reference_step(algorithm, log, baseline),
        max_iterations=getattr(algorithm, "max_iterations", None) or 1_000,
    )
    np.testing.assert_allclose(result.v, v, atol=1e-7)
    np.testing.assert_allclose(result.q, q, atol=1e-7)
    assert abs(result.n_iterations - n_iterations) <= 1


def test_conformance():
    check_algorithm(
        *(kind() for kind in ALGORITHMS.values()),
        ApproxSoftSPIBB(max_iterations=1, error=spibb.EmpiricalBernstein()),
        ExactSoftSPIBB(epsilon=np.inf, error=HoeffdingP()),
        PiBSPIBB(n_wedge=np.inf),
    )


@given(seed=st.integers(0, 10**6), gamma=st.sampled_from([0.0, 0.5, 0.95, 0.999]))
@settings(max_examples=60, deadline=None)
def test_never_below_the_baseline_in_the_model_in_any_state(seed, gamma):
    _, baseline, log = random_problem(seed, n_states=8, n_actions=4, n_episodes=25)
    for algorithm in SAFE_IN_MODEL:
        result = algorithm.improve(log, baseline=baseline, gamma=gamma)
        scale = max(1.0, np.abs(result.v).max())
        assert (result.v - result.baseline.v >= -1e-9 * scale).all(), algorithm
        assert result.certificate.check("improvement").is_satisfied
        assert result.status.is_success


@given(seed=st.integers(0, 10**6), epsilon=st.sampled_from([0.01, 0.1, 0.5, 1.0, 4.0]))
@settings(max_examples=60, deadline=None)
def test_exact_is_never_worse_than_approximate_at_convergence(seed, epsilon):
    _, baseline, log = random_problem(seed, n_states=8, n_actions=5, n_episodes=25)
    exact = ExactSoftSPIBB(epsilon=epsilon).improve(log, baseline=baseline, gamma=GAMMA)
    approx = ApproxSoftSPIBB(epsilon=epsilon).improve(log, baseline=baseline, gamma=GAMMA)
    assert (exact.v - approx.v >= -1e-8).all()


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_pi_b_is_a_particular_case_of_exact_soft(seed):
    """The paper's remark: error inf on bootstrapped pairs, epsilon / 2 elsewhere."""
    _, baseline, log = random_problem(seed, n_states=8, n_actions=4, n_episodes=25)
    n_sa = Counts.from_log(log).n_sa
    hard = PiBSPIBB(n_wedge=5).improve(log, baseline=baseline, gamma=GAMMA)
    errors = np.where(n_sa >= 5, 0.15, np.inf)
    soft = ExactSoftSPIBB(epsilon=0.3, error=errors).improve(log, baseline=baseline, gamma=GAMMA)
    np.testing.assert_allclose(soft.v, hard.v, atol=1e-9)
    np.testing.assert_allclose(soft.policy.probabilities, hard.policy.probabilities, atol=1e-9)


@pytest.mark.parametrize("kind", [PiBSPIBB, PiLeqBSPIBB])
def test_doubled_data_with_a_doubled_threshold_change_nothing(kind):
    _, baseline, log = random_problem(15)
    counts = Counts.from_log(log)
    once = kind(n_wedge=6).improve(counts, baseline=baseline, gamma=GAMMA)
    twice = kind(n_wedge=12).improve(counts + counts, baseline=baseline, gamma=GAMMA)
    np.testing.assert_allclose(twice.policy.probabilities, once.policy.probabilities, atol=1e-12)


def test_log_and_counts_give_the_same():
    _, baseline, log = random_problem(16)
    for algorithm in SETTINGS:
        by_log = algorithm.improve(log, baseline=baseline, gamma=GAMMA)
        by_counts = algorithm.improve(Counts.from_log(log), baseline=baseline, gamma=GAMMA)
        np.testing.assert_array_equal(by_log.policy.probabilities, by_counts.policy.probabilities)


def test_improve_many_is_improve_for_each():
    problems = [random_problem(seed) for seed in range(40)]  # enough to use threads
    counts = [Counts.from_log(log) for _, _, log in problems]
    baselines = [baseline for _, baseline, _ in problems]
    many = improve_many(SETTINGS, counts, baselines=baselines, gamma=GAMMA)
    assert many.probabilities.shape == (len(SETTINGS), 40, 6, 3)
    for i, algorithm in enumerate(SETTINGS):
        for j, (_, baseline, log) in enumerate(problems):
            one = algorithm.improve(log, baseline=baseline, gamma=GAMMA)
            np.testing.assert_array_equal(many.probabilities[i, j], one.policy.probabilities)
            np.testing.assert_array_equal(many.v[i, j], one.v)
            assert many.n_iterations[i, j] == one.n_iterations
            assert many.status[i, j] is one.status
            np.testing.assert_array_equal(many.baseline_v[j], one.baseline.v)


def test_improve_many_refuses_what_does_not_fit():
    _, baseline, log = random_problem(1)
    _, other, longer = random_problem(1, n_states=9)
    with pytest.raises(SpibbError, match="baseline"):
        improve_many([BasicRL()], [log, longer], baselines=baseline, gamma=GAMMA)
    with pytest.raises(SpibbError, match="problem 1"):
        improve_many([BasicRL()], [log, longer], baselines=[baseline, other], gamma=GAMMA)
    with pytest.raises(SpibbError, match="0 algorithms"):
        improve_many([], [log], baselines=baseline, gamma=GAMMA)
    with pytest.raises(SpibbError, match="2 baselines"):
        improve_many([BasicRL()], [log], baselines=[baseline, baseline], gamma=GAMMA)


def test_one_step_is_a_success_and_a_reached_cap_is_not():
    _, baseline, log = random_problem(3, n_states=20, n_actions=4, n_episodes=200)
    one = ExactSoftSPIBB(epsilon=1.0, max_iterations=1).improve(log, baseline=baseline, gamma=0.99)
    assert one.status is Status.ONE_STEP
    assert one.n_iterations == 1
    capped = BasicRL().improve(log, baseline=baseline, gamma=0.99)
    assert capped.n_iterations > 2, "the problem is too easy to test a cap"
    two = ApproxSoftSPIBB(epsilon=np.inf, max_iterations=2).improve(
        log, baseline=baseline, gamma=0.99
    )
    assert two.status is Status.MAX_ITERATIONS
    assert not two.status.is_success
    assert "raise the cap" in two.status.value


def test_one_step_policies_are_advantageous_in_the_model():
    for seed in range(20):
        _, baseline, log = random_problem(seed, n_states=10, n_actions=4)
        for kind in (ExactSoftSPIBB, ApproxSoftSPIBB):
            result = kind(epsilon=1.0, max_iterations=1).improve(
                log, baseline=baseline, gamma=GAMMA
            )
            assert result.certificate.check("advantage").is_satisfied


def test_gamma_one_with_a_policy_that_never_ends_is_a_status():
    # Action 0 loops for 1 a step, action 1 ends: greedy would loop for ever.
    log = Log.from_arrays(
        state=[0, 0, 0], action=[0, 0, 1], reward=[1.0, 1.0, 0.0], next_state=[0, 0, 1],
        terminated=[False, False, True], episode=[0, 0, 0],
    )  # fmt: skip
    baseline = TabularPolicy([[0.5, 0.5], [0.5, 0.5]])
    result = BasicRL().improve(log, baseline=baseline, gamma=1.0)
    assert result.status is Status.NOT_TERMINATING
    np.testing.assert_array_equal(result.policy.probabilities[0], [0.5, 0.5])
    assert result.v[0] == pytest.approx(1.0)  # one more step on average
    assert not result.certificate.is_guaranteed
    soft = ApproxSoftSPIBB(epsilon=0.1).improve(log, baseline=baseline, gamma=1.0)
    assert soft.status is Status.CONVERGED
    assert "gamma < 1" in soft.certificate.statement
    assert "gamma < 1" in soft.certificate.others[0].summary


def test_gamma_one_with_a_baseline_that_never_ends_is_a_status():
    log = Log.from_arrays(state=[0, 0], action=[0, 1], reward=[1.0, 1.0], next_state=[0, 0])
    baseline = TabularPolicy.uniform(1, 2)
    result = ApproxSoftSPIBB().improve(log, baseline=baseline, gamma=1.0)
    assert result.status is Status.NOT_TERMINATING
    assert np.isnan(result.v).all()
    np.testing.assert_array_equal(result.policy.probabilities, baseline.probabilities)
    assert not result.certificate.check("improvement").is_satisfied
    assert not result.certificate.is_guaranteed


def test_what_was_never_tried_attracts_only_where_it_ends_for_nothing():
    # Action 1 was never tried; worth 0 it beats -1. The safe algorithms do not move there.
    log = Log.from_arrays(state=[0] * 9, action=[0] * 9, reward=[-1.0] * 9, next_state=[0] * 9)
    baseline = TabularPolicy([[0.9, 0.1]])
    attracted = BasicRL().improve(log, baseline=baseline, gamma=GAMMA, unseen="terminal")
    assert attracted.policy.probabilities[0, 1] == 1.0
    neutral = BasicRL().improve(log, baseline=baseline, gamma=GAMMA)
    np.testing.assert_array_equal(neutral.policy.probabilities, baseline.probabilities)
    for algorithm in (PiBSPIBB(n_wedge=2), PiLeqBSPIBB(n_wedge=2), ExactSoftSPIBB(epsilon=9.0)):
        result = algorithm.improve(log, baseline=baseline, gamma=GAMMA)
        np.testing.assert_allclose(result.policy.probabilities, baseline.probabilities)


def test_fifteen_hundred_states():
    rng = np.random.default_rng(0)
    n_states, n_actions = 1_500, 3
    successors = rng.integers(0, n_states, (n_states * n_actions, 4))
    rows = np.repeat(np.arange(n_states * n_actions), 4)
    import scipy.sparse as sp

    transition = sp.csr_array(
        (np.full(rows.size, 0.25), (rows, successors.ravel())),
        shape=(n_states * n_actions, n_states),
    )
    mdp = TabularMDP(transition, rng.normal(size=(n_states, n_actions)), 0.95)
    baseline = TabularPolicy(rng.dirichlet(np.ones(n_actions), n_states))
    log = Log.sample(mdp, baseline, n_episodes=300, max_steps=100, rng=rng)
    for algorithm in (PiBSPIBB(n_wedge=5), ApproxSoftSPIBB(), ExactSoftSPIBB(error=HoeffdingP())):
        result = algorithm.improve(log, baseline=baseline, gamma=0.95)
        assert result.status is Status.CONVERGED
        assert (result.v - result.baseline.v >= -1e-8).all()
        assert np.isfinite(result.v).all()


def test_labels_come_back():
    log = Log.from_arrays(
        state=[0, 1], action=[0, 1], reward=[0.0, 1.0], next_state=[1, 2],
        terminated=[False, True], episode=[0, 0],
        state_labels=("a", "b", "end"), action_labels=("go", "stay"),
    )  # fmt: skip
    baseline = TabularPolicy([[0.5, 0.5], [0.5, 0.5]], ("a", "b"), ("go", "stay"))
    result = PiBSPIBB(n_wedge=1).improve(log, baseline=baseline, gamma=0.9)
    assert result.policy.state_labels == ("a", "b", "end")
    assert result.policy.action_labels == ("go", "stay")


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (ExactSoftSPIBB, {"epsilon": -1.0}, "epsilon is -1"),
        (ApproxSoftSPIBB, {"epsilon": float("nan")}, "epsilon is nan"),
        (ApproxSoftSPIBB, {"delta": 0.0}, r"delta is 0.*\(0, 1\]"),
        (ApproxSoftSPIBB, {"max_iterations": 0}, "max_iterations is 0"),
        (ApproxSoftSPIBB, {"max_iterations": 1.5}, "max_iterations is 1.5"),
        (PiBSPIBB, {"n_wedge": -1}, "n_wedge is -1"),
        (PiLeqBSPIBB, {"delta": 2.0}, "delta is 2"),
    ],
)
def test_bad_settings_are_refused(kind, settings, message):
    with pytest.raises(SettingsError, match=message):
        kind(**settings)


@pytest.mark.parametrize("gamma", [-0.1, 1.1, float("nan")])
def test_bad_gamma_is_refused(gamma):
    _, baseline, log = random_problem(1)
    with pytest.raises(SettingsError, match="gamma is"):
        BasicRL().improve(log, baseline=baseline, gamma=gamma)


def test_configuration_of_another_algorithm_is_refused():
    with pytest.raises(SettingsError, match="basic-rl"):
        PiBSPIBB.from_config(BasicRL().to_config())
