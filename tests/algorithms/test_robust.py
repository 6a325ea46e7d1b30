"""Robust algorithms and their tests: equal to slow loops, and true in every model of the set."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats

from spibb import (
    Counts,
    Log,
    Status,
    TabularMDP,
    TabularPolicy,
    estimate_baseline,
    evaluate,
    improve_many,
    solve,
)
from spibb.algorithms.mbie import MBIE
from spibb.algorithms.robust_baseline_regret import RobustBaselineRegret, regret_step
from spibb.algorithms.robust_mdp import RobustMDP
from spibb.certify.case import Case
from spibb.certify.model_set import ModelSet
from spibb.certify.regret import RegretTest
from spibb.certify.robust import regret_test, robust_test
from spibb.errors import SettingsError
from spibb.mdp.robust import robust_planning, worst_model
from spibb.problem import Problem, ProblemBatch
from spibb.testing import reference_robust as slow
from spibb.testing.checks import random_problem

ALL = [RobustMDP(), RobustBaselineRegret(), MBIE()]
TESTED = [RobustMDP(), RobustBaselineRegret()]
IDS = [algorithm.id for algorithm in ALL]


def times(counts: Counts, n: int) -> Counts:
    """The counts of a log that holds every row n times."""
    return Counts(
        n_sa=counts.n_sa * n,
        n_sas=sp.csr_array(counts.n_sas * n),
        n_end=sp.csr_array(counts.n_end * n),
        reward_sum=counts.reward_sum * n,
        reward_range=counts.reward_range,
        n_initial=counts.n_initial * n,
    )


def counted_problem(seed: int, n: int, **size):
    """Counts with n times the rows of a random log, and the baseline that made it."""
    _, baseline, log = random_problem(seed, **{"n_states": 5, "n_actions": 3} | size)
    return times(Counts.from_log(log), n), baseline


def logged_problem(seed: int, n: int, **size):
    """The same as rows, which tell that no pair has paid different rewards."""
    _, baseline, log = random_problem(seed, **{"n_states": 5, "n_actions": 3} | size)
    columns = ("state", "action", "reward", "next_state", "terminated", "truncated", "step")
    rows = {name: np.tile(getattr(log, name), n) for name in columns}
    episode = np.concatenate([log.episode + k * log.n_episodes for k in range(n)])
    return Log.from_arrays(
        **rows, episode=episode, n_states=log.n_states, n_actions=log.n_actions
    ), baseline


def known(counts: Counts) -> dict:
    """What is declared in these tests: the start, and that there are no other states.

    Counts a thousand times over hold no more about a baseline, but look as if they did.
    """
    return {"initial": counts.initial, "states_complete": True, "accept_baseline": True}


def problem_of(counts: Counts, gamma: float, baseline="estimate") -> Problem:
    return Problem.of(counts, baseline=baseline, gamma=gamma, **known(counts))


def set_of(counts: Counts, gamma: float, delta: float, **options):
    """The set of one problem, and its estimated model."""
    problem = problem_of(counts, gamma)
    return ModelSet.of(ProblemBatch.alone(problem), delta, **options), problem.model


def plausible(models: ModelSet, model: TabularMDP, rng, n_models: int):
    """Models of a set with uncertain rewards: transitions in the balls, rewards at the edges."""
    for found in slow.sample_models(model, models.balls.radius[0], rng, n_models):
        low, high = models.low.reward[0], models.high.reward[0]
        mix = rng.choice([0.0, 0.5, 1.0], low.shape)
        yield slow.with_transitions(model, found.dense, low + mix * (high - low))


def gain(mdp: TabularMDP, policy, baseline) -> float:
    return evaluate(mdp, policy).performance - evaluate(mdp, baseline).performance


# The set of models.


def test_values_where_everything_pays_minus_one_are_negative():
    """The released code gave 0 to whatever was not seen, so that V = 0 looked attainable."""
    log = Log.from_arrays(state=[0, 1] * 20, action=[0] * 40, reward=[-1.0] * 40,
                          next_state=[1, 0] * 20, n_states=3, n_actions=2)  # fmt: skip
    counts = Counts.from_log(log)
    models, _ = set_of(counts, 0.9, 0.05)
    baseline = np.array([[[0.9, 0.1]] * 3])
    worst = models.worst(baseline)
    np.testing.assert_allclose(worst.v, -10.0)
    np.testing.assert_allclose(worst.q, -10.0)  # unseen pairs too
    assert (models.best(baseline).v <= -1.0 + 1e-12).all()
    for algorithm in ALL:
        result = algorithm.improve(
            counts, baseline=TabularPolicy(baseline[0]), gamma=0.9, **known(counts)
        )
        np.testing.assert_array_equal(result.policy.probabilities, baseline[0])


def test_terminal_states_are_certain():
    _, baseline, log = random_problem(1)
    models, model = set_of(Counts.from_log(log), 0.9, 0.05)
    assert model.terminal.any()
    for values in (models.worst, models.best):
        np.testing.assert_array_equal(
            values(baseline.probabilities[None].copy()).v[0, model.terminal], 0.0
        )


# The tests.


def problem_under_test(seed: int, n: int, gamma: float):
    counts, baseline = counted_problem(seed, n)
    problem = problem_of(counts, gamma, baseline)
    test = RegretTest.of(ProblemBatch.alone(problem), 0.1)
    return test.models, problem.model, test.baseline, test


def test_d_is_zero_for_the_baseline_and_never_below_the_gap():
    rng = np.random.default_rng(11)
    for seed in range(10):
        models, _, baseline, test = problem_under_test(seed, 200, 0.8)
        at_baseline = test.differences(baseline, models.worst(baseline))
        np.testing.assert_array_equal(at_baseline.v, 0.0)
        assert test.bounds(at_baseline)[0] == 0.0
        plan = robust_planning(models.low, models.balls, baseline)
        for policy in (
            plan.policy,
            rng.dirichlet(np.ones(3), (1, 5)),
            0.9 * baseline + 0.1 * plan.policy,
        ):
            floor = models.worst(policy)
            d = test.differences(policy, floor)
            assert (d.v >= floor.v - test.ceiling.v - 1e-9).all()
            assert (d.v > floor.v - test.ceiling.v + 1e-6).any()


def test_d_equals_the_slow_loop_and_bounds_every_model():
    rng = np.random.default_rng(12)
    for seed in range(6):
        models, model, baseline, test = problem_under_test(seed, 100, 0.8)
        policy = robust_planning(models.low, models.balls, baseline).policy
        policy[0, 1] = rng.dirichlet(np.ones(3))
        floor = models.worst(policy)
        d = test.differences(policy, floor)
        expected, later = slow.regret_bound(
            model.dense,
            0.8,
            models.balls.radius[0],
            policy[0],
            baseline[0],
            floor.q[0],
            test.ceiling.q[0],
        )
        np.testing.assert_allclose(d.v[0], expected, atol=1e-8)
        np.testing.assert_allclose(d.q[0], later, atol=1e-8)
        # The models that answer D worst, with the worst rewards of either policy, are among them.
        answer = worst_model(models.low, models.balls, d.v)
        rows = sp.csr_array((answer.data, answer.indices, answer.indptr), shape=(15, 5)).toarray()
        hostile = [
            slow.with_transitions(model, rows.reshape(5, 3, 5), rewards)
            for rewards in (models.low.reward[0], models.high.reward[0])
        ]
        for truth in [*plausible(models, model, rng, 100), *hostile]:
            difference = evaluate(truth, policy[0]).v - evaluate(truth, baseline[0]).v
            assert (difference >= d.v[0] - 1e-9).all()


def test_the_regret_step_maximises_d_one_step_ahead():
    for seed in range(8):
        models, _, baseline, test = problem_under_test(seed, 60, 0.8)
        policy = robust_planning(models.low, models.balls, baseline).policy
        floor = models.worst(policy)
        d = test.differences(policy, floor)
        rows = regret_step(test, floor, d)[0]
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-12)
        for x in range(4):  # state 4 is terminal
            expected = slow.regret_row(
                floor.q[0, x], test.ceiling.q[0, x], d.q[0, x], baseline[0, x]
            )
            np.testing.assert_allclose(rows[x], expected, atol=1e-12)


def test_a_regret_step_from_the_baseline_never_loses():
    n_moved = 0
    for seed in range(15):
        models, _, baseline, test = problem_under_test(seed, 60, 0.6)
        floor = models.worst(baseline)
        stepped = regret_step(test, floor, test.differences(baseline, floor))
        d = test.differences(stepped, models.worst(stepped))
        assert (d.v >= -1e-9).all()
        n_moved += bool((stepped != baseline).any())
    assert n_moved >= 5, "no step was taken: the test says nothing"


def naive_trap() -> tuple[Counts, TabularPolicy]:
    """Action 1 surely leads to state 1, where the baseline's action was seen once and paid 9."""
    n = 10**7
    n_sas = np.zeros((6, 3), dtype=np.int64)
    n_sas[0, 2] = n_sas[1, 1] = n  # state 0: action 0 ends in state 2, action 1 goes to state 1
    n_sas[2, 2] = 1
    n_end = n_sas.copy()
    n_end[1, 1] = 0
    counts = Counts(
        n_sa=n_sas.sum(axis=1).reshape(3, 2),
        n_sas=sp.csr_array(n_sas),
        n_end=sp.csr_array(n_end),
        reward_sum=np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 0.0]]),
        reward_range=(-9.0, 9.0),
        n_initial=np.array([1, 0, 0]),
    )
    return counts, TabularPolicy([[0.999, 0.001], [1.0, 0.0], [0.5, 0.5]])


