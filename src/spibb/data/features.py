"""Raw columns of a log beside its states: they judge a policy, and never change it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.data.groups import natural
from spibb.data.log_columns import check_column
from spibb.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

# A column of texts with more different values than this is an identifier, not a feature.
_MOST_CATEGORIES = 200
# What a category may be; beside texts, numbers are names as well.
_PLAIN = (str, bytes, int, float, Decimal, np.number, np.bool_)
# What a log says of outcomes; these columns are none, even where others stand in their place.
_OUTCOMES = ("reward", "next_state", "terminated", "truncated")


@dataclass(frozen=True, eq=False)
class Features:
    """Columns of a log by which finer states are made.

    Attributes:
        names: Names of the columns.
        values: Their values, shape (rows, K): numbers, or places among the categories; NaN where
            one is missing.
        categories: The categories of each column; None where it holds numbers.

    Example:
        >>> found = Features.of({"age": [40.0, float("nan")], "sex": ["f", "m"]})
        >>> found.names, found.values.tolist(), found.categories
        (('age', 'sex'), [[40.0, 0.0], [nan, 1.0]], (None, ('f', 'm')))
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]
    categories: tuple[tuple[str, ...] | None, ...]

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Features:
        """Make features of columns of equal length.

        Args:
            columns: Numbers, booleans or texts by name; None and NaN are missing values.
        """
        if not columns:
            raise DataError("no features are given", expected="at least one column")
        made = {name: _column(name, values) for name, values in columns.items()}
        lengths = {name: len(values) for name, (values, _) in made.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(
                f"features have different lengths: {lengths}", expected="one value for each row"
            )
        values = np.column_stack([values for values, _ in made.values()])
        return cls(tuple(made), values, tuple(kinds for _, kinds in made.values()))

    def checked(self, n_rows: int) -> Features:
        """Return the features, or refuse those of another number of rows."""
        if len(self.values) != n_rows:
            raise DataError(
                f"features have {len(self.values):,} rows", expected=f"{n_rows:,}, as the log has"
            )
        return self

    def describe(self, column: int, threshold: float) -> str:
        """Return a cut of a column in words."""
        known = self.categories[column]
        if known is None:
            return f"{self.names[column]} at {threshold:.4g}"
        low = [name for place, name in enumerate(known) if place <= threshold]
        return f"{self.names[column]} in {', '.join(low[:4])}{', ...' * (len(low) > 4)}"


def _column(name: str, values: Any) -> tuple[NDArray[np.float64], tuple[str, ...] | None]:
    array = _array(values)
    if array.ndim != 1:
        raise DataError(f"feature {name} has shape {array.shape}", expected="one value a row")
    values_given = array.tolist() if array.dtype.kind == "O" else ()
    if array.dtype.kind in "mM" or any(isinstance(value, date) for value in values_given):
        raise _holds_dates(name)
    if array.dtype.kind in "biuf":
        return _checked_numbers(name, array.astype(np.float64)), None
    if array.dtype.kind not in "OUT":
        raise DataError(
            f"feature {name} holds values of type {array.dtype}", expected="numbers or texts"
        )
    listed = [None if _is_missing(value) else value for value in array.tolist()]
    kinds = {type(value) for value in listed if value is not None}
    if all(issubclass(kind, int | float | Decimal | np.number | np.bool_) for kind in kinds):
        return _checked_numbers(name, np.array([_number(value) for value in listed])), None
    odd = [kind for kind in kinds if not issubclass(kind, _PLAIN)]
    if odd:
        raise DataError(
            f"feature {name} holds values of type {odd[0].__name__}", expected="numbers or texts"
        )
    return _coded(name, [None if value is None else str(value) for value in listed])


def _array(values: Any) -> NDArray[Any]:
    """Return an array whose values keep their types: NumPy makes texts of numbers beside texts."""
    if hasattr(values, "dtype") or not isinstance(values, Iterable) or isinstance(values, str):
        return np.asarray(values)
    listed = list(values)
    if any(isinstance(value, str | None) for value in listed):
        found = np.empty(len(listed), dtype=object)
        found[:] = listed
        return found
    try:
        return np.asarray(listed)
    except ValueError:  # rows of different lengths
        return np.empty((len(listed), 0))


def _is_missing(value: Any) -> bool:
    # A value that is not known, such as pandas' NA, does not say whether it equals itself.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _number(value: Any) -> float:
    try:
        return np.nan if value is None else float(value)
    except OverflowError:
        return np.inf


def _checked_numbers(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(values) and np.isnan(values).all():
        raise _all_missing(name)
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values)))
        raise DataError(
            f"feature {name} is infinite",
            where=f"row {row + 1}",
            expected="numbers, or nothing where a value is missing",
        )
    return values


