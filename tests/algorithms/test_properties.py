"""What must hold of every algorithm in the registry: limits, other names, other units."""

import dataclasses

import numpy as np
import pytest

from spibb import BasicRL, TabularPolicy
from spibb.algorithms.registry import ALGORITHMS
from spibb.testing.checks import random_problem

GAMMA = 0.9
SOFT = [name for name in ALGORITHMS if name.endswith("soft-spibb")]
# Settings in which nothing but the baseline is allowed, and in which nothing is forbidden.
TIGHTEST = {name: {"epsilon": 0.0} for name in SOFT} | {
    "pi-b-spibb": {"n_wedge": np.inf},
    "pi-leq-b-spibb": {"n_wedge": np.inf},
    "r-min": {"n_wedge": np.inf},
    "robust-mdp": {"delta": 1e-300},
    "robust-baseline-regret": {"delta": 1e-300},
    "hcpi": {"delta": 1e-9},
    "auto-spibb": {"caution": 1e9},
    "decision-points": {"delta": 1e-300},
}
LOOSEST = {name: {"epsilon": np.inf} for name in SOFT if "adv" not in name} | {
    "pi-b-spibb": {"n_wedge": 0},
    "pi-leq-b-spibb": {"n_wedge": 0},
    "r-min": {"n_wedge": 0},
    "ramdp": {"kappa": 0.0},
    "duipi": {"xi": 0.0, "max_iterations": 100_000},
    "basic-rl": {},
}
# Plans for the worst model whatever delta is, and never goes back to the baseline for it.
WITHOUT_LIMIT = {"mbie"}


def test_every_algorithm_has_a_limit_or_is_said_to_have_none():
    assert set(TIGHTEST) | set(LOOSEST) | WITHOUT_LIMIT == set(ALGORITHMS)


@pytest.mark.parametrize("name", TIGHTEST)
def test_the_tightest_settings_give_the_baseline_back(name):
    _, baseline, log = random_problem(11)
    result = ALGORITHMS[name](**TIGHTEST[name]).improve(log, baseline=baseline, gamma=GAMMA)
    np.testing.assert_allclose(result.policy.probabilities, baseline.probabilities, atol=1e-15)
    assert result.status.is_success


@pytest.mark.parametrize("name", LOOSEST)
def test_the_loosest_settings_are_basic_rl(name):
    _, baseline, log = random_problem(12)
    free = BasicRL().improve(log, baseline=baseline, gamma=GAMMA)
    result = ALGORITHMS[name](**LOOSEST[name]).improve(log, baseline=baseline, gamma=GAMMA)
    np.testing.assert_allclose(result.v, free.v, atol=1e-4 if name == "duipi" else 1e-9)


def moving(name, seed):
    """Return settings and a problem with which an algorithm leaves the baseline."""
    tested = ("robust-mdp", "robust-baseline-regret", "hcpi", "decision-points")
    kind, is_tested = ALGORITHMS[name], name in tested
    asked = {"delta": 0.9} if is_tested else {"epsilon": 2.0, "n_wedge": 4, "kappa": 0.1}
    known = {item.name for item in dataclasses.fields(kind)}
    algorithm = kind(**{key: value for key, value in asked.items() if key in known})
    _, baseline, log = random_problem(seed, n_episodes=20_000 if is_tested else 300)
    options = {"states_complete": True, "gamma": 0.2} if is_tested else {"gamma": 0.9}
    return algorithm, baseline, log, options


@pytest.mark.parametrize("name", ALGORITHMS)
def test_other_units_of_reward_change_no_policy(name):
    """Eight times the rewards: a power of two, so that it is exact."""
    algorithm, baseline, log, options = moving(name, 13)
    larger = dataclasses.replace(log, reward=log.reward * 8.0)
    in_units = algorithm
    if name == "ramdp":  # its penalty is in units of reward
        in_units = dataclasses.replace(algorithm, kappa=8.0 * algorithm.kappa)
    once = algorithm.improve(log, baseline=baseline, **options)
    eight = in_units.improve(larger, baseline=baseline, **options)
    np.testing.assert_allclose(eight.policy.probabilities, once.policy.probabilities, atol=1e-9)
    np.testing.assert_allclose(eight.v, 8.0 * once.v, rtol=1e-9)
    if once.certificate.bound is not None:
        assert eight.certificate.bound == pytest.approx(8.0 * once.certificate.bound, rel=1e-5)
    assert (once.policy.probabilities != baseline.probabilities).any(), "nothing was tested"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_other_numbers_of_states_and_actions_permute_the_result(name):
    algorithm, baseline, log, options = moving(name, 14)
    rng = np.random.default_rng(0)
    states, actions = rng.permutation(log.n_states), rng.permutation(log.n_actions)
    moved = dataclasses.replace(
        log, state=states[log.state], action=actions[log.action], next_state=states[log.next_state]
    )
    table = np.empty_like(baseline.probabilities)
    table[np.ix_(states, actions)] = baseline.probabilities
    here = algorithm.improve(log, baseline=baseline, **options)
    there = algorithm.improve(moved, baseline=TabularPolicy(table), **options)
    np.testing.assert_allclose(there.v[states], here.v, atol=1e-6)
    np.testing.assert_allclose(
        there.policy.probabilities[np.ix_(states, actions)], here.policy.probabilities, atol=1e-6
    )
    assert (here.policy.probabilities != baseline.probabilities).any(), "nothing was tested"
