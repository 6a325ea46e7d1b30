"""Continuous environments through Gymnasium, and data sets collected from any of them."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from spibb.deep import (
    ExactSoftSPIBBDQN,
    KernelCounts,
    Member,
    NetworkPolicy,
    TrainingData,
    TrainingSettings,
    train_population,
)
from spibb.envs import Helicopter, HelicopterEnv, collect_transitions
from spibb.envs.cart_pole import GAMMA, WIDTH, CartPole, controller
from spibb.errors import ModelError, PolicyError, SettingsError


def test_helicopter_passes_the_checker():
    env = gymnasium.make("spibb/Helicopter-v0", render_mode="rgb_array")
    check_env(env.unwrapped)


def test_environment_flies_as_the_simulator_does():
    env = HelicopterEnv()
    state, _ = env.reset(seed=3)
    twin, helicopter = np.random.default_rng(), Helicopter()
    twin.bit_generator.state = np.random.PCG64(np.random.SeedSequence(3)).state
    np.testing.assert_array_equal(state, helicopter.start(twin.random(4, dtype=np.float32)))
    for action in (4, 8, 0, 7):
        noise = twin.standard_normal(4, dtype=np.float32)
        expected = helicopter.step(state, action, noise)
        state, reward, terminated, truncated, _ = env.step(np.int64(action))
        np.testing.assert_array_equal(state, expected[0])
        assert (reward, terminated, truncated) == (expected[1], expected[2], False)
        if terminated:
            break


def test_flights_are_truncated_after_their_last_step():
    env = gymnasium.make(
        "spibb/Helicopter-v0", position_noise=0, velocity_noise=0, start_speed=0, max_steps=5
    )
    env.reset(seed=0)
    flags = [env.step(4)[2:4] for _ in range(5)]
    assert flags == [(False, False)] * 4 + [(False, True)]


def test_rendering():
    env = gymnasium.make("spibb/Helicopter-v0", render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    env.step(8)
    assert before.shape == (400, 400, 3)
    assert (before != env.render()).any()
    assert HelicopterEnv().render() is None
    with pytest.raises(SettingsError, match="render_mode is 'human'"):
        HelicopterEnv(render_mode="human")


def test_bad_actions_and_order():
    env = HelicopterEnv()
    with pytest.raises(ModelError, match="step before reset"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(PolicyError, match=r"action is 9; expected a whole number in 0 \.\. 8"):
        env.step(9)


def test_data_of_the_environment_agree_with_the_simulator():
    helicopter = Helicopter()
    baseline = helicopter.baseline()
    rng = np.random.default_rng(0)
    data = collect_transitions(HelicopterEnv(), baseline.action_probabilities, 3_000, rng)
    fast = helicopter.collect(baseline.action_probabilities, 30_000, rng)
    assert (len(data), data.n_actions) == (3_000, 9)
    share = [np.bincount(part.action, minlength=9) / len(part) for part in (data, fast)]
    np.testing.assert_allclose(share[0], share[1], atol=0.04)
    np.testing.assert_allclose(data.state.mean(axis=0), fast.state.mean(axis=0), atol=0.06)
    assert data.terminated.mean() == pytest.approx(fast.terminated.mean(), abs=0.02)
    goes_on = ~(data.terminated | data.truncated)[:-1]
    np.testing.assert_array_equal(data.next_state[:-1][goes_on], data.state[1:][goes_on])


def test_cart_pole_with_counts():
    env = gymnasium.make("spibb/CartPole-v0")
    data = collect_transitions(env, controller, 2_000, np.random.default_rng(1))
    assert (len(data), data.n_dimensions, data.n_actions) == (2_000, 4, 2)
    assert data.truncated[-1] or data.terminated[-1]
    counts = KernelCounts(width=0.2).fit(data).counts(data.state)
    own = counts[np.arange(2_000), data.action]
    assert own.min() >= 1
    assert np.median(own) > 2
    again = collect_transitions(env, controller, 2_000, np.random.default_rng(1))
    np.testing.assert_array_equal(data.state, again.state)


def test_a_safe_policy_for_cart_pole():
    env = gymnasium.make("spibb/CartPole-v0")

    def baseline(states):
        return 0.5 * controller(states) + 0.25

    def steps_an_episode(policy):
        played = collect_transitions(env, policy, 4_000, np.random.default_rng(3))
        return 4_000 / (played.terminated | played.truncated).sum()

    data = collect_transitions(env, baseline, 3_000, np.random.default_rng(0))
    counts = KernelCounts(WIDTH).fit(data)
    training = TrainingData.from_transitions(data, baseline, counts)
    rules = [ExactSoftSPIBBDQN(epsilon=0.5), ExactSoftSPIBBDQN(epsilon=0)]
    population = train_population(
        training,
        [Member(0, rule, 0) for rule in rules],
        TrainingSettings(hidden=(32, 32), gamma=GAMMA, n_passes=100),
        engine="cpu",
    )
    soft, none = (
        NetworkPolicy(population.network(k), rule, baseline, counts) for k, rule in enumerate(rules)
    )
    # The baseline holds the pole for some 45 steps, the policy for some 90.
    assert steps_an_episode(soft) > 1.4 * steps_an_episode(baseline)
    np.testing.assert_array_equal(none.action_probabilities(data.state), baseline(data.state))


def test_replaced_actions_make_the_pole_fall():
    lengths = []
    for share in (0.0, 0.5, 1.0):
        env = gymnasium.make("spibb/CartPole-v0", extra_stochasticity=share)
        data = collect_transitions(env, controller, 2_000, np.random.default_rng(2))
        lengths.append(2_000 / (data.terminated | data.truncated).sum())
    assert lengths[0] == 200
    assert 60 < lengths[1] < 190
    assert lengths[2] < 30


@pytest.mark.filterwarnings("ignore:.*observation space.*infinity")  # Gymnasium's own bounds
def test_cart_pole_passes_the_checker():
    check_env(CartPole(), skip_render_check=True)


def test_bad_inputs_of_collecting():
    rng = np.random.default_rng(0)
    with pytest.raises(ModelError, match="observations are Discrete"):
        collect_transitions(gymnasium.make("FrozenLake-v1"), controller, 5, rng)
    with pytest.raises(ModelError, match="actions are Box"):
        collect_transitions(gymnasium.make("Pendulum-v1"), controller, 5, rng)
    with pytest.raises(SettingsError, match="n_transitions is 0"):
        collect_transitions(CartPole(), controller, 0, rng)
    with pytest.raises(PolicyError, match=r"first at step 0.*over 2 actions"):
        collect_transitions(CartPole(), lambda x: np.ones((1, 3)) / 3, 5, rng)
    with pytest.raises(PolicyError, match="the policy returned"):
        collect_transitions(CartPole(), lambda x: np.array([[np.nan, 1.0]]), 5, rng)
    with pytest.raises(SettingsError, match="extra_stochasticity is 2"):
        CartPole(extra_stochasticity=2)
