"""Smallest cases on which certificates were false, estimates misled, or the unknown attracted.

Each meets every condition that was stated at the time. What is claimed of the policy that comes out
must be true here, or not be claimed.
"""

import numpy as np
import pytest
from scipy.stats import binom

from spibb import (
    DUIPI,
    HCPI,
    MBIE,
    AdvApproxSoftSPIBB,
    ApproxSoftSPIBB,
    Assessment,
    BasicRL,
    ExactSoftSPIBB,
    Log,
    PiBSPIBB,
    PiLeqBSPIBB,
    RobustBaselineRegret,
    RobustMDP,
    TabularMDP,
    TabularPolicy,
    audit,
    evaluate,
    improve_many,
)
from spibb.algorithms.guarantee_planning import plan_promise
from spibb.problem import Problem

MODEL_BASED = [
    PiBSPIBB(n_wedge=10_000),
    ApproxSoftSPIBB(),
    ExactSoftSPIBB(epsilon=4.0, max_iterations=1),
    BasicRL(),
    RobustMDP(),
    RobustBaselineRegret(),
    MBIE(),
]


def gain(mdp, result_or_policy, baseline):
    policy = getattr(result_or_policy, "policy", result_or_policy)
    return evaluate(mdp, policy).performance - evaluate(mdp, baseline).performance


def exact_claims(result):
    """Every number that is called a guarantee, with its name."""
    certificate = result.certificate
    return [
        (part.theorem, part.bound)
        for part in (certificate.guarantee, *certificate.others)
        if part.bound is not None and part.is_exact
    ]


def check(mdp, baseline, result):
    truth = gain(mdp, result, baseline)
    for name, bound in exact_claims(result):
        assert bound <= truth + 1e-9, (name, bound, truth)


# --- 1.1: pairs that policy and baseline share, but visit differently --------------------------


def one_step_truncation():
    """Action 1 leads to a state that costs 1 for ever, in which the log never acts."""
    transition = np.zeros((2, 2, 2))
    transition[0, 1, 1] = transition[1, :, 1] = 1.0
    mdp = TabularMDP(
        transition, [[-0.9, 0.0], [-1.0, -1.0]], 0.5, [1.0, 0.0], ending=[[1.0, 0.0], [0.0, 0.0]]
    )
    return mdp, TabularPolicy.uniform(2, 2)


@pytest.mark.parametrize("algorithm", MODEL_BASED, ids=lambda a: a.id)
def test_what_lies_beyond_truncated_episodes_is_not_taken_for_known(algorithm):
    mdp, baseline = one_step_truncation()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        log = Log.sample(mdp, baseline, n_episodes=30_000, max_steps=1, rng=rng)
        result = algorithm.improve(log, baseline=baseline, gamma=0.5, reward_range=(-1.0, 0.0))
        check(mdp, baseline, result)


def test_the_regret_test_is_near_the_truth_there():
    mdp, baseline = one_step_truncation()
    log = Log.sample(mdp, baseline, n_episodes=30_000, max_steps=1, rng=np.random.default_rng(0))
    result = PiBSPIBB(n_wedge=1_000).improve(
        log, baseline=baseline, gamma=0.5, reward_range=(-1.0, 0.0)
    )
    assert result.policy.probabilities[0].tolist() == [0.0, 1.0]
    assert gain(mdp, result, baseline) == pytest.approx(-0.05)
    assert -0.12 < result.certificate.bound < -0.05


def test_a_promise_is_kept_there():
    """At most 0.02 may be lost, and going to the unknown state loses 0.05."""
    mdp, baseline = one_step_truncation()
    log = Log.sample(mdp, baseline, n_episodes=30_000, max_steps=1, rng=np.random.default_rng(0))
    problem = Problem.of(log, baseline=baseline, gamma=0.5, reward_range=(-1.0, 0.0))
    promise = plan_promise(problem, zeta=0.02, delta=0.05)
    assert promise.is_vacuous
    wider = plan_promise(problem, zeta=0.2, delta=0.05)
    assert wider.n_wedge < np.inf
    result = PiBSPIBB(n_wedge=wider.n_wedge).improve(
        log, baseline=baseline, gamma=0.5, reward_range=(-1.0, 0.0)
    )
    assert gain(mdp, result, baseline) >= -0.2