def test_the_naive_surrogate_is_unsafe_and_ours_refuses_its_plan():
    """FIELD: accepted at +8.1, true -8.1 against 0."""
    counts, baseline = naive_trap()
    models, model = set_of(counts, 0.9, 0.05)
    table = baseline.probabilities
    surrogate = slow.surrogate_candidate(
        model.dense, model.reward, models.low.reward[0], 0.9, models.balls.radius[0], table
    )
    np.testing.assert_array_equal(surrogate[0], [0.0, 1.0])
    np.testing.assert_array_equal(surrogate[1], table[1])
    # The naive test: the surrogate's value, following the baseline being certain, against V^_b.
    naive = model.reward[0, 1] + 0.9 * evaluate(model, table).v[1]
    assert naive - evaluate(model, table).v[0] == pytest.approx(0.999 * 8.1)
    # A model of the set: the pair that was seen once pays -9.
    truth = model.with_reward([[0.0, 0.0], [-9.0, 0.0], [0.0, 0.0]])
    assert models.low.reward[0, 1, 0] == -9.0
    assert gain(truth, surrogate, table) == pytest.approx(-0.999 * 8.1)
    case = Case(problem_of(counts, 0.9, baseline), evaluate(model, surrogate), 0.05)
    assert regret_test(case).bound <= gain(truth, surrogate, table) + 1e-6
    for algorithm in TESTED:
        result = algorithm.improve(counts, baseline=baseline, gamma=0.9, **known(counts))
        assert result.status is Status.BASELINE_KEPT
        np.testing.assert_array_equal(result.policy.probabilities, table)
        assert result.certificate.bound == 0.0


