"""The figures of a study, and a page with all of them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spibb.errors import OutputError
from spibb.pictures import own_settings
from spibb.report.figures import to_svg
from spibb.runner.store import Store
from spibb.studies.aggregate import FILE, Aggregates, describe_runs
from spibb.studies.complexity.figures import draw_complexity
from spibb.studies.finite.figures import draw_finite
from spibb.studies.gallery import Drawing, render_gallery
from spibb.studies.helicopter.figures import draw_helicopter
from spibb.studies.helicopter.scores import aggregate_helicopter
from spibb.studies.plan import Plan
from spibb.studies.random_mdps.figures import draw_random_mdps
from spibb.studies.registry import read_plan
from spibb.whole_files import write_whole


@dataclass(frozen=True)
class _Figures:
    """What a study's page needs: who draws, the names of its two axes, and who aggregates."""

    draw: Callable[[Any, Aggregates, Path], Sequence[Drawing]]
    eta: str
    size: str
    aggregate: Callable[[Path, Any], Aggregates] = Aggregates.of_study


_FIGURES: dict[str, _Figures] = {
    "random-mdps": _Figures(lambda plan, a, _: draw_random_mdps(plan, a), "η", "Trajectories"),
    "finite": _Figures(lambda plan, a, _: draw_finite(plan, a), "Baselines", "Sizes"),
    "complexity": _Figures(draw_complexity, "Temperature", "Actions"),
    "helicopter": _Figures(
        lambda plan, a, _: draw_helicopter(plan, a),
        "Evaluation (0: short, 1: long)",
        "Transitions",
        aggregate_helicopter,
    ),
}
_DPI = 120
# Passes figures on as they are drawn.
Track = Callable[[Sequence[Drawing]], Iterable[Drawing]]


def draw_study(folder: str | Path, *, track: Track = iter) -> list[Path]:
    """Write aggregates.parquet, every figure as SVG and PNG, and a page with all of them.

    A folder that has a plan and aggregates only, as a published study may, is drawn from those.

    Args:
        folder: The study's folder; figures go to ``figures/`` in it, and are linked by
            ``figures/index.html``.
        track: Called with the figures, to tell how far their drawing is, as `rich.progress.track`.

    Returns:
        The SVG files.
    """
    folder = Path(folder)
    plan = read_plan(Store(folder).plan())
    aggregates = _FIGURES[plan.study].aggregate(folder, plan)
    aggregates.write(folder / FILE, plan)
    with own_settings():
        drawings = _FIGURES[plan.study].draw(plan, aggregates, folder)
        try:
            return _write(folder / "figures", drawings, plan, aggregates, track)
        except OSError as error:
            raise OutputError(f"cannot write the figures: {error.strerror or error}") from None


def _write(
    folder: Path, drawings: Sequence[Drawing], plan: Plan, aggregates: Aggregates, track: Track
) -> list[Path]:
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
        write_whole(folder / f"{drawing.stem}.png", _to_png(drawing.figure))
    title = f"Figures of the study {plan.name}"
    page = render_gallery(title, _facts(plan, aggregates), drawings, images)
    write_whole(folder / "index.html", page.encode())
    return [folder / f"{drawing.stem}.svg" for drawing in drawings]


def _to_png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    # Without the version of matplotlib in it.
    figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return buffer.getvalue()


def _facts(plan: Plan, aggregates: Aggregates) -> dict[str, str]:
    names = _FIGURES[plan.study]
    return {
        "Results": f"{describe_runs(aggregates.n, plan)} of {len(plan.settings)} settings",
        "Plan": f"{plan.name}, fingerprint {plan.fingerprint}, seed {plan.seed}",
        names.eta: ", ".join(f"{eta:g}" for eta in plan.etas),
        names.size: ", ".join(str(size) for size in plan.sizes),
        "Numbers": f"../{FILE}: one row for each of these and setting",
    }
