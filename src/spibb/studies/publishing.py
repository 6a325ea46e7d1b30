"""Put results into the docs: numbers and figures beside a page, and their places in it filled.

A page has places for them, ``<!-- fill: NAME -->`` to ``<!-- end: NAME -->``, each on a line of its
own; what stands between is replaced. Nothing outside is touched, so that the page can be filled
again after every run.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spibb.atomic_files import write_whole
from spibb.errors import DataError, OutputError
from spibb.runner.store import PLAN_FILE
from spibb.studies.drawing import Drawing
from spibb.studies.gallery import draw_study
from spibb.studies.registry import STUDIES, read_results
from spibb.studies.results.aggregates import FILE, Results
from spibb.studies.study import Study

_PLACE = re.compile(r"(<!-- fill: ([\w-]+) -->\n)(.*?)(<!-- end: \2 -->)", re.S)


class Published(NamedTuple):
    """What was put into the docs.

    Attributes:
        results: Folders of numbers and figures.
        places: The places that were filled, by page.
    """

    results: list[Path]
    places: dict[Path, list[str]]


def publish(folders: Sequence[str | Path], docs: str | Path) -> Published:
    """Publish studies: ``docs/results/NAME`` gets what their figures are drawn from, and these.

    The pages of the docs that tell of them are filled, as far as the studies given say something
    for their places.

    Args:
        folders: Studies' folders, which may be published ones.
        docs: The folder of the docs.
    """
    docs = Path(docs)
    if not docs.is_dir():
        raise OutputError(f"{docs} is no folder", expected="the folder of the docs")
    given = [(Path(folder), *read_results(Path(folder))) for folder in folders]
    places = [_place(docs / "results", one.plan.name.partition(" + ")[0]) for _, _, one in given]
    pages = _pages([results for _, _, results in given], docs)
    drawn: dict[Path, list[Drawing]] = {}
    for (folder, study, results), place in zip(given, places, strict=True):
        try:
            _store(folder, place, study, results)
        except OSError as error:
            raise OutputError(f"cannot write {place}: {error.strerror or error}") from None
        drawn[place] = draw_study(place)
        for file in (place / "figures").iterdir():
            if file.suffix != ".svg":
                file.unlink()
    for page, blocks in pages.items():
        place, text = docs / "results" / page.stem, _text(page)
        if "figures" in _places_of(text) and place in drawn:
            blocks["figures"] = _figures(drawn[place], place, docs)
        write_whole(page, fill_page(text, blocks).encode())
    return Published(places, {page: list(blocks) for page, blocks in pages.items()})


def _pages(given: Sequence[Results[Any]], docs: Path) -> dict[Path, dict[str, str]]:
    """Return what studies say in pages, all of which have the places for it."""
    found: dict[Path, dict[str, str]] = {}
    for name in dict.fromkeys(results.plan.study for results in given):
        of_study = [results for results in given if results.plan.study == name]
        for file, blocks in STUDIES[name].pages(of_study).items():
            found.setdefault(docs / file, {}).update(blocks)
    for page, blocks in found.items():
        fill_page(_text(page), blocks)  # refused before anything is written
    return found


def _place(results: Path, name: str) -> Path:
    """Return the folder of a plan's results; its name is its maker's, and may lead elsewhere."""
    if Path(os.path.normpath(results / name)).parent != Path(os.path.normpath(results)):
        raise OutputError(
            f"the plan is called {name!r}", expected="a name that a folder can have",
            hint="rename it in its plan and run that again",
        )  # fmt: skip
    return results / name


def _store(folder: Path, place: Path, study: Study, results: Results[Any]) -> None:
    """Copy what figures and pages need, and write statistics."""
    if folder.resolve() == place.resolve():
        return
    place.mkdir(parents=True, exist_ok=True)
    for name in (PLAN_FILE, *study.keeps):
        old, new = folder / name, place / name
        if new.is_dir():
            shutil.rmtree(new)
        if old.is_dir():
            shutil.copytree(old, new)
        elif old.exists():
            shutil.copyfile(old, new)
    results.aggregates.write(place / FILE, results.plan)


def _figures(drawings: Sequence[Drawing], place: Path, docs: Path) -> str:
    """Return figures for a page, each with its caption below."""
    folder = (place / "figures").relative_to(docs).as_posix()
    told = (f"![{one.title}]({folder}/{one.stem}.svg)\n\n*{one.caption}*" for one in drawings)
    return "\n\n".join(told)


def _text(page: Path) -> str:
    try:
        return page.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot read the page {page}: {error.strerror or error}") from None


def _places_of(text: str) -> set[str]:
    return {found[1] for found in _PLACE.findall(text)}


def fill_page(text: str, blocks: Mapping[str, str]) -> str:
    r"""Return a page with its places filled.

    Args:
        text: The page.
        blocks: What goes into each place, by name; there must be a place for each.

    Example:
        >>> fill_page("<!-- fill: n -->\n?\n<!-- end: n -->", {"n": "42"})
        '<!-- fill: n -->\n42\n<!-- end: n -->'
    """
    for name in sorted(set(blocks) - _places_of(text)):
        expected = f"<!-- fill: {name} --> and <!-- end: {name} -->"
        raise DataError(f"the page has no place for {name!r}", expected=expected)

    def filled(found: re.Match[str]) -> str:
        begin, name, _, end = found.groups()
        return f"{begin}{blocks[name].rstrip()}\n{end}" if name in blocks else found[0]

    return _PLACE.sub(filled, text)
