"""The plans: Wet Chicken as Scholl et al. ran it, the gridworld, toy-text, processes with costs.

``epsilon`` is the budget of the constraint itself, with delta = 1: errors as a scale. The random
MDPs' plans carry the paper's labels instead, which stand for twice the budget.
"""

from __future__ import annotations

from collections.abc import Iterable
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

# The parameter of each family, its algorithm, and what that is told beside the parameter's value.
_SCALE = {"delta": 1.0}
# Errors by counts, as Scholl et al. have them: a single trajectory has few returns of a pair.
_BY_COUNTS = {**_SCALE, "error": HoeffdingQ()}
_FAMILIES: dict[str, tuple[str, type[Algorithm], dict[str, Any]]] = {
    "RaMDP": ("kappa", RaMDP, {}),
    "R-MIN": ("n_wedge", RMin, {}),
    "MBIE": ("delta", MBIE, {}),
    "DUIPI": ("xi", DUIPI, {}),
    "Pi_b-SPIBB": ("n_wedge", PiBSPIBB, {}),
    "Pi_<=b-SPIBB": ("n_wedge", PiLeqBSPIBB, {}),
    "Exact-Soft-SPIBB": ("epsilon", ExactSoftSPIBB, _SCALE),
    "Approx-Soft-SPIBB": ("epsilon", ApproxSoftSPIBB, _SCALE),
    "Exact-Adv-Soft-SPIBB": ("epsilon", ExactAdvSoftSPIBB, _BY_COUNTS),
    "Adv-Approx-Soft-SPIBB": ("epsilon", AdvApproxSoftSPIBB, _BY_COUNTS),
    "Exact-Lower-Soft-SPIBB": ("epsilon", ExactLowerSoftSPIBB, _SCALE),
    "Lower-Approx-Soft-SPIBB": ("epsilon", LowerApproxSoftSPIBB, _SCALE),
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
        parameter, kind, more = _FAMILIES[name]
        for x in grid.get(parameter, ()):
            algorithm = kind(**{parameter: x}, **more)
            setting = FiniteSetting.of(
                f"{name}{suffix}", algorithm, parameter, float(x), unseen=unseen
            )
            found.append(setting)
    return found


def _plan(name: str, settings: list[FiniteSetting], **facts: Any) -> FinitePlan:
    given: dict[str, Any] = {"n_runs": 1_000, "runs_per_job": 1, "unseen": "average"}
    return FinitePlan(name=name, settings=tuple(settings), **(given | facts))


_XIS, _DELTAS = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0), (0.05, 0.5, 1.0)
_WET_CHICKEN: Grid = {
    "epsilon": EPSILONS, "n_wedge": (3, 7, 10, 20, 50),
    "kappa": (0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0), "xi": _XIS, "delta": _DELTAS,
}  # fmt: skip
_GRIDWORLD: Grid = {
    "epsilon": EPSILONS, "n_wedge": (5, 10, 20, 50, 100),
    "kappa": (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05), "xi": _XIS, "delta": _DELTAS,
}  # fmt: skip
_TOY_TEXT: Grid = {
    "epsilon": (0.5, 1.0, 2.0, 5.0), "n_wedge": (5, 20), "kappa": (0.01, 0.1, 1.0),
    "xi": (0.1, 0.5, 1.0),
}  # fmt: skip
_COSTS: Grid = {"epsilon": (1.0, 4.0), "n_wedge": (10,), "kappa": (0.5,)}
_SAFE = ("RaMDP", "Pi_b-SPIBB", "Pi_<=b-SPIBB", "Approx-Soft-SPIBB")
PLANS = (
    _plan(
        "wet-chicken",
        _settings(_WET_CHICKEN),
        seed=2022,
        runs_per_job=4,
        process=("wet-chicken",),
        share=(0.1, 0.2, 0.5),
        steps=(100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000),
    ),
    _plan(
        "gridworld",
        _settings(_GRIDWORLD),
        seed=2023,
        process=("gridworld",),
        temperature=(0.1, 0.02),  # the standard baseline, and a strong one
        trajectories=(10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000),
        max_steps=50,
    ),
    _plan(
        "toy-text",
        _settings(_TOY_TEXT, _SMALL),
        seed=2024,
        n_runs=100,
        process=("frozen-lake", "cliff-walking", "taxi"),
        eta=(0.5, 0.9),
        trajectories=(10, 30, 100, 300, 1_000, 3_000),
        max_steps=200,
    ),
    # What pairs never tried do to algorithms, where rewards are costs. Each setting stands in it
    # twice: such pairs do what their state does on average, or end for nothing, as in the papers.
    _plan(
        "costs",
        [*_settings(_COSTS, _SAFE, "average"), *_settings(_COSTS, _SAFE, "terminal", ENDS)],
        seed=2026,
        n_runs=5_000,
        runs_per_job=50,
        process=("queue", "inventory", "maintenance"),
        share=(0.1, 0.3),
        trajectories=(10, 20, 50, 100, 200, 500, 1_000),
        max_steps=50,
    ),
)
