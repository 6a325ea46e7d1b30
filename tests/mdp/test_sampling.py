"""Sampled trajectories: frequencies, flags, repeatability."""

import numpy as np
import pytest
import scipy.stats

from spibb.errors import SettingsError
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.mdp.sampling import Sampler
from spibb.testing import reference

TRANSITION = np.array(
    [
        [[0.2, 0.5, 0.3, 0.0], [0.0, 0.0, 1.0, 0.0]],
        [[0.7, 0.0, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25]],
        [[0.6, 0.3, 0.0, 0.1], [0.0, 0.9, 0.0, 0.1]],
        [[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]],
    ]
)
REWARD = np.array([[1.0, -1.0], [0.5, 2.0], [0.0, 3.0], [9.0, 9.0]])
POLICY = np.array([[0.3, 0.7], [0.5, 0.5], [0.9, 0.1], [1.0, 0.0]])
INITIAL = np.array([0.5, 0.2, 0.3, 0.0])
COLUMNS = [
    "episode", "step", "state", "action", "reward", "next_state", "terminated", "truncated",
]  # fmt: skip


def model():
    """Four states, the last of which is terminal."""
    return TabularMDP(TRANSITION, REWARD, 0.9, initial=INITIAL, terminal=np.arange(4) == 3)


def sample(mdp, policy=POLICY, n_episodes=2000, max_steps=50, seed=1):
    rng = np.random.default_rng(seed)
    return Sampler(mdp, policy).sample(n_episodes=n_episodes, max_steps=max_steps, rng=rng)


def assert_drawn_from(draws, probabilities):
    """Chi-square at a false alarm of one in a thousand; the impossible must not happen at all."""
    observed = np.bincount(draws, minlength=len(probabilities))
    possible = probabilities > 0
    assert observed[~possible].sum() == 0
    if possible.sum() > 1:
        expected = len(draws) * probabilities[possible]
        assert scipy.stats.chisquare(observed[possible], expected).pvalue > 1e-3


def test_frequencies_are_the_probabilities():
    log = sample(model())
    assert_drawn_from(log["state"][log["step"] == 0], INITIAL)
    for x in range(3):
        here = log["state"] == x
        assert here.sum() > 1000
        assert_drawn_from(log["action"][here], POLICY[x])
        for a in range(2):
            assert_drawn_from(log["next_state"][here & (log["action"] == a)], TRANSITION[x, a])


def test_columns_tell_one_story():
    log = sample(model(), max_steps=5)
    assert list(log) == COLUMNS
    assert len({len(column) for column in log.values()}) == 1
    np.testing.assert_array_equal(log["reward"], REWARD[log["state"], log["action"]])
    np.testing.assert_array_equal(log["terminated"], log["next_state"] == 3)
    same = log["episode"][1:] == log["episode"][:-1]
    np.testing.assert_array_equal(log["state"][1:][same], log["next_state"][:-1][same])
    np.testing.assert_array_equal(log["step"][1:][same], log["step"][:-1][same] + 1)
    # An episode ends once, and never in both ways.
    is_last = np.append(~same, True)
    np.testing.assert_array_equal(log["terminated"] | log["truncated"], is_last)
    assert not (log["terminated"] & log["truncated"]).any()
    np.testing.assert_array_equal(np.unique(log["episode"]), np.arange(2000))


def test_truncation_is_the_step_limit():
    log = sample(model(), max_steps=5)
    assert log["truncated"].any()
    assert (log["step"][log["truncated"]] == 4).all()
    assert (log["next_state"][log["truncated"]] >= 0).all()
    # Reaching the end at the last permitted step is an end all the same.
    assert log["terminated"][log["step"] == 4].any()


def test_an_end_without_a_terminal_state():
    mdp = TabularMDP([[[0.5]]], [[1.0]], gamma=0.9, ending=[[0.5]])
    log = sample(mdp, policy=[[1.0]])
    assert log["terminated"].any()
    np.testing.assert_array_equal(log["next_state"], np.where(log["terminated"], -1, 0))
    assert_drawn_from(log["terminated"].astype(int), np.array([0.5, 0.5]))


def test_a_pair_without_successors_ends():
    log = sample(TabularMDP([[[0.0]]], [[1.0]], gamma=0.9), policy=[[1.0]], n_episodes=3)
    assert log["terminated"].tolist() == [True] * 3
    assert log["next_state"].tolist() == [-1] * 3