def long_tail(n_tail=40, n_actions=4):
    """Action 1 pays a little more and leads into a tail of states with costs, many actions each."""
    n_states = n_tail + 1
    transition = np.zeros((n_states, n_actions, n_states))
    reward = np.full((n_states, n_actions), -1.0)
    ending = np.zeros((n_states, n_actions))
    reward[0] = -0.5
    reward[0, 1] = 0.0
    ending[0] = 1.0
    ending[0, 1] = 0.0
    transition[0, 1, 1] = 1.0
    for x in range(1, n_states):
        if x + 1 < n_states:
            transition[x, :, x + 1] = 1.0
        else:
            ending[x] = 1.0
    mdp = TabularMDP(transition, reward, 0.9, np.eye(n_states)[0], ending=ending)
    table = np.full((n_states, n_actions), 1 / n_actions)
    table[0] = [0.98, 0.02, 0.0, 0.0]
    return mdp, TabularPolicy(table)


@pytest.mark.parametrize("algorithm", MODEL_BASED, ids=lambda a: a.id)
def test_a_long_tail_without_any_truncation(algorithm):
    mdp, baseline = long_tail()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        log = Log.sample(mdp, baseline, n_episodes=1_000, max_steps=100, rng=rng)
        assert not log.truncated.any()
        result = algorithm.improve(log, baseline=baseline, gamma=0.9, reward_range=(-1.0, 0.0))
        check(mdp, baseline, result)


# --- 1.2: where episodes begin ------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("algorithm", [MBIE(), RobustMDP(), RobustBaselineRegret(), BasicRL()],
                         ids=lambda a: a.id)  # fmt: skip
def test_the_start_is_not_taken_for_known(algorithm):
    """Contexts A and B are equally likely; only in A does the action matter."""
    mdp = TabularMDP(np.zeros((2, 2, 2)), [[0.0, 1.0], [0.5, 0.5]], 0.0, [0.5, 0.5])
    baseline, rng = TabularPolicy.uniform(2, 2), np.random.default_rng(0)
    broken, n_logs, delta = 0, 200, 0.05
    for _ in range(n_logs):
        log = Log.sample(mdp, baseline, n_episodes=400, max_steps=1, rng=rng)
        result = algorithm.improve(log, baseline=baseline, gamma=0.0, reward_range=(0.0, 1.0))
        truth = gain(mdp, result, baseline)
        broken += any(bound > truth + 1e-9 for _, bound in exact_claims(result))
    assert broken <= binom.ppf(0.999, n_logs, delta)


@pytest.mark.statistical
def test_few_long_episodes_from_two_starts():
    """Two halves that never meet, one of which can be improved; four episodes of 3,000 steps."""
    transition = np.zeros((2, 2, 2))
    transition[0, :, 0] = transition[1, :, 1] = 1.0
    mdp = TabularMDP(transition, [[0.0, 1.0], [0.0, 0.0]], 0.5, [0.5, 0.5])
    baseline, rng = TabularPolicy.uniform(2, 2), np.random.default_rng(1)
    broken = 0
    for _ in range(60):
        log = Log.sample(mdp, baseline, n_episodes=4, max_steps=3_000, rng=rng)
        for algorithm in (RobustBaselineRegret(), ApproxSoftSPIBB(epsilon=0.1), MBIE()):
            result = algorithm.improve(log, baseline=baseline, gamma=0.5, reward_range=(0.0, 1.0))
            truth = gain(mdp, result, baseline)
            broken += any(bound > truth + 1e-9 for _, bound in exact_claims(result))
    assert broken <= binom.ppf(0.999, 180, 0.05)


def test_a_start_that_is_unknown_is_said_to_be():
    mdp = TabularMDP([[[1.0], [1.0]]], [[0.0, 1.0]], 0.5)
    baseline = TabularPolicy.uniform(1, 2)
    log = Log.sample(mdp, baseline, n_episodes=1, max_steps=500, rng=np.random.default_rng(0))
    loose = Log.from_arrays(
        state=log.state, action=log.action, reward=log.reward, next_state=log.next_state
    )
    for part in (log, loose):
        unknown = BasicRL().improve(part, baseline=baseline, gamma=0.5)
        assert unknown.certificate.bound is None
        assert "where episodes begin is unknown" in unknown.certificate.statement
        told = RobustBaselineRegret().improve(part, baseline=baseline, gamma=0.5, initial=[1.0])
        assert told.certificate.bound > 0.45


