"""Collect the figures of a run and print them as one table at its end."""

import pytest

_ROWS: list[tuple[str, str, str, str]] = []


@pytest.fixture
def figures():
    """Return a function that adds a row: what, ours, peer, ratio."""

    def add(what: str, ours: str, peer: str = "", ratio: float | None = None) -> None:
        _ROWS.append((what, ours, peer, "" if ratio is None else f"{ratio:,.1f}"))

    return add


def pytest_terminal_summary(terminalreporter):
    """Print the table."""
    if not _ROWS:
        return
    rows = [("what", "spibb", "peer", "peer / spibb"), *_ROWS]
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    terminalreporter.section("figures")
    for row in rows:
        terminalreporter.write_line(
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))
        )