# The algorithms.


@pytest.mark.parametrize("n", [3, 50, 2000])
@pytest.mark.parametrize("seed", range(3))
def test_robust_mdp_and_mbie_equal_their_slow_loops(seed, n):
    gamma, delta = 0.7, 0.1
    counts, baseline = counted_problem(seed, n, n_states=4, n_actions=2)
    table = baseline.probabilities
    models, model = set_of(counts, gamma, delta)
    low, high, radius = models.low.reward[0], models.high.reward[0], models.balls.radius[0]
    candidate = slow.robust_candidate(model.dense, low, gamma, radius, table)
    v_worst, _ = slow.robust_values(model.dense, low, gamma, radius, candidate)
    v_best, _ = slow.robust_values(model.dense, high, gamma, radius, table, best=True)
    gap = float(model.initial @ (v_worst - v_best))
    asked = {"baseline": baseline, "gamma": gamma, **known(counts)}
    result = RobustMDP(delta=delta).improve(counts, **asked)
    if gap >= 0:
        assert result.status is Status.CONVERGED
        np.testing.assert_array_equal(result.policy.probabilities, candidate)
        assert result.certificate.others[0].bound == pytest.approx(gap, abs=1e-7)
        assert result.certificate.bound is not None
    else:
        assert result.status is Status.BASELINE_KEPT
        np.testing.assert_array_equal(result.policy.probabilities, table)
        assert result.certificate.bound == 0.0
    models, _ = set_of(counts, gamma, delta, known_rewards=True)
    low, high, radius = models.low.reward[0], models.high.reward[0], models.balls.radius[0]
    log, _ = logged_problem(seed, n, n_states=4, n_actions=2)
    result = MBIE(delta=delta).improve(log, **asked)
    v_worst, _ = slow.robust_values(model.dense, low, gamma, radius)
    v_best, _ = slow.robust_values(model.dense, high, gamma, radius, table, best=True)
    assert result.certificate.others[0].bound == pytest.approx(
        float(model.initial @ (v_worst - v_best)), abs=1e-7
    )
    np.testing.assert_array_equal(
        result.policy.probabilities,
        slow.robust_candidate(model.dense, low, gamma, radius, table),
    )


