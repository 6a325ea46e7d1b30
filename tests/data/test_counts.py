"""Counts against a plain loop, their merging, and the models made of them by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.errors import DataError, SettingsError
from spibb.mdp.evaluation import evaluate

N_STATES, N_ACTIONS = 4, 3
ROW = st.fixed_dictionaries(
    {
        "episode": st.integers(-1, 2),
        "state": st.integers(0, N_STATES - 1),
        "action": st.integers(0, N_ACTIONS - 1),
        "reward": st.integers(-5, 5).map(float),
        "next_state": st.integers(-1, N_STATES - 1),
        "terminated": st.booleans(),
        "truncated": st.booleans(),
    }
)
# The first row always counts: a log without any usable row is refused.
ROWS = st.tuples(ROW.map(lambda row: {**row, "terminated": True}), st.lists(ROW, max_size=25)).map(
    lambda parts: [parts[0], *parts[1]]
)


def log_of(rows, *, with_episodes=True, offset=0):
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["episode"] = [offset + episode for episode in columns["episode"]]
    if not with_episodes:
        del columns["episode"]
    return Log.from_arrays(**columns, n_states=N_STATES, n_actions=N_ACTIONS)


def slow_counts(rows, *, with_episodes):
    """Count row by row."""
    found = {
        "n_sa": np.zeros((N_STATES, N_ACTIONS), int),
        "n_sas": np.zeros((N_STATES, N_ACTIONS, N_STATES), int),
        "n_end": np.zeros((N_STATES, N_ACTIONS, N_STATES), int),
        "reward_sum": np.zeros((N_STATES, N_ACTIONS)),
        "n_initial": np.zeros(N_STATES, int),
        "n_dropped": 0,
        "rewards": [],
    }
    begun = set()
    for row in rows:
        x, a, y = row["state"], row["action"], row["next_state"]
        if with_episodes and row["episode"] not in begun:
            begun.add(row["episode"])
            found["n_initial"][x] += 1
        found["rewards"].append(row["reward"])
        if y == -1 and not row["terminated"]:
            found["n_dropped"] += 1
            continue
        found["n_sa"][x, a] += 1
        found["reward_sum"][x, a] += row["reward"]
        if y >= 0:
            found["n_sas"][x, a, y] += 1
            found["n_end"][x, a, y] += row["terminated"]
    return found


@settings(max_examples=150, deadline=None)
@given(rows=ROWS, with_episodes=st.booleans())
def test_counts_are_those_of_a_plain_loop(rows, with_episodes):
    counts = Counts.from_log(log_of(rows, with_episodes=with_episodes))
    slow = slow_counts(rows, with_episodes=with_episodes)
    flat = (N_STATES * N_ACTIONS, N_STATES)
    np.testing.assert_array_equal(counts.n_sa, slow["n_sa"])
    np.testing.assert_array_equal(counts.n_sas.toarray(), slow["n_sas"].reshape(flat))
    np.testing.assert_array_equal(counts.n_end.toarray(), slow["n_end"].reshape(flat))
    np.testing.assert_array_equal(counts.reward_sum, slow["reward_sum"])
    np.testing.assert_array_equal(counts.n_initial, slow["n_initial"])
    assert counts.n_dropped == slow["n_dropped"]
    assert counts.reward_range == (min(slow["rewards"]), max(slow["rewards"]))
    first = slow["n_initial"] if with_episodes else slow["n_sa"].sum(axis=1) > 0
    np.testing.assert_allclose(counts.initial, first / first.sum())


@settings(max_examples=150, deadline=None)
@given(rows=ROWS)
def test_a_state_is_terminal_if_it_only_ever_ends(rows):
    counts = Counts.from_log(log_of(rows))
    slow = slow_counts(rows, with_episodes=True)
    for x in range(N_STATES):
        n_entered, n_ended = slow["n_sas"][:, :, x].sum(), slow["n_end"][:, :, x].sum()
        never_acted = slow["n_sa"][x].sum() == 0
        assert counts.terminal[x] == (never_acted and n_ended > 0 and n_ended == n_entered)


@settings(max_examples=150, deadline=None)
@given(rows=ROWS, unseen=st.sampled_from(["average", "terminal", "uniform", "self-loop"]))
def test_the_model_is_the_share_of_rows_that_went_on(rows, unseen):
    """An end inside a state where others go on is no transition to it."""
    counts = Counts.from_log(log_of(rows))
    slow = slow_counts(rows, with_episodes=True)
    mdp = counts.to_mdp(gamma=0.5, unseen=unseen)
    for x in np.flatnonzero(~counts.terminal):
        for a in range(N_ACTIONS):
            n = slow["n_sa"][x, a]
            if n == 0 and unseen == "average":
                p, r, end = averaged(slow, rows, x, counts.terminal)
                np.testing.assert_allclose(mdp.dense[x, a], p)
                np.testing.assert_allclose([mdp.reward[x, a], mdp.ending[x, a]], [r, end])
                continue
            if n == 0:
                where = {"terminal": np.zeros(N_STATES), "self-loop": np.eye(N_STATES)[x],
                         "uniform": np.full(N_STATES, 1 / N_STATES)}[unseen]  # fmt: skip
                np.testing.assert_allclose(mdp.dense[x, a], where)
                assert mdp.reward[x, a] == 0.0
                continue
            went_on = slow["n_sas"][x, a] - np.where(counts.terminal, 0, slow["n_end"][x, a])
            np.testing.assert_allclose(mdp.dense[x, a], went_on / n)
            np.testing.assert_allclose(mdp.ending[x, a], 1 - went_on.sum() / n, atol=1e-12)
            np.testing.assert_allclose(mdp.reward[x, a], slow["reward_sum"][x, a] / n)


def averaged(slow, rows, x, terminal):
    """What was seen in a state over all actions, or in the whole log if that is nothing."""
    n = slow["n_sa"][x].sum()
    if n == 0:
        kept = [row for row in rows if row["terminated"] or row["next_state"] >= 0]
        end = sum(row["terminated"] for row in kept) / len(kept)
        reward = sum(row["reward"] for row in kept) / len(kept)
        return (1 - end) * np.eye(N_STATES)[x], reward, end
    went_on = slow["n_sas"][x] - np.where(terminal, 0, slow["n_end"][x])
    p = went_on.sum(axis=0) / n
    return p, slow["reward_sum"][x].sum() / n, 1 - p.sum()


@settings(max_examples=100, deadline=None)
@given(one=ROWS, other=ROWS)
def test_merging_is_counting_both_logs_as_one(one, other):
    merged = Counts.from_log(log_of(one)) + Counts.from_log(log_of(other, offset=100))
    both = one + [{**row, "episode": row["episode"] + 100} for row in other]
    whole = Counts.from_log(log_of(both))
    for name in ("n_sa", "reward_sum", "n_initial", "terminal", "initial"):
        np.testing.assert_array_equal(getattr(merged, name), getattr(whole, name), err_msg=name)
    for name in ("n_sas", "n_end"):
        part = getattr(merged, name)
        assert isinstance(part, sp.csr_array)
        np.testing.assert_array_equal(part.toarray(), getattr(whole, name).toarray())
    assert merged.reward_range == whole.reward_range
    assert merged.n_dropped == whole.n_dropped


def test_types_and_shapes():
    rows = [{"episode": 0, "state": 1, "action": 2, "reward": 1.0, "next_state": 3,
             "terminated": True, "truncated": False}]  # fmt: skip
    counts = Counts.from_log(log_of(rows))
    assert counts.n_sa.dtype == np.int64
    assert counts.n_initial.dtype == np.int64
    for part in (counts.n_sas, counts.n_end):
        assert isinstance(part, sp.csr_array)
        assert part.dtype == np.int64
        assert part.shape == (N_STATES * N_ACTIONS, N_STATES)
        assert part.nnz == 1
        assert part[[1 * N_ACTIONS + 2], [3]].sum() == 1
    assert (counts.n_states, counts.n_actions) == (N_STATES, N_ACTIONS)


def test_labels_are_kept():
    log = Log.from_arrays(
        state=[0], action=[0], reward=[1.0], episode=[0], state_labels=("a",), action_labels=("x",)
    )
    merged = Counts.from_log(log) + Counts.from_log(log)
    assert (merged.state_labels, merged.action_labels) == (("a",), ("x",))


@pytest.mark.parametrize(
    "other",
    [{"n_states": 3}, {"n_actions": 2}, {"state_labels": ("a",)}, {"action_labels": ("x",)}],
)
def test_counts_of_different_problems_do_not_merge(other):
    columns = {"state": [0], "action": [0], "reward": [1.0], "episode": [0]}
    one = Counts.from_log(Log.from_arrays(**columns))
    two = Counts.from_log(Log.from_arrays(**columns, **other))
    with pytest.raises(DataError, match=r"cannot be merged; expected the same states"):
        one + two


def test_counts_add_to_counts_only():
    counts = Counts.from_log(Log.from_arrays(state=[0], action=[0], reward=[1.0], episode=[0]))
    with pytest.raises(TypeError, match="unsupported operand"):
        counts + 1


def test_an_end_does_not_collect_the_value_of_its_state():
    """State 1 pays 8 to those who act in it. Half of those who enter it end there instead.

    Q(0) = gamma * 1/2 * 8 = 2, not 4.
    """
    log = Log.from_arrays(
        state=[0, 0, 1], action=[0, 0, 0], reward=[0.0, 0.0, 8.0], next_state=[1, 1, -1],
        terminated=[True, False, True], episode=[0, 1, 1],
    )  # fmt: skip
    counts = Counts.from_log(log)
    assert counts.terminal.tolist() == [False, False]
    mdp = counts.to_mdp(gamma=0.5)
    assert mdp.ending.tolist() == [[0.5], [1.0]]
    np.testing.assert_allclose(evaluate(mdp, [[1.0], [1.0]]).v, [2.0, 8.0])


def test_a_state_that_is_entered_without_ending_is_not_terminal():
    log = Log.from_arrays(
        state=[0, 0], action=[0, 0], reward=[1.0, 1.0], next_state=[1, 1], terminated=[True, False]
    )
    assert Counts.from_log(log).terminal.tolist() == [False, False]
    mdp = Counts.from_log(log).to_mdp(gamma=0.5)
    np.testing.assert_allclose(mdp.dense[0, 0], [0.0, 0.5])


@pytest.mark.parametrize(
    ("unseen", "value"),
    [("average", 5.0), ("terminal", 2.5), ("uniform", 22 / 7), ("self-loop", 10 / 3)],
)
def test_pairs_without_data_by_hand(unseen, value):
    """Seen: (0, 0) pays 4 and goes to 1; (1, 0) pays 2 and ends. Action 1 was never taken.

    With gamma = 1/2 and both actions equally likely in state 0: average: action 1 is as action 0,
    V(0) = 4 + 1; terminal: V(0) = (4 + 1) / 2; uniform: V(0) = 5/2 + 1/4 (V(0) + 2) / 2; self-loop:
    V(0) = 5/2 + V(0) / 4.
    """
    log = Log.from_arrays(
        state=[0, 1], action=[0, 0], reward=[4.0, 2.0], episode=[0, 0], n_actions=2
    )
    mdp = Counts.from_log(log).to_mdp(gamma=0.5, unseen=unseen)
    evaluation = evaluate(mdp, [[0.5, 0.5], [1.0, 0.0]])
    np.testing.assert_allclose(evaluation.v, [value, 2.0])
    assert evaluation.performance == pytest.approx(value)


def test_an_unknown_way_to_treat_them():
    counts = Counts.from_log(Log.from_arrays(state=[0], action=[0], reward=[1.0], episode=[0]))
    with pytest.raises(SettingsError, match=r"unseen is 'greedy'; expected one of 'average'"):
        counts.to_mdp(gamma=0.5, unseen="greedy")


def test_one_row():
    counts = Counts.from_log(Log.from_arrays(state=[0], action=[0], reward=[3.0], episode=[0]))
    mdp = counts.to_mdp(gamma=1.0)
    assert evaluate(mdp, [[1.0]]).performance == 3.0
    assert counts.reward_range == (3.0, 3.0)


def test_without_episodes_the_first_state_is_any_state_acted_in():
    log = Log.from_arrays(
        state=[0, 2, 2], action=[0, 0, 0], reward=[0.0] * 3, next_state=[1, 0, 0], n_states=4
    )
    assert Counts.from_log(log).initial.tolist() == [0.5, 0.0, 0.5, 0.0]
