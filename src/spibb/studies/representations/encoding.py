"""State codes from raw columns: the bins and categories of an analyst."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray[Any]]
Encode = Callable[[Columns], NDArray[np.int64]]


class Part(NamedTuple):
    """One column of a representation, turned into codes.

    Attributes:
        column: The raw column.
        n_codes: Number of codes; they run from 0.
        encode: Codes of rows.
    """

    column: str
    n_codes: int
    encode: Encode


def bins(column: str, edges: tuple[float, ...], typical: float | None = None) -> Part:
    """Cut a column into bins, of which the first and the last are open-ended.

    Args:
        column: The raw column.
        edges: Increasing edges; a value on an edge belongs to the bin above it.
        typical: Value that replaces a missing reading; None: the middle edge.
    """
    cuts = np.array(edges)
    filled = float(edges[len(edges) // 2]) if typical is None else typical

    def encode(columns: Columns) -> NDArray[np.int64]:
        values = columns[column]
        known = np.where(np.isnan(values), filled, values)
        return np.searchsorted(cuts, known, side="right").astype(np.int64)

    return Part(column, len(edges) + 1, encode)


def categories(column: str, n_codes: int) -> Part:
    """Take the codes of a categorical column as they are."""
    return Part(column, n_codes, lambda columns: np.asarray(columns[column], dtype=np.int64))


def cross(*parts: Part) -> tuple[Encode, int]:
    """Combine columns into one code for each combination; return it and the number of codes."""

    def encode(columns: Columns) -> NDArray[np.int64]:
        codes = parts[0].encode(columns)
        for part in parts[1:]:
            codes = codes * part.n_codes + part.encode(columns)
        return codes

    return encode, reduce(lambda n, part: n * part.n_codes, parts, 1)