def slow_regret(models: ModelSet, model: TabularMDP, table, gamma: float, n_steps: int):
    """The candidates of RobustBaselineRegret by plain loops: the best bound and its policy."""
    low, high, radius = models.low.reward[0], models.high.reward[0], models.balls.radius[0]
    p = model.dense
    _, q_best = slow.robust_values(p, high, gamma, radius, table, best=True)

    def test(policy):
        _, q = slow.robust_values(p, low, gamma, radius, policy)
        d, later = slow.regret_bound(p, gamma, radius, policy, table, q, q_best)
        return float(model.initial @ d), policy, q, later

    def step(tested):
        _, _, q, later = tested
        rows = [slow.regret_row(q[x], q_best[x], later[x], table[x]) for x in range(len(table))]
        return test(np.array(rows))

    found = [test(table)]
    found.append(step(found[0]))
    plans = [
        test(slow.robust_candidate(p, low, gamma, radius, table)),
        test(slow.surrogate_candidate(p, model.reward, low, gamma, radius, table)),
    ]
    chain = [max(plans, key=lambda one: one[0])]
    for _ in range(n_steps):
        chain.append(step(chain[-1]))
    return max([*found, *plans, *chain], key=lambda one: one[0])[:2]


@pytest.mark.parametrize("n", [10, 50, 1000])
def test_robust_baseline_regret_equals_its_slow_loop(n):
    gamma, delta = 0.6, 0.1
    for seed in range(2):
        counts, baseline = counted_problem(seed, n, n_states=4, n_actions=2)
        models, model = set_of(counts, gamma, delta)
        bound, _ = slow_regret(models, model, baseline.probabilities, gamma, 4)
        result = RobustBaselineRegret(delta=delta).improve(
            counts, baseline=baseline, gamma=gamma, certificate_delta=delta, **known(counts)
        )
        assert result.certificate.bound == pytest.approx(max(bound, 0.0), abs=1e-7)
        assert result.certificate.others == (), "the same test at the same level is said once"
        kept = bool((result.policy.probabilities == baseline.probabilities).all())
        assert kept is (result.status is Status.BASELINE_KEPT)
        if bound > 1e-6:
            assert result.status is Status.CONVERGED


