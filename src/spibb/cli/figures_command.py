"""``spibb study figures``: draw what a study found."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import track
from rich.text import Text

from spibb.cli.printing import console
from spibb.errors import OutputError, SettingsError
from spibb.report.figures import to_svg
from spibb.runner.store import Store
from spibb.studies.aggregate import FILE, Aggregates, describe_runs
from spibb.studies.gallery import Drawing, render_gallery
from spibb.studies.plan import Plan
from spibb.studies.random_mdps.figures import draw_random_mdps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FIGURES: dict[str, Callable[[Plan, Aggregates], Sequence[Drawing]]] = {
    "random-mdps": draw_random_mdps
}
_DPI = 120


def draw_study(folder: Path) -> None:
    """Write aggregates.parquet, every figure as SVG and PNG, and a page with all of them.

    A folder that has aggregates and no parts, as a published study may, is drawn from those.

    Args:
        folder: The study's folder; figures go to ``figures/`` in it.
    """
    plan = Plan.from_toml(Store(folder).plan())
    if plan.study not in _FIGURES:
        raise SettingsError(
            f"the study {plan.study!r} has no figures", expected=", ".join(_FIGURES)
        )
    aggregates = Aggregates.of_study(folder, plan)
    aggregates.write(folder / FILE, plan)
    drawings = _FIGURES[plan.study](plan, aggregates)
    try:
        _write(folder / "figures", drawings, plan, aggregates)
    except OSError as error:
        raise OutputError(f"cannot write the figures: {error.strerror or error}") from None
    place = folder / "figures" / "index.html"
    console.print(Text(f"{len(drawings)} figures are in {place}"), soft_wrap=True)


def _write(folder: Path, drawings: Sequence[Drawing], plan: Plan, aggregates: Aggregates) -> None:
    folder.mkdir(exist_ok=True)
    images = []
    for drawing in track(drawings, "drawing", console=console):
        _settle(drawing.figure)
        images.append(to_svg(drawing.figure))
        (folder / f"{drawing.stem}.svg").write_text(images[-1], encoding="utf-8")
        (folder / f"{drawing.stem}.png").write_bytes(_to_png(drawing.figure))
    title = f"Figures of the study {plan.name}"
    page = render_gallery(title, _facts(plan, aggregates), drawings, images)
    (folder / "index.html").write_text(page, encoding="utf-8")


def _settle(figure: Figure) -> None:
    """Lay a figure out once, for both of its files."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def _to_png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    # Without the version of matplotlib in it.
    figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return buffer.getvalue()


def _facts(plan: Plan, aggregates: Aggregates) -> dict[str, str]:
    return {
        "Results": f"{describe_runs(aggregates.n, plan)} of {len(plan.settings)} settings",
        "Plan": f"{plan.name}, fingerprint {plan.fingerprint}, seed {plan.seed}",
        "η": ", ".join(f"{eta:g}" for eta in plan.etas),
        "Trajectories": ", ".join(str(size) for size in plan.sizes),
        "Numbers": f"../{FILE}: one row for each η, number of trajectories and setting",
    }