# --- 1.3: steps that are missing ----------------------------------------------------------------


def gappy(with_next_state):
    """Action 1 pays 1 at once and 4 less a step later; that step is never recorded."""
    rng = np.random.default_rng(0)
    rows = {"state": [], "action": [], "reward": [], "episode": [], "step": [], "next_state": []}
    for episode in range(4_000):
        a = int(rng.random() < 0.5)
        for step, (x, pay, y) in enumerate(((0, float(a), 1), (1, -4.0 * a, 2), (2, 0.0, 2))):
            if step == 1:
                continue
            done = a if step == 0 else 0
            for name, value in (
                ("state", x),
                ("action", done),
                ("reward", pay),
                ("episode", episode),
                ("step", step),
                ("next_state", y),
            ):
                rows[name].append(value)
    # One whole episode, so that steps are seen to be numbers.
    for step, x in enumerate((0, 1, 2)):
        for name, value in (("state", x), ("action", 0), ("reward", 0.0), ("episode", 9_999),
                            ("step", step), ("next_state", min(x + 1, 2))):  # fmt: skip
            rows[name].append(value)
    if not with_next_state:
        rows.pop("next_state")
    return Log.from_arrays(**rows, n_actions=2)


@pytest.mark.parametrize("with_next_state", [True, False])
def test_missing_steps_void_every_claim(with_next_state):
    log = gappy(with_next_state)
    baseline = TabularPolicy([[0.5, 0.5], [1.0, 0.0], [1.0, 0.0]])
    settings = [*MODEL_BASED, AdvApproxSoftSPIBB(), HCPI(bound="betting"), HCPI()]
    for algorithm in settings:
        result = algorithm.improve(log, baseline=baseline, gamma=0.9, reward_range=(-4.0, 1.0))
        if np.abs(result.policy.probabilities - baseline.probabilities).max() < 1e-12:
            continue
        claims = exact_claims(result)
        assert claims == [], (algorithm.id, claims)
        assert "no step of an episode is missing" in result.certificate.statement
    moved = TabularPolicy([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    seen = audit(log, baseline=baseline, policy=moved, gamma=0.9)
    assert seen.bound is None
    assert [part.bound for part in seen.others] == [None, None]


def test_a_step_after_a_gap_is_no_successor():
    log = gappy(with_next_state=False)
    assert log.is_gap.sum() == 4_000
    from spibb import Counts

    counts = Counts.from_log(log)
    assert counts.n_gaps == 4_000
    assert counts.n_sas.toarray()[0].tolist() == [0, 1, 0], "one transition of the whole episode"


# --- 1.4: rare events ---------------------------------------------------------------------------


def rare_log(rng, n, cost):
    """Two arms: one pays 1; the other 1.2, but for a rare cost, or a rare jackpot of the first."""
    action = rng.integers(0, 2, n)
    extreme = rng.random(n) < 0.005
    reward = np.where(action == 1, 1.2, 1.0) + 0.1 * rng.normal(size=n)
    hit = extreme & (action == (1 if cost else 0))
    reward = np.where(hit, -100.0 if cost else 100.0, reward)
    return Log.from_arrays(
        state=np.zeros(n, int), action=action, reward=reward, episode=np.arange(n), n_actions=2
    )


@pytest.mark.statistical
@pytest.mark.parametrize("estimator", ["dr", "pdis", "is"])
@pytest.mark.parametrize("cost", [True, False])
def test_rare_events_of_a_given_range_do_not_pass_the_test(cost, estimator):
    """In truth action 1 loses 0.3 or more; it did pass in more than half of such logs."""
    rng = np.random.default_rng(3)
    baseline, n_logs = TabularPolicy([[0.5, 0.5]]), 100
    for bound in ("student-t", "betting"):
        if (estimator, bound) == ("dr", "betting"):
            continue
        worse = 0
        for _ in range(n_logs):
            result = HCPI(estimator=estimator, bound=bound).improve(
                rare_log(rng, 200, cost), baseline=baseline, gamma=0.0,
                reward_range=(-101.0, 101.0),
            )  # fmt: skip
            worse += result.policy.probabilities[0, 1] > 0.5
        assert worse <= binom.ppf(0.999, n_logs, 0.05), bound


def test_where_the_range_is_only_observed_the_certificate_says_what_that_means():
    log = rare_log(np.random.default_rng(3), 200, True)
    result = HCPI().improve(log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.0)
    (approximate,) = [part for part in result.certificate.others if not part.is_exact]
    assert any("void the level altogether" in text for text in approximate.assumptions)


# --- 1.5: the unknown ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "algorithm",
    [BasicRL(), PiLeqBSPIBB(n_wedge=5), ExactSoftSPIBB(epsilon=4.0, delta=1.0)],
    ids=lambda a: a.id,
)
def test_what_was_never_tried_does_not_attract(algorithm):
    """Waiting costs 1 and stays; going costs 1.2 and stays, at a place where little was tried."""
    rng = np.random.default_rng(0)
    n = 300
    log = Log.from_arrays(
        state=rng.integers(0, 2, n), action=np.zeros(n, int), reward=-1.0 - 0.2 * rng.random(n),
        next_state=rng.integers(0, 2, n), n_actions=3,
    )  # fmt: skip
    baseline = TabularPolicy(np.tile([0.8, 0.1, 0.1], (2, 1)))
    result = algorithm.improve(log, baseline=baseline, gamma=0.9, accept_baseline=True)
    assert result.policy.probabilities[:, 1:].max() <= 0.1 + 1e-12


def test_the_estimated_baseline_of_a_sparse_log_is_not_far_from_its_returns():
    """Many actions, seldom tried, none of which matters: the log's mean return is the truth."""
    n_states, n_actions = 20, 15
    rng = np.random.default_rng(0)
    transition = rng.dirichlet(np.ones(n_states), (n_states, 1)).repeat(n_actions, axis=1) * 0.9
    mdp = TabularMDP(transition, np.ones((n_states, n_actions)), 0.99,
                     ending=np.full((n_states, n_actions), 0.1))  # fmt: skip
    baseline = TabularPolicy.uniform(n_states, n_actions)
    log = Log.sample(mdp, baseline, n_episodes=40, max_steps=500, rng=rng)
    asked = {"baseline": baseline, "gamma": 0.99}
    result = PiBSPIBB(n_wedge=np.inf).improve(log, **asked)
    ends = PiBSPIBB(n_wedge=np.inf).improve(log, **asked, unseen="terminal")
    mean = Assessment.of(result).log_return.mean
    assert ends.baseline.performance < 0.6 * mean
    assert result.baseline.performance == pytest.approx(mean, rel=0.15)
    assert "unobserved pairs" in Assessment.of(ends).withheld


# --- 1.6: gamma = 1 -----------------------------------------------------------------------------


def test_without_a_discount_ties_do_not_lead_into_loops():
    """Only the end pays, and many pairs were seen once and stayed where they were."""
    rng = np.random.default_rng(0)
    n_states, n_actions = 700, 25
    rows = {
        name: [] for name in ("state", "action", "reward", "next_state", "terminated", "episode")
    }
    for episode in range(2_000):
        x = int(rng.integers(n_states))
        for step in range(30):
            y = x if rng.random() < 0.3 else int(rng.integers(n_states))
            ended = step == 29 or rng.random() < 0.15
            for name, value in zip(
                rows, (x, int(rng.integers(n_actions)), float(ended and rng.random() < 0.7), y,
                       ended, episode), strict=True,
            ):  # fmt: skip
                rows[name].append(value)
            if ended:
                break
            x = y
    log = Log.from_arrays(**rows, n_states=n_states, n_actions=n_actions)
    baseline = TabularPolicy.uniform(n_states, n_actions)
    for algorithm in (BasicRL(), PiBSPIBB(n_wedge=2), PiLeqBSPIBB(n_wedge=2), ExactSoftSPIBB(),
                      ApproxSoftSPIBB(epsilon=2.0), DUIPI(max_iterations=20)):  # fmt: skip
        result = algorithm.improve(log, baseline=baseline, gamma=1.0)
        assert np.isfinite(result.v).all(), algorithm.id
        assert result.certificate.bound is None
        if not isinstance(algorithm, DUIPI):
            assert result.status.is_success, (algorithm.id, result.status)
        if isinstance(algorithm, BasicRL):
            assert result.n_iterations > 1
            assert result.performance > result.baseline.performance + 0.1


def test_duipi_without_a_discount_has_values_or_a_status():
    """Action 0 stays for 1 a step, and so looks best: no policy that stays has a value."""
    log = Log.from_arrays(
        state=[0] * 6, action=[0, 0, 0, 0, 0, 1], reward=[1.0] * 5 + [0.0], next_state=[0] * 5 +
        [1], terminated=[False] * 5 + [True], episode=[0] * 6,
    )  # fmt: skip
    baseline = TabularPolicy.uniform(2, 2)
    result = DUIPI().improve(log, baseline=baseline, gamma=1.0)
    assert np.isfinite(result.v).all()
    assert np.isfinite(result.performance)


# --- 2: what the regret test asks ---------------------------------------------------------------


def test_a_state_that_the_log_never_names_is_an_outcome_too():
    """Action 1 pays 1000 and ends, or, rarely, leads to a state that costs 1000 for ever."""
    transition = np.zeros((2, 2, 2))
    transition[0, 1, 1], transition[1, :, 1] = 0.015, 1.0
    mdp = TabularMDP(
        transition, [[0.0, 1000.0], [-1000.0, -1000.0]], 0.99, [1.0, 0.0],
        ending=[[1.0, 0.985], [0.0, 0.0]],
    )  # fmt: skip
    truth = gain(mdp, [[0.0, 1.0], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]])
    assert truth < 0
    log = Log.from_arrays(
        state=[0] * 100, action=[0, 1] * 50, reward=[0.0, 1000.0] * 50, terminated=[True] * 100,
        episode=np.arange(100),
    )  # fmt: skip
    asked = {"baseline": TabularPolicy([[0.5, 0.5]]), "policy": TabularPolicy([[0.0, 1.0]]),
             "gamma": 0.99, "reward_range": (-1000.0, 1000.0)}  # fmt: skip
    assert audit(log, **asked).bound <= truth
    declared = audit(log, **asked, states_complete=True)
    assert declared.bound > truth, "whoever declares it must know it"
    told = " ".join(declared.guarantee.assumptions)
    assert "no states or actions but those listed, as declared" in told