@pytest.mark.parametrize("algorithm", TESTED, ids=IDS[:2])
def test_accepted_policies_are_never_worse_in_any_model_of_the_set(algorithm):
    rng = np.random.default_rng(13)
    n_accepted = 0
    for seed in range(12):
        counts, baseline = counted_problem(seed, 60)
        result = algorithm.improve(counts, baseline=baseline, gamma=0.7, **known(counts))
        if result.status is Status.BASELINE_KEPT:
            assert result.certificate.bound == 0.0
            continue
        n_accepted += 1
        assert result.certificate.bound >= 0.0
        models, model = set_of(counts, 0.7, algorithm.delta)
        for truth in plausible(models, model, rng, 300):
            found = gain(truth, result.policy, baseline)
            assert found >= result.certificate.bound - 1e-9
    assert n_accepted >= 3, "hardly anything was accepted: the test says nothing"


def test_mbie_states_a_bound_that_holds_where_rewards_are_known():
    rng = np.random.default_rng(14)
    signs = set()
    for seed, n in itertools.product(range(5), (1, 3000)):
        counts, baseline = counted_problem(seed, n)
        log, _ = logged_problem(seed, n)
        result = MBIE().improve(log, baseline=baseline, gamma=0.7, **known(counts))
        (own,) = result.certificate.others
        bound = own.bound
        signs.add(bound > 0)
        assert any("mean in the log is taken" in text for text in own.assumptions)
        models, model = set_of(counts, 0.7, 0.05, known_rewards=True)
        for truth in plausible(models, model, rng, 60):
            assert gain(truth, result.policy, baseline) >= bound - 1e-9
    assert signs == {True, False}


def test_mbie_states_no_bound_where_rewards_vary_or_that_cannot_be_told():
    counts, baseline = counted_problem(0, 10)
    log, _ = logged_problem(0, 10)
    varied = replace(log, reward=log.reward + np.arange(len(log.reward)) % 2)
    for data, holds in ((log, True), (counts, False), (varied, False)):
        result = MBIE().improve(data, baseline=baseline, gamma=0.7, **known(counts))
        (own,) = result.certificate.others
        assert (own.bound is not None) == holds
        assert result.certificate.bound is not None, "the regret test needs no such condition"


def test_regret_accepts_whatever_the_gap_accepts_with_a_larger_bound():
    accepted = np.zeros(2, dtype=int)
    for seed, n in itertools.product(range(10), (20, 100, 2000)):
        counts, baseline = counted_problem(seed, n)
        by_gap, by_regret = (
            algorithm.improve(counts, baseline=baseline, gamma=0.7, **known(counts))
            for algorithm in TESTED
        )
        assert by_regret.certificate.bound >= by_gap.certificate.bound - 1e-9
        (own,) = by_gap.certificate.others
        assert by_gap.certificate.bound >= own.bound - 1e-9, "D is never below the gap"
        accepted += [r.status is Status.CONVERGED for r in (by_gap, by_regret)]
    assert 0 < accepted[0] < accepted[1]


def test_much_data_gives_the_optimal_policy():
    counts, baseline = counted_problem(3, 10**9, n_episodes=300)
    best = solve(counts.to_mdp(0.9))
    for algorithm in ALL:
        result = algorithm.improve(counts, baseline=baseline, gamma=0.9, **known(counts))
        assert result.status is Status.CONVERGED
        assert result.performance == pytest.approx(best.performance, abs=1e-3)
        assert result.certificate.bound == pytest.approx(
            best.performance - result.baseline.performance, abs=0.01
        )


def test_little_data_keeps_the_baseline():
    _, baseline, log = random_problem(4)
    for algorithm in TESTED:
        result = algorithm.improve(log, baseline=baseline, gamma=0.95)
        assert result.status is Status.BASELINE_KEPT
        assert result.status.is_success
        np.testing.assert_array_equal(result.policy.probabilities, baseline.probabilities)
        np.testing.assert_array_equal(result.v, result.baseline.v)
        assert result.certificate.is_guaranteed
        assert result.certificate.bound == 0.0


