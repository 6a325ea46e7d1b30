"""A data set of transitions with continuous states, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.compiled.arrays import as_float32, check_rows, to_numpy
from spibb.errors import DataError, SettingsError, checked_whole

Floats = NDArray[np.float32]
FINITE = "finite numbers in the range of float32"
Flags = NDArray[np.bool_]
# More actions than these are taken for labels.
_MOST_ACTIONS = 10_000


@dataclass(frozen=True, eq=False)
class Transitions:
    """Rows (state, action, reward, next_state, terminated, truncated), in any order.

    Make one with :meth:`from_arrays`, which checks what it is given.

    Args:
        state: States x, shape (N, d), float32.
        action: Actions taken, shape (N,), int64 in 0 .. n_actions - 1.
        reward: Rewards, shape (N,), float32.
        next_state: States x' entered, shape (N, d), float32.
        terminated: Whether the task ended in x', shape (N,): nothing is earned from there on.
        truncated: Whether the record stops in x' although the task went on, shape (N,).
        n_actions: Number of actions.

    Example:
        >>> data = Transitions.from_arrays([[0.0], [0.5]], [0, 1], [0, 1], [[0.5], [1.0]], [0, 1])
        >>> len(data), data.n_dimensions, data.n_actions
        (2, 1, 2)
    """

    state: Floats
    action: NDArray[np.int64]
    reward: Floats
    next_state: Floats
    terminated: Flags
    truncated: Flags
    n_actions: int

    def __len__(self) -> int:
        return len(self.action)

    @property
    def n_dimensions(self) -> int:
        """Number of coordinates of a state."""
        return int(self.state.shape[1])

    def scaled(self, scale: ArrayLike) -> Transitions:
        """Return the same with each coordinate of the states in units of its own.

        Args:
            scale: The units, one number for all coordinates or one for each, shape (d,).
        """
        units = checked_scale(scale, self.n_dimensions)
        return replace(self, state=self.state / units, next_state=self.next_state / units)

    @classmethod
    def from_arrays(
        cls,
        state: ArrayLike,
        action: ArrayLike,
        reward: ArrayLike,
        next_state: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike | None = None,
        *,
        n_actions: int | None = None,
    ) -> Transitions:
        """Check the columns and return a data set.

        Args:
            state: States, shape (N, d).
            action: Whole numbers from 0, shape (N,).
            reward: Rewards, shape (N,).
            next_state: States entered, shape (N, d); also where the episode ended.
            terminated: Whether the task ended, shape (N,).
            truncated: Whether the record stops there; nowhere where None.
            n_actions: Number of actions; the largest one seen and those below it where None.
        """
        columns: dict[str, NDArray[Any]] = {
            "state": _finite("state", state),
            "action": _actions(action),
            "reward": _finite("reward", reward),
            "next_state": _finite("next_state", next_state),
            "terminated": _flags("terminated", terminated),
        }
        shape = columns["state"].shape
        if len(shape) != 2 or 0 in shape:
            raise DataError(f"state has shape {shape}", expected="shape (N, d), nothing of it 0")
        cut = np.zeros(shape[0], np.bool_) if truncated is None else _flags("truncated", truncated)
        columns["truncated"] = cut
        for name, column in columns.items():
            wanted = shape if "state" in name else shape[:1]
            if column.shape != wanted:
                raise DataError(f"{name} has shape {column.shape}", expected=f"{wanted}")
        check_rows(
            ~(columns["terminated"] & cut),
            lambda _: "a transition is terminated and truncated",
            expected="at most one of the two",
            hint="keep terminated where the task ended, truncated where only the record did",
        )
        seen, hint = columns["action"], "number the actions from 0, or give n_actions"
        n_known = _MOST_ACTIONS if n_actions is None else checked_whole(n_actions, "n_actions")
        check_column("action", seen, seen < n_known, f"below n_actions = {n_known}", hint)
        return cls(**columns, n_actions=int(seen.max()) + 1 if n_actions is None else n_known)


def _finite(name: str, values: ArrayLike) -> Floats:
    array, hint = _column(name, values), "drop or repair such rows before training"
    found = as_float32(array, name)
    check_column(name, array, np.isfinite(found), FINITE, hint)
    return found


def _actions(values: ArrayLike) -> NDArray[np.int64]:
    array = _column("action", values)
    is_good = np.False_
    if array.dtype.kind in "iuf":
        # False for NaN; of a type that float16 can be compared with.
        is_good = (array == np.floor(array)) & (array >= 0) & (array < np.float64(2**31))
    expected, hint = "whole numbers from 0, below 2^31", "number the actions from 0"
    check_column("action", array, is_good, expected, hint)
    return array.astype(np.int64)


def _flags(name: str, values: ArrayLike) -> Flags:
    array = _column(name, values)
    # Objects, such as pandas' missing values, may refuse to be compared.
    is_number = array.dtype.kind in "biuf"
    is_good = (array == 0) | (array == 1) if is_number else np.False_
    check_column(name, array, is_good, "booleans, or 0 and 1")
    return array.astype(np.bool_)


def check_column(
    name: str, column: NDArray[Any], is_good: Any, expected: str, hint: str | None = None
) -> None:
    """Raise unless all of a column is good, naming the first value that is not, or their type."""

    def told(place: tuple[int, ...]) -> str:
        return f"{name} is {column[place] if place else f'of {column.dtype}'}"

    check_rows(is_good, told, expected=expected, hint=hint)


def _column(name: str, values: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(to_numpy(values))
    except (TypeError, ValueError, RuntimeError, AttributeError):
        expected = "rows of the same number of coordinates"
        raise DataError(f"{name} is ragged or no column of numbers", expected=expected) from None


def checked_scale(scale: ArrayLike, n_dimensions: int) -> Floats:
    """Return the units of the coordinates of a state, or refuse what cannot be divided by."""
    found = as_float32(scale, "scale")
    is_good = (found > 0) & np.isfinite(found)
    if found.shape not in ((), (n_dimensions,)) or not is_good.all():
        expected = f"a number > 0, or {n_dimensions}, one a coordinate"
        raise SettingsError(f"scale is {scale!r}", expected=expected)
    return np.broadcast_to(found, (n_dimensions,))


def check_carried(transitions: object) -> None:
    """Raise unless these are transitions."""
    if not isinstance(transitions, Transitions):
        what, hint = type(transitions).__name__, "make them with Transitions.from_arrays(...)"
        raise DataError(f"the transitions are {what}", expected="spibb.deep.Transitions", hint=hint)
