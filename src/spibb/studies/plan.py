"""A plan: what a study varies, as data that survives TOML.

Each study has its own kind of plan, a dataclass whose fields say all that its results depend on.
Those made by :func:`factor` are its factors: lists of values, every combination of which is a cell
that every setting is tried in.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from datetime import date, time
from itertools import product
from typing import Any, ClassVar, Self, get_type_hints

from spibb.algorithms.base import Algorithm
from spibb.errors import SettingsError
from spibb.settings import Settings
from spibb.studies.kinds import Count, Text, Whole, check, check_number, check_text, check_whole
from spibb.studies.version1 import Version1, upgraded

# How plans, and the rows of their results, are written.
VERSION = 2
# Each job is a file, and a line of a list in memory.
_MOST_JOBS = 10**6
# No algorithm has settings so deep, or of so many digits (which no float can hold).
_DEEPEST, _MOST_BITS = 20, 1_000
_BARE_KEY = re.compile("[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Factor:
    """What is varied under one name.

    Attributes:
        title: What figures call it.
        kind: What its values are: int (of at least 1), float or str.
        is_valid: Whether a value is one that the study takes; it may refuse others itself.
        expected: What such values are, in words.
        is_needed: Whether every plan must have values for it.
    """

    title: str
    kind: type = float
    is_valid: Callable[[Any], object] = lambda value: True
    expected: str = ""
    is_needed: bool = False

    def check(self, value: object, name: str) -> None:
        """Refuse a value."""
        checks = {int: check_whole, str: check_text, float: check_number}
        checks[self.kind](value, f"one of {name}")
        if not self.is_valid(value):
            raise SettingsError(f"{name} is {value}", expected=self.expected)


def factor(
    title: str, kind: type = float, is_valid: Callable[[Any], object] = lambda value: True,
    expected: str = "", *, is_needed: bool = False, **options: Any,
) -> Any:  # fmt: skip
    """Make a field of a plan one of its factors; a plan without values for it does not vary it.

    Args:
        title: What figures call it.
        kind: What its values are: int (of at least 1), float or str.
        is_valid: Whether a value is one that the study takes; it may refuse others itself.
        expected: What such values are, in words.
        is_needed: Whether every plan must have values for it.
        options: Further options of `dataclasses.field`.
    """
    what = Factor(title, kind, is_valid, expected, is_needed)
    return field(**{"default": (), **options}, metadata={"factor": what})


@dataclass(frozen=True)
class Setting:
    """One algorithm with its settings, as the study calls it.

    Attributes:
        label: Its name in tables and figures.
        config: What ``Algorithm.to_config`` returns.
        family: The settings of one algorithm that differ in a hyper-parameter; empty: the label.
        parameter: The hyper-parameter that the family varies; empty for none.
        value: Its value.
    """

    label: str
    config: dict[str, Any]
    family: str = ""
    parameter: str = ""
    value: float = 0.0

    # What a config is of.
    kind: ClassVar[type[Settings]] = Algorithm

    def __post_init__(self) -> None:
        for name in ("label", "family", "parameter"):
            check_text(getattr(self, name), f"the {name} of a setting")
        check_number(self.value, f"the value of {self.label!r}")
        name = f"the config of {self.label!r}"
        check(isinstance(self.config, dict), self.config, name, "a table")

    @classmethod
    def of(cls, name: str, algorithm: Any, parameter: str = "", value: float = 0.0) -> Self:
        """Return the setting of an algorithm or its config, with the hyper-parameter in the label.

        Example:
            >>> from spibb.algorithms.penalised import RaMDP
            >>> Setting.of("RaMDP", RaMDP(kappa=0.5), "kappa", 0.5).label
            'RaMDP, kappa=0.5'
        """
        if isinstance(algorithm, dict):
            algorithm = cls.kind.from_config(algorithm)
        # TOML has no word for nothing, which is left out.
        config = {key: part for key, part in algorithm.to_config().items() if part is not None}
        label = f"{name}, {parameter}={value:g}" if parameter else name
        return cls(label, config, name if parameter else "", parameter, value)

    @classmethod
    def grid(
        cls, parameter: str, values: Iterable[float], algorithms: Mapping[str, str], *,
        scale: float = 1, **told: Any,
    ) -> list[Self]:  # fmt: skip
        """Return algorithms with every value of a hyper-parameter.

        Args:
            parameter: The hyper-parameter.
            values: Its values.
            algorithms: Ids of the algorithms, by name.
            scale: What they are told for each unit of a value.
            told: What else they are told.
        """
        return [
            cls.of(name, {cls.kind.family: id, parameter: scale * x, **told}, parameter, x)
            for x, (name, id) in product(values, algorithms.items())
        ]

    @property
    def name(self) -> str:
        """The algorithm's name, without its hyper-parameter."""
        return self.family or self.label

    def build(self) -> Any:
        """Return the algorithm, or refuse what is none."""
        try:
            return self._build()
        except (KeyError, TypeError, ValueError) as error:
            reason = f"lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
            raise SettingsError(f"the setting {self.label!r} cannot be built: {reason}") from None

    def _build(self) -> Any:
        return self.kind.named(self.config[self.kind.family]).from_config(self.config)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a study varies; each study adds its factors, and what else its results depend on.

    Attributes:
        name: Name of the plan.
        seed: Root of all randomness.
        n_runs: Independent repetitions.
        runs_per_job: Runs that are computed, and stored, together.
        settings: Algorithms with their settings.
        rules: By which version of the algorithms results are made. Results of different rules
            differ on the same draws, so they are never mixed: a study of older rules can be read,
            merged with its like and drawn, but not gone on with.
        version1: The plan as it was read, where that was written in version 1.
    """

    name: Text
    seed: Whole
    n_runs: Count
    runs_per_job: Count
    settings: tuple[Setting, ...]
    rules: Count = 0  # 0: the present ones
    version1: str = field(default="", compare=False, repr=False)

    # Id of the study that knows how to run it.
    study: ClassVar[str]
    present_rules: ClassVar[int] = 1
    # How its settings are read.
    setting_kind: ClassVar[type[Setting]] = Setting
    # Whether its statistics need every row; those of other kinds are folded where runs are many.
    keeps_rows: ClassVar[bool] = False
    # What rows hold beyond the score: "flags" or "whole numbers", by column.
    columns: ClassVar[Mapping[str, str]] = {}
    # How its folders of version 1 are read.
    reader1: ClassVar[Version1] = Version1("eta", "size")

    def __post_init__(self) -> None:
        if self.rules == 0:
            object.__setattr__(self, "rules", self.present_rules)
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            for refuse in getattr(hint, "__metadata__", ()):
                refuse(getattr(self, name), name)
        if len(set(self.labels)) != len(self.labels):
            raise SettingsError("two settings of a plan have the same label", expected="one each")
        if not self.labels:
            raise SettingsError("the plan has no settings", expected="at least one")
        for name, values in self.factors.items():
            for value in values:
                self.declared()[name].check(value, name)
            check(len(set(values)) == len(values), list(values), name, "each value once")
        self.demand(*(name for name, one in self.declared().items() if one.is_needed))

    @classmethod
    def declared(cls) -> dict[str, Factor]:
        """Return the factors that a plan of this kind may have."""
        return {one.name: one.metadata["factor"] for one in fields(cls) if "factor" in one.metadata}

    @property
    def factors(self) -> dict[str, tuple[Any, ...]]:
        """The values of each factor, in the order of the cells."""
        every = {name: tuple(getattr(self, name)) for name in self.declared()}
        return {name: values for name, values in every.items() if values}

    @property
    def axes(self) -> dict[str, Sequence[Any]]:
        """What the axes of results are: the values of each factor, and the settings' labels."""
        return {**self.factors, "setting": self.labels}

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each factor, and of settings."""
        return tuple(map(len, self.axes.values()))

    @property
    def labels(self) -> list[str]:
        """What the settings are called."""
        return [setting.label for setting in self.settings]

    @property
    def families(self) -> dict[str, list[Setting]]:
        """The settings of each algorithm, by rising value of its hyper-parameter."""
        found: dict[str, list[Setting]] = {one.name: [] for one in self.settings}
        for one in sorted(self.settings, key=lambda one: one.value):
            found[one.name].append(one)
        return found

    @property
    def in_words(self) -> str:
        """What pages say which plan it is by."""
        return f"`{self.name}`, fingerprint `{self.fingerprint}`, seed {self.seed}"

    def demand(self, *choices: str) -> list[str]:
        """Return which factor of each choice, such as "steps or trajectories", the plan has."""
        found = []
        for choice in choices:
            here = [name for name in choice.split(" or ") if name in self.factors]
            if len(here) != 1:
                raise SettingsError(
                    f"the plan has {' and '.join(here) or f'no {choice}'}",
                    expected=f"values of {choice}",
                )
            found += here
        return found

    def jobs(self) -> list[tuple[str, int, int]]:
        """Return (id, first run, run after the last) of every job."""
        firsts, step = range(0, self.n_runs, self.runs_per_job), self.runs_per_job
        if len(firsts) > _MOST_JOBS:
            raise SettingsError(
                f"the plan has {len(firsts):,} jobs",
                expected=f"at most {_MOST_JOBS:,}",
                hint="choose fewer runs, or more of them in a job (runs_per_job)",
            )
        return [(f"{first:07d}", first, min(first + step, self.n_runs)) for first in firsts]

    def to_toml(self) -> str:
        """Return the plan as TOML."""
        facts: dict[str, Any] = {"version": VERSION, "study": self.study}
        facts |= {name: part for name, part in asdict(self).items() if name in _entries(type(self))}
        settings = facts.pop("settings")
        # What a plan does not vary, or a setting does not say, is not written.
        lines = [f"{name} = {_toml(fact)}" for name, fact in facts.items() if fact != ()]
        for setting in settings:
            lines += ["", "[[settings]]"]
            said = {name: fact for name, fact in setting.items() if fact != "" or name == "label"}
            lines += [f"{name} = {_toml(fact)}" for name, fact in said.items()]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Read a plan; one that does not say its version is of the first."""
        given = read_toml(text)
        version = given.pop("version", 1)
        if version not in (1, VERSION):
            raise SettingsError(
                f"the plan is of version {version!r}",
                expected=f"1 or {VERSION}",
                hint="read it with a newer spibb",
            )
        if version == 1:
            given = upgraded(given, cls.reader1)
        given.pop("study", None)
        _check_entries(given, cls, "the plan")
        for name in {"settings", *cls.declared()}.intersection(given):
            what = "tables" if name == "settings" else "values"
            check(isinstance(given[name], list), given[name], name, f"a list of {what}")
            given[name] = tuple(given[name])
        for one in given["settings"]:
            _check_entries(one, cls.setting_kind, "a setting")
        given["settings"] = tuple(cls.setting_kind(**one) for one in given["settings"])
        try:
            return cls(**given, version1=text if version == 1 else "")
        except TypeError as error:
            raise SettingsError(f"the plan has a wrong entry ({error})") from None

    @property
    def fingerprint(self) -> str:
        """A short hash of everything that decides the results."""
        return hashlib.sha256((self.version1 or self.to_toml()).encode()).hexdigest()[:12]


