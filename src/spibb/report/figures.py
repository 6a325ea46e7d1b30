"""Pictures of a result."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from spibb.mdp.policy import TabularPolicy
from spibb.report.changes import Change

_LESS, _MORE, _KEPT = "#f6ad55", "#63b3ed", "#cbd5e0"


def change_figure(
    policy: TabularPolicy, baseline: TabularPolicy, changes: list[Change], n_shown: int = 12
) -> Any:
    """Draw, for the states that change most, how much of each action is dropped and added.

    Every state is a row and every action a cell of it: grey is what stays, orange what the new
    policy takes away, blue what it adds; the numbers say the same without colour.
    """
    from matplotlib.figure import Figure

    names = [policy.state_name(x) for x in range(policy.n_states)]
    rows = [names.index(change.state) for change in changes[:n_shown]]
    n_actions = policy.n_actions
    figure = Figure(figsize=(1.6 + 1.9 * n_actions, 1.1 + 0.36 * max(len(rows), 1)))
    axes = figure.add_subplot()
    for place, x in enumerate(rows):
        for a in range(n_actions):
            _draw_cell(axes, place, a, float(baseline.probabilities[x, a]),
                       float(policy.probabilities[x, a]))  # fmt: skip
    axes.set_xlim(0, n_actions)
    axes.set_ylim(len(rows), 0)
    axes.set_yticks(np.arange(len(rows)) + 0.5, [names[x] for x in rows])
    axes.set_xticks(np.arange(n_actions) + 0.45, [policy.action_name(a) for a in range(n_actions)])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("grey: kept, orange: taken away, blue: added (baseline → new, in %)")
    figure.tight_layout()
    return figure


def _draw_cell(axes: Any, row: int, action: int, old: float, new: float) -> None:
    kept = min(old, new)
    width = 0.9
    axes.barh(row + 0.5, width, left=action, height=0.8, color="#f7fafc")
    axes.barh(row + 0.5, width * kept, left=action, height=0.8, color=_KEPT)
    axes.barh(row + 0.5, width * abs(new - old), left=action + width * kept, height=0.8,
              color=_MORE if new > old else _LESS)  # fmt: skip
    same = abs(new - old) < 0.005
    label = f"{100 * old:.0f}" if same else f"{100 * old:.0f} → {100 * new:.0f}"
    axes.text(action + width / 2, row + 0.5, label, ha="center", va="center", fontsize=8.5)


def to_svg(figure: Any) -> str:
    """Return a figure as SVG text, without dates, so that equal figures are equal files."""
    import matplotlib

    buffer = io.StringIO()
    # Text stays text: searchable, and half the size.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "spibb"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
