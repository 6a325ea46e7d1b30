"""``spibb demo``."""

from __future__ import annotations

from pathlib import Path

from spibb.cli.options import Overwrite, ResultFolder


def demo(out: ResultFolder = Path("spibb-demo"), overwrite: Overwrite = False) -> None:
    """Improve a ward's treatment rule from a log shipped with the package."""
    from spibb.cli.demo_ward import run_demo

    run_demo(out, overwrite=overwrite)
