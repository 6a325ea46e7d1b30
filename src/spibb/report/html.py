"""Pages: each one file that loads nothing, with its data inside."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from spibb.assessment.assessment import Assessment
from spibb.assessment.criteria import MOST_HARM
from spibb.data.groups import natural
from spibb.posterior.risk import format_share
from spibb.report import sensitivity
from spibb.report.drawings import Scale, axis_picture, scenarios_picture, span_picture
from spibb.report.representation import (
    QUESTION,
    representation_cells,
    representation_rows,
    representation_sentences,
    states_remark,
)
from spibb.report.tables import CAPTIONS, change_table, group_table
from spibb.representation.agreement import SURVIVING_SHARE
from spibb.settings import in_words
from spibb.words import interval, number, percent, several

# What a picture of changes shows.
_N_STATES, _N_ACTIONS = 12, 8
# The picture of gains in finer states reaches so many times as far as the gain to keep; what lies
# beyond stands at its end.
_FARTHEST = 5.0


def render_report(assessment: Assessment, summary: dict[str, Any], log_section: str = "") -> str:
    """Return the page of a result.

    Args:
        assessment: The assessment of a result.
        summary: What ``summary.json`` holds.
        log_section: HTML on the log itself, if there is any.
    """
    algorithm = summary["algorithm"]
    return render_page(
        "report.html",
        summary=summary,
        objective=summary["objective"],
        certificate=assessment.certificate,
        settings={
            name: in_words(value)
            for name, value in algorithm.items()
            if name != "algorithm" and value is not None
        },
        picture=_change_picture(assessment, summary["changes"]),
        candidates=_candidates(summary["choice"]),
        changes=change_table(summary),
        changes_caption=CAPTIONS[summary["risk"] is not None],
        groups=group_table(summary["groups"]),
        most_harm=MOST_HARM,
        log_section=Markup(log_section),
        finer=finer_states(summary["representation"]),
        states_remark=states_remark(assessment),
        sensitivity_question=sensitivity.QUESTION,
        sensitivity=sensitivity.sensitivity_sentences(summary),
    )


def render_page(template: str, **facts: Any) -> str:
    """Fill in a template; every text is escaped, and the script is the page's own alone."""
    import jinja2

    script = _file("table.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "number": number, "percent": percent, "interval": interval, "island": island,
    }  # fmt: skip
    return environment.get_template(template).render(
        style=Markup(_file("page.css")), script=Markup(script), digest=digest, several=several,
        format_share=format_share, scenarios_picture=lambda gains: Markup(scenarios_picture(gains)),
        **facts,
    )  # fmt: skip


def island(facts: Any) -> Markup:
    """Return JSON that no letter of it can end the element that holds it."""
    text = json.dumps(facts, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)


def spans(
    rows: list[tuple[float, float, float]],
    at: float = 0.0,
    sign: str = "+",
    half: float | None = None,
) -> tuple[Markup, list[Markup]]:
    """Draw (low, mid, high) of each row on one scale; return the axis, and the pictures."""
    scale = Scale.of([at, *(value for row in rows for value in row)])
    pictures = [Markup(span_picture(scale, *row, at, half)) for row in rows]
    return Markup(axis_picture(scale, sign)), pictures


def finer_states(facts: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what a page shows of a gain in finer states; None where there is none.

    Args:
        facts: What `spibb.representation.agreement.Agreement.to_dict` returns.
    """
    if facts is None:
        return None
    rows, claim = representation_rows(facts), facts["claim"]
    farthest = _FARTHEST * max(abs(claim), claim - rows[0]["ends"][0])
    drawn = np.array([(row["ends"][0], row["gain"], row["ends"][1]) for row in rows])
    is_cut = bool((np.abs(drawn) > farthest).any())
    drawn = np.clip(drawn, -farthest, farthest)
    half = SURVIVING_SHARE * claim if claim > 0.0 else None
    axis, pictures = spans([(low, mid, high) for low, mid, high in drawn.tolist()], half=half)
    marks = {None: "", True: "✓ yes", False: "✗ no"}
    said = representation_sentences(facts)
    if half is not None:
        said[-1] += f" The dashed line is at that half, {number(half, '+')}."
    if is_cut:
        said[-1] += " What lies beyond the picture stands at its end."
    return {
        "question": QUESTION,
        "axis": axis,
        "rows": [
            {"name": cells[0], "cells": cells[1:-1], "picture": picture,
             "mark": marks[row["holds"]]}
            for cells, picture, row in zip(representation_cells(facts), pictures, rows, strict=True)
        ],
        "sentences": said,
    }  # fmt: skip


def _file(name: str) -> str:
    return resources.files("spibb.report").joinpath("templates", name).read_text("utf-8")


def _candidates(choice: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return every candidate, the chosen one and then the best first."""
    if choice is None:
        return None
    ordered = sorted(
        enumerate(choice["candidates"]),
        key=lambda item: (item[0] != choice["chosen"], -item[1]["score"]),
    )
    ends = [(*one["gain"]["interval_95"], one["gain"]["mean"]) for _, one in ordered]
    axis, pictures = spans([(low, mid, high) for low, high, mid in ends])
    rows = [
        {"name": one["name"], "score": one["score"], "gain": one["gain"], "picture": picture,
         "is_chosen": place == choice["chosen"]}
        for (place, one), picture in zip(ordered, pictures, strict=True)
    ]  # fmt: skip
    return {"axis": axis, "rows": rows}


def _change_picture(assessment: Assessment, changes: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return what the states and actions that change most had, and have, in natural order."""
    if not changes:
        return None
    policy, baseline = assessment.policy, assessment.baseline.policy
    shown = [one["state"] for one in changes[:_N_STATES]]
    states = [policy.states.places[name] for name in shown]
    old, new = baseline.probabilities[states], policy.probabilities[states]
    most = np.argsort(-np.abs(new - old).sum(axis=0), kind="stable")[:_N_ACTIONS].tolist()
    actions = sorted(most, key=lambda a: natural(policy.actions[a]))
    heads = [policy.actions[a] for a in actions]
    old, new = (_with_others(table, actions) for table in (old, new))
    if len(actions) < policy.n_actions:
        heads.append(several(policy.n_actions - len(actions), "other"))
    return {
        "heads": heads,
        "rows": [
            (name, [(float(x), float(y)) for x, y in zip(old[k], new[k], strict=True)])
            for k, name in enumerate(shown)
        ],
        "n_shown": len(actions),
        "n_changes": len(changes),
        "n_actions": policy.n_actions,
    }


def _with_others(table: NDArray[np.float64], actions: list[int]) -> NDArray[np.float64]:
    """Return the shares of some actions and, where others are left, of those together."""
    kept = table[:, actions]
    if len(actions) == table.shape[1]:
        return kept
    return np.column_stack([kept, np.clip(1.0 - kept.sum(axis=1), 0.0, 1.0)])
