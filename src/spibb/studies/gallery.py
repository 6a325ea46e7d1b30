"""The figures of a study as files, and one page with all of them that needs nothing else."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from spibb.errors import OutputError
from spibb.pictures import own_settings, to_png, to_svg
from spibb.studies.drawing import Drawing
from spibb.studies.registry import read_results
from spibb.studies.results.aggregates import FILE, describe_runs
from spibb.studies.results.results import Results
from spibb.whole_files import write_whole

# Passes figures on as they are drawn.
Track = Callable[[Sequence[Drawing]], Iterable[Drawing]]


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
    stems = [drawing.stem.casefold() for drawing in drawings]
    if len(set(stems)) < len(stems):  # one would overwrite the other
        twice = next(stem for stem in stems if stems.count(stem) > 1)
        raise OutputError(
            f"two figures would be called {twice!r}",
            expected="values of each factor that differ in twelve digits",
        )
    images = []
    for drawing in track(drawings):
        # It is laid out once, for both of its files.
        drawing.figure.draw_without_rendering()
        drawing.figure.set_layout_engine("none")
        images.append(to_svg(drawing.figure))
        write_whole(folder / f"{drawing.stem}.svg", images[-1].encode())
        write_whole(folder / f"{drawing.stem}.png", to_png(drawing.figure))
    title = f"Figures of the study {results.plan.name}"
    page = render_gallery(title, _facts(results), drawings, images)
    write_whole(folder / "index.html", page.encode())


def _facts(results: Results[Any]) -> dict[str, str]:
    plan, runs = results.plan, describe_runs(results.aggregates.n, results.plan)
    titles = {name: plan.declared()[name].title for name in plan.factors}
    return {
        "Results": f"{runs} of {len(plan.settings)} settings",
        "Plan": f"{plan.name}, fingerprint {plan.fingerprint}, seed {plan.seed}",
        **{titles[name]: ", ".join(map(str, values)) for name, values in plan.factors.items()},
        "Numbers": f"../{FILE}: one row for each of these and setting",
    }


def render_gallery(
    title: str, facts: dict[str, str], drawings: Sequence[Drawing], images: Sequence[str]
) -> str:
    """Return the page as text.

    Args:
        title: Its heading.
        facts: What the study was: name and value, in the order to print.
        drawings: The figures; the files beside the page are linked under each.
        images: The same figures as SVG.
    """
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    sources = ["data:image/svg+xml;base64," + b64encode(svg.encode()).decode() for svg in images]
    pictures = list(zip(drawings, sources, strict=True))
    page = environment.from_string(_PAGE).render(title=title, facts=facts, pictures=pictures)
    return page + "\n"


_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a202c; background: #f7fafc;
       max-width: 72rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; margin: 0 0 .25rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; }
dt { color: #4a5568; }
dd { margin: 0; overflow-wrap: anywhere; }
nav ol { columns: 24rem; column-gap: 3rem; padding-left: 1.5rem; }
section { background: #fff; border: 1px solid #e2e8f0; border-radius: .5rem;
          padding: 1rem; margin: 1.5rem 0; }
figure { margin: 0; }
figcaption { color: #4a5568; margin-bottom: .75rem; }
img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
a { color: #2b6cb0; }
@media print { body { background: #fff; } section { break-inside: avoid; border: 0; } }
</style>
</head>
<body>
<h1>{{ title }}</h1>
<dl>
{% for name, value in facts.items() %}
<dt>{{ name }}</dt><dd>{{ value }}</dd>
{% endfor %}
</dl>
<nav aria-label="Figures">
<ol>
{% for picture, source in pictures %}
<li><a href="#{{ picture.stem }}">{{ picture.title }}</a></li>
{% endfor %}
</ol>
</nav>
{% for picture, source in pictures %}
<section id="{{ picture.stem }}">
<h2>{{ picture.title }}</h2>
<figure>
<figcaption>{{ picture.caption }} Files: <a href="{{ picture.stem }}.svg">SVG</a>,
<a href="{{ picture.stem }}.png">PNG</a>.</figcaption>
<img src="{{ source }}" alt="{{ picture.title }}. {{ picture.caption }}">
</figure>
</section>
{% endfor %}
</body>
</html>"""
