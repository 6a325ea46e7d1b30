"""The plans: Wet Chicken as Scholl et al. ran it, the gridworld, toy-text, processes with costs.

``epsilon`` is the budget of the constraint itself, with delta = 1: errors as a scale. The random
MDPs' plans carry the paper's labels instead, which stand for twice the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from spibb.algorithms.adv_soft_spibb import AdvApproxSoftSPIBB, ExactAdvSoftSPIBB
from spibb.algorithms.base import Algorithm
from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.duipi import DUIPI
from spibb.algorithms.lower_soft_spibb import ExactLowerSoftSPIBB, LowerApproxSoftSPIBB
from spibb.algorithms.mbie import MBIE
from spibb.algorithms.penalised import RaMDP, RMin
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB, ExactSoftSPIBB
from spibb.algorithms.spibb_family import PiBSPIBB, PiLeqBSPIBB
from spibb.studies.drawing import ENDS
from spibb.studies.finite.plan import FinitePlan, FiniteSetting
from spibb.uncertainty.error_functions import HoeffdingQ

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
Grid = dict[str, tuple[float, ...]]

# The parameter of each family, and the algorithm of one value of it.
_FAMILIES: dict[str, tuple[str, Callable[[float], Algorithm]]] = {
    "RaMDP": ("kappa", lambda x: RaMDP(kappa=x)),
    "R-MIN": ("n_wedge", lambda x: RMin(n_wedge=x)),
    "MBIE": ("delta", lambda x: MBIE(delta=x)),
    "DUIPI": ("xi", lambda x: DUIPI(xi=x)),
    "Pi_b-SPIBB": ("n_wedge", lambda x: PiBSPIBB(n_wedge=x)),
    "Pi_<=b-SPIBB": ("n_wedge", lambda x: PiLeqBSPIBB(n_wedge=x)),
    "Exact-Soft-SPIBB": ("epsilon", lambda x: ExactSoftSPIBB(epsilon=x, delta=1.0)),
    "Approx-Soft-SPIBB": ("epsilon", lambda x: ApproxSoftSPIBB(epsilon=x, delta=1.0)),
    # Errors by counts, as Scholl et al. have them: a single trajectory has few returns of a pair.
    "Exact-Adv-Soft-SPIBB": (
        "epsilon",
        lambda x: ExactAdvSoftSPIBB(epsilon=x, delta=1.0, error=HoeffdingQ()),
    ),
    "Adv-Approx-Soft-SPIBB": (
        "epsilon",
        lambda x: AdvApproxSoftSPIBB(epsilon=x, delta=1.0, error=HoeffdingQ()),
    ),
    "Exact-Lower-Soft-SPIBB": ("epsilon", lambda x: ExactLowerSoftSPIBB(epsilon=x, delta=1.0)),
    "Lower-Approx-Soft-SPIBB": ("epsilon", lambda x: LowerApproxSoftSPIBB(epsilon=x, delta=1.0)),
}
_SMALL = (
    "RaMDP", "R-MIN", "DUIPI", "Pi_b-SPIBB", "Pi_<=b-SPIBB", "Exact-Soft-SPIBB",
    "Approx-Soft-SPIBB", "Lower-Approx-Soft-SPIBB",
)  # fmt: skip


def settings_on(
    process: str,
    grid: Grid,
    families: Iterable[str] = _FAMILIES,
    prefix: str = "",
    unseen: str = "",
    suffix: str = "",
) -> list[FiniteSetting]:
    """Return basic RL and some families, each with all values of its parameter, on one process.

    Args:
        process: Id of the process.
        grid: Values by parameter; a family whose parameter is not there is left out.
        families: Names of the families.
        prefix: What labels begin with, where a plan has several processes.
        unseen: What pairs without data do; empty: as the plan says.
        suffix: What names end with, where a plan has several such treatments.
    """
    more: dict[str, Any] = {"process": process, "unseen": unseen}
    found = [FiniteSetting.of(f"{prefix}Basic RL{suffix}", BasicRL(), **more)]
    for name in families:
        parameter, build = _FAMILIES[name]
        for value in grid.get(parameter, ()):
            label = f"{prefix}{name}{suffix}, {parameter}={value:g}"
            group = f"{parameter}: {name}{suffix}"
            found.append(FiniteSetting.of(label, build(value), group, float(value), **more))
    return found


def _wet_chicken() -> FinitePlan:
    grid: Grid = {
        "epsilon": EPSILONS,
        "n_wedge": (3, 7, 10, 20, 50),
        "kappa": (0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0),
        "xi": (0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0),
        "delta": (0.05, 0.5, 1.0),
    }
    return FinitePlan(
        study="finite",
        name="wet-chicken",
        seed=2022,
        n_runs=1_000,
        runs_per_job=4,
        etas=(0.1, 0.2, 0.5),
        sizes=(100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000),
        max_steps=0,
        unseen="average",
        settings=tuple(settings_on("wet-chicken", grid)),
    )


def _gridworld() -> FinitePlan:
    grid: Grid = {
        "epsilon": EPSILONS,
        "n_wedge": (5, 10, 20, 50, 100),
        "kappa": (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05),
        "xi": (0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0),
        "delta": (0.05, 0.5, 1.0),
    }
    return FinitePlan(
        study="finite",
        name="gridworld",
        seed=2023,
        n_runs=1_000,
        runs_per_job=1,
        # The standard baseline, and a strong one.
        etas=(0.1, 0.02),
        sizes=(10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000),
        max_steps=50,
        unseen="average",
        settings=tuple(settings_on("gridworld", grid)),
    )


def _toy_text() -> FinitePlan:
    grid: Grid = {
        "epsilon": (0.5, 1.0, 2.0, 5.0),
        "n_wedge": (5, 20),
        "kappa": (0.01, 0.1, 1.0),
        "xi": (0.1, 0.5, 1.0),
    }
    titles = {"frozen-lake": "FrozenLake", "cliff-walking": "CliffWalking", "taxi": "Taxi"}
    return FinitePlan(
        study="finite",
        name="toy-text",
        seed=2024,
        n_runs=100,
        runs_per_job=1,
        etas=(0.5, 0.9),
        sizes=(10, 30, 100, 300, 1_000, 3_000),
        max_steps=200,
        unseen="average",
        settings=tuple(
            setting
            for process, title in titles.items()
            for setting in settings_on(process, grid, _SMALL, f"{title}: ")
        ),
    )


def _costs() -> FinitePlan:
    """Return the plan that shows what pairs never tried do to algorithms, where rewards are costs.

    Each setting stands in it twice: such pairs do what their state does on average, or they end
    for nothing, as in the papers.
    """
    grid: Grid = {"epsilon": (1.0, 4.0), "n_wedge": (10,), "kappa": (0.5,)}
    families = ("RaMDP", "Pi_b-SPIBB", "Pi_<=b-SPIBB", "Approx-Soft-SPIBB")
    treatments = (("", "average"), (ENDS, "terminal"))
    return FinitePlan(
        study="finite",
        name="costs",
        seed=2026,
        n_runs=5_000,
        runs_per_job=50,
        etas=(0.1, 0.3),
        sizes=(10, 20, 50, 100, 200, 500, 1_000),
        max_steps=50,
        unseen="average",
        settings=tuple(
            setting
            for process in ("queue", "inventory", "maintenance")
            for suffix, unseen in treatments
            for setting in settings_on(process, grid, families, f"{process}: ", unseen, suffix)
        ),
    )


PLANS: dict[str, FinitePlan] = {
    plan.name: plan for plan in (_wet_chicken(), _gridworld(), _toy_text(), _costs())
}
