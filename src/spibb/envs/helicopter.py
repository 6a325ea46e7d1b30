"""The helicopter of Laroche et al. (2019), appendix D: fly to the top right corner, not too fast.

State (x, y, vx, vy). Nine actions (ax, ay) in {-1, 0, 1}^2, numbered 3 (ax + 1) + (ay + 1). One
step of length dt = 0.1 obeys Newton's law with noise,

    x' = x + vx dt + ax |ax| dt^2 / 2 + N(0, 0.025),      vx' = vx + ax dt + N(0, 0.05),

likewise y. An episode ends when the helicopter leaves the open unit square, with reward
clip(1 / d - 4, -1, 10), d the distance to the corner (1, 1), or when a component of its velocity
reaches 1, with reward -1, which overrides; every other reward is 0. It starts uniformly in
[0, 1/3]^2 with both components of the velocity uniform in [-1, 1], and is cut off, truncated, after
100 steps. Everything is float32.

The arithmetic is one body for NumPy arrays and torch tensors of any device;
:mod:`spibb.envs.flights` flies many helicopters for many policies at once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.compiled.arrays import is_tensor, namespace
from spibb.compiled.random_numbers import check_rng
from spibb.deep.baseline import Probabilities, SoftmaxNetwork, as_function
from spibb.deep.transitions import Transitions
from spibb.envs.flights import Flight, FlightReturns, fly, returns_of
from spibb.errors import DataError, PolicyError, SettingsError, checked_number, checked_whole

N_ACTIONS = 9
N_DIMENSIONS = 4
BASELINE_FILE = "helicopter_baseline.safetensors"


@dataclass(frozen=True, kw_only=True)
class Helicopter:
    """The helicopter domain.

    Args:
        dt: Length of a step.
        position_noise: Standard deviation of the noise on each position.
        velocity_noise: Standard deviation of the noise on each component of the velocity.
        start_side: Side of the square at the origin where episodes start.
        start_speed: Starting velocities are uniform in [-start_speed, start_speed].
        max_speed: The episode ends when a component of the velocity reaches it.
        max_steps: Episodes are cut off after so many steps.
        reward_offset: Subtracted from 1 / distance to the corner.
        reward_low: Least reward of leaving the square.
        reward_high: Largest reward of leaving the square.
        crash_reward: Reward of flying too fast.

    Example:
        Full thrust to the right from rest, without noise:

        >>> helicopter = Helicopter()
        >>> state = np.array([0.5, 0.5, 0.0, 0.0], np.float32)
        >>> after, reward, terminated = helicopter.step(state, 7, np.zeros(4, np.float32))
        >>> after.tolist() == np.float32([0.505, 0.5, 0.1, 0.0]).tolist(), float(reward)
        (True, 0.0)
    """

    dt: float = 0.1
    position_noise: float = 0.025
    velocity_noise: float = 0.05
    start_side: float = 1 / 3
    start_speed: float = 1.0
    max_speed: float = 1.0
    max_steps: int = 100
    reward_offset: float = 4.0
    reward_low: float = -1.0
    reward_high: float = 10.0
    crash_reward: float = -1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_steps", checked_whole(self.max_steps, "max_steps"))
        for field in fields(self):
            if field.name != "max_steps":
                value = checked_number(getattr(self, field.name), field.name)
                if not np.isfinite(value):
                    raise SettingsError(f"{field.name} is {value}", expected="a finite number")
                object.__setattr__(self, field.name, value)
        for name, is_good, expected in (
            ("dt", self.dt > 0, "a length of time > 0"),
            ("position_noise", self.position_noise >= 0, "a standard deviation >= 0"),
            ("velocity_noise", self.velocity_noise >= 0, "a standard deviation >= 0"),
            ("start_side", 0 < self.start_side <= 1, "a side in (0, 1]"),
            ("start_speed", self.start_speed >= 0, "a speed >= 0"),
            ("max_speed", self.max_speed > 0, "a speed > 0"),
            ("reward_high", self.reward_high >= self.reward_low, "at least reward_low"),
        ):
            if not is_good:
                raise SettingsError(f"{name} is {getattr(self, name)}", expected=expected)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return N_ACTIONS

    def step(self, state: Any, action: Any, noise: Any) -> tuple[Any, Any, Any]:
        """Return the next states, the rewards, and whether the episodes ended.

        A pure function of arrays or tensors with any leading axes. Tensors are not checked, which
        would make a GPU wait.

        Args:
            state: States, shape (..., 4).
            action: Actions 0 .. 8, shape (...).
            noise: Standard normal numbers, shape (..., 4); they are scaled here.
        """
        if not is_tensor(state):
            state, action, noise = _checked_step(state, action, noise)
        xp = namespace(state)
        number = xp.asarray(action)
        thrust = xp.asarray(xp.stack((number // 3 - 1, number % 3 - 1), -1), dtype=state.dtype)
        position, velocity = state[..., :2], state[..., 2:]
        position = position + self.dt * velocity + 0.5 * self.dt**2 * thrust * abs(thrust)
        position = position + self.position_noise * noise[..., :2]
        velocity = velocity + self.dt * thrust + self.velocity_noise * noise[..., 2:]
        is_outside, is_too_fast = self._ends(position, velocity)
        reward = xp.where(is_outside, self.exit_reward(position), xp.zeros_like(position[..., 0]))
        reward = xp.where(is_too_fast, xp.full_like(reward, self.crash_reward), reward)
        return xp.concatenate((position, velocity), -1), reward, is_outside | is_too_fast

    def is_over(self, states: Any) -> Any:
        """Say in which states, shape (..., 4), an episode has ended: outside the box, too fast."""
        is_outside, is_too_fast = self._ends(states[..., :2], states[..., 2:])
        return is_outside | is_too_fast

    def _ends(self, position: Any, velocity: Any) -> tuple[Any, Any]:
        is_outside = ((position <= 0) | (position >= 1)).any(-1)
        return is_outside, (abs(velocity) >= self.max_speed).any(-1)

    def exit_reward(self, position: Any) -> Any:
        """Return the reward of leaving the square at positions of shape (..., 2)."""
        xp = namespace(position)
        distance = xp.sqrt(((position - 1) ** 2).sum(-1))
        # The corner itself: anything above the largest reward does.
        nearness = 1 / xp.clip(distance, 1e-6, None)
        return xp.clip(nearness - self.reward_offset, self.reward_low, self.reward_high)

    def start(self, uniforms: Any) -> Any:
        """Return starting states from uniform numbers in [0, 1), shape (..., 4)."""
        xp = namespace(uniforms)
        position = self.start_side * uniforms[..., :2]
        velocity = self.start_speed * (2 * uniforms[..., 2:] - 1)
        return xp.concatenate((position, velocity), -1)

    def collect(
        self, probabilities: Probabilities, n_transitions: int, rng: np.random.Generator
    ) -> Transitions:
        """Let a policy fly, episode after episode, until a data set has exactly its size.

        An episode cut off, by ``max_steps`` or because the data set is full, is truncated at its
        last transition.

        Args:
            probabilities: The policy: states (E, 4) to probabilities (E, 9), NumPy; a function, or
                an object with a method ``action_probabilities``.
            n_transitions: Size of the data set, >= 1.
            rng: Source of randomness.
        """
        n_transitions = checked_whole(n_transitions, "n_transitions")
        check_rng(rng)
        ask = _alone(probabilities)
        parts: list[Flight] = []
        n_found = 0
        while n_found < n_transitions:
            # Whole episodes in the order of their start: stopping at the first to finish would
            # prefer the short ones.
            n_episodes = (n_transitions - n_found) // 8 + 8
            seeds = rng.integers(2**63, size=1)
            steps = [
                Flight(*(part[0][step.is_flying[0]] for part in step))
                for step in fly(self, ask, seeds, 1, n_episodes)
            ]
            found = Flight(*(np.concatenate(column) for column in zip(*steps, strict=True)))
            order = np.argsort(found.lane, kind="stable")
            parts.append(Flight(*(column[order] for column in found)))
            n_found += len(order)
        flight = Flight(*(np.concatenate(c)[:n_transitions] for c in zip(*parts, strict=True)))
        truncated = flight.truncated.copy()
        truncated[-1] = not flight.terminated[-1]
        return Transitions.from_arrays(
            flight.state, flight.action, flight.reward, flight.next_state,
            flight.terminated, truncated, n_actions=N_ACTIONS,
        )  # fmt: skip

    def run_episodes(
        self,
        probabilities: Probabilities,
        seeds: ArrayLike,
        *,
        n_episodes: int | None = None,
        n_steps: int | None = None,
        n_runs: int = 1,
        device: str | None = None,
    ) -> FlightReturns:
        """Fly a population of policies and return what they earn, undiscounted.

        Give either ``n_episodes``, the long evaluation: every helicopter flies exactly one episode;
        or ``n_steps``, the paper's: a run is a sequence of episodes, a new one begins while fewer
        than ``n_steps`` steps were flown, and the last one is flown to its end and counts like the
        others, as in the authors' code.

        Args:
            probabilities: The policies: states (R, E, 4) to probabilities (R, E, 9), member r's in
                row r, arrays of the kind and on the device asked for. E shrinks as helicopters
                land. A function, or an object with a method ``action_probabilities``.
            seeds: One whole number per member, shape (R,): all its randomness.
            n_episodes: Episodes of each member.
            n_steps: Length of a run.
            n_runs: Independent runs of each member; only with ``n_steps``.
            device: None for NumPy arrays, else where the tensors shall live.
        """
        if (n_episodes is None) == (n_steps is None):
            raise SettingsError(
                f"n_episodes is {n_episodes} and n_steps is {n_steps}",
                expected="exactly one of them",
            )
        n_runs = checked_whole(n_runs, "n_runs")
        if n_episodes is None:
            n_steps = checked_whole(n_steps, "n_steps")
        elif n_runs == 1:
            n_steps, n_runs = 1, checked_whole(n_episodes, "n_episodes")
        else:
            raise SettingsError(f"n_runs is {n_runs}", expected="1 where n_episodes is given")
        return returns_of(self, probabilities, seeds, n_steps=n_steps, n_runs=n_runs, device=device)

    def trajectories(
        self, probabilities: Probabilities, n_episodes: int, rng: np.random.Generator
    ) -> list[NDArray[np.float32]]:
        """Return the states of whole episodes, each of shape (steps + 1, 4)."""
        n_episodes = checked_whole(n_episodes, "n_episodes")
        check_rng(rng)
        seeds = rng.integers(2**63, size=1)
        paths: list[list[NDArray[np.float32]]] = [[] for _ in range(n_episodes)]
        for flight in fly(self, _alone(probabilities), seeds, 1, n_episodes):
            for e in np.flatnonzero(flight.is_flying[0]):
                path = paths[flight.lane[0, e]]
                path += [flight.state[0, e]] if not path else []
                path.append(flight.next_state[0, e])
        return [np.array(path) for path in paths]

    def baseline(self) -> SoftmaxNetwork:
        """Return the shipped baseline: softmax, temperature 0.1, of an online DQN's Q-network.

        ``examples/train_helicopter_baseline.py`` made it, of about the paper's strength: mean
        return 2.3, and the file's metadata say how and what was measured.
        """
        return _shipped_baseline()


def _alone(policy: Any) -> Probabilities:
    """Return a policy of states (E, 4) as a population of one."""
    ask = as_function(policy)
    return lambda states: np.asarray(ask(states[0]))[None]


def _checked_step(state: Any, action: Any, noise: Any) -> tuple[NDArray[Any], ...]:
    """Return what a step is given as arrays, or name what cannot be flown."""
    arrays = []
    for name, values in (("state", state), ("noise", noise)):
        array = np.asarray(values)
        if array.dtype.kind not in "iuf" or array.shape[-1:] != (N_DIMENSIONS,):
            raise DataError(
                f"{name} has shape {array.shape} and type {array.dtype}",
                expected=f"numbers of shape (..., {N_DIMENSIONS})",
            )
        arrays.append(array)
    number = np.asarray(action)
    is_known = number.dtype.kind in "iuf" and (
        (number >= 0) & (number < N_ACTIONS) & (number == np.floor(number))
    )
    if not np.all(is_known):
        raise PolicyError(f"action is {number}", expected=f"whole numbers in 0 .. {N_ACTIONS - 1}")
    return arrays[0], number, arrays[1]


@lru_cache(maxsize=1)
def _shipped_baseline() -> SoftmaxNetwork:
    with resources.as_file(resources.files("spibb.envs") / BASELINE_FILE) as path:
        return SoftmaxNetwork.read(path)
