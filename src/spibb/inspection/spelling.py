"""Are labels spelled in several ways?

``Drug-A``, ``drug_a`` and ``DRUG A`` are three actions to a program and one to whoever wrote them.
Labels are compared without case, spaces and separators, whichever of its dashes, spaces and quotes
Unicode has in their place. What may carry a meaning counts: signs and
other symbols, the decimal point, and where digits are separated (``1-12`` is not ``11-2``).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from spibb.inspection.check import Check
from spibb.inspection.finding import Finding
from spibb.words import several

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

# Dashes (and the minus), quotes, and what is not seen at all: a soft hyphen, spaces of no width.
_PLAIN = str.maketrans(
    dict.fromkeys(map(chr, (*range(0x2010, 0x2016), 0x2043, 0x2212)), "-")
    | dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u2032\u00b4`", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"')
    | dict.fromkeys("\u00ad\u200b\u2060\ufeff", " ")
)
_SEPARATORS = re.compile(r"[\s_\-/.,;:'\"()\[\]]+")
# A point or comma between digits is a decimal one; a hyphen before the first digit is a sign.
_KEPT = re.compile(r"(?<=\d)[.,](?=\d)|^\s*-(?=[\d.])|(?<=\w)-$")
_N_SHOWN = 5


class Spelling(Check):
    """Find labels that differ only by case, spaces or separators."""

    id = "spelling"
    title = "Labels that are spelled in several ways"
    verdict_effect = "monitor"
    finding_ids = ("state-spelling", "action-spelling")

    def run(self, evidence: Evidence) -> Iterator[Finding]:
        """Yield groups of states, and of actions, that look like one."""
        log = evidence.log
        for what, labels, codes in (
            ("state", log.state_labels, log.state),
            ("action", log.action_labels, log.action),
        ):
            groups = alike(labels or ())
            if not groups:
                continue
            assert labels is not None
            n_rows = np.bincount(codes, minlength=len(labels))
            groups.sort(key=lambda one: -int(n_rows[one].sum()))
            yield _finding(what, labels, groups, n_rows)


def alike(labels: tuple[str, ...]) -> list[list[int]]:
    """Return the places of labels that are spelled alike, group by group.

    Example:
        >>> alike(("Drug-A", "drug b", "drug_a", "-1", "1", "1-12", "11-2", "B+", "B-"))
        [[0, 2]]
    """
    groups: dict[str, list[int]] = {}
    for place, label in enumerate(labels):
        if any(letter.isalpha() for letter in label):
            groups.setdefault(plain_spelling(label), []).append(place)
    return [one for one in groups.values() if len(one) > 1]


def plain_spelling(label: str) -> str:
    """Return a label without case, spaces and separators; digits stay separated.

    Example:
        >>> plain_spelling(" Drug-A"), plain_spelling("dose 1.5 / 2"), plain_spelling("dose 15/2")
        ('druga', 'dose1.5|2', 'dose15|2')
    """
    # Before and after: NFKC makes some of these signs of others, and a space and a mark of one.
    text = unicodedata.normalize("NFKC", label.translate(_PLAIN)).translate(_PLAIN)
    text = text.casefold().strip()
    found, start = [], 0
    kept = {place.start() for place in _KEPT.finditer(text)}
    for gap in _SEPARATORS.finditer(text):
        found.append(text[start : gap.start()])
        start = gap.end()
        if any(place in kept for place in range(gap.start(), gap.end())):
            found.append(gap.group().strip())
        elif _is_between_digits(text, gap.start(), gap.end()):
            found.append("|")
    found.append(text[start:])
    return "".join(found)


def _is_between_digits(text: str, start: int, end: int) -> bool:
    return start > 0 and end < len(text) and text[start - 1].isdigit() and text[end].isdigit()


def _finding(
    what: str, labels: tuple[str, ...], groups: list[list[int]], n_rows: np.ndarray
) -> Finding:
    first = ", ".join(repr(labels[k]) for k in groups[0][:_N_SHOWN])
    n_labels = sum(len(one) for one in groups)
    return Finding(
        check=f"{what}-spelling",
        severity="biased",
        found=f"{several(n_labels, what)} differ only by case, spaces or punctuation, such as "
        f"{first}: {len(groups)} instead of {n_labels} if these are spellings of the same.",
        effect=f"Each spelling counts as a {what} of its own. Rows are spread over them, and where "
        "a spelling belongs to a place or a time, its gain is that of the place or the time.",
        advice="Write each label in one way, or rename those that are different things.",
        share=float(sum(n_rows[one].sum() for one in groups) / max(1, n_rows.sum())),
        places=[
            {
                "spellings": ", ".join(repr(labels[k]) for k in one[:_N_SHOWN]),
                "rows": int(n_rows[one].sum()),
            }
            for one in groups[:_N_SHOWN]
        ],
    )
