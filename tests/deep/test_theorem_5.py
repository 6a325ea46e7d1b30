"""The paper's Theorem 5: on a finite MDP the model-free fixed point is the model-based one.

One-hot states make regression exact: Q(x, a) becomes the mean of its targets. A kernel narrower
than the distance of two one-hot states counts exactly.
"""

import numpy as np
import pytest
from small_problems import RULES, finite_problem

from spibb.deep.rules import RaMDPDQN
from spibb.deep.targets import improved_policy, targets

SPIBB_RULES = [rule for rule in RULES if not rule.is_greedy]


def fixed_point(problem, rule, n_iterations=400):
    """Iterate Q <- mean of the targets over all transitions of a pair; 0 where there are none."""
    data = problem.training_data()
    n_states, n_actions = problem.counts.n_sa.shape
    state, next_state = data.state.argmax(1), data.next_state.argmax(1)
    pair = state * n_actions + data.action
    times = np.maximum(np.bincount(pair, minlength=n_states * n_actions), 1)
    baseline, counts = problem.baseline.probabilities, problem.counts.n_sa.astype(float)
    q = np.zeros((n_states, n_actions))
    for _ in range(n_iterations):
        y = targets(
            rule,
            reward=problem.log.reward.astype(float),
            terminated=data.terminated,
            gamma=problem.gamma,
            q_online=q[next_state],
            q_target=q[next_state],
            baseline_next=baseline[next_state],
            n_next=data.n_next.astype(float),
            n_here=data.n_here.astype(float),
        )
        q = (np.bincount(pair, y, minlength=q.size) / times).reshape(q.shape)
    return q, improved_policy(rule, q, baseline=baseline, counts=counts)


def test_pseudo_counts_of_one_hot_states_are_counts():
    problem = finite_problem()
    data = problem.training_data()
    counts = problem.counts.n_sa
    np.testing.assert_array_equal(data.n_next, counts[data.next_state.argmax(1)])
    np.testing.assert_array_equal(data.n_here, counts[data.state.argmax(1), data.action])


@pytest.mark.parametrize("rule", SPIBB_RULES, ids=lambda rule: rule.id)
@pytest.mark.parametrize("seed", range(5))
def test_the_fixed_points_are_equal(rule, seed):
    problem = finite_problem(seed=seed)
    result = problem.tabular(rule)
    q, policy = fixed_point(problem, rule)
    np.testing.assert_allclose(q, result.q, atol=1e-9)
    acts = np.isin(np.arange(len(q)), problem.log.state)
    np.testing.assert_allclose(
        (policy * q).sum(1)[acts], (result.policy.probabilities * q).sum(1)[acts], atol=1e-9
    )
    # The rule does change the baseline here.
    assert np.abs(policy - problem.baseline.probabilities)[acts].max() > 0.01


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.is_greedy], ids=lambda r: r.id)
def test_greedy_rules_where_every_pair_was_seen(rule):
    problem = finite_problem(n_episodes=300, concentration=5.0)
    assert (problem.counts.n_sa[:-1] > 0).all()
    result = problem.tabular(rule)
    q, policy = fixed_point(problem, rule)
    np.testing.assert_array_equal(policy[:-1], result.policy.probabilities[:-1])
    # The tabular RaMDP returns its policy's values without the penalty.
    if not isinstance(rule, RaMDPDQN):
        np.testing.assert_allclose(q, result.q, atol=1e-9)