@pytest.mark.statistical
def test_counts_may_depend_on_outcomes():
    """The log is stopped when it looks best: 300 logs, at delta = 0.2."""
    rng = np.random.default_rng(0)
    baseline = TabularPolicy([[0.5, 0.5]])
    broken, n_logs, delta = 0, 300, 0.2
    for _ in range(n_logs):
        action = rng.integers(0, 2, 2_000)
        reward = (rng.random(2_000) < 0.5).astype(float)
        n = np.arange(1, 2_001)
        ones, zeros = np.cumsum(action), np.maximum(np.cumsum(1 - action), 1)
        lead = np.cumsum(reward * action) / np.maximum(ones, 1) - (
            np.cumsum(reward * (1 - action)) / zeros
        )
        stop = int(np.argmax(np.where(n >= 20, lead * np.sqrt(n), -np.inf))) + 1
        log = Log.from_arrays(
            state=np.zeros(stop, int), action=action[:stop], reward=reward[:stop],
            episode=np.arange(stop), n_actions=2,
        )  # fmt: skip
        found = audit(log, baseline=baseline, policy=TabularPolicy([[0.0, 1.0]]), gamma=0.0,
                      delta=delta, reward_range=(0.0, 1.0), initial=[1.0])  # fmt: skip
        broken += found.bound > 1e-9
    assert broken <= delta * n_logs


