"""Tables that a page holds as data, for its script to sort, search and show in parts.

A table is ``columns`` (head, kind, and what stands where nothing is known), ``rows``, and
``names``, which rows point to: an action's name stands in it once, however many states there are.
"""

from __future__ import annotations

from typing import Any

from spibb.data.objective import FEWEST_EPISODES

_GAIN = "What the change adds to the expected gain of an episode"
_HARM = "Probability that the change takes away instead"
_NEED = "About how many more rows in this state would make harm unlikely enough"
# By whether the posterior is known.
CAPTIONS = {
    True: "Every state that changes. Adds: its part of the expected gain of an episode. Harm: the "
    "probability that this change takes away. More rows: about how many more decisions in this "
    "state would bring that below 5 %; a rule of thumb. All three given the log and a prior.",
    False: "Every state that changes. Value: by how much an episode that is in it gains in the "
    "model made of the log, which is optimistic.",
}


def change_table(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the changes of a result, with numbers no longer than they are shown."""
    names: dict[str, int] = {}
    is_judged, is_withheld = summary["risk"] is not None, summary["withheld"] is not None
    columns = [
        _column("State", "text"),
        _column("Rows", "count"),
        _column("Less of", "shift"),
        _column("More of", "shift"),
    ]
    if is_judged:
        columns += [
            _column("Adds", "signed", none="never seen", title=_GAIN),
            _column("Harm", "share", none="never seen", title=_HARM),
            _column("More rows", "need", none="unforeseeable", title=_NEED),
        ]
    elif not is_withheld:
        columns.append(_column("Value", "signed"))
    rows = []
    for one in summary["changes"]:
        less, more = (names.setdefault(one[name], len(names)) for name in ("less", "more"))
        row = [
            one["state"],
            one["n_rows"],
            [less, _share(one["less_from"]), _share(one["less_from"] - one["less_by"])],
            [more, _share(one["more_from"]), _share(one["more_from"] + one["more_by"])],
        ]
        if is_judged:
            row += [_figures(one["gain"]), _share(one["harm"]), one["more_rows"]]
        elif not is_withheld:
            row.append(_figures(one["value_gain"]))
        rows.append(row)
    return {"columns": columns, "names": list(names), "rows": rows}


def group_table(groups: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the groups of a log; what is not told of few episodes is null."""
    few = f"fewer than {FEWEST_EPISODES}"
    columns = [
        _column("Group", "text"),
        _column("Rows", "count", none="not told"),
        _column("Episodes", "count", none=few),
        _column("Logged return", "number", none="not told"),
        _column("Decisions changed", "share", none="not told"),
    ]
    rows = [
        [one["name"], one["n_rows"], one["n_episodes"], _figures(one["log_return"]),
         _share(one["moved"])]
        for one in groups
    ]  # fmt: skip
    return {"columns": columns, "names": [], "rows": rows}


def _column(head: str, kind: str, **more: str) -> dict[str, str]:
    return {"head": head, "kind": kind, **more}


def _share(value: float | None) -> float | None:
    """Round, and write whole numbers without a fraction: there may be many of them."""
    if value is None:
        return None
    rounded = abs(round(value, 3))
    return int(rounded) if rounded in (0.0, 1.0) else rounded


def _figures(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")
