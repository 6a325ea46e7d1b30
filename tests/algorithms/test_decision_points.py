"""Changes that returns prove, one by one."""

from dataclasses import replace

import numpy as np
import pytest

from spibb import DecisionPoints, Log, TabularMDP, TabularPolicy, evaluate
from spibb.envs.garnet import Garnet
from spibb.errors import SettingsError
from spibb.ope.betting import betting
from spibb.testing.adversaries import ADVERSARIES
from spibb.testing.checks import random_problem


def garnet_log(seed, n_episodes, eta=0.5):
    rng = np.random.default_rng(seed)
    garnet = Garnet.random(rng)
    baseline = garnet.baseline(eta, rng)
    mdp = garnet.with_second_goal(rng, 1.0).mdp
    return mdp, baseline, Log.sample(mdp, baseline, n_episodes=n_episodes, max_steps=200, rng=rng)


def obvious(log, baseline, gamma, low, high, delta, least_lead):
    """Pick and test by plain loops over episodes."""
    episodes = [np.flatnonzero(log.episode == e) for e in dict.fromkeys(log.episode.tolist())]

    def returns(rows, x, among):
        """The return from the first visit of x by one of these actions: lowest, middle, highest."""
        for k, row in enumerate(rows):
            if log.state[row] == x and log.action[row] in among:
                later = rows[k:]
                gain = sum(gamma**i * log.reward[j] for i, j in enumerate(later))
                cut = 0.0 if log.terminated[later[-1]] else gamma ** len(later)
                return gain + cut * low, gain + cut * (low + high) / 2, gain + cut * high
        return None

    def all_returns(half, x, among):
        return np.array([r for rows in half if (r := returns(rows, x, among)) is not None])

    n_states, n_actions = baseline.probabilities.shape
    picked = []
    for x in range(n_states):
        leads = {}
        for a in range(n_actions):
            own = all_returns(episodes[::2], x, {a})
            others = [all_returns(episodes[::2], x, {b}) for b in range(n_actions) if b != a]
            others = np.concatenate([part for part in others if len(part)] or [np.empty((0, 3))])
            if min(len(own), len(others)) >= 5 and baseline.probabilities[x, a] < 1:
                spread = (own[:, 1].var() / len(own) + others[:, 1].var() / len(others)) ** 0.5
                leads[a] = (own[:, 1].mean() - others[:, 1].mean()) / (
                    spread + 1e-12 * (high - low)
                )
        if leads and max(leads.values()) >= least_lead:
            picked.append((x, max(leads, key=leads.get)))
    policy = baseline.probabilities.copy()
    for x, a in picked:
        own = all_returns(episodes[1::2], x, {a})
        others = all_returns(episodes[1::2], x, set(range(n_actions)) - {a})
        level = delta / (2 * len(picked))
        lower = low + (betting(own[:, 0] - low, level) if len(own) else 0.0)
        upper = high - (betting(high - others[:, 2], level) if len(others) else 0.0)
        if lower >= upper:
            policy[x] = np.eye(n_actions)[a]
    return policy, picked


@pytest.mark.parametrize("n_episodes", [600, 40])
def test_it_does_what_the_obvious_loops_do(n_episodes):
    mdp, baseline, log = garnet_log(0, n_episodes)
    settings = DecisionPoints(return_range=(0.0, 1.0))
    result = settings.improve(log, baseline=baseline, gamma=0.95)
    policy, picked = obvious(log, baseline, 0.95, 0.0, 1.0, 0.05, 2.0)
    np.testing.assert_allclose(result.policy.probabilities, policy)
    assert result.certificate.guarantee.details["n_points"] == len(picked)
    if n_episodes > 100:
        assert result.certificate.guarantee.details["n_changed"] > 0
        assert evaluate(mdp, result.policy).performance > evaluate(mdp, baseline).performance


def test_no_state_loses():
    """At delta = 0.5, to have something to find: of 24 logs at most 12 may hold a loss anywhere."""
    worse = changed = 0
    for seed in range(24):
        mdp, baseline, log = garnet_log(seed, 800)
        result = DecisionPoints(delta=0.5, return_range=(0.0, 1.0)).improve(
            log, baseline=baseline, gamma=0.95
        )
        here, there = evaluate(mdp, result.policy).v, evaluate(mdp, baseline).v
        worse += bool((here < there - 1e-9).any())
        changed += result.certificate.guarantee.details["n_changed"] > 0
    assert changed > 12
    assert worse <= 2


