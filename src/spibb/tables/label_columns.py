"""Columns of names as integers: a code is the place of a name among those that occur."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.errors import MOST_WHOLE, DataError
from spibb.tables.columns import check_filled, plain

Labels = tuple[str, ...] | None

_MISSING = -1
# A table of this many states by one action is 80 MB.
LARGEST_INDEX = 10_000_000
# Four gigabytes for one table of numbers, of which an algorithm needs several.
_LARGEST_TABLE = 500_000_000


def encode(
    column: Any, name: str, path: str | Path, *, are_indices: bool = False
) -> tuple[NDArray[np.int64], Labels]:
    """Turn one column of integers or labels into integer codes; see :func:`encode_together`."""
    (codes,), labels = encode_together({name: column}, path, are_indices=are_indices)
    return codes, labels


def encode_together(
    columns: dict[str, Any],
    path: str | Path,
    *,
    missing_allowed: Sequence[str] = (),
    are_indices: bool = False,
) -> tuple[list[NDArray[np.int64]], Labels]:
    """Turn columns that share one set of names into integer codes.

    A code is the place of a name among those that occur: integers in their order as numbers, and
    anything else, as text, in that of text.

    Args:
        columns: Arrow columns by name.
        path: The file they come from, for messages.
        missing_allowed: Names of columns that may have empty cells, which become -1, and may be
            written so: no state is an integer below 0.
        are_indices: Integers stand for themselves, whichever occur.

    Returns:
        The codes of each column, and the labels, or None where these are the integers from 0 on.
    """
    columns = {name: plain(column) for name, column in columns.items()}
    for name, column in columns.items():
        if name not in missing_allowed:
            check_filled(column, name, path)
    integers = [_as_integers(column, name, path) for name, column in columns.items()]
    if not all(codes is not None for codes in integers):
        return _as_labels(columns, path)
    found = [codes for codes in integers if codes is not None]
    for name, codes in zip(columns, found, strict=True):
        if name != "action" or are_indices:
            lowest = _MISSING if name in missing_allowed else 0
            largest = LARGEST_INDEX - 1 if are_indices else None
            _check_integers(name, codes, path, lowest, largest)
    if are_indices:
        return found, None
    together = np.concatenate(found)
    places, labels = numbered(together, together[together > _MISSING] if missing_allowed else None)
    return np.split(places, np.cumsum([len(codes) for codes in found])[:-1]), labels


def numbered(
    integers: NDArray[np.int64], met: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], Labels]:
    """Return the places of integers among those that are met, -1 for others, and their labels.

    Args:
        integers: Integers.
        met: Those that are met; None: all.

    Example:
        >>> places, labels = numbered(np.array([30, -1, 200]), np.array([30, 200]))
        >>> places.tolist(), labels
        ([0, -1, 1], ('30', '200'))
    """
    known = np.unique(integers if met is None else met)
    if len(known) == 0 or (known[0] == 0 and known[-1] == len(known) - 1):
        return integers, None
    places = np.searchsorted(known, integers)
    is_known = known[np.minimum(places, len(known) - 1)] == integers
    return np.where(is_known, places, _MISSING), tuple(map(str, known.tolist()))


def _as_integers(column: Any, name: str, path: str | Path) -> NDArray[np.int64] | None:
    """Return the integers of a column with -1 for empty cells, or None if it holds labels."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), _MISSING, dtype=np.int64)
    if pa.types.is_floating(kind):
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        whole = np.isnan(values) | (values == np.floor(values))
        if not whole.all() or np.isinf(values).any():
            return None
        # Beyond it, different numbers were rounded to one.
        large = np.abs(np.nan_to_num(values)) > MOST_WHOLE
        if large.any():
            row = int(np.argmax(large))
            raise _out_of_range(name, f"{values[row]:.0f}", row, path, "integers up to 2^53")
        return np.where(np.isnan(values), _MISSING, values).astype(np.int64)
    if pa.types.is_decimal(kind) and kind.scale == 0:
        # What databases make of identifiers, and of sums of integers.
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid:
            return None
    elif pa.types.is_uint64(kind) and (pc.max(column).as_py() or 0) >= 2**63:
        return None
    if pa.types.is_integer(column.type):
        return np.asarray(column.cast(pa.int64()).fill_null(_MISSING).to_numpy(), dtype=np.int64)
    return None


def _check_integers(
    name: str, codes: NDArray[np.int64], path: str | Path, lowest: int, largest: int | None
) -> None:
    bad = codes < lowest
    if largest is not None:
        bad |= codes > largest
    if bad.any():
        row = int(np.argmax(bad))
        most = "on" if largest is None else f"to {largest}"
        raise _out_of_range(name, str(codes[row]), row, path, f"an integer from 0 {most}")


def _out_of_range(name: str, value: str, row: int, path: str | Path, expected: str) -> DataError:
    return DataError(
        f"{name} {value} is out of range",
        where=f"row {row + 1} of {path}",
        expected=f"{expected}, or a label",
        hint="number them from 0, or write identifiers as text",
    )


def check_size(n_states: int, n_actions: int, path: str | Path) -> None:
    """Refuse numbers of states and actions whose table would not fit into memory."""
    if n_states * n_actions > _LARGEST_TABLE:
        raise DataError(
            f"{path} has {n_states} states and {n_actions} actions",
            expected=f"at most {_LARGEST_TABLE} pairs",
            hint="group states that are alike, or leave out columns that tell rows apart",
        )


def _as_labels(columns: dict[str, Any], path: str | Path) -> tuple[list[NDArray[np.int64]], Labels]:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        texts = [column.cast(pa.string()).combine_chunks() for column in columns.values()]
    except pa.ArrowException as error:
        raise DataError(
            f"{', '.join(columns)} of {path} cannot be read as text: {str(error).splitlines()[0]}",
            expected="integers, or labels in UTF-8",
        ) from None
    # combine_chunks() of an empty chunked array may itself be chunked; concatenation is not.
    seen = pc.unique(pa.chunked_array(texts, type=pa.string())).drop_null()
    labels = tuple(sorted(seen.to_pylist()))
    known = pa.array(labels, type=pa.string())
    codes = [
        np.asarray(pc.index_in(text, value_set=known).fill_null(-1).to_numpy(zero_copy_only=False))
        for text in texts
    ]
    return [code.astype(np.int64) for code in codes], labels
