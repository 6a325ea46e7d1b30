"""Fill the results of a helicopter study into its page.

``python benchmarks/helicopter_page.py STUDY... [--costs FILE...] [--page docs/helicopter.md]``
writes the numbers between the page's marks, the figures into ``images/helicopter/`` beside it, and
the table as ``helicopter-table.csv`` there.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from spibb.studies.helicopter.figures import draw_helicopter
from spibb.studies.helicopter.page import figure_block, make_blocks
from spibb.studies.helicopter.scores import Scores, summarise
from spibb.studies.helicopter.tables import best_settings, to_csv
from spibb.studies.page import fill_page

_IMAGES = "images/helicopter"


def main() -> None:
    """Read the study, write page, figures and table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", type=Path, nargs="+")
    parser.add_argument("--page", type=Path, default=Path("docs/helicopter.md"))
    parser.add_argument("--costs", type=Path, nargs="*", default=[])
    chosen = parser.parse_args()
    scores = Scores.of_studies(*chosen.studies)
    plan, aggregates = scores.plan, summarise(scores)
    folder = chosen.page.parent / _IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    for drawing in draw_helicopter(plan, aggregates):
        drawing.figure.savefig(folder / f"{drawing.stem}.png", dpi=110, metadata={"Software": None})
    table = to_csv(best_settings(plan, aggregates))
    (folder / "helicopter-table.csv").write_text(table, encoding="utf-8")
    costs = {}
    for file in chosen.costs:
        costs |= json.loads(file.read_text(encoding="utf-8"))
    blocks = make_blocks(scores, costs) | {"figures": figure_block(plan, _IMAGES)}
    text = fill_page(chosen.page.read_text(encoding="utf-8"), blocks)
    chosen.page.write_text(text, encoding="utf-8")
    print(f"{len(blocks)} places of {chosen.page} are filled")


if __name__ == "__main__":
    main()
