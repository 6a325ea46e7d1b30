"""Simulators whose raw columns are seen by those who act, and encoded into states by an analyst.

The behaviour policy acts on raw columns. A log holds a state label in their place, made from some
of the columns. A policy for labels is then run in the process itself, so that its true gain over
the behaviour policy is known, whatever the labels hide.

Two policies that run with one seed share the noise of the process (common random numbers): noise
comes from one stream, the numbers that choose actions from a second one, and neither takes more
or fewer numbers because of the actions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.data.log import Log
from spibb.studies.representations.encoding import Columns, Encode, Part, cross

# Columns of the current step and one uniform number for each episode -> actions.
Act = Callable[[Columns, NDArray[np.float64]], NDArray[np.int64]]
# What a process remembers of each episode, its hidden part included; steps change it in place.
Hidden = dict[str, NDArray[np.float64]]

# The discount beyond which returns are not counted, and the longest horizon.
_NEGLIGIBLE = 0.02
_LONGEST = 500


class Process(Protocol):
    """A process of many episodes at once; it draws as many numbers whatever the actions are."""

    def start(self, n: int, rng: np.random.Generator) -> Hidden:
        """Draw the beginning of each of ``n`` episodes."""

    def read(self, hidden: Hidden, rng: np.random.Generator) -> Columns:
        """Return the raw columns of the current step; a missing reading is NaN."""

    def step(
        self, hidden: Hidden, action: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Take a step; return its rewards, and which episodes end with it."""


@dataclass(frozen=True, eq=False)
class Records:
    """Episodes of a simulator, each array of shape (episodes, steps).

    Attributes:
        columns: Raw columns by name; empty where they were not kept.
        action: Actions taken.
        reward: Rewards, 0 where there is no row.
        alive: Which rows exist.
        terminated: Which rows end their process.
    """

    columns: Columns
    action: NDArray[np.int64]
    reward: NDArray[np.float64]
    alive: NDArray[np.bool_]
    terminated: NDArray[np.bool_]


class Run(Protocol):
    """Run a policy in a process."""

    def __call__(
        self,
        act: Act,
        n: int,
        n_steps: int,
        rng: np.random.Generator,
        keep_columns: bool = True,
    ) -> Records:
        """Return ``n`` records of at most ``n_steps`` rows."""


@dataclass(frozen=True, eq=False)
class Representation:
    """A way to encode raw columns into states.

    Attributes:
        name: Short name.
        title: What figures and tables call it.
        is_adequate: Whether states hold what matters of the process, small remainders apart.
        columns: Raw columns that it uses.
        encode: State codes of rows, from 0.
        n_states: Number of states.
    """

    name: str
    title: str
    is_adequate: bool
    columns: tuple[str, ...]
    encode: Encode
    n_states: int

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        *parts: Part,
        is_adequate: bool = False,
    ) -> Representation:
        """Make a representation whose states are the combinations of encoded columns."""
        encode, n_states = cross(*parts)
        columns = tuple(part.column for part in parts)
        return cls(name, title, is_adequate, columns, encode, n_states)


@dataclass(frozen=True, eq=False)
class Simulator:
    """A process with raw columns, those who act in it, and representations of its states.

    Attributes:
        name: Short name.
        title: What figures and tables call it.
        gamma: Discount.
        n_steps: Longest record; a process that goes on beyond it is truncated.
        actions: Names of the actions.
        columns: Names of the raw columns.
        categorical: Which of them are codes of categories.
        sizes: Numbers of episodes of a small, a middle and a large log.
        representations: Ways to encode states, one of them adequate.
        behave: The behaviour policy, which acts on raw columns.
        run: Run a policy.
    """

    name: str
    title: str
    gamma: float
    n_steps: int
    actions: tuple[str, ...]
    columns: tuple[str, ...]
    categorical: tuple[str, ...]
    sizes: tuple[int, int, int]
    representations: tuple[Representation, ...]
    behave: Act
    run: Run

    @property
    def adequate(self) -> Representation:
        """The adequate representation."""
        return next(one for one in self.representations if one.is_adequate)

    @property
    def horizon(self) -> int:
        """Number of steps beyond which returns are not counted."""
        if self.gamma == 0.0 or self.n_steps == 1:
            return 1
        if self.gamma == 1.0:
            return _LONGEST
        return min(ceil(log(_NEGLIGIBLE) / log(self.gamma)), _LONGEST)


