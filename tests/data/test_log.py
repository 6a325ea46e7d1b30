"""Logs from arrays, frames and episodes: order, ends, next states, labels, refusals."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.data.readers import read_log
from spibb.errors import DataError
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.names import Names

UNKNOWN = -1


def independent(**columns):
    """A log of three transitions without episodes, some columns replaced."""
    rows = {"state": [0, 1, 0], "action": [1, 0, 0], "reward": [0.5, 1.0, -2.0]}
    return Log.from_arrays(**{**rows, "next_state": [1, 2, 0], **columns})


def test_independent_transitions_keep_their_order():
    log = independent(terminated=[False, True, False])
    assert len(log) == 3
    assert log.state.tolist() == [0, 1, 0]
    assert log.action.tolist() == [1, 0, 0]
    assert log.reward.tolist() == [0.5, 1.0, -2.0]
    assert log.next_state.tolist() == [1, 2, 0]
    assert log.terminated.tolist() == [False, True, False]
    assert log.truncated.tolist() == [False, False, False]
    assert (log.n_states, log.n_actions, log.n_episodes) == (3, 2, 0)
    assert log.episode is None
    assert log.step is None
    assert log.is_first is None
    assert log.state_labels is None


def test_without_episodes_and_terminated_nothing_ends():
    assert not independent().terminated.any()


def test_the_log_has_its_own_memory():
    state, reward = np.array([0, 1]), np.array([1.0, 2.0])
    flags = np.array([False, True])
    log = Log.from_arrays(
        state=state, action=[0, 0], reward=reward, next_state=[1, 0], terminated=flags
    )
    state[:], reward[:], flags[:] = 9, 9.0, True
    assert log.state.tolist() == [0, 1]
    assert log.reward.tolist() == [1.0, 2.0]
    assert log.terminated.tolist() == [False, True]


def test_the_next_state_is_the_following_row_of_the_episode():
    log = Log.from_arrays(
        state=[0, 1, 2, 1, 0], action=[0] * 5, reward=[0.0] * 5, episode=[7, 7, 7, 9, 9]
    )
    assert log.next_state.tolist() == [1, 2, UNKNOWN, 0, UNKNOWN]
    assert log.terminated.tolist() == [False, False, True, False, True]
    assert log.step.tolist() == [0, 1, 2, 0, 1]
    assert log.is_first.tolist() == [True, False, False, True, False]
    assert log.n_episodes == 2


def test_a_given_next_state_stays_and_the_last_row_still_ends():
    log = Log.from_arrays(
        state=[0, 1], action=[0, 0], reward=[0.0, 0.0], next_state=[1, 3], episode=[0, 0]
    )
    assert log.next_state.tolist() == [1, 3]
    assert log.terminated.tolist() == [False, True]
    assert log.n_states == 4


def test_given_terminated_is_believed():
    log = Log.from_arrays(
        state=[0, 1, 0, 1], action=[0] * 4, reward=[0.0] * 4, episode=[0, 0, 1, 1],
        terminated=[False, True, False, False],
    )  # fmt: skip
    assert log.terminated.tolist() == [False, True, False, False]
    assert log.next_state.tolist() == [1, UNKNOWN, 1, UNKNOWN]
    assert Counts.from_log(log).n_dropped == 1


def test_a_row_that_ends_has_no_next_state_even_in_the_middle():
    log = Log.from_arrays(
        state=[0, 1], action=[0, 0], reward=[0.0, 0.0], episode=[0, 0], terminated=[True, True]
    )
    assert log.next_state.tolist() == [UNKNOWN, UNKNOWN]


def test_a_truncated_last_row_does_not_end_and_is_dropped_if_its_next_state_is_unknown():
    log = Log.from_arrays(
        state=[0, 1, 0, 1], action=[0, 1, 0, 1], reward=[1.0, 2.0, 3.0, 4.0],
        episode=[0, 0, 1, 1], truncated=[False, True, False, False],
    )  # fmt: skip
    assert log.terminated.tolist() == [False, False, False, True]
    counts = Counts.from_log(log)
    assert counts.n_dropped == 1
    np.testing.assert_array_equal(counts.n_sa, [[2, 0], [0, 1]])
    np.testing.assert_array_equal(counts.reward_sum, [[4.0, 0.0], [0.0, 4.0]])
    assert counts.reward_range == (1.0, 4.0)


def test_a_truncated_row_counts_if_its_next_state_is_known():
    log = Log.from_arrays(
        state=[0, 1], action=[0, 0], reward=[1.0, 2.0], next_state=[1, 0], episode=[0, 0],
        truncated=[False, True],
    )  # fmt: skip
    counts = Counts.from_log(log)
    assert counts.n_dropped == 0
    np.testing.assert_array_equal(counts.n_sas.toarray(), [[0, 1], [1, 0]])
    assert counts.n_end.nnz == 0


def test_an_end_at_the_truncated_step_is_an_end():
    log = Log.from_arrays(
        state=[0], action=[0], reward=[1.0], episode=[0], terminated=[True], truncated=[True]
    )
    assert log.terminated.tolist() == [True]
    assert log.truncated.tolist() == [False]


def test_rows_are_sorted_by_step():
    log = Log.from_arrays(
        state=[2, 0, 1, 5, 4], action=[0] * 5, reward=[2.0, 0.0, 1.0, 5.0, 4.0],
        episode=[0, 0, 0, -3, -3], step=[12, 10, 11, 1, 0],
    )  # fmt: skip
    assert log.episode.tolist() == [-3, -3, 0, 0, 0]
    assert log.state.tolist() == [4, 5, 0, 1, 2]
    assert log.reward.tolist() == [4.0, 5.0, 0.0, 1.0, 2.0]
    assert log.next_state.tolist() == [5, UNKNOWN, 1, 2, UNKNOWN]


def test_a_jump_of_the_steps_is_a_gap_whose_next_state_is_unknown():
    log = Log.from_arrays(
        state=[0, 1, 2, 3], action=[0] * 4, reward=[0.0] * 4, episode=[0] * 4, step=[0, 1, 3, 4]
    )
    assert log.is_gap.tolist() == [False, True, False, False]
    assert log.next_state.tolist() == [1, UNKNOWN, 3, UNKNOWN]
    assert log.terminated.tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("more", "gaps"),
    [
        ({"next_state": [1, 5, 3]}, [False, True, False]),
        ({"next_state": [1, -1, 3]}, [False, False, False]),
        ({"next_state": [1, 2, 3], "step": [0, 2, 3]}, [True, False, False]),
        ({"truncated": [True, False, False]}, [True, False, False]),
        ({"terminated": [True, False, True], "step": [0, 5, 6]}, [False, False, False]),
    ],
    ids=["led-elsewhere", "unknown", "numbered", "said-to-stop", "ended"],
)
def test_where_steps_are_missing(more, gaps):
    columns = {"state": [0, 1, 2], "action": [0] * 3, "reward": [0.0] * 3, "episode": [0] * 3}
    assert Log.from_arrays(**columns, **more).is_gap.tolist() == gaps


def test_steps_that_never_follow_each_other_are_refused_where_next_states_hang_on_them():
    columns = {"state": [0, 1, 2], "action": [0] * 3, "reward": [0.0] * 3, "episode": [0] * 3}
    with pytest.raises(DataError, match=r"they are 60 apart, or more; expected steps numbered"):
        Log.from_arrays(**columns, step=[0, 60, 180])
    log = Log.from_arrays(**columns, step=[0, 60, 180], next_state=[1, 2, 0])
    assert log.is_gap.tolist() == [True, True, False]


def test_interleaved_episodes_without_steps_keep_the_order_of_their_rows():
    log = Log.from_arrays(
        state=[0, 5, 1, 6, 2], action=[0] * 5, reward=[0.0] * 5, episode=[0, 1, 0, 1, 0]
    )
    assert log.state.tolist() == [0, 1, 2, 5, 6]
    assert log.next_state.tolist() == [1, 2, UNKNOWN, 6, UNKNOWN]
    assert log.step.tolist() == [0, 1, 2, 0, 1]


def test_the_same_step_twice_names_the_rows():
    with pytest.raises(DataError, match=r"twice \(2 rows too many.*first at rows 1 and 3\)"):
        Log.from_arrays(
            state=[0] * 5, action=[0] * 5, reward=[0.0] * 5, episode=[4, 4, 4, 5, 5],
            step=[1, 0, 1, 8, 8],
        )  # fmt: skip


def test_sizes_may_be_larger_than_what_was_met():
    log = independent(n_states=10, n_actions=4)
    assert (log.n_states, log.n_actions) == (10, 4)
    labelled = independent(state_labels=("a", "b", "c", "d"), action_labels=("x", "y"))
    assert (labelled.n_states, labelled.state_labels) == (4, ("a", "b", "c", "d"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"state": [], "action": [], "reward": [], "next_state": []}, r"the log has no rows"),
        ({"state": [0, -1, 0]}, r"state -1 is out of range \(first at row 2\); expected .*>= 0"),
        ({"action": [0, 0, -7]}, r"action -7 is out of range \(first at row 3\)"),
        ({"next_state": [0, -2, 0]}, r"next_state -2 is out of range \(first at row 2\).*>= -1"),
        ({"state": ["a", "b", "c"]}, r"state has type <U1; expected integers.*from_dataframe"),
        ({"state": [0.0, 1.0, 0.0]}, r"state has type float64"),
        ({"state": [[0, 1], [2, 3]]}, r"state has shape \(2, 2\); expected one value for each"),
        ({"reward": [0.0, 1.0]}, r"reward has shape \(2,\); expected \(3,\)"),
        ({"reward": [[0.0], [0.0], [0.0]]}, r"reward has shape \(3, 1\)"),
        ({"reward": ["much", "1", "2"]}, r"reward does not hold numbers: .*'much'"),
        ({"reward": [0.0, np.nan, np.nan]}, r"reward nan in 2 rows \(first at row 2\).*finite"),
        ({"reward": [0.0, 0.0, -np.inf]}, r"reward -inf in 1 rows \(first at row 3\)"),
        ({"reward": [0.0, 1e200, 0.0]}, r"reward 1e\+200 in 1 rows .*size 1e\+100 at most"),
        ({"terminated": [0, 1, 2]}, r"terminated has type int64; expected booleans, or 0 and 1"),
        ({"truncated": ["no", "no", "yes"]}, r"truncated has type"),
        ({"terminated": [True]}, r"terminated has shape \(1,\)"),
        ({"episode": [0, 1]}, r"episode has shape \(2,\)"),
        ({"episode": [0.5, 1.0, 2.0]}, r"episode has type float64"),
        ({"episode": [0, 0, 1], "step": ["a", "b", "c"]}, r"step has type"),
        ({"n_states": 2}, r"state 2 is out of range \(first at row 2\).*n_states = 2"),
        ({"n_actions": 1}, r"action 1 is out of range \(first at row 1\).*n_actions = 1"),
        ({"state_labels": ("a", "b")}, r"2 labels; expected one for each of 3"),
        (
            {"next_state": None, "terminated": [True] * 3},
            r"neither next_state nor episode is given.*To fix it.*leave out step, terminated",
        ),
        ({"next_state": None, "step": [0, 1, 2]}, r"neither next_state nor episode is given"),
    ],
)
def test_refused_columns(columns, message):
    with pytest.raises(DataError, match=message):
        independent(**columns)


def test_a_log_without_any_usable_row_cannot_be_counted():
    log = Log.from_arrays(state=[0], action=[0], reward=[1.0], episode=[0], truncated=[True])
    with pytest.raises(DataError, match=r"no row of the log has a next state or ends"):
        Counts.from_log(log)


FRAME = {
    "episode": ["p1", "p1", "p2"],
    "state": ["sick", "ill", "sick"],
    "action": ["wait", "treat", "wait"],
    "reward": [0, 1, 2],
}


def assert_is_the_frame(log):
    assert log.state_labels == ("ill", "sick")
    assert log.action_labels == ("treat", "wait")
    assert log.state.tolist() == [1, 0, 1]
    assert log.action.tolist() == [1, 0, 1]
    assert log.reward.tolist() == [0.0, 1.0, 2.0]
    assert log.next_state.tolist() == [0, UNKNOWN, UNKNOWN]
    assert log.terminated.tolist() == [False, True, True]
    assert log.episode.tolist() == [0, 0, 1]


def test_pandas_frame():
    assert_is_the_frame(Log.from_dataframe(pd.DataFrame(FRAME, index=[5, 5, 5])))


def test_pandas_categories_are_labels():
    frame = pd.DataFrame(FRAME)
    for name in ("episode", "state", "action"):
        frame[name] = frame[name].astype("category")
    assert_is_the_frame(Log.from_dataframe(frame))


def test_pandas_categories_of_integers_are_integers():
    frame = pd.DataFrame({**FRAME, "state": pd.Categorical([10, 2, 10])})
    log = Log.from_dataframe(frame)
    assert log.state_labels == ("2", "10")
    assert log.state.tolist() == [1, 0, 1]


def test_pandas_missing_integers():
    frame = pd.DataFrame({"state": [0, 1], "action": [0, 0], "reward": [1.0, 2.0],
                          "next_state": [1, np.nan], "terminated": [False, True]})  # fmt: skip
    log = Log.from_dataframe(frame)
    assert log.next_state.tolist() == [1, UNKNOWN]
    assert log.terminated.tolist() == [False, True]


def test_arrow_table():
    assert_is_the_frame(Log.from_dataframe(pa.table(FRAME)))


def test_a_frame_that_turns_itself_into_arrow():
    class Frame:
        def to_arrow(self):
            return pa.table(FRAME)

    assert_is_the_frame(Log.from_dataframe(Frame()))


def test_tables_are_read_as_they_are():
    columns = {"state": "ward"}
    for table in (pd.DataFrame(FRAME), pa.table(FRAME)):
        assert_is_the_frame(read_log(table))
    renamed = pd.DataFrame(FRAME).rename(columns={"state": "ward"})
    assert_is_the_frame(read_log(renamed, columns))


def test_polars_tables_are_read_as_they_are():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    assert_is_the_frame(read_log(polars.DataFrame(FRAME)))


def test_whatever_streams_arrow_is_a_table():
    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table(FRAME).__arrow_c_stream__(requested_schema)

    assert_is_the_frame(read_log(Stream()))


def test_frame_with_other_names():
    frame = pd.DataFrame(FRAME).rename(columns={"state": "ward", "reward": "score"})
    assert_is_the_frame(Log.from_dataframe(frame, columns={"state": "ward", "reward": "score"}))


@pytest.mark.parametrize("frame", [{"state": [0]}, 7, pd.DataFrame({"state": [1, "a"]})])
def test_what_is_no_frame(frame):
    with pytest.raises(DataError, match=r"cannot read the data frame: .*; expected a pandas"):
        Log.from_dataframe(frame)


def test_frame_without_a_column():
    with pytest.raises(DataError, match=r"the data frame has no column 'action', but .*'actions'"):
        Log.from_dataframe(pd.DataFrame(FRAME).rename(columns={"action": "actions"}))


def test_from_episodes():
    log = Log.from_episodes(
        [
            {"state": [0, 1], "action": [1, 0], "reward": [1.0, 2.0]},
            {"state": [2], "action": [1], "reward": [3.0]},
        ],
        n_states=5,
    )
    assert log.episode.tolist() == [0, 0, 1]
    assert log.next_state.tolist() == [1, UNKNOWN, UNKNOWN]
    assert log.terminated.tolist() == [False, True, True]
    assert (log.n_states, log.n_actions) == (5, 2)


def test_from_episodes_passes_over_empty_ones():
    empty = {"state": [], "action": [], "reward": []}
    log = Log.from_episodes([empty, {"state": [1], "action": [0], "reward": [3.0]}, empty])
    assert (len(log), log.n_episodes) == (1, 1)


@pytest.mark.parametrize(
    ("episodes", "message"),
    [
        ([], r"no episodes; expected at least one"),
        ([{"state": [], "action": [], "reward": []}], r"no episodes"),
        ([{"state": [0], "action": [0]}], r"columns state, action; expected state, action, reward"),
        ([{"state": [0], "action": [0], "reward": [0.0], "step": [0]}], r"columns .*step"),
        (
            [
                {"state": [0], "action": [0], "reward": [0.0]},
                {"state": [0], "action": [0], "reward": [0.0], "truncated": [True]},
            ],
            r"episodes with different columns",
        ),
        ([{"state": [0, 1], "action": [0], "reward": [0.0]}], r"action has shape \(1,\)"),
    ],
)
def test_refused_episodes(episodes, message):
    with pytest.raises(DataError, match=message):
        Log.from_episodes(episodes)


def chain(n_states=3):
    """Action 0 walks right for 1, action 1 stays for 0; the last state is terminal."""
    transition = np.zeros((n_states, 2, n_states))
    for x in range(n_states):
        transition[x, 0, min(x + 1, n_states - 1)] = 1.0
        transition[x, 1, x] = 1.0
    reward = np.tile([1.0, 0.0], (n_states, 1))
    start, end = np.eye(n_states)[0], np.arange(n_states) == n_states - 1
    return TabularMDP(transition, reward, 0.9, initial=start, terminal=end)


def test_sample_walks_to_the_end():
    log = Log.sample(
        chain(), TabularPolicy([[1.0, 0.0]] * 3), n_episodes=4, rng=np.random.default_rng(1)
    )
    assert log.state.tolist() == [0, 1] * 4
    assert log.next_state.tolist() == [1, 2] * 4
    assert log.terminated.tolist() == [False, True] * 4
    assert not log.truncated.any()
    assert (log.n_episodes, log.n_states, log.n_actions) == (4, 3, 2)


def test_sample_truncates_at_max_steps_and_keeps_the_next_state():
    log = Log.sample(
        chain(), [[0.0, 1.0]] * 3, n_episodes=2, max_steps=3, rng=np.random.default_rng(2)
    )
    assert log.state.tolist() == [0] * 6
    assert log.next_state.tolist() == [0] * 6
    assert log.truncated.tolist() == [False, False, True] * 2
    assert Counts.from_log(log).n_dropped == 0


def test_sample_repeats_with_the_same_seed():
    policy = TabularPolicy([[0.5, 0.5]] * 3)
    logs = [
        Log.sample(chain(), policy, n_episodes=20, rng=np.random.default_rng(seed))
        for seed in (3, 3, 4)
    ]
    assert logs[0].action.tolist() == logs[1].action.tolist()
    assert logs[0].action.tolist() != logs[2].action.tolist()


def test_sample_of_nothing():
    mdp = TabularMDP([[[1.0]]], [[0.0]], 0.9, terminal=[True])
    with pytest.raises(DataError, match=r"every sampled episode began in a terminal state"):
        Log.sample(mdp, [[1.0]], n_episodes=2, rng=np.random.default_rng(5))


def test_renaming_moves_every_column():
    log = independent(state_labels=("b", "c", "d"), action_labels=("y", "z"))
    moved = log.renamed(Names(("a", "b", "c", "d"), 4), Names(("z", "y"), 2))
    assert moved.state.tolist() == [1, 2, 1]
    assert moved.next_state.tolist() == [2, 3, 1]
    assert moved.action.tolist() == [0, 1, 1]
    assert (moved.n_states, moved.n_actions) == (4, 2)


def test_renaming_leaves_unknown_next_states_unknown():
    log = independent(next_state=[-1, 1, -1], terminated=[True] * 3)
    renamed = log.renamed(Names(("1", "0"), 2), log.actions)
    assert renamed.next_state.tolist() == [-1, 0, -1]


def test_renaming_needs_all_the_old_ones():
    log = independent()
    with pytest.raises(DataError, match=r"the new names lack '2'; expected all of the old"):
        log.renamed(Names(("0", "1"), 2), log.actions)


def test_episodes_that_begin_late_lack_their_first_steps():
    def gaps(*steps):
        rows = [step for part in steps for step in part]
        episode = np.repeat(np.arange(len(steps)), [len(part) for part in steps])
        n = len(rows)
        log = Log.from_arrays(
            state=[0] * n, action=[0] * n, reward=[0.0] * n, episode=episode, step=rows
        )
        return log.n_gaps

    assert gaps([0, 1], [2, 3]) == 1, "its first state is not where episodes begin"
    assert gaps([1, 2], [1], [1, 2]) == 0, "numbered from one"
    assert gaps([5, 6], [8, 9], [12, 13]) == 0, "a clock that runs on"
    assert gaps([0, 1, 3], [0], [1, 2]) == 2


def test_a_path_is_no_table():
    with pytest.raises(DataError, match=r"'visits.csv' is no table.*read a file by spibb.read_log"):
        Log.from_dataframe("visits.csv")


def test_parts_of_a_log_are_logs():
    """Columns of a part come when they are asked for; what is said of the whole stays said."""
    log = Log.from_arrays(
        state=[0, 1, 0, 1], action=[0, 1, 1, 0], reward=[1.0, 2.0, 3.0, 4.0], episode=[0, 0, 1, 1],
        propensity=[0.5, 0.5, 0.25, 0.25], policy=["old", "old", "new", "new"],
        state_labels=("a", "b"), cost={"harm": [1.0, 2.0, 3.0, 4.0]},
    )  # fmt: skip
    part = log.take(log.episode == 1)
    assert len(part) == 2
    assert part.paying("harm").reward.tolist() == [3.0, 4.0]
    assert part.acted.propensity.tolist() == [0.25, 0.25]
    assert part.acted.names == ("new",)
    wider = part.renamed(Names(("a", "b", "c"), 3), part.actions)
    assert len(wider) == 2
    assert wider.n_states == 3
    assert wider.reward.tolist() == [3.0, 4.0]
    assert wider.acted.names == ("new",)
    bandit = Log.from_arrays(state=[0, 0, 1], action=[0, 1, 0], reward=[0.0, 1.0, 1.0])
    assert bandit.is_one_step
    assert bandit.take(bandit.reward > 0.0).is_one_step
