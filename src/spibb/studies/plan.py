"""A plan: what a study varies, as data that survives TOML."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import date, time
from typing import Any, ClassVar, Self

from spibb.algorithms.base import Algorithm
from spibb.data.estimate import Unseen, checked_unseen
from spibb.errors import SettingsError

# Rows hold runs and sizes as numbers of 32 bits.
_LARGEST = 2**31 - 1
# Each job is a file, and a line of a list in memory.
_MOST_JOBS = 10**6
# No algorithm has settings so deep, or of so many digits (which no float can hold).
_DEEPEST, _MOST_BITS = 20, 1_000
_BARE_KEY = re.compile("[A-Za-z0-9_-]+")


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

    def __post_init__(self) -> None:
        for name in ("label", "group"):
            _check_text(getattr(self, name), f"the {name} of a setting")
        _check_number(self.value, f"the value of {self.label!r}")
        if not isinstance(self.config, dict):
            raise SettingsError(
                f"the config of {self.label!r} is {self.config!r}", expected="a table"
            )

    @classmethod
    def of(
        cls, label: str, algorithm: Algorithm, group: str = "", value: float = 0.0, **more: Any
    ) -> Self:
        """Return the setting of an algorithm; TOML has no word for nothing, which is left out."""
        config = {name: part for name, part in algorithm.to_config().items() if part is not None}
        return cls(label, config, group, value, **more)

    def build(self) -> Algorithm:
        """Return the algorithm."""
        try:
            return Algorithm.named(self.config["algorithm"]).from_config(self.config)
        except (KeyError, TypeError, ValueError) as error:
            reason = f"lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
            raise SettingsError(f"the setting {self.label!r} cannot be built: {reason}") from None


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
        unseen: What pairs without data do in the estimated models; the paper's end for nothing.
        rules: By which version of the algorithms results are made. Results of different rules
            differ on the same draws, so they are never mixed: a study of older rules can be read,
            merged with its like and drawn, but not gone on with.
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
    unseen: Unseen = "terminal"
    rules: int = 0  # 0: the present ones

    # 2: rows move for more than rounding; the robust algorithms' sets hold at random counts and
    # know the start; R-MIN's terminal states are worth 0.
    present_rules: ClassVar[int] = 2
    # How the settings of this kind of plan are read.
    setting_kind: ClassVar[type[Setting]] = Setting
    # Whether its statistics need every row; those of other kinds are folded where runs are many.
    keeps_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("study", "name"):
            _check_text(getattr(self, name), name)
        checked_unseen(self.unseen)
        if self.rules == 0:
            object.__setattr__(self, "rules", self.present_rules)
        check_whole(self.rules, "rules", 1)
        least = {"seed": 0, "n_runs": 1, "runs_per_job": 1, "max_steps": 0}
        for name, smallest in least.items():
            check_whole(getattr(self, name), name, smallest)
        for name in ("n_states", "n_actions", "n_successors"):
            check_whole(getattr(self, name), name, 0)
        for name in ("second_goal", "gamma"):
            _check_number(getattr(self, name), name)
        if not 0 <= self.gamma <= 1:
            raise SettingsError(f"gamma is {self.gamma}", expected="a discount in [0, 1]")
        for eta in self.etas:
            _check_number(eta, "one of the etas")
        for size in self.sizes:
            check_whole(size, "one of the sizes", 1)
        labels = [setting.label for setting in self.settings]
        if len(set(labels)) != len(labels):
            raise SettingsError("two settings of a plan have the same label", expected="one each")
        for name in ("etas", "sizes", "settings"):
            found = getattr(self, name)
            if not found:
                raise SettingsError(f"the plan has no {name}", expected="at least one")
            if name != "settings" and len(set(found)) != len(found):
                raise SettingsError(f"{name} are {list(found)}", expected="each once")

    def build_settings(self) -> None:
        """Build every setting once, to refuse those that cannot be before any work is done."""
        for setting in self.settings:
            setting.build()

    def jobs(self) -> list[tuple[str, int, int]]:
        """Return (id, first run, run after the last) of every job."""
        firsts = range(0, self.n_runs, self.runs_per_job)
        if len(firsts) > _MOST_JOBS:
            raise SettingsError(
                f"the plan has {len(firsts):,} jobs",
                expected=f"at most {_MOST_JOBS:,}",
                hint="choose fewer runs, or more of them in a job (runs_per_job)",
            )
        return [
            (f"{first:07d}", first, min(first + self.runs_per_job, self.n_runs)) for first in firsts
        ]

    def to_toml(self) -> str:
        """Return the plan as TOML, without what this kind of plan has no use for."""
        facts = asdict(self)
        settings = facts.pop("settings")
        if self.rules == 1:  # as such plans were written before there were others
            facts = {name: fact for name, fact in facts.items() if name not in ("rules", "unseen")}
        lines = [f"{name} = {_toml(facts[name])}" for name in self.entries() if name in facts]
        for setting in settings:
            lines += ["", "[[settings]]"]
            facts = {name: value for name, value in setting.items() if name != "unseen" or value}
            lines += [f"{name} = {_toml(value)}" for name, value in facts.items()]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Read a plan; one that does not say its rules was written under the first."""
        facts = {"rules": 1, **read_toml(text)}
        _check_entries(facts, cls, "the plan")
        settings = _as_tuple(facts.get("settings", []), "settings", "a list of tables")
        facts["settings"] = tuple(cls._read_setting(one) for one in settings)
        for name in {"etas", "sizes"}.intersection(facts):
            facts[name] = _as_tuple(facts[name], name, "a list of numbers")
        try:
            return cls(**facts)
        except TypeError as error:
            raise SettingsError(f"the plan has a wrong entry ({error})") from None

    @classmethod
    def _read_setting(cls, facts: Any) -> Setting:
        if not isinstance(facts, dict):
            raise SettingsError(f"a setting is {facts!r}", expected="a table")
        _check_entries(facts, cls.setting_kind, "a setting")
        return cls.setting_kind(**facts)

    @classmethod
    def entries(cls) -> list[str]:
        """Return the names of what this kind of plan can be told."""
        return [item.name for item in fields(cls) if item.init]

    @property
    def fingerprint(self) -> str:
        """A short hash of everything that decides the results."""
        return hashlib.sha256(self.to_toml().encode()).hexdigest()[:12]


