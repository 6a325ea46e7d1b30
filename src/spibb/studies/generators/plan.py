"""What the study varies: generator and number of episodes, and the algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from spibb.algorithms.auto_spibb import AutoSPIBB
from spibb.errors import SettingsError
from spibb.settings import checked_entry
from spibb.studies.generators.halves import LOT_SEED, draw_lot
from spibb.studies.generators.registry import GENERATORS
from spibb.studies.plan import Plan, Setting, factor

EPISODES = (10, 30, 100, 300, 1_000)
CAUTIONS = (1.0, 1.25, 1.5, 2.0)
N_WEDGES = (3, 5, 10, 20, 50)
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
AUTO = "Auto-SPIBB"
# What is predicted of a chosen policy, in units of the scale of its problem.
PREDICTED = ("mean", "deviation", "low", "high", "harm")


@dataclass(frozen=True, kw_only=True)
class GeneratorsPlan(Plan):
    """What the study varies; a run is a new problem of each generator, and a log of each size.

    Attributes:
        generator: Names of generators.
        episodes: Sizes of the logs.
    """

    study: ClassVar[str] = "generators"
    keeps_rows: ClassVar[bool] = True
    columns: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(PREDICTED, "numbers"),
        "is_visible": "flags",
        "is_declared": "flags",
        "seconds": "numbers",
    }

    generator: tuple[str, ...] = factor(
        "generator", str, lambda x: bool(checked_entry(x, GENERATORS, "generator")), is_needed=True
    )
    episodes: tuple[int, ...] = factor("episodes", int, is_needed=True)


def check_plan(plan: GeneratorsPlan) -> None:
    """Refuse a plan without the default algorithm, about which the page is."""
    if AutoSPIBB() not in [setting.build() for setting in plan.settings]:
        raise SettingsError(
            "the plan lacks auto-spibb with its default caution",
            expected=f"a setting of auto-spibb with a caution of {AutoSPIBB.caution:g}",
        )


_SETTINGS = (
    *(Setting.of(AUTO, AutoSPIBB(caution=z), "caution", z) for z in CAUTIONS),
    *Setting.grid("n_wedge", N_WEDGES, {"Pi_<=b-SPIBB": "pi-leq-b-spibb"}),
    *Setting.grid("epsilon", EPSILONS, {"Approx-Soft-SPIBB": "approx-soft-spibb"}, delta=1.0),
)


def _plan(half: str, generators: tuple[str, ...]) -> GeneratorsPlan:
    return GeneratorsPlan(
        name=f"generators-{half}",
        seed=LOT_SEED,
        n_runs=300,
        runs_per_job=5,
        settings=_SETTINGS,
        generator=generators,
        episodes=EPISODES,
    )


PLANS = tuple(_plan(half, generators) for half, generators in draw_lot()._asdict().items())
