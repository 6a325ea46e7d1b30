"""One page with all figures of a study; it loads nothing from elsewhere."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure and what to say about it.

    Attributes:
        stem: Name of its files, without the ending.
        title: What it shows, in one line.
        caption: How to read it.
        figure: The picture.
    """

    stem: str
    title: str
    caption: str
    figure: Figure


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