@pytest.mark.parametrize("algorithm", ALL, ids=IDS)
def test_unseen_pairs_are_not_taken_for_the_sake_of_the_unknown(algorithm):
    # Action 2 was never tried. In the estimated model it is worth 0, better than what is known.
    n = 10**6
    log = Log.from_arrays(state=[0] * 4, action=[0, 0, 1, 1], reward=[-1.0, -1.0, -2.0, -2.0],
                          terminated=[True] * 4, episode=[0, 1, 2, 3], n_actions=3)  # fmt: skip
    counts = times(Counts.from_log(log), n)
    baseline = TabularPolicy([[0.4, 0.5, 0.1]])
    result = algorithm.improve(counts, baseline=baseline, gamma=0.9, **known(counts))
    assert result.policy.probabilities[0, 2] <= 0.1
    assert result.policy.probabilities[0, 0] > 0.8
    assert result.certificate.bound > 0.0 or algorithm.id != "robust-baseline-regret"


@pytest.mark.parametrize("algorithm", ALL, ids=IDS)
def test_gamma_one_is_refused(algorithm):
    _, baseline, log = random_problem(5)
    with pytest.raises(SettingsError, match="gamma = 1; expected gamma < 1"):
        algorithm.improve(log, baseline=baseline, gamma=1.0)


@pytest.mark.parametrize("algorithm", ALL, ids=IDS)
def test_gamma_zero_is_about_rewards_only(algorithm):
    counts, baseline = counted_problem(6, 500)
    log, _ = logged_problem(6, 500)
    result = algorithm.improve(log, baseline=baseline, gamma=0.0, **known(counts))
    models, model = set_of(counts, 0.0, 0.05, known_rewards=algorithm.id == "mbie")
    low, high = models.low.reward[0], models.high.reward[0]
    moved = result.policy.probabilities - baseline.probabilities
    if algorithm.id == "robust-baseline-regret":
        expected = (np.maximum(moved, 0) * low - np.maximum(-moved, 0) * high).sum(axis=1)
    else:
        expected = (result.policy.probabilities * low).sum(axis=1)
        expected = expected - (baseline.probabilities * high).sum(axis=1)
    if result.status is Status.CONVERGED:
        claimed = [result.certificate.guarantee, *result.certificate.others][-1]
        assert claimed.bound == pytest.approx(float(model.initial @ expected), abs=1e-9)


@pytest.mark.parametrize("kind", [RobustMDP, RobustBaselineRegret, MBIE])
def test_bad_settings_are_refused(kind):
    for delta in (0.0, 1.5, float("nan")):
        with pytest.raises(SettingsError, match="delta is"):
            kind(delta=delta)


@pytest.mark.parametrize("kind", [RobustMDP, RobustBaselineRegret, MBIE])
def test_delta_one_claims_no_confidence(kind):
    counts, baseline = counted_problem(7, 1000)
    asked = {"baseline": baseline, "gamma": 0.7, **known(counts)}
    certificate = kind(delta=1.0).improve(counts, **asked).certificate
    (own,) = certificate.others
    assert own.bound is None
    assert "delta < 1" in own.summary
    assert certificate.bound is not None, "the regret test has a level of its own"
    sure = kind().improve(counts, **asked, certificate_delta=1.0).certificate
    assert sure.bound is None
    assert "delta < 1" in sure.statement


def test_many_problems_at_once():
    problems = [counted_problem(seed, n) for seed in range(8) for n in (1, 60, 3000)]
    counts = [part for part, _ in problems]
    baselines = [baseline for _, baseline in problems]
    for complete in (True, False):
        asked = {"gamma": 0.8, "states_complete": complete, "certificate_delta": 0.1,
                 "accept_baseline": True}  # fmt: skip
        many = improve_many(ALL, counts, baselines=baselines, **asked)
        for k, algorithm in enumerate(ALL):
            for j, (part, baseline) in enumerate(problems):
                one = algorithm.improve(part, baseline=baseline, **asked)
                np.testing.assert_array_equal(many.probabilities[k, j], one.policy.probabilities)
                assert many.status[k, j] is one.status
                assert many.bounds[k, j] == pytest.approx(one.certificate.bound, abs=1e-12)


