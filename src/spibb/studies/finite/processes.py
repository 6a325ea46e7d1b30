"""The fixed processes of the study, each with its baselines of several strengths.

Their strength is what the literature on the process varies: the share of uniform actions in Wet
Chicken and in the processes with costs, the temperature of the softmax in the gridworld, and for
the toy-text environments, as for random MDPs, eta: the performance between the uniform policy (0)
and the optimum (1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from spibb.envs.gridworld import GridWorld, softmax_policy
from spibb.envs.inventory import Inventory
from spibb.envs.maintenance import Maintenance
from spibb.envs.queue import Queue
from spibb.envs.sysadmin import SysAdmin
from spibb.envs.wet_chicken import WetChicken
from spibb.errors import SettingsError
from spibb.mdp.evaluation import evaluate
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy
from spibb.settings import checked_entry

# The temperature of a softened optimum is sought between these, in units of the range of Q*.
_COLDEST, _HOTTEST = 1e-9, 1e6
_HALVINGS = 60


class Process(NamedTuple):
    """A process that is the same in every run.

    Attributes:
        title: What figures call it.
        strength: The factor that varies its baselines: "share", "temperature" or "eta".
        make: gamma -> the exact process.
        soften: (exact process, strength) -> a baseline.
    """

    title: str
    strength: str
    make: Callable[[float], TabularMDP]
    soften: Callable[[TabularMDP, float], TabularPolicy]


class TrueProcess(NamedTuple):
    """What a study knows about a process, and its algorithms do not.

    Attributes:
        truth: The process.
        best: The largest performance in it.
    """

    truth: TabularMDP
    best: float


def find_process(name: str) -> Process:
    """Return a process by its id; other packages may have added it."""
    return checked_entry(name, PROCESSES, "process")


@lru_cache(maxsize=32)
def true_process(name: str, gamma: float) -> TrueProcess:
    """Build a process, once in each worker."""
    truth = find_process(name).make(gamma)
    return TrueProcess(truth, solve(truth).performance)


@lru_cache(maxsize=128)
def make_baseline(name: str, gamma: float, eta: float) -> TabularPolicy:
    """Build a baseline of a process, once in each worker."""
    return find_process(name).soften(true_process(name, gamma).truth, eta)


def softened_optimum(mdp: TabularMDP, eta: float) -> TabularPolicy:
    """Return the softmax of Q* with performance eta rho* + (1 - eta) rho_uniform.

    Example:
        >>> mdp = GridWorld().to_mdp(gamma=0.95)
        >>> best, worst = (evaluate(mdp, softened_optimum(mdp, eta)).performance for eta in (1, 0))
        >>> middle = evaluate(mdp, softened_optimum(mdp, 0.5)).performance
        >>> round((middle - worst) / (best - worst), 6)
        0.5
    """
    if not 0 <= eta <= 1:
        raise SettingsError(f"eta is {eta}", expected="a strength in [0, 1]")
    optimum = solve(mdp)
    uniform = TabularPolicy.uniform(mdp.n_states, mdp.n_actions)
    worst = evaluate(mdp, uniform).performance
    target = eta * optimum.performance + (1 - eta) * worst
    unit = max(float(np.ptp(optimum.q)), 1e-300)
    cold, hot = np.log(_COLDEST * unit), np.log(_HOTTEST * unit)
    # Whether or not performance falls all the way, the target is crossed between the two.
    for _ in range(_HALVINGS):
        middle = (cold + hot) / 2
        found = evaluate(mdp, softmax_policy(optimum.q, float(np.exp(middle)))).performance
        cold, hot = (middle, hot) if found > target else (cold, middle)
    return softmax_policy(optimum.q, float(np.exp(hot)))


def _by_entry(env: Any, gamma: float) -> TabularMDP:
    """Return an environment's process with what entering a state pays.

    ``from_gymnasium`` gives expected rewards, and a log of those keeps the reward of a slippery
    step to the goal without the end that goes with it: a pair seen once then looks worth staying.
    """
    dynamics = env.unwrapped.P
    n_states, n_actions = len(dynamics), len(dynamics[0])
    pairs = np.ndindex(n_states, n_actions)
    steps = [(x, a, *outcome) for x, a in pairs for outcome in dynamics[x][a]]
    ended = [successor for _, _, _, successor, _, terminated in steps if terminated]
    terminal = np.isin(np.arange(n_states), ended)
    transition, entry = np.zeros((n_states, n_actions, n_states)), np.zeros(n_states)
    for x, a, probability, successor, pay, _ in steps:
        if not terminal[x]:
            transition[x, a, successor] += probability
            entry[successor] = pay
    initial = np.asarray(env.unwrapped.initial_state_distrib, dtype=np.float64)
    return TabularMDP(transition, None, gamma, initial, terminal, entry_reward=entry)


def _heuristic(title: str, kind: type[Any]) -> Process:
    """Return a process whose standard baseline takes a share of uniform actions."""
    return Process(title, "share", kind().to_mdp, lambda mdp, share: kind().baseline(share))


def _toy_text(title: str, module: str, *, by_entry: bool = False) -> Process:
    """Return one of Gymnasium's environments, whose class is called by its title."""

    def make(gamma: float) -> TabularMDP:
        from spibb.envs.gym import from_gymnasium

        env = getattr(import_module(f"gymnasium.envs.toy_text.{module}"), f"{title}Env")()
        return _by_entry(env, gamma) if by_entry else from_gymnasium(env, gamma)

    return Process(title, "eta", make, softened_optimum)


def _soften_gridworld(mdp: TabularMDP, temperature: float) -> TabularPolicy:
    return GridWorld().baseline(temperature, mdp.gamma)


PROCESSES: dict[str, Process] = {
    "wet-chicken": _heuristic("Wet Chicken", WetChicken),
    "gridworld": Process("gridworld", "temperature", GridWorld().to_mdp, _soften_gridworld),
    "queue": _heuristic("queue", Queue),
    "inventory": _heuristic("inventory", Inventory),
    "maintenance": _heuristic("maintenance", Maintenance),
    "sysadmin": _heuristic("SysAdmin", SysAdmin),
    "frozen-lake": _toy_text("FrozenLake", "frozen_lake", by_entry=True),
    "cliff-walking": _toy_text("CliffWalking", "cliffwalking"),
    "taxi": _toy_text("Taxi", "taxi"),
}
