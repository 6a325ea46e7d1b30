"""The plans: Wet Chicken as Scholl et al. ran it, the gridworld, toy-text, processes with costs.

``epsilon`` is the budget of the constraint itself, with delta = 1: errors as a scale. The random
MDPs' plans carry the paper's labels instead, which stand for twice the budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from spibb.data.estimate import checked_unseen
from spibb.errors import SettingsError
from spibb.studies.drawing import ENDS
from spibb.studies.finite.processes import PROCESSES, find_process
from spibb.studies.kinds import Discount, Treatment, Whole, check_text, check_whole
from spibb.studies.plan import Plan, Setting, factor, read_toml
from spibb.studies.version1 import Version1, rename


@dataclass(frozen=True)
class FiniteSetting(Setting):
    """One algorithm with its settings.

    Attributes:
        unseen: What pairs without data do in its models; empty: as the plan says.
    """

    unseen: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text(self.unseen, f"unseen of {self.label!r}")
        if self.unseen:
            checked_unseen(self.unseen)


class _Version1(Version1):
    """Version 1, where each setting named its process, in its label too."""

    def plan(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return what the plan says in the present version."""
        settings: dict[str, dict[str, Any]] = {}
        now = _now(facts)
        for one, (_, label) in zip(facts.get("settings", ()), now, strict=True):
            found = {name: fact for name, fact in one.items() if name != "process"}
            found["label"] = label
            if settings.setdefault(label, found) != found:
                raise SettingsError(
                    f"{one['label']!r} is another setting than that of another process",
                    expected="the same settings on every process",
                )
        processes = list(dict.fromkeys(process for process, _ in now))
        strengths = [PROCESSES[name].strength for name in processes if name in PROCESSES]
        size = "trajectories" if facts.get("max_steps") else "steps"
        names = {"etas": next(iter(strengths), "eta"), "sizes": size}
        named = {names.get(name, name): fact for name, fact in facts.items()}
        if settings:
            named |= {"process": processes, "settings": list(settings.values())}
        return named

    def rows(self, table: pa.Table, plan: Plan) -> pa.Table:
        """Return a table with the present columns."""
        facts = read_toml(plan.version1)
        now = dict(zip((one["label"] for one in facts["settings"]), _now(facts), strict=True))
        coded = table["setting"].combine_chunks().dictionary_encode()
        found = [now.get(label, ("", label)) for label in coded.dictionary.to_pylist()]
        processes, labels = (
            pa.DictionaryArray.from_arrays(coded.indices, pa.array([one[k] for one in found]))
            for k in (0, 1)
        )
        table = table.set_column(table.column_names.index("setting"), "setting", labels)
        strength, size = list(plan.factors)[1:]
        return rename(table.append_column("process", processes), {"eta": strength, "size": size})

    def labels(self, plan: Plan) -> list[str]:
        """Return what the settings are called now, in the order of the plan of version 1."""
        return [label for _, label in _now(read_toml(plan.version1))]


