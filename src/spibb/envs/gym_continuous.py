"""Continuous states through Gymnasium: the helicopter, and data sets of any environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from spibb.compiled.random_numbers import check_rng
from spibb.deep.baseline import as_function
from spibb.deep.transitions import Transitions
from spibb.envs.gym import check_step
from spibb.envs.helicopter import N_ACTIONS, N_DIMENSIONS, Helicopter
from spibb.errors import ModelError, PolicyError, SettingsError, checked_whole

Observation = NDArray[np.float32]


class HelicopterEnv(gymnasium.Env[Observation, np.int64]):
    """The helicopter as an environment; steps are those of :class:`spibb.envs.Helicopter`.

    ``render_mode="rgb_array"`` draws the box, the start region, the rewards and the flight so far.

    Args:
        render_mode: None or "rgb_array".
        settings: Settings of the domain.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium's own declaration
        "render_modes": ["rgb_array"],
        "render_fps": 10,
    }

    def __init__(self, render_mode: str | None = None, **settings: Any) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise SettingsError(f"render_mode is {render_mode!r}", expected="None or 'rgb_array'")
        self.render_mode = render_mode
        self.helicopter = Helicopter(**settings)
        self.observation_space = _reach(self.helicopter)
        self.action_space = spaces.Discrete(N_ACTIONS)
        self._path: list[Observation] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        state = self.helicopter.start(self.np_random.random(N_DIMENSIONS, dtype=np.float32))
        self._path = [state]
        return state.copy(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take an action."""
        check_step(self, action, is_begun=bool(self._path))
        noise = self.np_random.standard_normal(N_DIMENSIONS, dtype=np.float32)
        state, reward, terminated = self.helicopter.step(self._path[-1], action, noise)
        self._path.append(state)
        is_cut = len(self._path) > self.helicopter.max_steps and not terminated
        return state.copy(), float(reward), bool(terminated), is_cut, {}

    def render(self) -> Any:
        """Return the picture as an array of shape (400, 400, 3), or None without a mode."""
        if self.render_mode is None:
            return None
        from spibb.envs.helicopter_picture import render_rgb

        return render_rgb(self.helicopter, [np.array(self._path)] if self._path else [])


def _reach(helicopter: Helicopter) -> Any:
    """Return where a flight can be, its end included; noise of 20 standard deviations is none."""
    speed = max(helicopter.max_speed, helicopter.start_speed)
    beyond = helicopter.dt * speed + helicopter.dt**2 / 2 + 20 * helicopter.position_noise
    fastest = speed + helicopter.dt + 20 * helicopter.velocity_noise
    low = np.array([-beyond, -beyond, -fastest, -fastest], np.float32)
    high = np.array([1 + beyond, 1 + beyond, fastest, fastest], np.float32)
    return spaces.Box(low, high, dtype=np.float32)


def collect_transitions(
    env: gymnasium.Env[Any, Any],
    probabilities: Any,
    n_transitions: int,
    rng: np.random.Generator,
) -> Transitions:
    """Let a policy act in an environment until a data set has exactly its size.

    An episode cut off, by the environment or because the data set is full, is truncated there.

    Args:
        env: An environment with a one-dimensional Box of observations and Discrete actions.
        probabilities: The policy: states (1, d) to probabilities (1, A); a function, or an object
            with a method of this name.
        n_transitions: Size of the data set, >= 1.
        rng: Source of randomness, for the policy and the environment's seed.
    """
    space, actions = (getattr(env, name, None) for name in ("observation_space", "action_space"))
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise ModelError(
            f"observations are {space}",
            expected="a Box of shape (d,)",
            hint='give an environment with one, as gymnasium.make("CartPole-v1")',
        )
    if not isinstance(actions, spaces.Discrete):
        raise ModelError(f"actions are {actions}", expected="a Discrete space")
    n_transitions = checked_whole(n_transitions, "n_transitions")
    check_rng(rng)
    n_actions = int(actions.n)
    ask = as_function(probabilities)
    state, _ = env.reset(seed=int(rng.integers(2**31)))
    rows = []
    for step in range(n_transitions):
        row = np.asarray(ask(np.asarray(state, np.float32)[None]), dtype=np.float64)
        if row.shape != (1, n_actions) or not abs(row.sum() - 1) < 1e-3 or (row < 0).any():
            raise PolicyError(
                f"the policy returned {row}",
                where=f"step {step}",
                expected=f"a distribution over {n_actions} actions, shape (1, {n_actions})",
            )
        action = int(rng.choice(n_actions, p=row[0] / row.sum()))
        after, reward, terminated, truncated, _ = env.step(actions.start + action)
        is_cut = not terminated and (truncated or step == n_transitions - 1)
        rows.append((state, action, reward, after, terminated, is_cut))
        state = env.reset()[0] if terminated or truncated else after
    return Transitions.from_arrays(
        *(np.array(column) for column in zip(*rows, strict=True)), n_actions=n_actions
    )
