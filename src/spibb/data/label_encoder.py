"""Names as they come, numbered: what they are is decided when all of them were seen.

A CSV file does not say whether a column holds whole numbers or names, and labels are numbered in
their order, so states are counted under the numbers of their first appearance, and get their own at
the end. It is decided as for a table that is in memory (spibb.tables.csv_files,
spibb.tables.reading).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.errors import MOST_WHOLE
from spibb.tables.csv_files import numbers_or_names
from spibb.tables.label_columns import LARGEST_INDEX, Labels, numbered
from spibb.tables.source import NotStreamedError

MISSING = -1


class NumberCodes:
    """Columns of integers from 0 that share their meaning, as state and next state."""

    def __init__(self, may_lack: Collection[str]) -> None:
        self.may_lack = may_lack
        self._is_met = np.zeros(1, np.bool_)

    def encode(self, column: Any, name: str) -> NDArray[np.int64]:
        """Return the numbers of a column, -1 for empty cells."""
        values = whole_numbers(column, may_lack=name in self.may_lack)
        lowest = MISSING if name in self.may_lack else 0
        if len(values) and (values.min() < lowest or values.max() >= LARGEST_INDEX):
            raise NotStreamedError(f"{name} is out of range")
        largest = int(values.max(initial=0))
        if largest >= len(self._is_met):
            self._is_met = np.append(self._is_met, np.zeros(largest + 1, np.bool_))
        self._is_met[values[values >= 0] if lowest < 0 else values] = True
        return values

    def decided(self, size: int | None = None) -> tuple[NDArray[np.int64], int, Labels]:
        """Return what each number stands for, how many there are, and the labels, if they are any.

        Args:
            size: How many there are, where integers stand for themselves.
        """
        return _decided(np.arange(len(self._is_met)), np.flatnonzero(self._is_met), size)


class TextCodes:
    """Columns of texts that share their meaning."""

    def __init__(self, may_lack: Collection[str], *, is_csv: bool) -> None:
        self.may_lack, self.is_csv = may_lack, is_csv
        self._codes: dict[str, int] = {}
        # By column and file, the codes that occur in it.
        self._met: dict[tuple[str, int], NDArray[np.bool_]] = {}

    def encode(self, column: Any, name: str, file: int) -> NDArray[np.int64]:
        """Return the codes of a column of dictionaries, -1 for empty cells."""
        if column.null_count and name not in self.may_lack:
            raise NotStreamedError(f"{name} has an empty cell")
        try:
            texts = column.dictionary.to_pylist()
        except UnicodeDecodeError:
            raise NotStreamedError(f"{name} is no text") from None
        if None in texts:
            raise NotStreamedError(f"{name} has an empty name")
        known = self._codes
        codes = np.array([known.setdefault(text, len(known)) for text in texts], np.int64)
        places = column.indices
        if column.null_count:
            places = places.fill_null(MISSING)
        found = np.append(codes, MISSING)[places.to_numpy(zero_copy_only=False)]
        met = self._met.get((name, file), np.zeros(0, np.bool_))
        if len(met) < len(known):
            met = np.append(met, np.zeros(2 * len(known) - len(met), np.bool_))
        met[found[found >= 0] if column.null_count else found] = True
        self._met[name, file] = met
        return np.asarray(found)

    def decided(self, size: int | None = None) -> tuple[NDArray[np.int64], int, Labels]:
        """Return what each code stands for; see :meth:`NumberCodes.decided`."""
        texts = np.array(list(self._codes), dtype=object)
        values = self._decided_values(texts)
        if all(isinstance(value, int) for value in values if value is not None):
            given = [MISSING if value is None else value for value in values]
            numbers = np.array(given, np.int64) if given else np.zeros(0, np.int64)
            if any(value is not None and value < 0 for value in values):
                raise NotStreamedError("integers below 0")
            return _decided(numbers, numbers[numbers >= 0], size)
        labels = tuple(sorted({value for value in values if value is not None}))
        places = {label: place for place, label in enumerate(labels)}
        return np.array([places.get(value, MISSING) for value in values]), len(labels), labels

    def identifiers(self) -> NDArray[Any]:
        """Return what each code stands for, numbers or texts, where there are too many to count."""
        return np.array(self._decided_values(np.array(list(self._codes), dtype=object)))

    def _decided_values(self, texts: NDArray[Any]) -> list[Any]:
        """Return the name or number of each code, None where it does not occur."""
        import pyarrow as pa

        values: list[Any] = [None] * len(texts)
        if not self.is_csv:
            for met in self._met.values():
                for code in np.flatnonzero(met):
                    values[code] = texts[code]
            return values
        columns: dict[str, list[Any]] = {}
        codes: dict[str, list[NDArray[np.intp]]] = {}
        for (name, _), met in self._met.items():
            here = np.flatnonzero(met)
            names = pa.array(texts[here].tolist(), pa.string())
            places = pa.array(np.arange(len(here), dtype=np.int32))
            part = pa.chunked_array([pa.DictionaryArray.from_arrays(places, names)])
            columns.setdefault(name, []).append(part)
            codes.setdefault(name, []).append(here)
        for name, parts in numbers_or_names(columns, self.may_lack).items():
            for here, part in zip(codes[name], parts, strict=True):
                for code, value in zip(here, part.to_pylist(), strict=True):
                    values[code] = value
        met_values = [values[code] for parts in codes.values() for here in parts for code in here]
        if None in met_values or len(set(met_values)) < sum(value is not None for value in values):
            # Counted as a state, but none; or as two, but one.
            raise NotStreamedError("names of different spelling")
        return values


def _decided(
    codes: NDArray[np.int64], met: NDArray[np.int64], size: int | None
) -> tuple[NDArray[np.int64], int, Labels]:
    """Return the places of integers among those that are met, or as they are."""
    places, labels = (codes, None) if size is not None else numbered(codes, met)
    largest = int(met.max(initial=0))
    if labels is None and size is None:
        size = largest + 1
    elif size is not None and largest >= size:
        raise NotStreamedError("integers are out of range")
    return places, len(labels or ()) if size is None else size, labels


def whole_numbers(column: Any, *, may_lack: bool = False) -> NDArray[np.int64]:
    """Return whole numbers, as integers or floats, -1 for empty cells where these are allowed."""
    import pyarrow as pa

    if column.null_count:
        if not may_lack:
            raise NotStreamedError("an empty cell")
        column = column.fill_null(pa.scalar(MISSING, column.type))
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        if may_lack:
            values = np.where(np.isnan(values), MISSING, values)
        if not (np.abs(values) <= MOST_WHOLE).all() or (values != np.floor(values)).any():
            raise NotStreamedError("a number that is not whole")
    return np.asarray(values, dtype=np.int64)
