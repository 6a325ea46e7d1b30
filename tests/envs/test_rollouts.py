"""Rollouts of a policy in environments of Gymnasium."""

import gymnasium
import numpy as np
import pytest

from spibb import TabularPolicy
from spibb.envs import from_gymnasium, roll_out
from spibb.errors import DataError, PolicyError
from spibb.mdp.evaluation import evaluate


def test_what_is_earned_is_the_value_of_the_policy():
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=10_000)
    policy = TabularPolicy(np.random.default_rng(2).dirichlet(np.ones(4), size=16))
    log = roll_out(env, policy, n_episodes=4_000, rng=np.random.default_rng(3))
    mean = log.reward.sum() / log.n_episodes
    truth = evaluate(from_gymnasium(env, 1.0), policy).performance
    assert abs(mean - truth) < 5 * np.sqrt(truth * (1 - truth) / log.n_episodes)
    taken = np.bincount(log.action[log.state == 0], minlength=4)
    wanted = policy.probabilities[0]
    assert np.abs(taken / taken.sum() - wanted).max() < 5 * 0.5 / np.sqrt(taken.sum())


def test_rows_follow_each_other_and_say_how_episodes_end():
    env = gymnasium.make("CliffWalking-v1")
    walk = TabularPolicy.uniform(48, 4)
    log = roll_out(env, walk, n_episodes=20, max_steps=15, rng=np.random.default_rng(4))
    assert log.n_gaps == 0
    last = np.append(np.flatnonzero(log.is_first)[1:], len(log)) - 1
    assert (log.terminated | log.truncated)[last].all()
    assert np.count_nonzero(log.terminated | log.truncated) == len(last) == 20
    again = roll_out(env, walk, n_episodes=20, max_steps=15, rng=np.random.default_rng(4))
    assert again.content_hash == log.content_hash


def test_spaces_and_policies_that_do_not_fit():
    walk, rng = TabularPolicy.uniform(16, 4), np.random.default_rng(0)
    with pytest.raises(DataError, match=r"observations of the environment are Box.*expected Discr"):
        roll_out(gymnasium.make("CartPole-v1"), walk, n_episodes=1, rng=rng)
    with pytest.raises(PolicyError, match=r"shape \(16, 4\); expected \(48, 4\)"):
        roll_out(gymnasium.make("CliffWalking-v1"), walk, n_episodes=1, rng=rng)
