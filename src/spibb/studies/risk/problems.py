"""The problems of the study on risk: processes of many shapes, each with a heuristic baseline.

Grid, priors and the default of caution were decided on the first half of them, on other seeds than
those of the plans; the second half was looked at when all was decided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from spibb.envs.cliff import Cliff
from spibb.envs.garnet import Garnet
from spibb.envs.icu_sepsis import ICUSepsis
from spibb.envs.inventory import Inventory
from spibb.envs.maintenance import Maintenance
from spibb.envs.queue import Queue
from spibb.envs.rare_action import RareAction
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.settings import checked_entry
from spibb.studies.finite.processes import PROCESSES

Made = tuple[TabularMDP, TabularPolicy]


@dataclass(frozen=True)
class RiskProblem:
    """A process and its baseline.

    Attributes:
        title: What tables call it.
        make: Draws the process and makes the baseline.
        max_steps: Longest episode.
        has_decided: Whether anything was decided on it.
        is_fixed: Whether it is the same for every run.
    """

    title: str
    make: Callable[[np.random.Generator], Made]
    max_steps: int = 50
    has_decided: bool = False
    is_fixed: bool = True


def find_problem(name: str) -> RiskProblem:
    """Return a problem by its name."""
    return checked_entry(name, PROBLEMS, "problem")


def _garnet(eta: float, rng: np.random.Generator) -> Made:
    """Return a random MDP as the paper has it: its second goal came after the baseline."""
    garnet = Garnet.random(rng)
    return garnet.with_second_goal(rng, 1.0).mdp, garnet.baseline(eta, rng)


def _random_mdps(eta: float) -> RiskProblem:
    return RiskProblem(
        f"random MDPs, eta {eta:g}", partial(_garnet, eta), has_decided=eta in (0.1, 0.5, 0.9),
        is_fixed=False,
    )  # fmt: skip


def _of(env: Any, gamma: float, share: float) -> Callable[[np.random.Generator], Made]:
    return lambda rng: (env.to_mdp(gamma), env.baseline(share))


def _process(name: str, gamma: float, strength: float) -> Callable[[np.random.Generator], Made]:
    def make(rng: np.random.Generator) -> Made:
        process = PROCESSES[name]
        truth = process.make(gamma)
        return truth, process.soften(truth, strength)

    return make


def _sepsis(rng: np.random.Generator) -> Made:
    return ICUSepsis().to_mdp(), ICUSepsis().baseline()


ETAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PROBLEMS: dict[str, RiskProblem] = {
    **{f"random-mdps-{eta:g}": _random_mdps(eta) for eta in ETAS},
    "queue": RiskProblem("queue", _of(Queue(), 0.95, 0.1), has_decided=True),
    "inventory": RiskProblem("inventory", _of(Inventory(), 0.95, 0.1), has_decided=True),
    "maintenance": RiskProblem("maintenance", _of(Maintenance(), 0.95, 0.1), has_decided=True),
    "rare-best": RiskProblem(
        "a rare drug that is best", _of(RareAction(), 0.9, 0.3), 40, has_decided=True
    ),
    "rare-ruinous": RiskProblem(
        "a rare drug that ruins", _of(RareAction(is_ruinous=True), 0.9, 0.3), 40, has_decided=True
    ),
    "cliff": RiskProblem("cliff", _of(Cliff(), 0.99, 0.3), 200, has_decided=True),
    "wet-chicken": RiskProblem("Wet Chicken", _process("wet-chicken", 0.95, 0.1), has_decided=True),
    "gridworld": RiskProblem("gridworld", _process("gridworld", 0.95, 0.1)),
    "queue-short": RiskProblem("queue, gamma .8", _of(Queue(), 0.8, 0.3)),
    "inventory-long": RiskProblem("inventory, gamma .99", _of(Inventory(), 0.99, 0.3)),
    "maintenance-long": RiskProblem("maintenance, gamma .99", _of(Maintenance(), 0.99, 0.3)),
    "rare-ruinous-long": RiskProblem(
        "a rarer drug that ruins, gamma .97", _of(RareAction(is_ruinous=True), 0.97, 0.15), 40
    ),
    "wet-chicken-bold": RiskProblem("Wet Chicken, half random", _process("wet-chicken", 0.95, 0.5)),
    "frozen-lake": RiskProblem("FrozenLake", _process("frozen-lake", 0.95, 0.5), 200),
    "cliff-walking": RiskProblem("CliffWalking", _process("cliff-walking", 0.95, 0.5), 200),
    "sepsis": RiskProblem("ICU-Sepsis", _sepsis, 1_000),
}