def test_a_claim_without_the_searchs_verdict_tests_the_policy_itself():
    counts, baseline = counted_problem(8, 2000)
    for algorithm, claim in zip(TESTED, (robust_test, regret_test), strict=True):
        result = algorithm.improve(counts, baseline=baseline, gamma=0.7, **known(counts))
        assert result.status is Status.CONVERGED
        case = Case(result.problem, evaluate(result.problem.model, result.policy), algorithm.delta)
        claimed = [result.certificate.guarantee, *result.certificate.others][-1]
        assert claim(case).bound == pytest.approx(claimed.bound, abs=1e-9)
        uniform = replace(case, policy=evaluate(result.problem.model, TabularPolicy.uniform(5, 3)))
        assert claim(uniform).bound < claimed.bound
    texts = result.certificate.guarantee.assumptions
    for words in ("recorded state decides alone", "as observed", "terminal", "as declared"):
        assert any(words in text for text in texts), words


@pytest.mark.parametrize("algorithm", ALL, ids=IDS)
def test_the_loss_of_an_estimated_baseline_is_subtracted(algorithm):
    _, _, log = random_problem(9)
    baseline = estimate_baseline(log)
    refused = algorithm.improve(log, baseline=baseline, gamma=0.7).certificate
    assert refused.bound is None
    assert "the estimate of the baseline may miss is a sum over all" in refused.statement
    certificate = algorithm.improve(
        log, baseline=baseline, gamma=0.7, states_complete=True
    ).certificate
    assert certificate.guarantee.theorem.endswith("estimated baseline")
    loss = certificate.guarantee.details["estimation_loss"]
    assert loss > 0
    assert certificate.bound <= 0 - loss or algorithm.id == "mbie"


@pytest.mark.statistical
@pytest.mark.parametrize("is_improvable", [True, False])
def test_acceptances_are_wrong_no_more_often_than_delta(is_improvable):
    """300 logs of one process with noisy rewards: losses, and gains below what was promised."""
    rng = np.random.default_rng(15)
    delta, n_logs = 0.2, 300
    reward = np.array([[0.1, 0.9], [0.8, 0.3], [0.2, 0.7]])
    mdp = TabularMDP(rng.dirichlet(np.ones(3), (3, 2)), reward, 0.5)
    best = solve(mdp).policy.probabilities
    share = 0.3 if is_improvable else 0.98
    baseline = TabularPolicy(share * best + (1 - share) / 2)
    n_accepted, n_losses, n_broken = np.zeros(2), np.zeros(2), np.zeros(2)
    for _ in range(n_logs):
        log = Log.sample(mdp, baseline, n_episodes=70, max_steps=60, rng=rng)
        paid = (rng.random(len(log.reward)) < log.reward).astype(float)
        counts = Counts.from_log(replace(log, reward=paid))
        for k, kind in enumerate((RobustMDP, RobustBaselineRegret)):
            result = kind(delta=delta).improve(
                counts, baseline=baseline, gamma=0.5, reward_range=(0.0, 1.0),
                certificate_delta=delta, states_complete=True,
            )  # fmt: skip
            found = gain(mdp, result.policy, baseline)
            n_accepted[k] += result.status is Status.CONVERGED
            n_losses[k] += found < -1e-12
            n_broken[k] += found < result.certificate.bound - 1e-12
    limit = scipy.stats.binom.ppf(1 - 1e-6, n_logs, delta)
    assert (n_losses <= n_broken).all()
    assert (n_broken <= limit).all()
    if is_improvable:
        assert (n_accepted > 30).all(), "the test should be about something"
