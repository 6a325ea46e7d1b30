"""The plan of a study on fixed processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from spibb.data.estimate import checked_unseen
from spibb.errors import SettingsError
from spibb.studies.finite.processes import PROCESSES, find_process
from spibb.studies.plan import (
    Discount,
    Plan,
    Setting,
    Treatment,
    Whole,
    check_text,
    check_whole,
    factor,
    read_toml,
)
from spibb.studies.version1 import Version1, rename

if TYPE_CHECKING:
    import pyarrow as pa


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
        for one in facts.get("settings", ()):
            label = _label(one, facts)
            found = {name: fact for name, fact in one.items() if name != "process"}
            if settings.setdefault(label, found | {"label": label}) != found | {"label": label}:
                raise SettingsError(
                    f"{one['label']!r} is another setting than that of another process",
                    expected="the same settings on every process",
                )
        strengths = {PROCESSES[name].strength for name in _processes(facts) if name in PROCESSES}
        size = "trajectories" if facts.get("max_steps") else "steps"
        names = {"etas": next(iter(strengths), "eta"), "sizes": size}
        named = {names.get(name, name): fact for name, fact in facts.items()}
        return named | (
            {"process": _processes(facts), "settings": list(settings.values())} if settings else {}
        )

    def rows(self, table: pa.Table, plan: Plan) -> pa.Table:
        """Return a table with the present columns."""
        import pyarrow as pa

        facts = read_toml(plan.version1)
        now = {one["label"]: (one["process"], _label(one, facts)) for one in facts["settings"]}
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
        facts = read_toml(plan.version1)
        return [_label(one, facts) for one in facts["settings"]]


def _processes(facts: dict[str, Any]) -> list[str]:
    given = facts.get("settings", ())
    return list(dict.fromkeys(str(one.get("process", "")) for one in given))


def _label(setting: dict[str, Any], facts: dict[str, Any]) -> str:
    """Return a label without the process that it began with, where a plan had several."""
    label = str(setting["label"])
    return label.rpartition(": ")[2] if len(_processes(facts)) > 1 else label


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
    process: tuple[str, ...] = factor(
        "process", str, lambda x: bool(find_process(x)), is_needed=True
    )
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
