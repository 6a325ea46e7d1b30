"""The plan of a study on fixed processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from spibb.data.estimate import checked_unseen
from spibb.errors import SettingsError
from spibb.studies.finite.processes import PROCESSES
from spibb.studies.plan import Plan, Setting


@dataclass(frozen=True)
class FiniteSetting(Setting):
    """One algorithm with its settings, on one process.

    Attributes:
        process: Id of the process, a key of ``PROCESSES``.
        unseen: What pairs without data do in its models; empty: as the plan says.
    """

    process: str = ""
    unseen: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unseen:
            checked_unseen(self.unseen)


@dataclass(frozen=True)
class FinitePlan(Plan):
    """What a study on fixed processes varies.

    Fields as in :class:`Plan`, except that ``etas`` are what each process calls the strength of its
    baselines, and that ``max_steps = 0`` makes each log one trajectory whose steps ``sizes`` count.
    """

    setting_kind: ClassVar[type[FiniteSetting]] = FiniteSetting

    settings: tuple[FiniteSetting, ...]
    second_goal: float = field(init=False, default=0.0)
    n_states: int = field(init=False, default=0)
    n_actions: int = field(init=False, default=0)
    n_successors: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for setting in self.settings:
            process = getattr(setting, "process", "")
            if process not in PROCESSES:
                raise SettingsError(
                    f"no process is called {process!r}",
                    where=f"the setting {setting.label!r}",
                    expected=f"one of {', '.join(PROCESSES)}",
                )
            for eta in self.etas:
                if not PROCESSES[process].is_strength(eta):
                    raise SettingsError(f"{process} has no baseline for {eta}, one of the etas")

    @property
    def unit(self) -> str:
        """What the sizes count."""
        return "trajectories" if self.max_steps else "steps of one trajectory"

    def places(self) -> dict[str, list[int]]:
        """Return the settings of each process, as places in the plan."""
        found: dict[str, list[int]] = {}
        for place, setting in enumerate(self.settings):
            found.setdefault(setting.process, []).append(place)
        return found
