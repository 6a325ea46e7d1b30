"""Fly many helicopters for many policies at once.

States have shape (members, helicopters, d), on NumPy arrays or on torch tensors of any device.
Random numbers are counter-based: what a member meets depends on its own seed alone, not on the
others of its population, on the kind of array or on the device (up to rounding). Of E helicopters
of a member, number e uses at step t the five numbers from 5 (E t + e) on of the stream of flights
(four for the noise by Box and Muller's transform, one for the action), and starts an episode there
with the four from 4 (E t + e) on of the stream of starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.compiled.arrays import is_tensor, namespace, on_device, to_numpy
from spibb.compiled.random_numbers import FLIGHTS, STARTS, signed, uniforms
from spibb.deep.baseline import Probabilities, as_function
from spibb.errors import PolicyError, SettingsError

# Numbers drawn a step: four for the noise, one for the action.
_N_DRAWS = 5
# Helicopters that have landed are dropped when less than this share still flies.
_CROWDED = 0.8


class Domain(Protocol):
    """What can be flown: four uniform numbers make a start, four normal ones a step's noise."""

    @property
    def max_steps(self) -> int:
        """Longest episode."""

    @property
    def n_actions(self) -> int:
        """Number of actions."""

    def start(self, uniforms: Any) -> Any:
        """Return starting states."""

    def step(self, state: Any, action: Any, noise: Any) -> tuple[Any, Any, Any]:
        """Return next states, rewards, and whether the episodes ended."""