def test_every_statement_says_that_a_range_was_only_seen():
    """Headline, a vacuous one, a promise: each names the range, unless it is given."""
    log = Log.from_arrays(
        state=[0] * 30, action=[0, 1] * 15, reward=[0.0, 1.0] * 15, episode=np.arange(30)
    )
    asked = {"baseline": TabularPolicy([[0.5, 0.5]]), "gamma": 0.9}
    seen = "if no reward outside of [0, 1], the range seen, is possible"
    for algorithm in (BasicRL(), HCPI(bound="betting", delta=0.5, mixtures=0.5)):
        certificate = algorithm.improve(log, **asked).certificate
        if certificate.states.moved.any():
            assert seen in certificate.statement
            assert not certificate.guarantee.is_exact
        given = algorithm.improve(log, **asked, reward_range=(0.0, 1.0)).certificate
        assert seen not in given.statement
    assert seen in plan_promise(Problem.of(log, **asked), zeta=100.0, delta=0.05).summary
    nothing = Log.from_arrays(
        state=[0] * 20, action=[0, 1] * 10, reward=[0.0] * 20, episode=np.arange(20)
    )
    found = audit(nothing, **asked, policy=TabularPolicy([[0.0, 1.0]]))
    assert "the range seen" in found.statement


def test_without_a_discount_nothing_is_said_of_a_kept_baseline_either():
    log = Log.from_arrays(state=[0, 0], action=[0, 1], reward=[1.0, 2.0], episode=[0, 1])
    kept, asked = PiBSPIBB(n_wedge=10**8), {"gamma": 1.0, "certificate_delta": 0.05}
    baseline = TabularPolicy([[0.5, 0.5]])
    assert np.isnan(improve_many([kept], [log], baselines=baseline, **asked).bounds).all()
    assert kept.improve(log, baseline=baseline, **asked).certificate.bound is None


