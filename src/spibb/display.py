"""How objects show themselves: a few lines of text, or a small table in a notebook.

Names of states and actions come from logs. In text their control characters are written out, so
that no terminal obeys them; in HTML everything is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import islice

# Names, of a longer list, that are shown.
_N_NAMES = 6
_LONGEST_CELL = 40


@dataclass(frozen=True)
class Card:
    """What an object shows of itself.

    Attributes:
        title: What it is, in a line.
        facts: What matters of it, by name.
        head: Names of the columns of a table.
        rows: The rows of that table.

    Example:
        >>> print(Card("Log: 3 rows", {"actions": "wait, treat"}).text())
        <Log: 3 rows
          actions  wait, treat>
        >>> Card("<b>", head=("x",), rows=[("1",)]).html()
        '<p>&lt;b&gt;</p><table><tr><th>x</th></tr><tr><td>1</td></tr></table>'
    """

    title: str
    facts: Mapping[str, str] = field(default_factory=dict)
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()

    def text(self) -> str:
        """Return it as lines."""
        facts = _aligned([(name, " ".join(fact.split())) for name, fact in self.facts.items()])
        cells = [[short(cell) for cell in row] for row in (self.head, *self.rows) if row]
        return visible("\n  ".join([f"<{self.title}", *facts, *_aligned(cells)])) + ">"

    def html(self) -> str:
        """Return it as a paragraph and tables."""
        parts = [f"<p>{_escaped(self.title)}</p>"]
        if self.facts:
            parts.append(f"<table>{''.join(_html_row(row) for row in self.facts.items())}</table>")
        if self.rows:
            head = _html_row(self.head, "th")
            parts.append(f"<table>{head}{''.join(map(_html_row, self.rows))}</table>")
        return "".join(parts)


class Display:
    """Base of what shows itself by a card."""

    def _card(self) -> Card:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._card().text()

    def _repr_html_(self) -> str:
        return self._card().html()


def listed(names: Iterable[str], size: int) -> str:
    """Return the first of so many names."""
    shown = ", ".join(map(short, islice(names, _N_NAMES)))
    return shown if size <= _N_NAMES else f"{shown}, ... ({size:,} in all)"


def visible(text: str) -> str:
    """Return a text whose control characters are written out, so that a terminal obeys none."""
    return "".join(
        mark if mark.isprintable() or mark == "\n" else mark.encode("unicode_escape").decode()
        for mark in text
    )


def short(text: str, longest: int = _LONGEST_CELL) -> str:
    """Return a text in one line, and of bearable length."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _html_row(cells: Iterable[str], tag: str = "td") -> str:
    return f"<tr>{''.join(f'<{tag}>{_escaped(cell)}</{tag}>' for cell in cells)}</tr>"


def _escaped(text: str) -> str:
    return escape(visible(text))
