"""A fitted policy: acts, is written and read, and complains clearly."""

import math
import sys

import numpy as np
import pytest
import torch
from small_problems import DEVICES, LOOSE, RULES, TIGHT, random_data

from spibb.deep.baseline import SoftmaxNetwork
from spibb.deep.network import Network, first_parameters
from spibb.deep.policy import NetworkPolicy, PopulationPolicy
from spibb.deep.population import Member, TrainingSettings
from spibb.deep.pseudo_counts import KernelCounts
from spibb.deep.rules import (
    DQN,
    DoubleDQN,
    ExactSoftSPIBBDQN,
    PiBSPIBBDQN,
)
from spibb.deep.targets import improved_policy
from spibb.deep.training import train_population
from spibb.deep.training_data import TrainingData
from spibb.deep.transitions import Transitions
from spibb.envs.helicopter import Helicopter
from spibb.errors import DataError, MissingDependencyError, OutputError, PolicyError, SettingsError

SIZES = (3, 16, 8, 4)


def network(seed):
    return Network.from_flat(first_parameters([seed], SIZES)[0], SIZES)


def transitions():
    rng = np.random.default_rng(0)
    return Transitions.from_arrays(
        rng.random((200, 3)), rng.integers(0, 4, 200), np.zeros(200), rng.random((200, 3)),
        np.zeros(200), n_actions=4,
    )  # fmt: skip


def policy(rule):
    fitted = KernelCounts(width=0.4).fit(transitions())
    return NetworkPolicy(network(1), rule, SoftmaxNetwork(network(2), 0.5), fitted)


STATES = np.random.default_rng(1).random((50, 3)).astype(np.float32)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_acting_is_the_step_of_the_targets(rule):
    made = policy(rule)
    expected = improved_policy(
        rule,
        made.network.q(STATES),
        baseline=made.baseline.action_probabilities(STATES),
        counts=made.pseudo_counts.counts(STATES),
    )
    found = made.action_probabilities(STATES)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-6)
    assert made.action_probabilities(STATES.reshape(5, 10, 3)).shape == (5, 10, 4)
    np.testing.assert_allclose(made.action_probabilities(STATES[7]), found[7], atol=1e-6)


@pytest.mark.parametrize("rule", LOOSE, ids=lambda rule: rule.id)
def test_loose_limits_act_as_double_dqn_exactly(rule):
    expected = NetworkPolicy(network(1), DoubleDQN()).action_probabilities(STATES)
    np.testing.assert_array_equal(policy(rule).action_probabilities(STATES), expected)


