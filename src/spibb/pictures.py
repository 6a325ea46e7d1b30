"""Pictures under settings of our own, and as files.

A user's ``matplotlibrc`` may ask for LaTeX, be damaged, or name a screen that is not there, and so
may the environment. None of it is about our figures: they are drawn as matplotlib comes.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_DPI = 120
_FOREIGN = ("MPLBACKEND", "MATPLOTLIBRC", "SOURCE_DATE_EPOCH")


@contextmanager
def own_settings() -> Iterator[None]:
    """Draw with the settings that matplotlib comes with, whatever the user has set."""
    with _without(_FOREIGN):
        matplotlib = _import_matplotlib()
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            yield


def _import_matplotlib() -> Any:
    """Import it without reading a file of the user's."""
    if "matplotlib" in sys.modules:
        return sys.modules["matplotlib"]
    os.environ["MATPLOTLIBRC"] = os.devnull  # no settings, and no search for others
    # One that lies in the working folder would come first all the same.
    here = Path.cwd() if Path("matplotlibrc").exists() else None
    try:
        if here is not None:
            os.chdir(Path(__file__).parent)
        return importlib.import_module("matplotlib")
    finally:
        del os.environ["MATPLOTLIBRC"]
        if here is not None:
            os.chdir(here)


@contextmanager
def _without(names: tuple[str, ...]) -> Iterator[None]:
    """Take variables out of the environment for a while."""
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


@contextmanager
def any_alphabet() -> Iterator[None]:
    """Let names be in any alphabet: a page is drawn with the reader's fonts, not with ours."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


def to_svg(figure: Any) -> str:
    """Return a figure as SVG text, without dates, so that equal figures are equal files."""
    import matplotlib

    buffer = io.StringIO()
    # Text stays text: searchable, and half the size.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "spibb"}), any_alphabet():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def to_png(figure: Any) -> bytes:
    """Return a figure as PNG, without the version of matplotlib in it."""
    buffer = io.BytesIO()
    with any_alphabet():
        figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return buffer.getvalue()