def read_toml(text: str) -> dict[str, Any]:
    """Parse TOML, or say why it is none, or none that a plan can hold."""
    try:
        facts = tomllib.loads(text)
    except RecursionError:
        raise _too_deep() from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the plan is not TOML: {error}") from None
    except ValueError:  # Python reads no decimal of more than 4,300 digits
        raise _too_long() from None
    _check_plain(facts)
    return facts


def _check_plain(value: Any, depth: int = 0) -> None:
    """Refuse what TOML can say and no setting can be, all of which is trouble to print."""
    if depth > _DEEPEST:
        raise _too_deep()
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise _too_long()
    if isinstance(value, date | time):
        raise SettingsError(f"the plan holds the date or time {value}", expected="texts, numbers")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_plain(part, depth + 1)


def _too_deep() -> SettingsError:
    return SettingsError(
        "the plan's tables and lists are too deep", expected=f"at most {_DEEPEST} levels"
    )


def _too_long() -> SettingsError:
    return SettingsError("the plan holds a number of hundreds of digits", expected="a smaller one")


def _check_entries(facts: dict[str, Any], kind: type[Plan | Setting], what: str) -> None:
    """Refuse a table with an entry that is not known, or without one that is needed."""
    known = {item.name: item.default for item in fields(kind) if item.init}
    unknown = sorted(set(facts) - set(known))
    if unknown:
        raise SettingsError(
            f"{what} has an entry {unknown[0]!r}", expected=f"one of {', '.join(sorted(known))}"
        )
    for name, default in known.items():
        if default is MISSING and name not in facts:
            raise SettingsError(f"{what} lacks an entry {name!r}", hint="add it")


def _as_tuple(values: Any, name: str, expected: str) -> tuple[Any, ...]:
    if not isinstance(values, list):
        raise SettingsError(f"{name} is {values!r}", expected=expected)
    return tuple(values)


def _check_text(value: object, name: str) -> None:
    if not isinstance(value, str):
        raise SettingsError(f"{name} is {value!r}", expected="a text")
    if not value.isprintable():  # it is printed, and drawn
        raise SettingsError(f"{name} is {value!r}", expected="a text of letters that can be seen")


def check_whole(value: object, name: str, least: int) -> None:
    """Refuse what is no whole number, or too small or too large a one."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise SettingsError(f"{name} is {value!r}", expected="a whole number")
    if value < least:
        raise SettingsError(f"{name} is {value}", expected=f"at least {least}")
    if name != "seed" and value > _LARGEST:
        raise SettingsError(f"{name} is {value}", expected=f"at most {_LARGEST}")


def _check_number(value: object, name: str) -> None:
    # A whole number may be finite and yet have no float.
    is_float = isinstance(value, int | float) and abs(value) <= sys.float_info.max
    if not is_float or isinstance(value, bool):
        raise SettingsError(f"{name} is {value!r}", expected="a finite number")


def _toml(value: Any) -> str:
    """Write a plain value as TOML, whose inline tables and arrays are all we need."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items() if v is not None)
        return "{" + inner + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(part) for part in value) + "]"
    if isinstance(value, str):
        # JSON escapes what TOML does, but for the one control character that it lets pass.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _toml(name)
