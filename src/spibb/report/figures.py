"""Pictures of a result for papers and notebooks; the report has its own, in the page's colours."""

from __future__ import annotations

from typing import Any

import numpy as np

from spibb.mdp.policy import TabularPolicy
from spibb.pictures import any_alphabet
from spibb.report.changes import Change

_LESS, _MORE, _KEPT = "#f6ad55", "#63b3ed", "#cbd5e0"
_N_ACTIONS = 8
# Letters that fit beside a row, and above a cell.
_ROW_LETTERS, _CELL_LETTERS = 32, 18


def change_figure(
    policy: TabularPolicy, baseline: TabularPolicy, changes: list[Change], n_shown: int = 12
) -> Any:
    """Draw, for the states that change most, how much of each action is dropped and added.

    Every state is a row and every action a cell of it: grey is what stays, orange what the new
    policy takes away, blue what it adds; the numbers say the same without colour. Of many states
    and actions those that change most are drawn, and it is said how many those are.
    """
    from matplotlib.figure import Figure

    names = [policy.states[x] for x in range(policy.n_states)]
    rows = [names.index(change.state) for change in changes[:n_shown]]
    actions = _most_changed(policy, baseline, rows)
    figure = Figure(figsize=(1.6 + 1.9 * len(actions), 1.1 + 0.36 * max(len(rows), 1)))
    axes = figure.add_subplot()
    for place, x in enumerate(rows):
        for column, a in enumerate(actions):
            _draw_cell(axes, place, column, float(baseline.probabilities[x, a]),
                       float(policy.probabilities[x, a]))  # fmt: skip
    axes.set_xlim(0, len(actions))
    axes.set_ylim(len(rows), 0)
    # Names are names, also those with dollar signs in them.
    sides = [_short(names[x], _ROW_LETTERS) for x in rows]
    heads = [_short(policy.actions[a], _CELL_LETTERS) for a in actions]
    axes.set_yticks(np.arange(len(rows)) + 0.5, sides, parse_math=False)
    axes.set_xticks(np.arange(len(actions)) + 0.45, heads, parse_math=False)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    cut = _left_out(len(rows), len(changes), "states")
    cut += _left_out(len(actions), policy.n_actions, "actions")
    axes.set_xlabel(f"grey: kept, orange: taken away, blue: added (baseline → new, in %){cut}")
    with any_alphabet():
        figure.tight_layout()
    return figure


def _most_changed(policy: TabularPolicy, baseline: TabularPolicy, rows: list[int]) -> list[int]:
    moved = np.abs(policy.probabilities - baseline.probabilities)[rows].sum(axis=0)
    return sorted(np.argsort(-moved, kind="stable")[:_N_ACTIONS].tolist())


def _left_out(shown: int, size: int, what: str) -> str:
    return "" if shown == size else f"; {shown} of {size:,} {what}"


def _short(name: str, longest: int) -> str:
    text = "".join(mark if mark.isprintable() else " " for mark in name)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _draw_cell(axes: Any, row: int, action: int, old: float, new: float) -> None:
    kept = min(old, new)
    width = 0.9
    # Numbers stand above their bar, not across its parts.
    place, height = row + 0.78, 0.3
    axes.barh(place, width, left=action, height=height, color="#f7fafc")
    axes.barh(place, width * kept, left=action, height=height, color=_KEPT)
    axes.barh(place, width * abs(new - old), left=action + width * kept, height=height,
              color=_MORE if new > old else _LESS)  # fmt: skip
    same = abs(new - old) < 0.005
    label = f"{100 * old:.0f}" if same else f"{100 * old:.0f} → {100 * new:.0f}"
    axes.text(action, row + 0.32, label, ha="left", va="center", fontsize=8.5)
