"""Limits as bounds: what each comes to, how forbidden mass moves, and what cannot be kept."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb import Limits, Problem, SpibbError, TabularPolicy
from spibb.problem import ProblemBatch
from spibb.problem.limits import fill_row

ACTIONS = ("both", "drug-a", "drug-b", "watch")
STATES = ("mild", "severe")
B = np.array([[0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 0.5, 0.0]])


def problem(limits, table=B):
    """One row of the log for each pair that the baseline takes."""
    x, a = np.nonzero(table)
    n = len(x)
    frame = pa.table({
        "episode": range(n), "step": [0] * n, "state": [STATES[k] for k in x],
        "action": [ACTIONS[k] for k in a], "reward": np.arange(n, dtype=float),
    })  # fmt: skip
    baseline = TabularPolicy(table, STATES, ACTIONS)
    return Problem.of(frame, baseline=baseline, gamma=0.9, limits=limits)


def bounds(table=B, **limits):
    return problem(Limits(**limits), table).bounds


def test_each_limit_is_an_upper_bound():
    ones = np.ones_like(B)
    np.testing.assert_array_equal(bounds(lock=["severe"]).upper, [ones[0], B[1]])
    kept = bounds(no_increase=["drug-a"]).upper
    np.testing.assert_array_equal(kept, [[1, 0.2, 1, 1], [1, 0.5, 1, 1]])
    mask = [("mild", "watch"), ("severe", "drug-b"), ("severe", "both")]
    allowed = bounds(allowed=mask).upper
    np.testing.assert_array_equal(allowed, [[0.1, 0.2, 0.3, 1], [1, 0.5, 1, 0]])
    flags = [("mild", "both", False), ("severe", "drug-a", False), ("severe", "watch", True)]
    np.testing.assert_array_equal(bounds(allowed=flags).upper, [[0.1, 1, 1, 1], [1, 0.5, 1, 1]])
    np.testing.assert_array_equal(bounds(allowed=kept == 1.0).upper, kept)
    np.testing.assert_array_equal(bounds(cap={"both": 0.15}).upper[:, 0], [0.15, 0.15])
    np.testing.assert_allclose(bounds(cap_increase={"both": 0.1}).upper[:, 0], [0.2, 0.1])
    for given_limits in ({"max_states": 1}, {"min_gain": 0.5}):
        np.testing.assert_array_equal(bounds(**given_limits).upper, ones)


def test_all_limits_hold_together():
    found = bounds(no_increase=["watch"], cap={"watch": 0.9}, cap_increase={"watch": 0.3})
    np.testing.assert_array_equal(found.upper[:, 3], B[:, 3])


def test_forbidden_mass_goes_to_the_others_in_proportion():
    found = bounds(forbid=["drug-b"])
    np.testing.assert_allclose(found.start, [[1 / 7, 2 / 7, 0, 4 / 7], [0, 1, 0, 0]])
    assert (found.upper[:, 2] == 0).all()
    # Watching may not rise, so the others take its part too.
    found = bounds(forbid=["drug-b"], no_increase=["watch"])
    np.testing.assert_allclose(found.start, [[0.2, 0.4, 0, 0.4], [0, 1, 0, 0]])


def test_what_is_not_forbidden_keeps_every_bit_of_the_baseline():
    table = np.array([[0.1, 0.2, 0.3, 0.4], [0.0, 1.0, 0.0, 0.0]])
    found = bounds(table, forbid=["drug-b"])
    np.testing.assert_array_equal(found.start[1], table[1])
    assert problem(None).bounds is None
    assert problem(Limits()).limits is None, "limits without any are none"
    batch = ProblemBatch.of([problem(None)])
    assert batch.start is batch.baseline


@given(
    st.lists(st.integers(0, 5), min_size=2, max_size=8).filter(any),
    st.lists(st.integers(0, 10), min_size=8, max_size=8),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_filled_rows_are_proportional_where_there_is_room(weights, caps):
    weight = np.array(weights, dtype=float) / sum(weights)
    upper = np.array(caps[: len(weights)]) / 5.0
    row = fill_row(weight, upper)
    assert (row >= 0).all()
    assert (row <= upper + 1e-12).all()
    room = upper[weight > 0].sum()
    assert row.sum() == pytest.approx(min(1.0, room), abs=1e-12)
    free = (weight > 0) & (row < upper - 1e-9)
    ratios = row[free] / weight[free]
    assert len(ratios) == 0 or np.ptp(ratios) < 1e-9


@pytest.mark.parametrize(
    ("limits", "fragments"),
    [
        ({"forbid": ["drug-c"]}, ["forbid names the action 'drug-c'", "'drug-b'", "spelt alike"]),
        ({"lock": ["lost"]}, ["lock names the state 'lost'"]),
        ({"cap": {"drugb": 0.5}}, ["cap names the action 'drugb'", "'drug-b'"]),
        ({"allowed": [("mild", "x")]}, ["allowed names the action 'x'"]),
        ({"allowed": [("mild", "watch")]}, ["no action in 1 state", "state severe", "lock"]),
        ({"allowed": np.zeros((2, 4), bool)}, ["no action in 2 states", "state mild"]),
        ({"allowed": np.ones((2, 3), bool)}, ["shape (2, 3)", "shape (2, 4)"]),
        ({"allowed": ["mild"]}, ["allowed holds 'mild'", "pairs (state, action)"]),
        ({"forbid": ["drug-a", "drug-b"]}, ["forbidden actions alone", "state severe"]),
        (
            {"forbid": ["drug-b"], "lock": ["mild"]},
            ["takes 0.3", "may not rise that far (lock)", "state mild"],
        ),
        (
            {"forbid": ["drug-b"], "cap_increase": dict.fromkeys(ACTIONS, 0.01)},
            ["takes 0.3", "(cap_increase)", "state mild"],
        ),
        ({"cap": {"watch": 0.3}}, ["cap of watch is 0.3", "the baseline's 0.4", "state mild"]),
        ({"cap": {"drug-a": 0.3}}, ["cap of drug-a", "state severe", "raise the cap to 0.5"]),
        ({"forbid": ["drug-b"], "max_states": 1}, ["forbid changes 2 states", "max_states is 1"]),
    ],
    ids=str,
)  # fmt: skip
def test_limits_that_cannot_be_kept_are_named(limits, fragments):
    with pytest.raises(SpibbError) as told:
        problem(Limits(**limits))
    for fragment in fragments:
        assert fragment in str(told.value)


@pytest.mark.parametrize(
    ("limits", "fragment"),
    [
        ({"forbid": "drug-b"}, "forbid is 'drug-b'"),
        ({"lock": 3}, "lock is 3"),
        ({"cap": ["drug-b"]}, "numbers by action"),
        ({"cap": {"drug-b": 1.5}}, "cap of drug-b is 1.5"),
        ({"cap_increase": {"drug-b": -0.1}}, "cap_increase of drug-b is -0.1"),
        ({"max_states": 2.5}, "max_states is 2.5"),
        ({"min_gain": float("nan")}, "min_gain is nan"),
    ],
)
def test_settings_of_limits_are_checked(limits, fragment):
    with pytest.raises(SpibbError, match=fragment):
        Limits(**limits)


def test_something_else_is_no_limits():
    with pytest.raises(SpibbError, match=r"expected a spibb\.Limits"):
        problem({"forbid": ["drug-b"]})


def test_a_cap_that_only_a_state_never_met_exceeds_is_kept_elsewhere():
    table = np.array([[0.1, 0.2, 0.3, 0.4], [0.0, 0.9, 0.1, 0.0]])
    frame = pa.table({"episode": [0], "step": [0], "state": ["mild"], "action": ["watch"],
                      "reward": [1.0]})  # fmt: skip
    found = Problem.of(
        frame, baseline=TabularPolicy(table, STATES, ACTIONS), gamma=0.9,
        limits=Limits(cap={"drug-a": 0.3}),
    ).bounds  # fmt: skip
    np.testing.assert_array_equal(found.upper[:, 1], [0.3, 0.9])


def test_statements_and_what_is_left_without_one():
    limits = Limits(forbid=["drug-b"], lock=["mild"], max_states=3)
    assert limits.given == ("forbid", "lock", "max_states")
    assert limits.statements["lock"] == "the baseline in 1 locked state"
    assert "heuristic" in limits.statements["max_states"]
    assert limits.on_actions == "no drug-b; the baseline in 1 locked state"
    assert limits.without("forbid").given == ("lock", "max_states")
    assert Limits(min_gain=1.0).without("min_gain") is None
    assert "no drug-b" in repr(problem(Limits(forbid=["drug-b"])))
