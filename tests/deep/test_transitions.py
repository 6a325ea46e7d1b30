"""Data sets of transitions say what is wrong with them."""

import numpy as np
import pytest

from spibb.deep.transitions import Transitions
from spibb.errors import DataError


def columns(n=4):
    return {
        "state": np.arange(2 * n, dtype=float).reshape(n, 2),
        "action": np.arange(n) % 3,
        "reward": np.ones(n),
        "next_state": np.arange(2 * n, dtype=float).reshape(n, 2) + 1,
        "terminated": np.arange(n) == n - 1,
    }


def test_columns_get_their_types():
    data = Transitions.from_arrays(**columns())
    assert (data.state.dtype, data.reward.dtype) == (np.float32, np.float32)
    assert (data.action.dtype, data.terminated.dtype) == (np.int64, np.bool_)
    assert (len(data), data.n_dimensions, data.n_actions) == (4, 2, 3)
    assert not data.truncated.any()


def test_more_actions_than_seen_may_be_named():
    assert Transitions.from_arrays(**columns(), n_actions=9).n_actions == 9


def test_inputs_are_copied_or_left_alone():
    given = columns()
    before = {name: column.copy() for name, column in given.items()}
    Transitions.from_arrays(**given)
    for name, column in given.items():
        np.testing.assert_array_equal(column, before[name])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("state", [[0, 1], [2, np.nan], [4, 5], [6, 7]], "state is nan (first at row 1, coordinat"),
        ("next_state", [[0, 1], [2, 3], [np.inf, 5], [6, 7]], "next_state is inf (first at row 2"),
        ("state", [[0, 1], [2, 1e300], [4, 5], [6, 7]], "range of float32"),
        ("reward", [0, 0, 0, np.nan], "reward is nan (first at row 3)"),
        ("action", [0, 1, -1, 2], "action is -1 (first at row 2)"),
        ("action", [0, 1.5, 1, 2], "action is 1.5 (first at row 1)"),
        ("action", [0, 1, np.nan, 2], "action is nan (first at row 2)"),
        ("action", ["a", "b", "c", "d"], "whole numbers from 0"),
        ("action", [[0], [1], [1], [1]], "shape (4, 1)"),
        ("action", [0, 1, 2], "action has shape (3,); expected (4,)"),
        ("reward", [0.0, 1.0], "reward has shape (2,)"),
        ("next_state", np.zeros((4, 3)), "next_state has shape (4, 3); expected (4, 2)"),
        ("terminated", [0, 1, 0], "terminated has shape (3,)"),
        ("terminated", [0, 1, 2, 0], "terminated is 2 (first at row 2)"),
        ("terminated", ["x", "", "", ""], "booleans, or 0 and 1"),
        ("truncated", [0, 0, 0, 1], "terminated and truncated (first at row 3)"),
        ("state", np.zeros(4), "state has shape (4,); expected shape (N, d)"),
        ("state", np.zeros((4, 0)), "state has shape (4, 0); expected shape (N, d)"),
        ("state", [[0, 1], [2], [4, 5], [6, 7]], "ragged"),
        ("state", [["a", "b"]] * 4, "expected numbers"),
    ],
)
def test_bad_columns_are_named(name, value, message):
    with pytest.raises(DataError) as problem:
        Transitions.from_arrays(**{**columns(), name: value})
    assert message in str(problem.value)


def test_action_beyond_the_last():
    with pytest.raises(DataError, match=r"action is 2 \(first at row 2\).* below n_actions = 2"):
        Transitions.from_arrays(**columns(), n_actions=2)


def test_empty_data():
    with pytest.raises(DataError, match=r"state has shape \(0, 2\)"):
        Transitions.from_arrays(np.zeros((0, 2)), [], [], np.zeros((0, 2)), [])