def _coded(name: str, texts: Sequence[str | None]) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    known = sorted({text for text in texts if text is not None}, key=natural)
    if len(texts) and not known:
        raise _all_missing(name)
    if len(known) > _MOST_CATEGORIES:
        odd = [text for text in known if not _is_number(text)]
        if 2 * len(odd) < len(known):
            raise DataError(
                f"feature {name} holds numbers, and {odd[0]!r}",
                where=f"row {texts.index(odd[0]) + 1}",
                expected=f"numbers alone, or at most {_MOST_CATEGORIES} categories",
                hint="leave the cell empty where a value is missing",
            )
        raise DataError(
            f"feature {name} has {len(known):,} different texts",
            expected=f"numbers, or at most {_MOST_CATEGORIES} categories",
            hint="leave out identifiers, and group rare categories",
        )
    place = {text: float(k) for k, text in enumerate(known)}
    codes = [np.nan if text is None else place[text] for text in texts]
    return np.array(codes, dtype=np.float64), tuple(known)


def _all_missing(name: str) -> DataError:
    return DataError(
        f"feature {name} has no value in any row",
        expected="a value in some rows at least",
        hint="leave this column out",
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def checked_feature_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of features, or refuse what cannot be a list of different names."""
    if isinstance(names, str):
        raise DataError(
            f"features is the text {names!r}",
            expected="a list of names of columns",
            hint=f"write features=[{names!r}]",
        )
    for place, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            raise DataError(
                f"features name {name!r}" if name else "an empty name is among the features",
                expected="names of columns, as --features lactate,age",
            )
        if name in names[:place]:
            raise DataError(f"feature {name} is named twice", expected="each column once")
    return tuple(names)


def encode_features(
    table: pa.Table, names: Iterable[str], path: str | Path, used: Collection[str] = ()
) -> Features | None:
    """Return columns of a table as features; None where none is asked for.

    A column of texts that are all numbers, as CSV files have them, is a column of numbers.

    Args:
        table: The table.
        names: The columns.
        path: The file, for messages.
        used: Columns of the table that the log itself is made of.
    """
    found: dict[str, Any] = {}
    for name in names:
        if name in table.column_names and (name in used or name in _OUTCOMES):
            raise DataError(
                f"feature {name} is a column of the log itself",
                expected="a column that was measured before the action, and that is neither state, "
                "action, reward nor what follows",
                hint="a policy must not be judged by its own outcome: leave this column out",
            )
        check_column(table, name, path, "for a feature", "--features")
        found[name] = _read(table[name], name, path)
    return Features.of(found) if found else None


def _read(column: Any, name: str, path: str | Path) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds, kind = pa.types, column.type
    if kinds.is_boolean(kind):
        column = column.cast(pa.int8())
    if kinds.is_temporal(kind):
        raise _holds_dates(f"{name} of {path}")
    if kinds.is_null(kind):
        raise _all_missing(name)
    if not (kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_dictionary(kind)):
        try:
            return column.cast(pa.float64()).to_numpy()
        except pa.ArrowException:
            raise DataError(
                f"feature {name} of {path} holds values of type {kind}",
                expected="numbers or texts",
            ) from None
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    text = pc.if_else(pc.equal(text, ""), None, text)
    try:
        return text.cast(pa.float64()).to_numpy()
    except pa.ArrowException:
        pass
    try:
        text.cast(pa.timestamp("us"))
    except pa.ArrowException:
        return np.array(text.to_pylist(), dtype=object)
    raise _holds_dates(f"{name} of {path}")


def _holds_dates(name: str) -> DataError:
    return DataError(
        f"feature {name} holds dates",
        expected="numbers or categories",
        hint="give a number made of it: the hour, the month, or the days since the start",
    )