def _now(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return process and label of each setting; where there are several, labels began with them."""
    given = [(str(one.get("process", "")), str(one["label"])) for one in facts.get("settings", ())]
    if len({process for process, _ in given}) < 2:
        return given
    return [(process, label.rpartition(": ")[2]) for process, label in given]


@dataclass(frozen=True, kw_only=True)
class FinitePlan(Plan):
    """What a study on fixed processes varies; a run is a new log of each process.

    Attributes:
        process: Ids of the processes, keys of ``PROCESSES``.
        share: Strengths of the baselines: their share of uniform actions,
        temperature: or the temperature of their softmax,
        eta: or their performance between the uniform policy's (0) and the optimum's (1).
        trajectories: Sizes of the logs: numbers of trajectories,
        steps: or steps of a single one.
        max_steps: Longest of several trajectories.
        gamma: The discount.
        unseen: What pairs without data do in the estimated models.
    """

    study: ClassVar[str] = "finite"
    # As those of the study on random MDPs.
    present_rules: ClassVar[int] = 2
    setting_kind: ClassVar[type[FiniteSetting]] = FiniteSetting
    reader1 = _Version1("eta", "size")

    settings: tuple[FiniteSetting, ...]
    process: tuple[str, ...] = factor("process", str, find_process, is_needed=True)
    share: tuple[float, ...] = factor("uniform share", float, lambda x: 0 <= x <= 1, "in [0, 1]")
    temperature: tuple[float, ...] = factor("temperature", float, lambda x: x > 0, "a number > 0")
    eta: tuple[float, ...] = factor("η", float, lambda x: 0 <= x <= 1, "a strength in [0, 1]")
    trajectories: tuple[int, ...] = factor("trajectories", int)
    steps: tuple[int, ...] = factor("steps of one trajectory", int)
    max_steps: Whole = 0
    gamma: Discount = 0.95
    unseen: Treatment = "terminal"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size == "trajectories":
            check_whole(self.max_steps, "max_steps", 1)
        strength = self.strength
        for name in self.process:
            if PROCESSES[name].strength != strength:
                raise SettingsError(
                    f"baselines of {name} have no {strength}",
                    expected=f"values of {PROCESSES[name].strength}",
                )

    @property
    def strength(self) -> str:
        """The factor that is the strength of the baselines."""
        return self.demand("share or temperature or eta")[0]

    @property
    def size(self) -> str:
        """The factor that is the size of the logs."""
        return self.demand("trajectories or steps")[0]


EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
Grid = dict[str, tuple[float, ...]]

# The algorithm of each family, its parameter, and what it is told beside that.
_SCALE = {"delta": 1.0}
# Errors by counts, as Scholl et al. have them: a single trajectory has few returns of a pair.
_BY_COUNTS = {**_SCALE, "error": {"error": "hoeffding-q"}}
_FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "RaMDP": ("ramdp", "kappa", {}),
    "R-MIN": ("r-min", "n_wedge", {}),
    "MBIE": ("mbie", "delta", {}),
    "DUIPI": ("duipi", "xi", {}),
    "Pi_b-SPIBB": ("pi-b-spibb", "n_wedge", {}),
    "Pi_<=b-SPIBB": ("pi-leq-b-spibb", "n_wedge", {}),
    "Exact-Soft-SPIBB": ("exact-soft-spibb", "epsilon", _SCALE),
    "Approx-Soft-SPIBB": ("approx-soft-spibb", "epsilon", _SCALE),
    "Exact-Adv-Soft-SPIBB": ("exact-adv-soft-spibb", "epsilon", _BY_COUNTS),
    "Adv-Approx-Soft-SPIBB": ("adv-approx-soft-spibb", "epsilon", _BY_COUNTS),
    "Exact-Lower-Soft-SPIBB": ("exact-lower-soft-spibb", "epsilon", _SCALE),
    "Lower-Approx-Soft-SPIBB": ("lower-approx-soft-spibb", "epsilon", _SCALE),
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
    found = [FiniteSetting.of(f"Basic RL{suffix}", {"algorithm": "basic-rl"})]
    for name in families:
        kind, parameter, told = _FAMILIES[name]
        values = grid.get(parameter, ())
        found += FiniteSetting.grid(parameter, values, {name + suffix: kind}, **told)
    return [replace(one, value=float(one.value), unseen=unseen) for one in found]


def _plan(name: str, settings: list[FiniteSetting], **facts: Any) -> FinitePlan:
    given: dict[str, Any] = {"n_runs": 1_000, "runs_per_job": 1, "process": (name,)}
    given |= {"unseen": "average", "max_steps": 0 if "steps" in facts else 50}
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
_SHARES, _STEPS = (0.1, 0.2, 0.5), (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
_SIZES = (10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
_TEMPERATURES = (0.1, 0.02)  # the standard baseline, and a strong one
# What unobserved pairs do to algorithms, where rewards are costs. Each setting stands in it
# twice: such pairs do what their state does on average, or end for nothing, as in the papers.
_BOTH = [*_settings(_COSTS, _SAFE, "average"), *_settings(_COSTS, _SAFE, "terminal", ENDS)]
PLANS = (
    _plan("wet-chicken", _settings(_WET_CHICKEN), seed=2022, runs_per_job=4, share=_SHARES,
          steps=_STEPS),
    _plan("gridworld", _settings(_GRIDWORLD), seed=2023, temperature=_TEMPERATURES,
          trajectories=_SIZES),
    _plan("toy-text", _settings(_TOY_TEXT, _SMALL), seed=2024, n_runs=100, eta=(0.5, 0.9),
          process=("frozen-lake", "cliff-walking", "taxi"), max_steps=200,
          trajectories=(10, 30, 100, 300, 1_000, 3_000)),
    _plan("costs", _BOTH, seed=2026, n_runs=5_000, runs_per_job=50, share=(0.1, 0.3),
          process=("queue", "inventory", "maintenance"), trajectories=_SIZES[:7]),
)  # fmt: skip
