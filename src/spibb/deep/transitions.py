"""A data set of transitions with continuous states, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.compiled.arrays import as_float32, check_rows, to_numpy
from spibb.errors import DataError, SettingsError, checked_whole

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
# More actions than these are taken for labels.
_MOST_ACTIONS = 10_000
# Beyond it a cast to whole numbers would wrap around; of a type that float16 can be compared with.
_BEYOND_ACTIONS = np.float64(2**31)


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
        states = _finite("state", state, n_axes=2)
        n_rows, n_dimensions = states.shape
        if n_dimensions == 0:
            raise DataError("states have no coordinates", expected="shape (N, d) with d >= 1")
        next_states = _finite("next_state", next_state, n_axes=2)
        rewards = _finite("reward", reward, n_axes=1)
        actions = _whole_actions(action)
        ends = _flags("terminated", terminated)
        cuts = np.zeros(n_rows, np.bool_) if truncated is None else _flags("truncated", truncated)
        for name, column, shape in (
            ("action", actions, (n_rows,)),
            ("reward", rewards, (n_rows,)),
            ("next_state", next_states, (n_rows, n_dimensions)),
            ("terminated", ends, (n_rows,)),
            ("truncated", cuts, (n_rows,)),
        ):
            if column.shape != shape:
                raise DataError(
                    f"{name} has shape {column.shape}", expected=f"{shape}, as state has"
                )
        check_rows(
            ~(ends & cuts),
            lambda _: "a transition is terminated and truncated",
            expected="at most one of the two",
            hint="keep terminated where the task ended, truncated where only the record did",
        )
        return cls(
            states, actions, rewards, next_states, ends, cuts, _n_actions(actions, n_actions)
        )


def _finite(name: str, values: ArrayLike, *, n_axes: int) -> Floats:
    array = _column(name, values)
    found = as_float32(array, name)
    if found.shape[:1] == (0,):
        raise DataError("the data set is empty", expected="at least one transition")
    if found.ndim != n_axes:
        shape = "(N, d)" if n_axes == 2 else "(N,)"
        raise DataError(f"{name} has shape {found.shape}", expected=f"shape {shape}")
    check_rows(
        np.isfinite(found),
        lambda place: f"{name} is {array[place]}",
        expected="finite numbers in the range of float32",
        hint="drop or repair such rows before training",
    )
    return found


def _whole_actions(values: ArrayLike) -> NDArray[np.int64]:
    """Return actions as whole numbers, or name the first that is none."""
    array = _column("action", values)
    if array.dtype.kind not in "iuf" or array.ndim != 1:
        raise DataError(
            f"action has shape {array.shape} and type {array.dtype}",
            expected="whole numbers from 0, shape (N,)",
        )
    whole = array == np.floor(array)  # false for NaN
    check_rows(
        whole & (array >= 0) & (array < _BEYOND_ACTIONS),
        lambda place: f"action is {array[place]}",
        expected="whole numbers from 0, below 2^31",
        hint="number the actions from 0",
    )
    return array.astype(np.int64)


def _n_actions(actions: NDArray[np.int64], n_actions: int | None) -> int:
    n_known = _MOST_ACTIONS if n_actions is None else checked_whole(n_actions, "n_actions")
    is_given = n_actions is not None
    check_rows(
        actions < n_known,
        lambda place: f"action is {actions[place]}",
        expected=f"an action below {'n_actions = ' if is_given else ''}{n_known}",
        hint=None if is_given else "number the actions from 0, or give n_actions",
    )
    return n_known if is_given else int(actions.max()) + 1


def _flags(name: str, values: ArrayLike) -> Flags:
    """Return booleans, or name the first value that is none."""
    array = _column(name, values)
    # Objects, such as pandas' missing values, may refuse to be compared.
    is_number = array.dtype.kind in "biuf"
    check_rows(
        (array == 0) | (array == 1) if is_number else np.False_,
        lambda _: f"{name} has values that are neither true nor false",
        expected="booleans, or 0 and 1",
    )
    return array.astype(np.bool_)


def _column(name: str, values: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(to_numpy(values))
    except (TypeError, ValueError, RuntimeError, AttributeError):
        raise DataError(
            f"{name} is ragged or no column of numbers",
            expected="rows of the same number of coordinates",
        ) from None


def checked_scale(scale: ArrayLike, n_dimensions: int) -> Floats:
    """Return the units of the coordinates of a state, or refuse what cannot be divided by."""
    found = as_float32(scale, "scale")
    is_good = found.shape in ((), (n_dimensions,)) and bool((found > 0).all())
    if not is_good or not np.isfinite(found).all():
        raise SettingsError(
            f"scale is {scale!r}", expected=f"a number > 0, or {n_dimensions}, one a coordinate"
        )
    return np.broadcast_to(found, (n_dimensions,))


def check_carried(transitions: object) -> None:
    """Raise unless these are transitions."""
    if not isinstance(transitions, Transitions):
        raise DataError(
            f"the transitions are {type(transitions).__name__}",
            expected="spibb.deep.Transitions",
            hint="make them with Transitions.from_arrays(...)",
        )
