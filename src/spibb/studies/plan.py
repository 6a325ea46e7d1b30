"""A plan: what a study varies, as data that survives TOML."""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import asdict, dataclass, fields
from typing import Any

from spibb.algorithms.base import Algorithm
from spibb.algorithms.registry import find_algorithm
from spibb.errors import SettingsError


@dataclass(frozen=True)
class Setting:
    """One algorithm with its settings, as the study calls it.

    Attributes:
        label: Its name in tables and figures.
        config: What ``Algorithm.to_config`` returns.
        group: The figure family it belongs to, such as "epsilon"; empty for the benchmark itself.
        value: The value of the hyper-parameter that the family varies.
    """

    label: str
    config: dict[str, Any]
    group: str = ""
    value: float = 0.0

    def build(self) -> Algorithm:
        """Return the algorithm."""
        return find_algorithm(self.config["algorithm"]).from_config(self.config)


@dataclass(frozen=True)
class Plan:
    """What a study on random MDPs varies.

    Attributes:
        study: Id of the study that knows how to run it.
        name: Name of the plan.
        seed: Root of all randomness.
        n_runs: Independent repetitions: a new process, baselines and logs in each.
        runs_per_job: Runs that are computed, and stored, together.
        etas: Strengths of the baselines.
        sizes: Numbers of trajectories.
        max_steps: Longest trajectory; those that reach it are truncated.
        second_goal: Reward of a second goal that is added after the baseline was made; 0: none.
        settings: Algorithms with their settings.
        n_states: States of the processes.
        n_actions: Actions.
        n_successors: Successors of a pair.
        gamma: The discount.
    """

    study: str
    name: str
    seed: int
    n_runs: int
    runs_per_job: int
    etas: tuple[float, ...]
    sizes: tuple[int, ...]
    max_steps: int
    second_goal: float
    settings: tuple[Setting, ...]
    n_states: int = 50
    n_actions: int = 4
    n_successors: int = 4
    gamma: float = 0.95

    def __post_init__(self) -> None:
        labels = [setting.label for setting in self.settings]
        if len(set(labels)) != len(labels):
            raise SettingsError("two settings of a plan have the same label", expected="one each")
        if self.n_runs < 1 or self.runs_per_job < 1:
            raise SettingsError(f"n_runs is {self.n_runs}", expected="at least 1 run")

    def jobs(self) -> list[tuple[str, int, int]]:
        """Return (id, first run, run after the last) of every job."""
        firsts = range(0, self.n_runs, self.runs_per_job)
        return [
            (f"{first:07d}", first, min(first + self.runs_per_job, self.n_runs)) for first in firsts
        ]

    def to_toml(self) -> str:
        """Return the plan as TOML."""
        facts = asdict(self)
        settings = facts.pop("settings")
        lines = [f"{name} = {_toml(value)}" for name, value in facts.items()]
        for setting in settings:
            lines += ["", "[[settings]]"]
            lines += [f"{name} = {_toml(value)}" for name, value in setting.items()]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, text: str) -> Plan:
        """Read a plan."""
        try:
            facts = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"the plan is not TOML: {error}") from None
        known = {item.name for item in fields(cls)}
        unknown = sorted(set(facts) - known)
        if unknown:
            raise SettingsError(
                f"the plan has an entry {unknown[0]!r}",
                expected=f"one of {', '.join(sorted(known))}",
            )
        try:
            facts["settings"] = tuple(Setting(**setting) for setting in facts.get("settings", ()))
            for name in ("etas", "sizes"):
                facts[name] = tuple(facts[name])
            return cls(**facts)
        except (KeyError, TypeError) as error:
            raise SettingsError(f"the plan lacks an entry or has a wrong one ({error})") from None

    @property
    def fingerprint(self) -> str:
        """A short hash of everything that decides the results."""
        return hashlib.sha256(self.to_toml().encode()).hexdigest()[:12]


def _toml(value: Any) -> str:
    """Write a plain value as TOML, whose inline tables and arrays are all we need."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inner = ", ".join(f"{k} = {_toml(v)}" for k, v in value.items() if v is not None)
        return "{" + inner + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(part) for part in value) + "]"
    if isinstance(value, str):
        # JSON escapes what TOML does, but for the one control character that it lets pass.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
