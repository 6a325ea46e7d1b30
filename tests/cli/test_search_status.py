"""Progress of long searches on the command line."""

import io

import pytest
from rich.console import Console

from spibb.cli import search_status as module
from spibb.progress import Progress, tell


@pytest.fixture
def screen(monkeypatch):
    """A terminal that remembers what was written."""
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120)
    monkeypatch.setattr(module, "console", console)
    return written


def test_a_long_search_says_where_it_stands(screen, monkeypatch):
    monkeypatch.setattr(module.time, "monotonic", lambda: 0.0)
    with module.search_status("Improving ..."):
        tell(Progress("a better policy", step=3, moment=4.0))
        tell(Progress("values", 1.0, 1e-6, moment=5.0))
        tell(Progress("values", 1e-2, 1e-6, moment=6.0))
        monkeypatch.undo()
        import time

        time.sleep(0.3)
    assert (
        "step 3; values, error 1.0e-02 of at most 1e-06; about 2 s of it left" in screen.getvalue()
    )


def test_a_short_one_does_not(screen):
    with module.search_status("Improving ..."):
        tell(Progress("values", 1.0, 1e-6))
    assert "error" not in screen.getvalue()


def test_nothing_is_said_of_what_does_not_fall():
    first = Progress("values", 1.0, 1e-6, moment=0.0)
    assert module.seconds_left(first, Progress("values", 1.0, 1e-6, moment=1.0)) is None
    assert module.seconds_left(first, Progress("values", 0.5, moment=1.0)) is None


def test_what_is_left_of_a_share():
    first = Progress("models", share=0.0, moment=0.0)
    last = Progress("models", share=0.25, moment=4.0)
    assert module.seconds_left(first, last) == 12.0
    seen = module._Seen()
    for progress in (Progress("values", 0.5, 1e-9), first, last):
        seen.add(progress)
    assert seen.words == "(models, 25 %; about 12 s of it left)"
    seen.add(Progress("models", share=0.0, moment=9.0))
    assert seen.words == "(models, 0 %)", "a search that begins again"


def test_shares_say_how_much_is_left(screen, monkeypatch):
    monkeypatch.setattr(module.time, "monotonic", lambda: 0.0)
    with module.search_status("Improving ..."):
        tell(Progress("checks of the log", share=0.0, moment=4.0))
        tell(Progress("checks of the log", share=0.2, moment=6.0))
        monkeypatch.undo()
        import time

        time.sleep(0.3)
    assert "checks of the log, 20 %; about 8 s of it left" in screen.getvalue()


def test_without_a_terminal_lines_come_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(module, "console", Console(file=io.StringIO(), force_terminal=False))
    monkeypatch.setattr(module.time, "monotonic", lambda: 0.0)
    with module.search_status("Improving ..."):
        for moment in (5.0, 11.0, 12.0, 22.0):
            tell(Progress("checks of the log", share=moment / 100, moment=moment))
    assert capsys.readouterr().err.splitlines() == [
        "Improving ... (checks of the log, 11 %; about 89 s of it left)",
        "Improving ... (checks of the log, 22 %; about 78 s of it left)",
    ]
