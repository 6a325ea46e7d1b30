"""What environments are given at the edges of types and ranges is refused in words."""

import math
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch

from spibb.envs import GridWorld, Helicopter, TabularEnv, collect_transitions
from spibb.envs.cart_pole import CartPole
from spibb.errors import DataError, ModelError, PolicyError, SettingsError

RNG = np.random.default_rng(0)
TABULAR = ["spibb/Garnet-v0", "spibb/GridWorld-v0", "spibb/WetChicken-v0"]
BAD_ACTIONS = [-1, 1.5, 9, None, "a", math.nan]
STATE, CALM = np.float32([0.5, 0.5, 0.0, 0.0]), np.zeros(4, np.float32)


def uniform(states):
    return np.full((*states.shape[:-1], 9), 1 / 9)


@pytest.mark.parametrize("name", TABULAR)
@pytest.mark.parametrize("action", BAD_ACTIONS)
def test_actions_that_a_process_does_not_know(name, action):
    env = gymnasium.make(name).unwrapped
    env.reset(seed=0)
    with pytest.raises(PolicyError, match=r"action is .*expected a whole number in 0 \.\. [34]"):
        env.step(action)


@pytest.mark.parametrize("name", TABULAR)
def test_no_step_before_reset(name):
    with pytest.raises(ModelError, match="step before reset"):
        gymnasium.make(name).unwrapped.step(0)


def test_actions_of_numpy():
    env = TabularEnv(GridWorld().to_mdp())
    for action in (3, np.int64(3), np.uint8(3), np.array(3)):
        env.reset(seed=0)
        assert env.step(action)[0] in (0, 1, 5)


@pytest.mark.parametrize("action", [*BAD_ACTIONS, [1, 9], np.array([0, -1]), True])
def test_actions_that_the_helicopter_does_not_know(action):
    with pytest.raises(PolicyError, match=r"action is .*whole numbers in 0 \.\. 8"):
        Helicopter().step(STATE, action, CALM)


@pytest.mark.parametrize("bad", [None, "a", 0.5, [0.0, 1.0, 2.0], ["a"] * 4, np.zeros(5)])
def test_states_and_noise_that_are_none(bad):
    with pytest.raises(DataError, match=r"state has .*expected numbers of shape \(\.\.\., 4\)"):
        Helicopter().step(bad, 4, CALM)
    with pytest.raises(DataError, match=r"noise has .*expected numbers of shape \(\.\.\., 4\)"):
        Helicopter().step(STATE, 4, bad)


def test_steps_of_lists_and_of_whole_floats():
    expected = Helicopter().step(STATE, 7, CALM)
    for state, action in ((STATE, 7.0), (STATE, np.uint8(7)), (STATE.tolist(), 7)):
        found = Helicopter().step(state, action, CALM)
        np.testing.assert_allclose(found[0], expected[0], atol=1e-7)
    # Tensors are not looked at: a GPU would have to wait.
    Helicopter().step(torch.tensor(STATE), torch.tensor(99), torch.tensor(CALM))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Helicopter(dt="0.5"), "dt is '0.5'"),
        (lambda: Helicopter(crash_reward="0.5"), "crash_reward is '0.5'"),
        (lambda: Helicopter(max_steps=True), "max_steps is True"),
        (lambda: Helicopter(max_steps=10**30), "max_steps is 10+"),
        (lambda: CartPole(extra_stochasticity="0.5"), "extra_stochasticity is '0.5'"),
    ],
)
def test_settings(make, message):
    with pytest.raises(SettingsError, match=message):
        make()


def test_numbers_of_numpy_become_plain_ones():
    given = Helicopter(dt=np.float64(0.1), max_steps=np.int32(100), start_speed=1)
    assert given == Helicopter()
    assert repr(given) == repr(Helicopter())
    assert given.step(STATE, 7, CALM)[0].dtype == np.float32
    assert type(CartPole(np.float32(0.5)).extra_stochasticity) is float


@pytest.mark.parametrize(
    ("change", "message"),
    [({"n_episodes": value}, "n_episodes is") for value in (1.5, "a", True, -1)]
    + [({"n_steps": value}, "n_steps is") for value in ("5", 1.5, True)]
    + [({"n_steps": 5, "n_runs": value}, "n_runs is") for value in ("5", 0, None)],
)
def test_lengths_of_evaluations(change, message):
    with pytest.raises(SettingsError, match=message):
        Helicopter().run_episodes(uniform, [1], **change)


@pytest.mark.parametrize(
    ("n_episodes", "rng", "message"),
    [(-1, RNG, "n_episodes is -1"), (1.5, RNG, "n_episodes is 1.5"), (2, None, "rng is None")],
)
def test_trajectories(n_episodes, rng, message):
    with pytest.raises(SettingsError, match=message):
        Helicopter().trajectories(uniform, n_episodes, rng)


@pytest.mark.parametrize("policy", [None, "uniform", np.full(9, 1 / 9)])
def test_policies_that_are_none(policy):
    for call in (
        lambda: Helicopter().collect(policy, 5, RNG),
        lambda: Helicopter().run_episodes(policy, [1], n_episodes=3),
        lambda: Helicopter().trajectories(policy, 3, RNG),
        lambda: collect_transitions(CartPole(), policy, 5, RNG),
    ):
        with pytest.raises(PolicyError, match=r"the policy is (NoneType|str|ndarray)"):
            call()


@pytest.mark.parametrize("env", ["CartPole-v1", None])
def test_names_are_no_environments(env):
    with pytest.raises(ModelError, match=r"observations are None.*gymnasium\.make"):
        collect_transitions(env, uniform, 5, RNG)


def test_an_environment_by_its_module():
    """Gymnasium 1.0 has dropped plugins: the module, named in the id, registers its own."""
    code = 'import gymnasium; gymnasium.make("spibb.envs:spibb/Helicopter-v0").reset(seed=0)'
    told = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
