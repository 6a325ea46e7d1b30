"""Policies: what they accept, how they are written and read back."""

import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb.errors import DataError, PolicyError, SpibbError
from spibb.mdp.policy import FORMAT_VERSION, TabularPolicy
from spibb.testing.strategies import policies

TABLE = [[0.25, 0.75], [1.0, 0.0], [1 / 3, 2 / 3]]
STATES = ("calm", "fever", "shock")
ACTIONS = ("treat", "wait")
both_formats = pytest.mark.parametrize("suffix", [".csv", ".parquet"])


def written(tmp_path, text):
    path = tmp_path / "policy.csv"
    path.write_text(text)
    return path


def test_fields():
    policy = TabularPolicy(TABLE, STATES, ACTIONS)
    assert (policy.n_states, policy.n_actions) == (3, 2)
    assert (policy.states[2], policy.actions[0]) == ("shock", "treat")
    np.testing.assert_array_equal(policy.probabilities, TABLE)
    plain = TabularPolicy(TABLE)
    assert (plain.states[2], plain.actions[0]) == ("2", "0")


def test_the_table_is_its_own():
    table = np.array(TABLE)
    policy = TabularPolicy(table)
    table[...] = 7.0
    np.testing.assert_array_equal(policy.probabilities, TABLE)
    with pytest.raises(ValueError, match="read-only"):
        policy.probabilities[0, 0] = 1.0
    with pytest.raises(AttributeError, match="probabilities"):
        policy.probabilities = table


def test_rounded_rows_are_rescaled_and_exact_ones_are_not():
    policy = TabularPolicy([[0.3333333, 0.3333333, 0.3333333], [0.1, 0.2, 0.7]])
    np.testing.assert_allclose(policy.probabilities[0], 1 / 3, rtol=1e-15)
    assert policy.probabilities[1].tolist() == [0.1, 0.2, 0.7]


def test_uniform():
    np.testing.assert_array_equal(TabularPolicy.uniform(2, 4).probabilities, np.full((2, 4), 0.25))


def test_from_counts():
    policy = TabularPolicy.from_counts([[1, 3], [0, 0], [5, 0]], STATES, ACTIONS)
    np.testing.assert_array_equal(policy.probabilities, [[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
    assert (policy.state_labels, policy.action_labels) == (STATES, ACTIONS)


def test_sample_follows_the_row():
    policy = TabularPolicy([[0.2, 0.8], [1.0, 0.0]])
    rng = np.random.default_rng(3)
    drawn = [policy.sample(0, rng) for _ in range(4000)]
    assert np.mean(drawn) == pytest.approx(0.8, abs=0.025)
    assert {policy.sample(1, rng) for _ in range(50)} == {0}


@pytest.mark.parametrize("table", [[0.5, 0.5], np.empty((0, 2)), np.empty((2, 0)), 1.0])
def test_a_policy_is_a_table(table):
    with pytest.raises(
        PolicyError, match=r"policy of shape .*\(states, actions\), both at least 1"
    ):
        TabularPolicy(table)


@pytest.mark.parametrize("value", [-0.5, np.nan, np.inf])
def test_entries_are_probabilities(value):
    table = [[1.0, 0.0], [0.5, value]]
    with pytest.raises(PolicyError, match=rf"probability {value} of action 1 \(first at state 1\)"):
        TabularPolicy(table)
    with pytest.raises(PolicyError, match=r"first at state 'fever'"):
        TabularPolicy(table, state_labels=STATES[:2])


def test_rows_sum_to_one():
    with pytest.raises(
        PolicyError,
        match=r"sum to 0\.9 in 2 of 3 states \(first at state 1\).*divide its probabilities",
    ):
        TabularPolicy([[0.5, 0.5], [0.5, 0.4], [1.0, 1.0]])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"state_labels": STATES[:2]}, "state_labels has 2 entries; expected 3"),
        ({"action_labels": STATES}, "action_labels has 3 entries; expected 2"),
    ],
)
def test_labels_are_as_many_as_rows_and_columns(labels, message):
    with pytest.raises(PolicyError, match=message):
        TabularPolicy(TABLE, **labels)


@both_formats
def test_labels_come_back(tmp_path, suffix):
    path = tmp_path / f"policy{suffix}"
    TabularPolicy(TABLE, STATES, ACTIONS).write(path)
    policy = TabularPolicy.read(path)
    assert (policy.state_labels, policy.action_labels) == (STATES, ACTIONS)
    assert policy.probabilities.tolist() == TABLE


@both_formats
def test_integers_come_back(tmp_path, suffix):
    path = tmp_path / f"policy{suffix}"
    TabularPolicy(TABLE).write(path)
    policy = TabularPolicy.read(str(path))
    assert (policy.state_labels, policy.action_labels) == (None, None)
    assert policy.probabilities.tolist() == TABLE