def test_an_episode_that_starts_at_the_end_leaves_no_row():
    mdp = TabularMDP(
        [[[0.0, 1.0]], [[0.0, 1.0]]],
        [[1.0], [1.0]],
        0.9,
        initial=[0.5, 0.5],
        terminal=[False, True],
    )
    log = sample(mdp, policy=np.ones((2, 1)), n_episodes=400)
    assert 150 < len(log["episode"]) < 250
    assert (log["state"] == 0).all()
    nowhere = TabularMDP(
        [[[0.0, 1.0]], [[0.0, 1.0]]],
        [[1.0], [1.0]],
        0.9,
        initial=[0.0, 1.0],
        terminal=[False, True],
    )
    empty = sample(nowhere, policy=np.ones((2, 1)))
    assert [len(empty[name]) for name in COLUMNS] == [0] * 8


def test_same_rng_same_trajectories():
    first, second, other = sample(model(), seed=4), sample(model(), seed=4), sample(model(), seed=5)
    for name in COLUMNS:
        np.testing.assert_array_equal(first[name], second[name])
    assert len(first["state"]) != len(other["state"]) or (first["state"] != other["state"]).any()


def test_dense_and_sparse_models_draw_alike():
    dense = TabularMDP(TRANSITION, REWARD, 0.9, initial=INITIAL)
    sparse = TabularMDP(dense.rows, REWARD, 0.9, initial=INITIAL)
    first, second = sample(dense), sample(sparse, policy=TabularPolicy(POLICY))
    for name in COLUMNS:
        np.testing.assert_array_equal(first[name], second[name])


def test_the_model_comes_back_from_its_log():
    log = sample(model(), n_episodes=5000)
    transition, reward, n_sa = reference.maximum_likelihood(
        *(log[name] for name in ("state", "action", "reward", "next_state", "terminated")), 4, 2,
        terminal=[3],
    )  # fmt: skip
    assert n_sa.sum() == len(log["state"])
    np.testing.assert_array_equal(n_sa[3], 0)
    np.testing.assert_allclose(reward[:3], REWARD[:3], rtol=1e-9)
    np.testing.assert_allclose(transition[:3, :, :3], TRANSITION[:3, :, :3], rtol=0, atol=0.03)
    # Entering the terminal state is an end, not a successor.
    np.testing.assert_allclose(
        1.0 - transition[:3].sum(axis=2), TRANSITION[:3, :, 3], rtol=0, atol=0.03
    )
    assert not transition[:, :, 3].any()
    assert not transition[3].any()


def test_numbers_of_few_bits_and_step_limits_that_never_bite():
    """A product that overflowed would give first states the numbers of steps."""
    expected = sample(model(), n_episodes=1500, max_steps=2**20)
    found = sample(model(), n_episodes=np.int32(1500), max_steps=np.int32(2**20))
    for name in COLUMNS:
        np.testing.assert_array_equal(found[name], expected[name])
    with pytest.raises(SettingsError, match=r"less than 2\^61 steps in all"):
        sample(model(), n_episodes=5, max_steps=2**63 - 1)
    assert len(sample(model(), n_episodes=3, max_steps=2**58)["state"]) > 3


class OneKey:
    """A generator whose only number is the key that puts the largest number at a place."""

    def __init__(self, place):
        z = 2**64 - 1
        for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
            z = (z ^ (z >> shift) ^ (z >> 2 * shift)) * pow(factor, -1, 2**64) % 2**64
        self.key = np.uint64((z - (place + 1) * 0x9E3779B97F4A7C15) % 2**64)

    def integers(self, *_, **__):
        return self.key


@pytest.mark.parametrize("place", [0, 1, 2], ids=["action", "successor", "first state"])
def test_a_distribution_that_lacks_a_hair(place):
    """What a model lets pass is no end, and leads to no action or state beyond the last."""
    hair = np.array([0.5, 0.5 - 9e-9])
    mdp = TabularMDP(np.tile(hair, (2, 2, 1)), np.zeros((2, 2)), gamma=0.9, initial=hair)
    sampler = Sampler(mdp, np.full((2, 2), 0.5))
    log = sampler.sample(n_episodes=1, max_steps=1, rng=OneKey(place))
    drawn = {0: log["action"], 1: log["next_state"], 2: log["state"]}[place]
    assert drawn.tolist() == [1]
    assert not log["terminated"].any()


@pytest.mark.parametrize(("n_episodes", "max_steps"), [(0, 5), (5, 0), (-1, 5)])
def test_there_must_be_something_to_sample(n_episodes, max_steps):
    with pytest.raises(
        SettingsError, match=f"n_episodes is {n_episodes}, max_steps {max_steps}.*at least 1"
    ):
        sample(model(), n_episodes=n_episodes, max_steps=max_steps)
