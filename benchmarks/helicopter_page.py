"""Fill the results of the helicopter study into its page.

``python benchmarks/helicopter_page.py [STUDY] [--page docs/helicopter.md]`` writes the numbers
between the page's marks, and into the study's folder (``docs/results/helicopter``) its figures and
``table.csv``. What it cost is read from ``costs.json`` there.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from spibb.report.figures import to_svg
from spibb.studies.helicopter.figures import draw_helicopter
from spibb.studies.helicopter.page import figure_block, make_blocks
from spibb.studies.helicopter.scores import Scores, aggregate_scores
from spibb.studies.helicopter.tables import best_settings, to_csv
from spibb.studies.page import fill_page


def main() -> None:
    """Read the study, write page, figures and table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path, nargs="?", default=Path("docs/results/helicopter"))
    parser.add_argument("--page", type=Path, default=Path("docs/helicopter.md"))
    chosen = parser.parse_args()
    scores = Scores.of_studies(chosen.study)
    plan, aggregates = scores.plan, aggregate_scores(scores)
    folder = chosen.study / "figures"
    folder.mkdir(exist_ok=True)
    drawings = draw_helicopter(plan, aggregates)
    for drawing in drawings:
        image = to_svg(drawing.figure)
        (folder / f"{drawing.stem}.svg").write_text(image, encoding="utf-8")
    table = to_csv(best_settings(plan, aggregates))
    (chosen.study / "table.csv").write_text(table, encoding="utf-8")
    costs = json.loads((chosen.study / "costs.json").read_text(encoding="utf-8"))
    place = folder.relative_to(chosen.page.parent).as_posix()
    blocks = make_blocks(scores, costs) | {"figures": figure_block(drawings, place)}
    text = fill_page(chosen.page.read_text(encoding="utf-8"), blocks)
    chosen.page.write_text(text, encoding="utf-8")
    print(f"{len(blocks)} places of {chosen.page} are filled")


if __name__ == "__main__":
    main()