@pytest.mark.parametrize("name", sorted(ADVERSARIES))
def test_adversaries_make_it_claim_nothing_false(name):
    """Bold picks at delta = 0.5: of 8 logs 4 may be claimed falsely, and none is."""
    case = ADVERSARIES[name]
    for seed in range(8):
        log = case.draw(np.random.default_rng(seed))
        if not isinstance(log, Log) or not case.is_sampled or case.mdp.gamma == 1.0:
            pytest.skip("no independent episodes, or returns of no known range")
        result = DecisionPoints(
            delta=0.5, least_lead=0.5, return_range=case.return_range
        ).improve(
            log, baseline=case.given_baseline(log), gamma=case.mdp.gamma,
            reward_range=case.reward_range, accept_baseline=case.made_by is not None,
            **case.declared,
        )  # fmt: skip
        assert not result.certificate.guarantee.applies or case.gain(result.policy) >= -1e-9


@pytest.mark.parametrize(
    ("name", "where"),
    [("wrong-baseline", "state 1"), ("wrong-in-rare-states", "states with at most")],
)
def test_a_log_of_another_policy_where_few_episodes_go_is_refused(name, where):
    """The returns prove a gain over the behaviour policy, and it is a loss over the given baseline.

    The two differ in 0.7 % of the rows: too few to refuse the log, enough to turn the sign.
    """
    case, n_false = ADVERSARIES[name], 0
    for seed in range(6):
        log = case.draw(np.random.default_rng(seed))
        asked = {"gamma": case.mdp.gamma, "reward_range": case.reward_range}
        settings = DecisionPoints(return_range=case.return_range)
        found = settings.improve(log, baseline=case.baseline, accept_baseline=True, **asked)
        claim = found.certificate.guarantee
        n_false += claim.details["n_changed"] > 0 and case.gain(found.policy) < 0
        assert not claim.applies
        assert {part.name for part in claim.failed} == {"made-by-baseline"}
        assert where in claim.failed[0].where
        acted = settings.improve(log, baseline=case.made_by, **asked).certificate.guarantee
        assert acted.applies
        assert acted.conditions[2].value >= 0.01
    assert n_false == 6, "without the check each of them is claimed"


def test_that_the_baseline_made_the_log_is_named_wherever_the_statement_is():
    _, baseline, log = garnet_log(0, 1_500)
    result = DecisionPoints(return_range=(0.0, 1.0)).improve(log, baseline=baseline, gamma=0.95)
    named = "The log was made by the baseline, in every state"
    claim = result.certificate.guarantee
    assert sum(text.startswith(named) for text in claim.assumptions) == 1
    assert named in str(result.certificate.to_dict()["guarantee"]["assumptions"])
    counts = result.certificate.to_dict()["guarantee"]["conditions"]
    assert [part["name"] for part in counts if part["name"] == "made-by-baseline"]


def test_a_tie_that_chance_breaks_is_not_taken_for_a_lead():
    """Two actions alike: of 300 logs, 15 may change something at delta = 0.05."""
    changed = 0
    baseline = TabularPolicy([[0.5, 0.5]])
    for seed in range(300):
        rng = np.random.default_rng(seed)
        n = 120
        log = Log.from_arrays(
            state=[0] * n, action=rng.integers(0, 2, n), reward=rng.integers(0, 2, n).astype(float),
            terminated=[True] * n, episode=range(n),
        )  # fmt: skip
        result = DecisionPoints(least_lead=0.0, return_range=(0.0, 1.0)).improve(
            log, baseline=baseline, gamma=0.9
        )
        changed += not np.array_equal(result.policy.probabilities, baseline.probabilities)
    assert changed <= 15


def test_rare_others_do_not_count_more_than_the_baseline_takes_them():
    """Others are worth .89 as taken, .45 by action: an action worth .6 must not replace them."""
    mdp = TabularMDP(np.zeros((1, 3, 1)), [[0.6, 0.9, 0.0]], 0.9, ending=np.ones((1, 3)))
    baseline = TabularPolicy([[0.3, 0.69, 0.01]])
    log = Log.sample(mdp, baseline, n_episodes=4_000, rng=np.random.default_rng(0))
    found = DecisionPoints(return_range=(0.0, 1.0)).improve(log, baseline=baseline, gamma=0.9)
    assert found.policy.probabilities[0].argmax() == 1