def test_what_is_assumed_of_states_that_nobody_names_is_listed_wherever_it_is_used():
    """By the regret test and by Theorem 1, whose worst start may be one; not where none is left."""
    log = Log.from_arrays(
        state=[0] * 30, action=[0, 1] * 15, reward=[0.0, 1.0] * 15, episode=np.arange(30)
    )
    asked = {"baseline": TabularPolicy([[0.5, 0.5]]), "gamma": 0.9, "reward_range": (0.0, 1.0)}
    for complete in (False, True):
        result = AdvApproxSoftSPIBB().improve(log, **asked, states_complete=complete)
        claims = (result.certificate.guarantee, *result.certificate.others)
        assert {claim.theorem for claim in claims} == {
            "Regret test", "Theorem 1 (Soft-SPIBB), by returns",
        }  # fmt: skip
        for claim in claims:
            told = any("neither the log nor the baseline names" in x for x in claim.assumptions)
            assert told is not complete


def test_records_that_stop_because_of_what_was_paid_are_assumed_away_by_name():
    """Without next states the reward that stops a record goes uncounted: action 1 seems to pay 0.

    Action 0 pays 1/4 and action 1 pays 1 in half of the cases, which stops the record.
    """
    rng, rows = np.random.default_rng(0), []
    for episode in range(3_000):
        is_over = False
        while not is_over:
            action, luck = int(rng.random() < 0.5), rng.random() < 0.5
            rows.append((episode, action, float(luck) if action else 0.25, is_over := bool(luck)))
    episode, action, reward, stops = (np.array(column) for column in zip(*rows, strict=True))
    asked = {
        "policy": TabularPolicy([[1.0, 0.0]]), "baseline": TabularPolicy([[0.5, 0.5]]),
        "gamma": 0.5, "reward_range": (0.0, 1.0), "states_complete": True, "never_ends": True,
    }  # fmt: skip
    truth, told = -0.25, "nor of what its last row paid"
    for more in ({}, {"next_state": np.zeros(len(rows), int)}):
        log = Log.from_arrays(
            state=np.zeros(len(rows), int), action=action, reward=reward, episode=episode,
            truncated=stops, terminated=np.zeros(len(rows), bool), **more,
        )  # fmt: skip
        claim = audit(log, **asked).guarantee
        assert (claim.bound <= truth) == bool(more)
        assert any(told in text for text in claim.assumptions) == (not more)