@both_formats
def test_labels_that_need_quotes_come_back(tmp_path, suffix):
    labels = ('"quoted"', "NA", "a, b", "line\nbreak", "é")
    path = tmp_path / f"policy{suffix}"
    TabularPolicy(np.eye(5), labels, labels).write(path)
    policy = TabularPolicy.read(path)
    assert (policy.state_labels, policy.action_labels) == (labels, labels)
    np.testing.assert_array_equal(policy.probabilities, np.eye(5))


@both_formats
def test_labels_come_back_sorted_with_their_probabilities(tmp_path, suffix):
    path = tmp_path / f"policy{suffix}"
    TabularPolicy([[0.25, 0.75]], ("only",), ("wait", "treat")).write(path)
    policy = TabularPolicy.read(path)
    by_name = {policy.actions[a]: float(policy.probabilities[0, a]) for a in range(2)}
    assert by_name == {"wait": 0.25, "treat": 0.75}


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.data())
def test_any_policy_comes_back_bit_for_bit(tmp_path_factory, data):
    policy = data.draw(policies(data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))))
    for name in ("policy.csv", "policy.parquet"):
        path = tmp_path_factory.mktemp("policy") / name
        policy.write(path)
        np.testing.assert_array_equal(TabularPolicy.read(path).probabilities, policy.probabilities)


def test_parquet_carries_metadata(tmp_path):
    path = tmp_path / "policy.parquet"
    TabularPolicy(TABLE).write(path, metadata={"algorithm": "pi-b-spibb"})
    facts = json.loads(pq.read_schema(path).metadata[b"spibb"])
    assert facts == {
        "format": "spibb-policy",
        "version": FORMAT_VERSION,
        "algorithm": "pi-b-spibb",
    }


def test_to_table_is_long():
    table = TabularPolicy(TABLE, STATES).to_table()
    assert table.column_names == ["state", "action", "probability"]
    assert table["state"].to_pylist() == ["calm", "calm", "fever", "fever", "shock", "shock"]
    assert table["action"].to_pylist() == [0, 1] * 3
    assert table["probability"].to_pylist() == np.ravel(TABLE).tolist()


def test_pairs_left_out_have_probability_zero(tmp_path):
    path = written(tmp_path, "probability,state,action\n1,b,y\n0.5,a,x\n0.5,a,y\n")
    policy = TabularPolicy.read(path)
    assert (policy.state_labels, policy.action_labels) == (("a", "b"), ("x", "y"))
    np.testing.assert_array_equal(policy.probabilities, [[0.5, 0.5], [0.0, 1.0]])


def test_integer_states_need_not_be_sorted(tmp_path):
    path = written(tmp_path, "state,action,probability\n2,1,1\n0,0,1\n1,0,1\n")
    np.testing.assert_array_equal(
        TabularPolicy.read(path).probabilities, [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    )


def test_integer_states_with_gaps_keep_their_names(tmp_path):
    path = written(tmp_path, "state,action,probability\n7,0,0.5\n7,1,0.5\n2,1,1\n")
    policy = TabularPolicy.read(path)
    assert policy.state_labels == ("2", "7")
    np.testing.assert_array_equal(policy.probabilities, [[0.0, 1.0], [0.5, 0.5]])


def test_write_knows_two_formats(tmp_path):
    with pytest.raises(PolicyError, match=r"format of policy\.txt; expected a name in \.csv or"):
        TabularPolicy(TABLE).write(tmp_path / "policy.txt")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0,0,much\n", r"column 'probability' of .*policy\.csv holds something.* not a number"),
        ("0,0,1\n1,0,\n", r"probability is missing or not finite \(first at row 2 of"),
        ("0,0,1\n1,0,nan\n", r"probability is missing or not finite \(first at row 2 of"),
        ("0,0,0.5\n1,0,1\n0,0,0.5\n", r"listed twice \(first at row 1 of .*keep one row"),
        ("0,0,1\n1,0,0.75\n", r"sum to 0\.75 in 1 of 2 states \(first at state 1\).*every action"),
        ("a,x,0.5\nb,x,1\n", r"sum to 0\.5 in 1 of 2 states \(first at state 'a'\)"),
        ("a,x,-1\na,y,2\n", r"probability -1\.0 of action 'x' \(first at state 'a'\)"),
    ],
)
def test_files_that_hold_no_policy(tmp_path, rows, message):
    path = written(tmp_path, "state,action,probability\n" + rows)
    with pytest.raises(PolicyError, match=message):
        TabularPolicy.read(path)


def test_a_column_is_missing(tmp_path):
    path = written(tmp_path, "state,action,prob\n0,0,1\n")
    with pytest.raises(DataError, match=r"no column 'probability'.*rename the column"):
        TabularPolicy.read(path)


def test_a_file_is_missing(tmp_path):
    with pytest.raises(DataError, match=r"no such policy: .*absent\.csv"):
        TabularPolicy.read(tmp_path / "absent.csv")


