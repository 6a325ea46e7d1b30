"""Plans and rows of version 1, where every study had "etas" and "sizes", whatever they meant.

Such folders are read as if they had been written today, under their old fingerprint, which their
files carry; what is made of them is written in the present version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from spibb.errors import SettingsError
from spibb.studies.kinds import check


class Version1:
    """How a study's plans of version 1 are read, and its rows: its two factors had other names.

    Args:
        eta: What "etas" are called now.
        size: What "sizes" are called now.
        values: What the etas themselves are called now, where that has changed too.
    """

    def __init__(self, eta: str, size: str, values: Mapping[float, str] = {}) -> None:
        self._names = {"eta": eta, "size": size}
        self._values = values

    def plan(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return what the plan says in the present version; settings are done already."""
        return {self._names.get(name.removesuffix("s"), name): fact for name, fact in facts.items()}

    def rows(self, table: pa.Table, plan: Any) -> pa.Table:
        """Return rows, or a table with a row for each cell, with the present columns."""
        if self._values and "eta" in table.column_names:
            place = table.column_names.index("eta")
            named = [self._values.get(eta, str(eta)) for eta in table["eta"].to_pylist()]
            table = table.set_column(place, "eta", [named])
        return rename(table, self._names)

    def labels(self, plan: Any) -> list[str]:
        """Return what the settings are called now, in the order of the plan of version 1."""
        return list(plan.labels)


def rename(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """Return a table with some columns under other names."""
    found = table.rename_columns([names.get(name, name) for name in table.column_names])
    return found.replace_schema_metadata(table.schema.metadata)


def upgraded(facts: Mapping[str, Any], version1: Version1) -> dict[str, Any]:
    """Return what the TOML of a plan of version 1 says in the present version."""
    # One that does not say its rules was written under the first.
    found = {"rules": 1, **facts}
    settings = found.get("settings", [])
    check(isinstance(settings, list), settings, "settings", "a list of tables")
    if settings:
        found["settings"] = [_setting(one) for one in settings]
    for name in ("etas", "sizes"):
        if name in found and not found[name]:
            raise SettingsError(f"the plan has no {name}", expected="at least one")
    return version1.plan(found)


def _setting(facts: Any) -> dict[str, Any]:
    """Tell apart what version 1 wrote as one text: "kappa: RaMDP"."""
    check(isinstance(facts, dict), facts, "a setting", "a table")
    if "label" not in facts:
        raise SettingsError("a setting lacks an entry 'label'", hint="add it")
    found = {"group": "", **facts}
    for name in ("label", "group"):
        check(isinstance(found[name], str), found[name], f"the {name} of a setting", "a text")
    parameter, _, family = found.pop("group").partition(": ")
    return found | ({"family": family, "parameter": parameter} if parameter else {})