@dataclass(frozen=True, eq=False)
class FlightReturns:
    """What a population earned: R members, E runs each.

    Args:
        total: Sum of the undiscounted returns of a run's episodes, shape (R, E).
        n_episodes: Episodes of a run, shape (R, E).
        n_steps: Steps of a run, shape (R, E).
    """

    total: NDArray[np.float64]
    n_episodes: NDArray[np.int64]
    n_steps: NDArray[np.int64]

    @property
    def score(self) -> NDArray[np.float64]:
        """Mean return of each run's episodes, shape (R, E): the paper's score of a training."""
        return self.total / self.n_episodes

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean return of each member over all its episodes, shape (R,)."""
        found: NDArray[np.float64] = self.total.sum(axis=1) / self.n_episodes.sum(axis=1)
        return found


class Flight(NamedTuple):
    """One step of all helicopters, each field of shape (R, E) or (R, E, 4)."""

    lane: Any
    is_flying: Any
    state: Any
    action: Any
    reward: Any
    next_state: Any
    terminated: Any
    truncated: Any


def fly(
    domain: Domain,
    probabilities: Probabilities,
    seeds: NDArray[Any],
    n_steps: int,
    n_runs: int,
    device: str | None = None,
) -> Iterator[Flight]:
    """Yield one step of all helicopters after another, until all runs are over.

    A run is a sequence of episodes; a new one begins while fewer than ``n_steps`` steps were flown.

    Args:
        domain: What is flown.
        probabilities: The policies: states (R, E, d) to probabilities (R, E, A); a function, or
            an object with a method ``action_probabilities``.
        seeds: One whole number per member, shape (R,).
        n_steps: Length of a run; 1 makes it one episode.
        n_runs: Runs of each member.
        device: None for NumPy arrays, else where the tensors shall live.
    """
    ask = as_function(probabilities)
    key = _keys(seeds, device)
    lane = on_device(np.arange(len(seeds) * n_runs).reshape(len(seeds), n_runs), device)
    xp = namespace(lane)
    age, n_flown = xp.zeros_like(lane), xp.zeros_like(lane)
    is_flying = age == 0
    is_good = is_flying.all(1)
    state = domain.start(_uniforms(key, STARTS, lane % n_runs, 4))
    for t in range(n_steps + domain.max_steps - 1):
        policy = _checked(ask(state), state, domain.n_actions)
        is_row = (policy >= 0).all(-1) & (abs(policy.sum(-1) - 1) < 1e-3)  # false for NaN
        is_good = is_good & is_row.all(1)
        draws = _uniforms(key, FLIGHTS, t * n_runs + lane % n_runs, _N_DRAWS)
        # Never beyond the last action, also where the row sums to a little less than one.
        action = (policy.cumsum(-1)[..., :-1] <= draws[..., 4:]).sum(-1)
        after, reward, terminated = domain.step(state, action, _normals(draws[..., :4]))
        age, n_flown = age + 1, n_flown + is_flying
        truncated = (age >= domain.max_steps) & ~terminated
        is_over = terminated | truncated
        yield Flight(lane, is_flying, state, action, reward, after, terminated, truncated)
        is_flying = is_flying & ~(is_over & (n_flown >= n_steps))
        n_left = int(is_flying.sum(1).max())
        if n_left == 0:
            break
        state = after
        if n_steps > 1:
            fresh = domain.start(_uniforms(key, STARTS, (t + 1) * n_runs + lane % n_runs, 4))
            state = xp.where(is_over[..., None], fresh, after)
            age = xp.where(is_over, xp.zeros_like(age), age)
        if n_left <= _CROWDED * is_flying.shape[1]:
            # Those that fly move to the front, in their order; the rest is dropped.
            place = xp.ones_like(lane).cumsum(1) + (~is_flying) * n_runs
            kept, row = place.argsort(1)[:, :n_left], lane[:, :n_left] // n_runs
            state, lane, age, n_flown, is_flying = (
                part[row, kept] for part in (state, lane, age, n_flown, is_flying)
            )
    _check_finite(is_good)


def returns_of(
    domain: Domain,
    probabilities: Probabilities,
    seeds: ArrayLike,
    *,
    n_steps: int,
    n_runs: int,
    device: str | None = None,
) -> FlightReturns:
    """Fly the runs and return what they earned."""
    keys = np.asarray(seeds)
    if keys.ndim != 1 or keys.size == 0 or keys.dtype.kind not in "iu":
        raise SettingsError(
            f"seeds has shape {keys.shape} and type {keys.dtype}",
            expected="one whole number per member, shape (R,)",
        )
    size = len(keys) * n_runs
    total = on_device(np.zeros(size), device)
    steps, episodes = (on_device(np.zeros(size, np.int64), device) for _ in range(2))
    for flight in fly(domain, probabilities, keys, n_steps, n_runs, device):
        # A helicopter is in one place only, so plain indexed addition is safe.
        total[flight.lane] += flight.reward * flight.is_flying
        steps[flight.lane] += flight.is_flying
        episodes[flight.lane] += (flight.terminated | flight.truncated) & flight.is_flying
    shape = (len(keys), n_runs)
    return FlightReturns(*(to_numpy(part).reshape(shape) for part in (total, episodes, steps)))


def _check_finite(is_good: Any) -> None:
    if not bool(is_good.all()):
        raise PolicyError(
            "a policy returned rows that are not distributions",
            where=f"member {int((~is_good).nonzero()[0][0])}",
            expected="probabilities that sum to one, never NaN",
            hint="leave members whose training diverged out of the evaluation",
        )


def _keys(seeds: NDArray[Any], device: str | None) -> Any:
    """Return the members' keys, shape (R, 1, 1): signed for torch, which knows no others."""
    keys = seeds.astype(np.uint64)[:, None, None]
    return keys if device is None else on_device(signed(keys), device)


def _uniforms(key: Any, stream: int, place: Any, n_draws: int) -> Any:
    """Return ``n_draws`` float32 numbers in [0, 1) for each place, shape (R, E, n_draws)."""
    index = namespace(place).stack([place * n_draws + k for k in range(n_draws)], -1)
    return uniforms(key, stream, index)


def _normals(draws: Any) -> Any:
    """Return four standard normal numbers from four uniform ones (Box and Muller 1958)."""
    xp = namespace(draws)
    radius = xp.sqrt(-2 * xp.log(1 - draws[..., :2]))  # 1 - u is never 0
    angle = 2 * np.pi * draws[..., 2:]
    return xp.concatenate((radius * xp.cos(angle), radius * xp.sin(angle)), -1)


def _checked(policy: Any, state: Any, n_actions: int) -> Any:
    """Return what a policy gave if it has the shape and the kind of array expected."""
    expected = (*state.shape[:-1], n_actions)
    policy = policy if is_tensor(policy) else np.asarray(policy)
    if is_tensor(policy) != is_tensor(state) or tuple(policy.shape) != expected:
        raise PolicyError(
            f"a policy returned {type(policy).__name__} of shape {tuple(np.shape(policy))}",
            expected=f"probabilities of shape {expected}, as {type(state).__name__}",
        )
    return policy