def test_dictionary_columns_are_labels(tmp_path):
    path = tmp_path / "policy.parquet"
    names = pa.array(["b", "a"]).dictionary_encode()
    pq.write_table(pa.table({"state": names, "action": names, "probability": [1, 1]}), path)
    policy = TabularPolicy.read(path)
    assert policy.state_labels == ("a", "b")
    np.testing.assert_array_equal(policy.probabilities, np.eye(2))


LABELLED = TabularPolicy(
    [[0.25, 0.75], [1.0, 0.0]], state_labels=("mild", "severe"), action_labels=("wait", "treat")
)


def test_rows_by_name_and_by_place():
    assert LABELLED["mild"] == LABELLED[0] == {"wait": 0.25, "treat": 0.75}
    assert TabularPolicy([[0.25, 0.75]])[0] == {0: 0.25, 1: 0.75}
    assert list(LABELLED) == ["mild", "severe"]
    assert list(TabularPolicy([[1.0]] * 3)) == [0, 1, 2]


def test_actions_are_drawn_by_name():
    rng = np.random.default_rng(0)
    assert {LABELLED.sample("severe", rng) for _ in range(50)} == {"wait"}
    drawn = LABELLED.act(["mild"] * 4_000, rng)
    assert (drawn == "treat").mean() == pytest.approx(0.75, abs=0.03)
    assert LABELLED.sample("severe") == "wait"
    assert type(TabularPolicy([[0.0, 1.0]]).sample(0)) is int


def test_actions_of_many_states():
    policy = TabularPolicy([[0.0, 0.5, 0.5, 0.0], [1.0, 0.0, 0.0, 0.0]])
    drawn = policy.act(np.array([[0, 1], [1, 0]] * 500), np.random.default_rng(0))
    assert drawn.shape == (1000, 2)
    assert set(drawn[::2, 0].tolist()) == {1, 2}
    assert set(drawn[::2, 1].tolist()) == {0}
    assert policy.action_probabilities([1, 0, 1]).shape == (3, 4)
    assert LABELLED.action_probabilities("mild").tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("state", "said"),
    [("mid", "no state 'mid'; expected one of mild, severe. To fix it: use 'mild'"),
     (2, "no state 2"), (-1, "no state -1"), (1.5, "no state 1.5"), (None, "no state None"),
     (["mild", "lost"], "no state 'lost'")],
)  # fmt: skip
def test_unknown_states_are_refused(state, said):
    with pytest.raises(PolicyError, match=re.escape(said)):
        LABELLED.action_probabilities(state)


LONG = {"state": ["mild", "mild", "severe"], "action": ["wait", "treat", "wait"],
        "probability": [0.25, 0.75, 1.0]}  # fmt: skip


def frames():
    yield pytest.param(lambda: pa.table(LONG), id="arrow")
    yield pytest.param(lambda: pd.DataFrame(LONG), id="pandas")
    yield pytest.param(lambda: pd.DataFrame(LONG).astype({"state": "category"}), id="categories")
    yield pytest.param(
        lambda: pytest.importorskip("polars", reason="polars is not installed").DataFrame(LONG),
        id="polars",
    )


@pytest.mark.parametrize("make", [*frames()])
def test_policy_of_a_data_frame(make):
    policy = TabularPolicy.from_dataframe(make())
    assert policy["severe"] == {"treat": 0.0, "wait": 1.0}
    assert policy["mild"] == {"treat": 0.75, "wait": 0.25}


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"probability": [0.25, 0.75, 0.5]}, "probabilities sum to 0.5"),
     ({"action": ["wait", "wait", "wait"]}, "listed twice"),
     ({"probability": [0.25, None, 1.0]}, "missing or not finite")],
)  # fmt: skip
def test_data_frames_keep_the_rules_of_files(changed, said):
    with pytest.raises(PolicyError, match=said):
        TabularPolicy.from_dataframe(pa.table(LONG | changed))


def test_what_is_no_frame():
    with pytest.raises(DataError, match="cannot read the data frame"):
        TabularPolicy.from_dataframe(7)
    with pytest.raises(SpibbError, match="'probability'"):
        TabularPolicy.from_dataframe(pd.DataFrame(LONG).drop(columns="probability"))
    with pytest.raises(PolicyError, match="no rows"):
        TabularPolicy.from_dataframe(pd.DataFrame(LONG).iloc[:0])


def test_a_number_is_a_name_where_states_are_called_by_numbers():
    """States 1, 2 and 10: the state called 1 is not the second one."""
    policy = TabularPolicy([[1, 0], [0, 1], [0.5, 0.5]], ("1", "2", "10"), ("a", "b"))
    assert policy[1] == policy["1"] == {"a": 1.0, "b": 0.0}
    assert policy[10] == {"a": 0.5, "b": 0.5}
    np.testing.assert_array_equal(policy.action_probabilities([2, 1]), [[0, 1], [1, 0]])
    with pytest.raises(PolicyError, match="no state 0"):
        policy[0]
    words = TabularPolicy([[1, 0], [0, 1]], ("mild", "severe"))
    assert words[1] == words["severe"]