def runner(process: Process) -> Run:
    """Return the function that runs policies in a process."""

    def run(
        act: Act, n: int, n_steps: int, rng: np.random.Generator, keep_columns: bool = True
    ) -> Records:
        (chooser,) = rng.spawn(1)
        hidden, alive = process.start(n, rng), np.ones(n, dtype=bool)
        rows: list[Columns] = []
        action = np.zeros((n_steps, n), dtype=np.int64)
        reward = np.zeros((n_steps, n))
        exists, terminated = np.zeros((2, n_steps, n), dtype=bool)
        for step in range(n_steps):
            columns = process.read(hidden, rng)
            action[step] = act(columns, chooser.random(n))
            earned, ended = process.step(hidden, action[step], rng)
            reward[step] = np.where(alive, earned, 0.0)
            exists[step], terminated[step] = alive, alive & ended
            alive = alive & ~ended
            if keep_columns:
                rows.append(columns)
            if not alive.any():
                break
        return Records(_stacked(rows, n_steps), action.T, reward.T, exists.T, terminated.T)

    return run


def _stacked(rows: list[Columns], n_steps: int) -> Columns:
    """Join the columns of steps; steps after the last one repeat it, and no row of them exists."""
    rows = rows + rows[-1:] * (n_steps - len(rows))
    return {name: np.stack([row[name] for row in rows], axis=1) for name in rows[0]} if rows else {}


def simulate_log(
    simulator: Simulator,
    representation: Representation,
    n_episodes: int,
    rng: np.random.Generator,
) -> tuple[Log, Columns]:
    """Log the behaviour policy; return the log and the raw columns of its rows, in its order.

    Args:
        simulator: The simulator.
        representation: What makes states of raw columns.
        n_episodes: Number of episodes.
        rng: Source of randomness; the same seed gives the same rows for every representation.
    """
    records = simulator.run(simulator.behave, n_episodes, simulator.n_steps, rng)
    alive = records.alive
    columns = {name: column[alive] for name, column in records.columns.items()}
    lengths = alive.sum(axis=1)
    terminated = records.terminated[alive]
    is_last = np.zeros(len(terminated), dtype=bool)
    is_last[np.cumsum(lengths) - 1] = True
    log = Log.from_arrays(
        state=representation.encode(columns),
        action=records.action[alive],
        reward=records.reward[alive],
        terminated=terminated,
        truncated=is_last & ~terminated,
        episode=np.repeat(np.arange(n_episodes), lengths),
        n_states=representation.n_states,
        action_labels=simulator.actions,
    )
    return log, columns


def choose(probabilities: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the action that each uniform number chooses from its row of probabilities."""
    passed = np.cumsum(probabilities, axis=1)[:, :-1] <= u[:, None]
    return np.asarray(passed.sum(axis=1))


def table_act(representation: Representation, table: ArrayLike) -> Act:
    """Return the policy that sees state labels alone.

    Args:
        representation: What makes states of raw columns.
        table: Probabilities of actions, shape (states, actions).
    """
    # Sums are compared with numbers below 1, so a row that sums to a little less is no trouble.
    cumulated = np.cumsum(np.asarray(table, dtype=np.float64), axis=1)[:, :-1]

    def act(columns: Columns, u: NDArray[np.float64]) -> NDArray[np.int64]:
        passed = cumulated[representation.encode(columns)] <= u[:, None]
        return np.asarray(passed.sum(axis=1))

    return act


def true_value(simulator: Simulator, act: Act, n: int, seed: int) -> NDArray[np.float64]:
    """Return discounted returns of a policy, one of each of ``n`` episodes.

    Args:
        simulator: The simulator.
        act: The policy, on raw columns.
        n: Number of episodes.
        seed: Seed; policies with the same one share the noise of the process.
    """
    rng = np.random.default_rng(seed)
    records = simulator.run(act, n, simulator.horizon, rng, keep_columns=False)
    return np.asarray(records.reward @ simulator.gamma ** np.arange(simulator.horizon))


@lru_cache(maxsize=64)
def behaviour_returns(simulator: Simulator, n: int, seed: int) -> NDArray[np.float64]:
    """Return the discounted returns of the behaviour policy; they are computed once."""
    returns = true_value(simulator, simulator.behave, n, seed)
    returns.flags.writeable = False
    return returns


def true_gain(
    simulator: Simulator,
    representation: Representation,
    table: ArrayLike,
    n: int | None = None,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the true gain of a policy over the behaviour policy, and its standard error.

    Args:
        simulator: The simulator.
        representation: What makes states of raw columns.
        table: Probabilities of actions, shape (states, actions).
        n: Number of episodes, each with the same noise under both policies; None: 4,000, or
            100,000 of one step.
        seed: Seed of the noise.
    """
    if n is None:
        n = 100_000 if simulator.n_steps == 1 else 4_000
    returns = true_value(simulator, table_act(representation, table), n, seed)
    gains = returns - behaviour_returns(simulator, n, seed)
    return float(gains.mean()), float(gains.std(ddof=1) / n**0.5)
