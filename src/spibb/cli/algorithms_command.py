"""``spibb algorithms``."""

from __future__ import annotations

from spibb.cli.options import DEFAULT_ALGORITHM, Format, PrintFormat


def algorithms(printed: PrintFormat = Format.table) -> None:
    """List the algorithms and their settings."""
    from rich.padding import Padding
    from rich.text import Text

    from spibb.algorithms.base import Algorithm
    from spibb.algorithms.registry import ALGORITHMS
    from spibb.cli.printing import console, print_as
    from spibb.settings import in_words

    kinds = ALGORITHMS | Algorithm.known()  # those of plugins last
    facts = {name: kind().to_config() for name, kind in kinds.items()}
    rows = [
        (
            name,
            (kinds[name].__doc__ or "").splitlines()[0],
            # The name alone where nothing is set.
            "; ".join(
                setting if value is None else f"{setting}={in_words(value)}"
                for setting, value in config.items()
                if setting != "algorithm"
            ),
        )
        for name, config in facts.items()
    ]

    def show() -> None:
        for name, summary, settings in rows:
            told = f"{name} (default)" if name == DEFAULT_ALGORITHM else name
            console.print(Text(f"{told}: {summary}"))
            console.print(Padding(Text(settings or "no settings"), (0, 0, 0, 4), expand=False))

    head = ("id", "description", "settings")
    print_as(printed, json=lambda: facts, csv=lambda: [head, *rows], table=show)