def read_toml(text: str) -> dict[str, Any]:
    """Parse TOML, or say why it is none, or none that a plan can hold."""
    try:
        facts = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the plan is not TOML: {error}") from None
    except (RecursionError, ValueError):  # Python reads no decimal of more than 4,300 digits
        raise _unfit() from None
    _check_plain(facts)
    return facts


def _check_plain(value: Any, depth: int = 0) -> None:
    """Refuse what TOML can say and no setting can be, all of which is trouble to print."""
    is_long = isinstance(value, int) and value.bit_length() > _MOST_BITS
    if is_long or depth > _DEEPEST:
        raise _unfit()
    if isinstance(value, date | time):
        raise SettingsError(f"the plan holds the date or time {value}", expected="texts, numbers")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_plain(part, depth + 1)


def _unfit() -> SettingsError:
    return SettingsError(
        "the plan's tables and lists are too deep, or it holds a number of hundreds of digits",
        expected=f"at most {_DEEPEST} levels, and smaller numbers",
    )


def _entries(kind: type[Plan | Setting]) -> dict[str, Any]:
    """Return what a table can be told, with what each entry is if it is not said."""
    return {one.name: one.default for one in fields(kind) if one.init and one.name != "version1"}


def _check_entries(facts: Any, kind: type[Plan | Setting], what: str) -> None:
    """Refuse what is no table, has an entry that is not known, or lacks one that is needed."""
    check(isinstance(facts, dict), facts, what, "a table")
    known = _entries(kind)
    expected = f"one of {', '.join(sorted(known))}"
    for name in sorted(set(facts) - set(known)):
        raise SettingsError(f"{what} has an entry {name!r}", expected=expected)
    for name, default in known.items():
        if default is MISSING and name not in facts:
            raise SettingsError(f"{what} lacks an entry {name!r}", hint="add it")


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
