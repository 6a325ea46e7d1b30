"""The report: one self-contained page."""

from __future__ import annotations

import warnings
from importlib import resources
from typing import Any

from spibb.algorithms.improvement import Improvement
from spibb.pictures import own_settings, to_svg
from spibb.posterior.risk import told_halves, told_share
from spibb.report.changes import Change
from spibb.report.figures import change_figure
from spibb.report.inspection import render_inspection
from spibb.settings import in_words

_N_SHOWN = 100


def render_report(result: Improvement, summary: dict[str, Any], changes: list[Change]) -> str:
    """Return the page as text; it loads nothing from elsewhere."""
    import jinja2

    source = resources.files("spibb.report").joinpath("templates/report.html").read_text("utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(source).render(
        summary=summary,
        certificate=result.certificate,
        settings={
            name: in_words(value)
            for name, value in result.algorithm.items()
            if name != "algorithm" and value is not None
        },
        changes=changes[:_N_SHOWN],
        n_changes=len(changes),
        told_share=told_share,
        told_halves=told_halves,
        picture=_picture(result, changes),
        inspection=render_inspection(result.inspection),
    )


def _picture(result: Improvement, changes: list[Change]) -> str:
    """Draw the changes; a drawing that fails must not cost the result that it is of."""
    if not changes:
        return ""
    try:
        with own_settings():
            return to_svg(change_figure(result.policy, result.baseline.policy, changes))
    except Exception as problem:
        warnings.warn(f"the report has no picture: {problem}", stacklevel=2)
        return ""