def test_records_that_stop_early_are_completed_on_the_safe_side():
    _, baseline, log = garnet_log(1, 1_500)
    settings = DecisionPoints(return_range=(0.0, 1.0))
    whole = settings.improve(log, baseline=baseline, gamma=0.95)
    cut = log.take(log.step < 3)
    cut = replace(cut, terminated=cut.terminated & (cut.next_state >= 0))
    short = settings.improve(cut, baseline=baseline, gamma=0.95)
    names = "n_changed"
    assert short.certificate.guarantee.details[names] < whole.certificate.guarantee.details[names]


def test_what_it_claims_and_when_it_does_not():
    _, baseline, log = garnet_log(0, 1_500)
    settings = DecisionPoints(return_range=(0.0, 1.0))
    result = settings.improve(log, baseline=baseline, gamma=0.95)
    found = result.certificate.guarantee
    assert (found.theorem, found.bound, found.is_exact) == ("Decision points", 0.0, True)
    assert result.certificate.others[0].theorem == "Regret test"
    estimated = settings.improve(log, baseline="estimate", gamma=0.95).certificate.guarantee
    assert not estimated.applies
    assert "propensities" in {condition.name for condition in estimated.failed}
    by_rewards = DecisionPoints().improve(log, baseline=baseline, gamma=0.95)
    assert by_rewards.certificate.guarantee.bound == 0.0
    log = Log.from_arrays(
        state=[0] * 400, action=[0, 0, 1, 1] * 100, reward=[0.1, 0.2, 0.8, 0.9] * 100,
        terminated=[True] * 400, episode=range(400),
    )  # fmt: skip
    uniform = TabularPolicy([[0.5, 0.5]])
    undiscounted = settings.improve(log, baseline=uniform, gamma=1.0)
    assert undiscounted.policy.probabilities.tolist() == [[0.0, 1.0]]
    assert not undiscounted.certificate.guarantee.applies


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delta": 0.0}, "delta"),
        ({"least_lead": -1}, "least_lead"),
        ({"return_range": (1, 0)}, "range"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        DecisionPoints(**settings)


def test_rewards_of_rows_that_do_not_count_are_in_the_range_too():
    """A row that stops early pays 100 now and then: no bound may rest on rewards below 1."""
    n, rng = 400, np.random.default_rng(0)
    action, rare = rng.integers(0, 2, n), rng.random(n) < 0.03
    rare &= action == 0
    log = Log.from_arrays(
        state=[0] * n, action=action, reward=np.where(rare, 100.0, action.astype(float)),
        next_state=[-1] * n, terminated=~rare, truncated=rare, episode=range(n),
    )  # fmt: skip
    asked = {"baseline": TabularPolicy([[0.5, 0.5]]), "gamma": 0.0}
    with pytest.raises(SettingsError, match="the log holds rewards from 0 to 100"):
        DecisionPoints().improve(log, reward_range=(0.0, 1.0), **asked)
    found = DecisionPoints().improve(log, **asked)
    assert "[0, 100]" in found.certificate.guarantee.assumptions[-1]
    np.testing.assert_array_equal(found.policy.probabilities, [[0.5, 0.5]])


def test_a_record_that_stops_early_is_no_return():
    log = Log.from_arrays(
        state=[0] * 40, action=[0, 1] * 20, reward=[-1.0, 1.0] * 20, next_state=[0] * 40,
        terminated=[False, True] * 20, truncated=[True, False] * 20, episode=range(40),
    )  # fmt: skip
    asked = {"baseline": TabularPolicy([[0.5, 0.5]]), "gamma": 0.9}
    found = DecisionPoints(return_range=(0.0, 2.0)).improve(log, **asked)
    assert found.certificate.guarantee.applies
    with pytest.raises(SettingsError, match="return_range"):
        DecisionPoints(return_range=(0.0, 0.5)).improve(log, **asked)


def test_returns_outside_of_the_range_are_refused():
    _, baseline, log = random_problem(0, n_episodes=30)
    with pytest.raises(SettingsError, match="return_range"):
        DecisionPoints(return_range=(0.0, 1e-3)).improve(log, baseline=baseline, gamma=0.9)
