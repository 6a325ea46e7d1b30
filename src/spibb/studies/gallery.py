"""The figures of a study as files, and a page beside them that shows them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from spibb.atomic_files import write_whole
from spibb.errors import OutputError
from spibb.pictures import own_settings, to_png, to_svg
from spibb.studies.drawing import Drawing
from spibb.studies.registry import read_results
from spibb.studies.results.aggregates import FILE, Results, describe_runs

# Passes figures on as they are drawn.
Track = Callable[[Sequence[Drawing]], Iterable[Drawing]]
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: auto; padding: 1.5rem; }
section { border-top: 1px solid #e2e8f0; break-inside: avoid; }
img { display: block; max-width: 100%; margin: auto; }
"""


def draw_study(folder: str | Path, *, track: Track = iter) -> list[Drawing]:
    """Write aggregates.parquet, every figure as SVG and PNG, and a page with all of them.

    A folder that has a plan and aggregates only, as a published study may, is drawn from those.

    Args:
        folder: The study's folder; figures go to ``figures/`` in it, and are linked by
            ``figures/index.html``.
        track: Called with the figures, to tell how far their drawing is, as `rich.progress.track`.
    """
    folder = Path(folder)
    study, results = read_results(folder)
    if not (results.plan.version1 and (folder / FILE).exists()):  # which are written as they were
        results.aggregates.write(folder / FILE, results.plan)
    with own_settings():
        drawings = list(study.draw(results))
        try:
            _write(folder / "figures", drawings, results, track)
        except OSError as error:
            raise OutputError(f"cannot write the figures: {error.strerror or error}") from None
    return drawings


def _write(folder: Path, drawings: Sequence[Drawing], results: Results[Any], track: Track) -> None:
    folder.mkdir(exist_ok=True)
    for stem, times in Counter(drawing.stem.casefold() for drawing in drawings).items():
        if times > 1:  # one would overwrite the other
            told = f"two figures would be called {stem!r}"
            raise OutputError(told, expected="values of each factor that differ in twelve digits")
    for drawing in track(drawings):
        # It is laid out once, for both of its files.
        drawing.figure.draw_without_rendering()
        drawing.figure.set_layout_engine("none")
        write_whole(folder / f"{drawing.stem}.svg", to_svg(drawing.figure).encode())
        write_whole(folder / f"{drawing.stem}.png", to_png(drawing.figure))
    plan, runs = results.plan, describe_runs(results.aggregates.n, results.plan)
    facts = {
        "Results": f"{runs} of {len(plan.settings)} settings",
        "Plan": f"{plan.name}, fingerprint {plan.fingerprint}, seed {plan.seed}",
        "Numbers": f"../{FILE}: one row for each cell and setting",
    }
    page = render_gallery(f"Figures of the study {plan.name}", facts, drawings)
    write_whole(folder / "index.html", page.encode())


def render_gallery(title: str, facts: dict[str, str], drawings: Sequence[Drawing]) -> str:
    """Return the page as text; it shows the SVG files beside it.

    Args:
        title: Its heading.
        facts: What the study was: name and value, in the order to print.
        drawings: The figures.
    """
    about = "<br>".join(escape(f"{name}: {value}") for name, value in facts.items())
    links = (f'<li><a href="#{quote(x.stem)}">{escape(x.title)}</a></li>' for x in drawings)
    return f"""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
<h1>{escape(title)}</h1>
<p>{about}</p>
<nav aria-label="Figures"><ol>{"".join(links)}</ol></nav>
{"".join(map(_section, drawings))}</html>
"""


def _section(drawing: Drawing) -> str:
    title, caption, file = escape(drawing.title), escape(drawing.caption), quote(drawing.stem)
    return f"""\
<section id="{escape(drawing.stem)}">
<h2>{title}</h2>
<p>{caption} Files: <a href="{file}.svg">SVG</a>, <a href="{file}.png">PNG</a>.</p>
<img src="{file}.svg" alt="{title}. {caption}">
</section>
"""
