"""Collect the figures of a run and print them as one table at its end."""

import json
from pathlib import Path

import pytest

_ROWS: list[tuple[str, str, str, str]] = []
# The ratios to peers of each benchmark; the least one, where it has several.
_RATIOS: dict[str, float] = {}


def pytest_addoption(parser):
    """Add the file for ratios, which benchmarks/check.py compares."""
    parser.addoption("--ratios", type=Path, help="write the ratios of this run to a JSON file")


@pytest.fixture
def figures(request):
    """Return a function that adds a row: what, ours, peer, ratio."""
    name = f"{request.node.path.name}::{request.node.name}"

    def add(what: str, ours: str, peer: str = "", ratio: float | None = None) -> None:
        _ROWS.append((what, ours, peer, "" if ratio is None else f"{ratio:,.1f}"))
        if ratio is not None:
            _RATIOS[name] = min(ratio, _RATIOS.get(name, ratio))

    return add


def pytest_terminal_summary(terminalreporter, config):
    """Print the table."""
    if config.getoption("ratios"):
        config.getoption("ratios").write_text(json.dumps(_RATIOS), encoding="utf-8")
    if not _ROWS:
        return
    rows = [("what", "spibb", "peer", "peer / spibb"), *_ROWS]
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    terminalreporter.section("figures")
    for row in rows:
        terminalreporter.write_line(
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))
        )
