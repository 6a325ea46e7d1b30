"""Finite processes as Gymnasium environments, and Gymnasium's toy-text ones as finite processes.

The ids of all environments are registered here, those with continuous states included, when
``spibb.envs`` is imported; ``gymnasium.make("spibb.envs:spibb/Helicopter-v0")`` does both.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from spibb.envs.garnet import Garnet
from spibb.envs.gridworld import GridWorld
from spibb.envs.inventory import Inventory
from spibb.envs.maintenance import Maintenance
from spibb.envs.queue import Queue
from spibb.envs.sysadmin import SysAdmin
from spibb.envs.wet_chicken import WetChicken
from spibb.errors import ModelError, PolicyError
from spibb.mdp.model import TabularMDP

# Id, the function that makes it, and after how many steps it is cut off: None where the
# environment does that itself.
ENTRIES = {
    "spibb/Garnet-v0": ("spibb.envs.gym:make_garnet", 1_000),
    "spibb/GridWorld-v0": ("spibb.envs.gym:make_gridworld", 1_000),
    "spibb/WetChicken-v0": ("spibb.envs.gym:make_wet_chicken", 1_000),
    "spibb/Queue-v0": ("spibb.envs.gym:make_queue", 1_000),
    "spibb/Inventory-v0": ("spibb.envs.gym:make_inventory", 1_000),
    "spibb/Maintenance-v0": ("spibb.envs.gym:make_maintenance", 1_000),
    "spibb/SysAdmin-v0": ("spibb.envs.gym:make_sysadmin", 1_000),
    "spibb/Helicopter-v0": ("spibb.envs.gym_continuous:HelicopterEnv", None),
    "spibb/CartPole-v0": ("spibb.envs.cart_pole:CartPole", 200),
}


class TabularEnv(gymnasium.Env[np.int64, np.int64]):
    """A finite process as an environment.

    Rewards are those of the states entered, if the process tells them, else the expected R(x, a).

    Args:
        mdp: The process.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own declaration

    def __init__(self, mdp: TabularMDP) -> None:
        self.mdp = mdp
        self.observation_space = spaces.Discrete(mdp.n_states)
        self.action_space = spaces.Discrete(mdp.n_actions)
        self._state = -1  # until an episode begins

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._state = int(self.np_random.choice(self.mdp.n_states, p=self.mdp.initial))
        return np.int64(self._state), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Take an action."""
        check_step(self, action, is_begun=self._state >= 0)
        reward = float(self.mdp.reward[self._state, int(action)])
        row = self.mdp.dense[self._state, int(action)]
        total = row.sum()
        # What a row lacks to one is the probability of ending in place.
        if self.np_random.random() >= total:
            paid = reward if self.mdp.entry_reward is None else 0.0
            return np.int64(self._state), paid, True, False, {}
        self._state = int(self.np_random.choice(self.mdp.n_states, p=row / total))
        if self.mdp.entry_reward is not None:
            reward = float(self.mdp.entry_reward[self._state])
        return np.int64(self._state), reward, bool(self.mdp.terminal[self._state]), False, {}


def check_step(env: gymnasium.Env[Any, Any], action: Any, *, is_begun: bool) -> None:
    """Raise unless an episode has begun and the environment knows the action."""
    if not is_begun:
        raise ModelError("step before reset", hint="call env.reset() first")
    if not env.action_space.contains(action):
        last = getattr(env.action_space, "n", 0) - 1
        raise PolicyError(f"action is {action!r}", expected=f"a whole number in 0 .. {last}")


def from_gymnasium(env: gymnasium.Env[Any, Any], gamma: float) -> TabularMDP:
    """Return the exact process behind an environment that tells its dynamics as ``P``.

    FrozenLake, CliffWalking and Taxi do: ``P[state][action]`` lists
    ``(probability, next_state, reward, terminated)``.
    """
    inner: Any = env.unwrapped
    dynamics = getattr(inner, "P", None)
    if dynamics is None:
        raise ModelError(
            f"{type(inner).__name__} has no attribute P",
            expected="an environment that tells its dynamics, as FrozenLake, CliffWalking, Taxi",
        )
    n_states, n_actions = len(dynamics), len(dynamics[0])
    transition = np.zeros((n_states, n_actions, n_states))
    reward = np.zeros((n_states, n_actions))
    ending = np.zeros((n_states, n_actions))
    for x in range(n_states):
        for a in range(n_actions):
            for probability, successor, pay, terminated in dynamics[x][a]:
                reward[x, a] += probability * pay
                if terminated:
                    ending[x, a] += probability
                else:
                    transition[x, a, successor] += probability
    initial = np.asarray(getattr(inner, "initial_state_distrib", np.eye(n_states)[0]), dtype=float)
    return TabularMDP(transition, reward, gamma, initial, ending=ending)


def make_garnet(seed: int = 0, **shape: Any) -> TabularEnv:
    """Return the garnet of a seed."""
    return TabularEnv(Garnet.random(np.random.default_rng(seed), **shape).to_mdp())


def make_gridworld() -> TabularEnv:
    """Return the 5 x 5 gridworld."""
    return TabularEnv(GridWorld().to_mdp())


def make_wet_chicken() -> TabularEnv:
    """Return Wet Chicken."""
    return TabularEnv(WetChicken().to_mdp())


def make_queue() -> TabularEnv:
    """Return the queue."""
    return TabularEnv(Queue().to_mdp())


def make_inventory() -> TabularEnv:
    """Return the inventory."""
    return TabularEnv(Inventory().to_mdp())


def make_maintenance() -> TabularEnv:
    """Return the machine that wears out."""
    return TabularEnv(Maintenance().to_mdp())


def make_sysadmin(n_machines: int = 7) -> TabularEnv:
    """Return the machines that fail with others."""
    return TabularEnv(SysAdmin(n_machines).to_mdp())


def register() -> None:
    """Make the ids known to Gymnasium; safe to repeat."""
    for name, (entry, n_steps) in ENTRIES.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=entry, max_episode_steps=n_steps)
