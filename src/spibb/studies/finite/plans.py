"""The plans: Wet Chicken as Scholl et al. ran it, the gridworld, toy-text, processes with costs.

``epsilon`` is the budget of the constraint itself, with delta = 1: errors as a scale. The random
MDPs' plans carry the paper's labels instead, which stand for twice the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

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


def _settings(
    grid: Grid, families: Iterable[str] = _FAMILIES, unseen: str = "", suffix: str = ""
) -> list[FiniteSetting]:
    """Return basic RL and some families, each with all values of its parameter.

    Args:
        grid: Values by parameter; a family whose parameter is not there is left out.
        families: Names of the families.
        unseen: What pairs without data do; empty: as the plan says.
        suffix: What names end with, where a plan has several such treatments.
    """
    found = [FiniteSetting.of(f"Basic RL{suffix}", BasicRL(), unseen=unseen)]
    for name in families:
        parameter, build = _FAMILIES[name]
        found += [
            FiniteSetting.of(f"{name}{suffix}", build(x), parameter, float(x), unseen=unseen)
            for x in grid.get(parameter, ())
        ]
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
        name="wet-chicken",
        seed=2022,
        n_runs=1_000,
        runs_per_job=4,
        process=("wet-chicken",),
        share=(0.1, 0.2, 0.5),
        steps=(100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000),
        unseen="average",
        settings=tuple(_settings(grid)),
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
        name="gridworld",
        seed=2023,
        n_runs=1_000,
        runs_per_job=1,
        process=("gridworld",),
        # The standard baseline, and a strong one.
        temperature=(0.1, 0.02),
        trajectories=(10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000),
        max_steps=50,
        unseen="average",
        settings=tuple(_settings(grid)),
    )


def _toy_text() -> FinitePlan:
    grid: Grid = {
        "epsilon": (0.5, 1.0, 2.0, 5.0),
        "n_wedge": (5, 20),
        "kappa": (0.01, 0.1, 1.0),
        "xi": (0.1, 0.5, 1.0),
    }
    return FinitePlan(
        name="toy-text",
        seed=2024,
        n_runs=100,
        runs_per_job=1,
        process=("frozen-lake", "cliff-walking", "taxi"),
        eta=(0.5, 0.9),
        trajectories=(10, 30, 100, 300, 1_000, 3_000),
        max_steps=200,
        unseen="average",
        settings=tuple(_settings(grid, _SMALL)),
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
        name="costs",
        seed=2026,
        n_runs=5_000,
        runs_per_job=50,
        process=("queue", "inventory", "maintenance"),
        share=(0.1, 0.3),
        trajectories=(10, 20, 50, 100, 200, 500, 1_000),
        max_steps=50,
        unseen="average",
        settings=tuple(
            setting
            for suffix, unseen in treatments
            for setting in _settings(grid, families, unseen, suffix)
        ),
    )


PLANS = (_wet_chicken(), _gridworld(), _toy_text(), _costs())
