"""Fill the numbers of a study into a page of the docs.

A page has places for them, ``<!-- fill: NAME -->`` to ``<!-- end: NAME -->``, each on a line of its
own; what stands between is replaced. Nothing outside is touched, so that the page can be filled
again after every run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from spibb.errors import DataError

_PLACE = re.compile(r"(<!-- fill: ([\w-]+) -->\n)(.*?)(<!-- end: \2 -->)", re.S)


def fill_page(text: str, blocks: Mapping[str, str]) -> str:
    r"""Return a page with its places filled.

    Args:
        text: The page.
        blocks: What goes into each place, by name; there must be a place for each.

    Example:
        >>> fill_page("<!-- fill: n -->\n?\n<!-- end: n -->", {"n": "42"})
        '<!-- fill: n -->\n42\n<!-- end: n -->'
    """
    missing = sorted(set(blocks) - {found[1] for found in _PLACE.findall(text)})
    if missing:
        raise DataError(
            f"the page has no place for {missing[0]!r}",
            expected=f"<!-- fill: {missing[0]} --> and <!-- end: {missing[0]} -->",
        )
    return _PLACE.sub(
        lambda found: (
            f"{found[1]}{blocks[found[2]].rstrip()}\n{found[4]}" if found[2] in blocks else found[0]
        ),
        text,
    )
