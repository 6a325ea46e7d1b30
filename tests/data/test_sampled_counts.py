"""Counting without writing down gives the counts of the log, from the same draws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb import Counts, Log, TabularMDP, TabularPolicy
from spibb.errors import DataError
from spibb.testing.strategies import mdps


@given(mdp=mdps(), seed=st.integers(0, 10**6), n_episodes=st.sampled_from([1, 3, 40]))
@settings(max_examples=80, deadline=None)
def test_equal_to_counting_the_log(mdp, seed, n_episodes):
    policy = TabularPolicy(
        np.random.default_rng(seed).dirichlet(np.ones(mdp.n_actions), mdp.n_states)
    )
    asked = {"n_episodes": n_episodes, "max_steps": 7}
    try:
        log = Log.sample(mdp, policy, rng=np.random.default_rng(seed), **asked)
    except DataError:
        with pytest.raises(DataError):
            Counts.sample(mdp, policy, rng=np.random.default_rng(seed), **asked)
        return
    slow = Counts.from_log(log)
    fast = Counts.sample(mdp, policy, rng=np.random.default_rng(seed), **asked)
    np.testing.assert_array_equal(fast.n_sa, slow.n_sa)
    np.testing.assert_array_equal(fast.n_sas.toarray(), slow.n_sas.toarray())
    np.testing.assert_array_equal(fast.n_end.toarray(), slow.n_end.toarray())
    np.testing.assert_array_equal(fast.n_initial, slow.n_initial)
    np.testing.assert_allclose(fast.reward_sum, slow.reward_sum, atol=1e-9)
    assert fast.reward_range == slow.reward_range
    assert fast.n_dropped == slow.n_dropped == 0
    np.testing.assert_array_equal(fast.terminal, slow.terminal)
    np.testing.assert_array_equal(fast.to_mdp(0.9).rows.toarray(), slow.to_mdp(0.9).rows.toarray())


def test_nothing_to_count():
    mdp = TabularMDP([[[1.0]]], [[0.0]], 0.9, terminal=[True])
    with pytest.raises(DataError, match="began in a terminal state"):
        Counts.sample(mdp, [[1.0]], n_episodes=3, rng=np.random.default_rng(0))


def test_rewards_of_entered_states():
    """A goal pays when it is entered, not a little on the way: R and P go together."""
    transition = [[[0.5, 0.5]], [[0.0, 1.0]]]
    mdp = TabularMDP(transition, None, 0.9, [1.0, 0.0], [False, True], entry_reward=[0.0, 1.0])
    assert mdp.reward[0, 0] == 0.5
    asked = {"n_episodes": 50, "max_steps": 9}
    log = Log.sample(mdp, [[1.0], [1.0]], rng=np.random.default_rng(0), **asked)
    np.testing.assert_array_equal(log.reward, log.next_state == 1)
    fast = Counts.sample(mdp, [[1.0], [1.0]], rng=np.random.default_rng(0), **asked)
    slow = Counts.from_log(log)
    np.testing.assert_allclose(fast.reward_sum, slow.reward_sum)
    assert fast.reward_range == slow.reward_range == (0.0, 1.0)
    model = slow.to_mdp(0.9)
    np.testing.assert_allclose(model.reward[0, 0], model.dense[0, 0, 1])
