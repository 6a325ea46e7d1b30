"""Tables that say, in their own files, which plan they are of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spibb.errors import DataError
from spibb.studies.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

_FORMAT = 1
_METADATA = b"spibb"


def marked(table: pa.Table, plan: Plan, **facts: Any) -> pa.Table:
    """Return a table that says its plan, and further facts."""
    said = {"format": _FORMAT, "plan": plan.name, "fingerprint": plan.fingerprint, **facts}
    return table.replace_schema_metadata({_METADATA: json.dumps(said)})


def facts_of(table: pa.Table) -> dict[str, Any]:
    """Return what a table says about itself."""
    return dict(json.loads((table.schema.metadata or {}).get(_METADATA, b"{}")))


def checked_facts(
    table: pa.Table, plan: Plan, place: Path, *, what: str, hint: str
) -> dict[str, Any]:
    """Return what a table says about itself; refuse one of another plan.

    Args:
        table: The table.
        plan: The plan that it should be of.
        place: Where it was read.
        what: What it holds.
        hint: What to do about one of another plan.
    """
    facts = facts_of(table)
    if facts.get("format") != _FORMAT or facts.get("fingerprint") != plan.fingerprint:
        raise DataError(
            f"{place} does not belong to the plan beside it",
            expected=f"{what} of {plan.name} ({plan.fingerprint}) in format {_FORMAT}",
            hint=hint,
        )
    return facts
