"""Nothing may depend on a constant that is added to every reward.

Where episodes never end, a constant c a step is worth c / (1 - gamma) whatever is done; with
gamma = 1, where every episode ends, so is one more for the last reward. The algorithms for which
that cannot hold are named, with the reason; their pages say it.
"""

from dataclasses import replace

import numpy as np
import pytest

from spibb import HCPI, Log, TabularMDP, TabularPolicy, audit, evaluate, improve_many
from spibb.algorithms.registry import ALGORITHMS
from spibb.testing.checks import random_problem

# DUIPI: variances are diagonal, and those of transitions grow with the square of the values.
# HCPI: the record of an endless process stops, and weights of its steps do not average to one.
EXEMPT = {"duipi", "hcpi"}
# Their sets hold ending, worth 0, unless it is declared that nothing ends.
BY_SETS = {"robust-mdp", "robust-baseline-regret", "mbie"}
# So does the error of a return that was cut off: what is missing may be an end.
BY_RANGE = BY_SETS | {"adv-approx-soft-spibb", "exact-adv-soft-spibb"}
# It needs more episodes than these to change anything, and a range of returns where gamma is 1.
BY_RETURNS = {"decision-points"}
SHIFTS = (-7.0, 3.0, 50.0)


def endless_log(seed, n_states=6, n_actions=3, n_episodes=25):
    """A log of a process that never ends, with pairs and a state that were never tried."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(n_states, 0.4), (n_states, n_actions))
    transition[:, :, -1] = 0.0
    transition /= transition.sum(axis=2, keepdims=True)
    reward = -np.abs(rng.normal(size=(n_states, n_actions)))
    mdp = TabularMDP(transition, reward, 0.9, np.eye(n_states)[0])
    table = rng.dirichlet(np.full(n_actions, 0.7), n_states)
    baseline = TabularPolicy(0.95 * table + 0.05 / n_actions)
    log = Log.sample(mdp, baseline, n_episodes=n_episodes, max_steps=12, rng=rng)
    return mdp, baseline, log


def shifted(log, c):
    return replace(log, reward=log.reward + c)


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - EXEMPT))
def test_a_constant_on_every_reward_changes_no_policy(name):
    algorithm, moved = ALGORITHMS[name](), 0
    for seed in range(12):
        _, baseline, log = endless_log(seed, n_episodes=(8, 60, 2_000)[seed % 3])
        assert not log.terminated.any()
        declared = {"never_ends": True} if name in BY_RANGE else {}
        asked = {"baseline": baseline, "gamma": 0.9, **declared}
        plain = algorithm.improve(log, **asked).policy.probabilities
        moved += bool((np.abs(plain - baseline.probabilities) > 1e-6).any())
        for c in SHIFTS:
            other = algorithm.improve(shifted(log, c), **asked).policy.probabilities
            np.testing.assert_allclose(other, plain, atol=1e-7, err_msg=f"{name} {seed} {c}")
    assert moved or name in BY_SETS | BY_RETURNS, (
        "the baseline came back every time: the test says nothing"
    )


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - EXEMPT))
def test_nor_in_a_batch_nor_the_order_of_algorithms(name):
    """improve_many, with ranges that are given and shifted along."""
    problems = [endless_log(seed) for seed in range(8)]
    logs, baselines = [log for _, _, log in problems], [b for _, b, _ in problems]
    kinds = [ALGORITHMS[name](), ALGORITHMS["pi-leq-b-spibb"](n_wedge=3)]
    found = []
    for c in (0.0, 5.0):
        many = improve_many(
            kinds, [shifted(log, c) for log in logs], baselines=baselines, gamma=0.9,
            reward_range=(-6.0 + c, 2.0 + c), never_ends=True,
        )  # fmt: skip
        gain = (many.v - many.baseline_v).mean(axis=2)
        found.append((many.probabilities, gain))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-7)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-7)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_no_verdict_of_the_regret_test_changes_where_nothing_ends(name):
    for seed in range(4):
        _, baseline, log = endless_log(seed, n_episodes=400)
        policy = ALGORITHMS[name]().improve(log, baseline=baseline, gamma=0.9).policy
        bounds = [
            audit(
                shifted(log, c), baseline=baseline, policy=policy, gamma=0.9,
                reward_range=(-6.0 + c, 2.0 + c), never_ends=True,
            ).bound
            for c in (0.0, *SHIFTS)
        ]  # fmt: skip
        np.testing.assert_allclose(bounds, bounds[0], atol=1e-7)


# R-MIN plans for the least reward; so do unseen losses, and means of a state draw what ends pay.
BY_LEAST = {"r-min", "auto-spibb"}


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - EXEMPT - BY_SETS - BY_LEAST - BY_RETURNS))
def test_one_more_for_every_end_changes_no_policy_without_a_discount(name):
    algorithm = ALGORITHMS[name]()
    for seed in range(12):
        _, baseline, log = random_problem(seed, n_states=7, n_actions=3, n_episodes=60)
        whole = np.isin(log.episode, log.episode[log.terminated])
        log = log.take(whole)
        plain = algorithm.improve(log, baseline=baseline, gamma=1.0)
        for c in (1.0, -20.0):
            raised = replace(log, reward=log.reward + c * log.terminated)
            other = algorithm.improve(raised, baseline=baseline, gamma=1.0)
            assert other.status is plain.status, (name, seed)
            np.testing.assert_allclose(
                other.policy.probabilities, plain.policy.probabilities, atol=1e-7
            )
            live = ~plain.problem.model.terminal
            np.testing.assert_allclose(other.v[live] - plain.v[live], c, atol=1e-6)


def test_the_old_treatment_does_depend_on_it():
    """So that the tests above are about something."""
    changed = 0
    for seed in range(12):
        _, baseline, log = endless_log(seed, n_episodes=8)
        policies = [
            ALGORITHMS["basic-rl"]()
            .improve(shifted(log, c), baseline=baseline, gamma=0.9, unseen="terminal")
            .policy.probabilities
            for c in (0.0, 3.0)
        ]
        changed += bool(np.abs(policies[0] - policies[1]).max() > 0.1)
    assert changed > 6


def test_doubly_robusts_model_is_neutral_too():
    """Costs instead of rewards: the mirror image of a log has the mirror image of the estimates."""
    from spibb.ope import evaluate_policy

    _, baseline, log = random_problem(3, n_episodes=40)
    mixed = TabularPolicy(0.7 * baseline.probabilities + 0.1)
    asked = {"policy": mixed, "baseline": baseline, "gamma": 0.9, "estimators": ["dr", "model"]}
    here = evaluate_policy(log, **asked, bound="bca")
    there = evaluate_policy(replace(log, reward=-log.reward), **asked, bound="bca")
    for name in ("dr", "model"):
        assert there[name].estimate == pytest.approx(-here[name].estimate)


def test_hcpi_by_doubly_robust_terms_changes_little():
    """Exempt, since the record stops; but the model's share of its terms is neutral."""
    mdp, baseline, log = endless_log(1, n_episodes=400)
    found = [
        HCPI(delta=0.4).improve(shifted(log, c), baseline=baseline, gamma=0.9) for c in (0.0, 2.0)
    ]
    gains = [evaluate(mdp, one.policy).performance for one in found]
    assert gains[0] == pytest.approx(gains[1], abs=0.3)
