"""Real networks, really trained, reach the answers of the tabular algorithms."""

import numpy as np
import pytest
from small_problems import finite_problem

from spibb.deep.policy import NetworkPolicy
from spibb.deep.population import Member, TrainingSettings
from spibb.deep.pseudo_counts import KernelCounts
from spibb.deep.rules import (
    DQN,
    ApproxSoftSPIBBDQN,
    DoubleDQN,
    ExactSoftSPIBBDQN,
    PiBSPIBBDQN,
    PiLeqBSPIBBDQN,
    RaMDPDQN,
)
from spibb.deep.training import train_population

# Settings whose tabular answers all differ, except those of the first two.
RULES = [
    DQN(),
    DoubleDQN(),
    RaMDPDQN(kappa=3.0),
    PiBSPIBBDQN(n_wedge=20),
    PiLeqBSPIBBDQN(n_wedge=20),
    ApproxSoftSPIBBDQN(epsilon=0.1),
    ExactSoftSPIBBDQN(epsilon=0.1),
]
SETTINGS = TrainingSettings(
    hidden=(32,), gamma=0.8, n_passes=400, learning_rate=0.01, annealing_samples=2_000
)


@pytest.fixture(scope="module")
def problem():
    return finite_problem(n_states=4, n_actions=3, n_episodes=60, seed=5, concentration=3.0)


@pytest.fixture(scope="module")
def population(problem):
    members = [Member(0, rule, seed) for rule in RULES for seed in (0, 1)]
    return train_population(problem.training_data(), members, SETTINGS, engine="cpu")


def test_the_answers_differ(problem):
    answers = [problem.tabular(rule).policy.probabilities[:-1] for rule in RULES[1:]]
    answers.append(problem.baseline.probabilities[:-1])
    for k, one in enumerate(answers):
        assert all(np.abs(one - other).max() > 0.03 for other in answers[:k])


@pytest.mark.parametrize("k", range(2 * len(RULES)), ids=lambda k: f"{RULES[k // 2].id}-{k % 2}")
def test_each_rule_reaches_the_tabular_answer(problem, population, k):
    rule = population.members[k].rule
    expected = problem.tabular(rule)
    states = np.eye(4, dtype=np.float32)
    counts = KernelCounts(width=0.5).fit(problem.transitions)
    network = population.network(k)
    policy = NetworkPolicy(network, rule, problem, counts)
    acts = np.isin(np.arange(4), problem.log.state)
    np.testing.assert_allclose(
        policy.action_probabilities(states)[acts], expected.policy.probabilities[acts], atol=0.03
    )
    seen = problem.counts.n_sa > 0
    if not getattr(rule, "kappa", 0):  # the tabular result's q is that of the unpenalised rewards
        np.testing.assert_allclose(network.q(states)[seen], expected.q[seen], atol=0.1)


def test_the_loss_falls_to_the_noise_of_the_rewards(population):
    assert not population.diverged.any()
    loss = population.curves.loss
    assert (loss[:, -20:].mean(axis=1) < loss[:, :5].mean(axis=1)).all()
