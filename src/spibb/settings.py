"""Settings as frozen dataclasses that turn into plain JSON values and back, all of them alike.

A family (algorithms, error functions, rules of networks) names the key under which its members
write their id: ``{"algorithm": "ramdp", "kappa": 0.003}``. Members are found by their id among all
classes of the family, whether they stand in a list of the package or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from spibb.errors import SettingsError
from spibb.names import nearest
from spibb.plugins import load_plugins
from spibb.strict_json import strict_json

Kind = TypeVar("Kind")
# Of a longer list, people are told so many.
_MOST_TOLD = 8


@dataclass(frozen=True)
class Settings:
    """Base of everything that has settings and an id.

    Attributes:
        family: The key of the id in configurations; set by the base class of a family.
        id: How it is called on the command line and in files.
    """

    family: ClassVar[str]
    id: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse an id that the package itself has: two things of one name are one too many."""
        super().__init_subclass__(**options)
        if "id" not in cls.__dict__ or cls.__module__.startswith("spibb."):
            return
        base: Any = next(kind for kind in reversed(cls.__mro__) if "family" in kind.__dict__)
        for name, kind in base.members():
            if name == cls.id and kind.__module__.startswith("spibb."):
                raise SettingsError(
                    f"{cls.__name__} has the id {name!r}, which {kind.__name__} of spibb has",
                    expected=f"an id of its own for each {cls.family}",
                )

    def to_config(self) -> dict[str, Any]:
        """Return the id and every setting as plain JSON values."""
        values = {item.name: _to_plain(getattr(self, item.name)) for item in fields(self)}
        return {self.family: self.id} | values

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Build what :meth:`to_config` returned; called on a family's base, by the id in it."""
        if not isinstance(config, Mapping):
            raise SettingsError(
                f"a configuration is {config!r}", expected=f'a table, as {{"{cls.family}": "..."}}'
            )
        settings = {name: _from_plain(value) for name, value in config.items()}
        own = getattr(cls, "id", None)
        name = settings.pop(cls.family, own)
        if own not in (None, name):
            raise SettingsError(f"a configuration of {name!r}", expected=f"one of {own!r}")
        kind = cls.named(str(name)) if own is None else cls
        known = [item.name for item in fields(kind)]
        for setting in settings:
            if setting not in known:
                raise SettingsError(
                    f"{kind.id} has no setting {str(setting)!r}",
                    expected=f"one of {', '.join(known)}" if known else "no settings",
                )
        return kind(**settings)

    @classmethod
    def named(cls, name: str) -> type[Self]:
        """Return the member of this family that has this id."""
        here = dict(cls.members())
        return here[name] if name in here else checked_entry(name, cls.known(), cls.family)

    @classmethod
    def known(cls) -> dict[str, type[Self]]:
        """Return all members, by id: the package's, those of plugins, and any that was imported."""
        load_plugins()
        return dict(cls.members())

    @classmethod
    def members(cls) -> Iterator[tuple[str, type[Self]]]:
        """Return the members that have been imported, by id."""
        if "id" in cls.__dict__:
            yield cls.id, cls
        for kind in cls.__subclasses__():
            yield from kind.members()


def checked_entry(name: Any, known: Mapping[str, Kind], what: str, more: str = "") -> Kind:
    """Return what has this name in a list, or refuse it and suggest the nearest.

    Args:
        name: The name.
        known: The list.
        what: What is in it.
        more: What else would have been accepted.
    """
    if isinstance(name, str) and name not in known:
        load_plugins()  # one of which may add to this very list
    if isinstance(name, str) and name in known:
        return known[name]
    near = nearest(str(name), list(known))
    raise SettingsError(
        f"no {what} is called {name!r}",
        expected=", ".join(filter(None, [f"one of {', '.join(known)}", more])),
        hint=f"use {near!r}" if near else None,
    )


def in_words(value: Any) -> str:
    """Return a plain value of a configuration, or a whole one, as people write it.

    Example:
        >>> in_words({"algorithm": "pi-b-spibb", "n_wedge": 10, "bound": None})
        'pi-b-spibb (n_wedge 10)'
        >>> in_words({"error": "hoeffding-q"}), in_words([0.0, 0.5])
        ('hoeffding-q', '0.0, 0.5')
    """
    if isinstance(value, list) and any(isinstance(part, list) for part in value):
        return f"of {len(value)} rows"
    if isinstance(value, list):
        told = ", ".join(map(in_words, value[:_MOST_TOLD]))
        return told if len(value) <= _MOST_TOLD else f"{told}, ... ({len(value)} in all)"
    if not isinstance(value, dict):
        return str(value)
    name, *rest = [(key, part) for key, part in value.items() if part is not None]
    told = ", ".join(f"{key} {in_words(part)}" for key, part in rest)
    return f"{name[1]} ({told})" if told else str(name[1])


def _to_plain(value: Any) -> Any:
    if isinstance(value, Settings):
        return value.to_config()
    if isinstance(value, np.ndarray):
        return strict_json(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_to_plain(part) for part in value]
    return strict_json(value)


def _from_plain(value: Any) -> Any:
    if value in ("inf", "-inf"):
        return math.inf if value == "inf" else -math.inf
    if isinstance(value, list):
        return [_from_plain(part) for part in value]
    if isinstance(value, Mapping):
        for family in Settings.__subclasses__():
            if isinstance(value.get(family.family), str):
                return family.from_config(value)
    return value