@pytest.mark.parametrize("rule", TIGHT, ids=lambda rule: rule.id)
def test_tight_limits_act_as_the_baseline_exactly(rule):
    made = policy(rule)
    np.testing.assert_array_equal(
        made.action_probabilities(STATES), made.baseline.action_probabilities(STATES)
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_tensors_act_as_arrays_do(rule, device):
    made = policy(rule)
    states = torch.tensor(STATES.reshape(5, 10, 3), device=device)
    found = made.action_probabilities(states)
    assert found.device == states.device
    assert found.dtype == torch.float32
    expected = made.action_probabilities(STATES).reshape(5, 10, 4)
    np.testing.assert_allclose(found.cpu().numpy(), expected, atol=1e-4)
    assert made.act(states[0], np.random.default_rng(0)).shape == (10,)
    assert made.action_probabilities(states[0, 0]).shape == (4,)
    with pytest.raises(DataError, match=r"shape \(2,\); expected \(\.\.\., 3\)"):
        made.action_probabilities(states[0, 0, :2])


def test_a_policy_flies_on_tensors():
    helicopter = Helicopter()
    data = helicopter.collect(helicopter.baseline(), 300, np.random.default_rng(0))
    flat = first_parameters([3], (4, 16, 9))[0]
    made = NetworkPolicy(
        Network.from_flat(flat, (4, 16, 9)), ExactSoftSPIBBDQN(epsilon=0.3), helicopter.baseline(),
        KernelCounts().fit(data),
    )  # fmt: skip
    arrays = helicopter.run_episodes(made, [1, 2], n_episodes=50)
    tensors = helicopter.run_episodes(made, [1, 2], n_episodes=50, device="cpu")
    np.testing.assert_allclose(tensors.mean, arrays.mean, atol=0.1)


def test_act():
    made = policy(ExactSoftSPIBBDQN(epsilon=0.5))
    one = made.act(STATES[0], np.random.default_rng(0))
    assert isinstance(one, int)
    assert made.act(STATES[0], np.random.default_rng(0)) == one
    many = made.act(np.repeat(STATES[:1], 20_000, axis=0), np.random.default_rng(1))
    assert many.dtype == np.int64
    share = np.bincount(many, minlength=4) / len(many)
    np.testing.assert_allclose(share, made.action_probabilities(STATES[0]), atol=0.02)
    assert made.act(STATES).shape == (50,)
    # A greedy policy always takes its action, also an end of the range.
    greedy = NetworkPolicy(network(1), DQN())
    np.testing.assert_array_equal(greedy.act(STATES), greedy.network.q(STATES).argmax(-1))


@pytest.mark.parametrize("rule", [*RULES, PiBSPIBBDQN(n_wedge=math.inf)], ids=lambda rule: rule.id)
def test_files_round_trip(rule, tmp_path):
    made = policy(rule)
    path = tmp_path / "policy"
    made.write(path)
    again = NetworkPolicy.read(path)
    assert again.rule == rule
    np.testing.assert_array_equal(
        again.action_probabilities(STATES), made.action_probabilities(STATES)
    )


SHORT = TrainingSettings(hidden=(8,), n_passes=5, batch_size=8)


def trained(scale=None):
    """A population of every rule, trained on the same data."""
    data = TrainingData.from_transitions(
        transitions(), SoftmaxNetwork(network(2), 0.5), KernelCounts(width=0.4), scale=scale
    )
    members = [Member(0, rule, k) for k, rule in enumerate(RULES)]
    return train_population(data, members, SHORT, engine="cpu")


def test_a_population_gives_policies_with_what_they_were_trained_with(tmp_path):
    population = trained()
    for k, rule in enumerate(RULES):
        found = population.policy(k)
        counts = KernelCounts(width=0.4).fit(transitions())
        expected = NetworkPolicy(
            population.network(k), rule, SoftmaxNetwork(network(2), 0.5), counts
        )
        np.testing.assert_array_equal(
            found.action_probabilities(STATES), expected.action_probabilities(STATES)
        )
        found.write(tmp_path / rule.id)
        again = NetworkPolicy.read(tmp_path / rule.id)
        np.testing.assert_array_equal(
            again.action_probabilities(STATES), expected.action_probabilities(STATES)
        )


def test_a_population_acts_at_once_as_its_members_do():
    population = trained()
    states = np.stack([STATES[k : k + 20] for k in range(len(RULES))])
    everybody = population.policies()
    found = everybody.action_probabilities(states)
    for k in range(len(RULES)):
        alone = population.policy(k).action_probabilities(states[k])
        np.testing.assert_array_equal(found[k], alone)
    some = population.policies([5, 1]).action_probabilities(states[[5, 1]])
    np.testing.assert_array_equal(some, found[[5, 1]])
    tensors = everybody.action_probabilities(torch.tensor(states))
    np.testing.assert_allclose(tensors.numpy(), found, atol=1e-4)


def test_policies_of_data_sets_of_their_own():
    """Each member is asked with the counts, the baseline and the units of its own data set."""
    both = [trained(), trained(scale=[0.5, 1.0, 2.0])]
    made = [population.policy(k) for population in both for k in range(len(RULES))]
    states = np.stack([STATES] * len(made))
    found = PopulationPolicy(made).action_probabilities(states)
    for row, one in zip(found, made, strict=True):
        np.testing.assert_array_equal(row, one.action_probabilities(STATES))


def test_nothing_is_counted_where_an_episode_is_over():
    class Counted:
        n_actions, asked = 4, 0

        def counts(self, states):
            Counted.asked += len(states)
            return np.full((len(states), 4), 9.0, np.float32)

    one = NetworkPolicy(
        network(1), PiBSPIBBDQN(n_wedge=5), SoftmaxNetwork(network(2), 0.5), Counted()
    )
    act = PopulationPolicy([one], is_over=lambda states: states[:, 0] > 0.5).action_probabilities
    found, is_over = act(STATES[None])[0], STATES[:, 0] > 0.5
    assert Counted.asked == (~is_over).sum()
    np.testing.assert_array_equal(found[~is_over], one.action_probabilities(STATES)[~is_over])
    baseline = one.baseline.action_probabilities(STATES)
    np.testing.assert_array_equal(found[is_over], baseline[is_over])


def test_units_of_the_coordinates_are_kept(tmp_path):
    """Trained in other units, a policy sees observations as its data set had them."""
    units = np.array([0.5, 1.0, 2.0])
    scaled = trained(units)
    data = TrainingData.from_transitions(
        transitions().scaled(units), SoftmaxNetwork(network(2), 0.5), KernelCounts(width=0.4)
    )
    np.testing.assert_array_equal(scaled.data[0].n_next, data.n_next)
    assert (scaled.data[0].baseline_next != data.baseline_next).any()
    made = scaled.policy(6)
    np.testing.assert_array_equal(made.scale, np.float32(units))
    bare = NetworkPolicy(made.network, DQN())
    np.testing.assert_array_equal(
        NetworkPolicy(made.network, DQN(), scale=units).act(STATES), bare.act(STATES / units)
    )
    made.write(tmp_path / "policy")
    again = NetworkPolicy.read(tmp_path / "policy")
    np.testing.assert_array_equal(
        again.action_probabilities(STATES), made.action_probabilities(STATES)
    )
    for scale in (0, [1.0, 2.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0], np.inf):
        with pytest.raises(SettingsError, match="scale is"):
            transitions().scaled(scale)


def test_what_was_not_kept_is_asked_for():
    members = [Member(0, DQN(), 0), Member(0, PiBSPIBBDQN(), 0)]
    population = train_population(random_data(), members, SHORT, engine="cpu")
    assert population.policy(0).rule == DQN()
    with pytest.raises(PolicyError, match=r"acts without baseline.*from_transitions"):
        population.policy(1)
    other = Network.from_flat(first_parameters([0], (3, 5, 4))[0], (3, 5, 4))
    with pytest.raises(PolicyError, match="there is no policy"):
        PopulationPolicy([])
    for states in (STATES, STATES[None, :, :2], np.stack([STATES] * 3)):
        with pytest.raises(DataError, match="have shape"):
            population.policies([0]).action_probabilities(states)
    with pytest.raises(PolicyError, match="the networks differ in shape"):
        PopulationPolicy([population.policy(0), NetworkPolicy(other, DQN())])


def test_what_cannot_be_stored_says_so(tmp_path):
    rule, path = PiBSPIBBDQN(n_wedge=1), tmp_path / "policy"
    counts = KernelCounts().fit(transitions())
    uniform = NetworkPolicy(network(1), rule, lambda x: np.full((len(x), 4), 0.25), counts)
    np.testing.assert_allclose(uniform.action_probabilities(STATES).sum(-1), 1, atol=1e-6)
    with pytest.raises(OutputError, match="a baseline of type function cannot be stored"):
        uniform.write(path)

    class Own:
        n_actions = 4

        def counts(self, states):
            return np.ones((len(states), 4))

    with pytest.raises(OutputError, match="pseudo-counts of type Own cannot be stored"):
        NetworkPolicy(network(1), rule, SoftmaxNetwork(network(2), 0.5), Own()).write(path)
    assert not path.exists()
    network(1).write(path)
    with pytest.raises(DataError, match="holds no policy: Not a directory"):
        NetworkPolicy.read(path)
    with pytest.raises(DataError, match="holds no policy"):
        NetworkPolicy.read(tmp_path)


def test_bad_observations_name_the_row():
    made = policy(ExactSoftSPIBBDQN(epsilon=1))
    bad = STATES.copy()
    bad[3, 1] = np.nan
    with pytest.raises(DataError, match="row 3"):
        made.act(bad)
    with pytest.raises(DataError, match=r"shape \(2,\)"):
        made.act([0.0, 1.0])


def test_bad_parts():
    with pytest.raises(PolicyError, match="acts without baseline"):
        NetworkPolicy(network(1), PiBSPIBBDQN())
    with pytest.raises(PolicyError, match="acts without fitted pseudo-counts"):
        NetworkPolicy(network(1), PiBSPIBBDQN(), SoftmaxNetwork(network(2), 1.0))
    narrow = Transitions.from_arrays(np.zeros((1, 3)), [1], [0], np.zeros((1, 3)), [0])
    with pytest.raises(
        PolicyError, match="pseudo-counts of 3 features and 2 actions; expected 3 and 4"
    ):
        NetworkPolicy(
            network(1), PiBSPIBBDQN(), SoftmaxNetwork(network(2), 1.0), KernelCounts().fit(narrow)
        )
    fitted = KernelCounts().fit(transitions())
    wide = Network.from_flat(first_parameters([0], (5, 8, 4))[0], (5, 8, 4))
    with pytest.raises(
        PolicyError, match="a baseline of 5 features and 4 actions; expected 3 and 4"
    ):
        NetworkPolicy(network(1), PiBSPIBBDQN(), SoftmaxNetwork(wide, 1.0), fitted)
    with pytest.raises(PolicyError, match="pseudo-counts of 3 features and 4 actions; expected 5"):
        NetworkPolicy(wide, PiBSPIBBDQN(), SoftmaxNetwork(wide, 1.0), fitted)


def test_absent_packages_name_the_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "spibb\[deep\]"'):
        policy(DQN()).write(tmp_path / "policy")
