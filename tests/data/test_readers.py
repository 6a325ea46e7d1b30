"""Log files: CSV and Parquet, columns that are missing, renamed or strange, labels."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from spibb.data.readers import read_log
from spibb.errors import DataError

ARRAYS = ("state", "action", "reward", "next_state", "terminated", "truncated", "episode", "step")
LABELLED = pa.table(
    {
        "episode": [3, 3, 1, 1],
        "step": [1, 0, 0, 1],
        "state": ["ill", "sick", "sick", "ill"],
        "action": ["treat", "wait", "wait", "wait"],
        "reward": [1.0, 0.1, 2.5, -3.0],
        "next_state": ["home", "ill", "ill", None],
        "terminated": [True, False, False, False],
        "truncated": [False, False, False, True],
    }
)
NUMBERED = pa.table(
    {
        "episode": [0, 0, 1],
        "state": [4, 0, 2],
        "action": [0, 1, 1],
        "reward": [1, 2, 3],
        "next_state": [0, None, 12],
        "terminated": [0, 1, 1],
    }
)


def csv(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def assert_same(one, other):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("n_states", "n_actions", "state_labels", "action_labels"):
        assert getattr(one, name) == getattr(other, name), name


@pytest.mark.parametrize("table", [LABELLED, NUMBERED], ids=["labels", "integers"])
def test_csv_and_parquet_of_a_log_are_the_same_log(tmp_path, table):
    pyarrow.csv.write_csv(table, tmp_path / "log.csv")
    pq.write_table(table, tmp_path / "log.parquet")
    assert_same(read_log(tmp_path / "log.csv"), read_log(tmp_path / "log.parquet"))


def test_labels(tmp_path):
    pq.write_table(LABELLED, tmp_path / "log.parquet")
    log = read_log(str(tmp_path / "log.parquet"))
    assert log.state_labels == ("home", "ill", "sick")
    assert log.action_labels == ("treat", "wait")
    assert log.episode.tolist() == [1, 1, 3, 3]
    assert log.state.tolist() == [2, 1, 2, 1]
    assert log.next_state.tolist() == [1, -1, 1, 0]
    assert log.reward.tolist() == [2.5, -3.0, 0.1, 1.0]
    assert log.truncated.tolist() == [False, True, False, False]


def test_integers_are_labels_in_their_order_as_numbers(tmp_path):
    pyarrow.csv.write_csv(NUMBERED, tmp_path / "log.csv")
    log = read_log(tmp_path / "log.csv")
    assert (log.state_labels, log.action_labels) == (("0", "2", "4", "12"), None)
    assert (log.n_states, log.n_actions) == (4, 2)
    assert log.state.tolist() == [2, 0, 1]
    assert log.next_state.tolist() == [0, -1, 3]


@pytest.mark.parametrize("name", ["log.csv", "log.parquet", "frame"])
def test_integers_stand_for_themselves_where_their_number_is_given(tmp_path, name):
    pyarrow.csv.write_csv(NUMBERED, tmp_path / "log.csv")
    pq.write_table(NUMBERED, tmp_path / "log.parquet")
    log = read_log(NUMBERED if name == "frame" else tmp_path / name, n_states=13, n_actions=5)
    assert (log.state_labels, log.action_labels) == (None, None)
    assert (log.n_states, log.n_actions) == (13, 5)
    assert log.state.tolist() == [4, 0, 2]
    assert log.next_state.tolist() == [0, -1, 12]


def test_the_least_a_log_needs(tmp_path):
    log = read_log(csv(tmp_path / "log.csv", "episode,state,action,reward\n0,0,0,1\n0,1,0,2\n"))
    assert log.next_state.tolist() == [1, -1]
    assert log.terminated.tolist() == [False, True]


def test_one_row(tmp_path):
    log = read_log(csv(tmp_path / "log.csv", "episode,state,action,reward\n0,0,0,1\n"))
    assert (len(log), log.n_states, log.n_actions, log.n_episodes) == (1, 1, 1, 1)
    assert log.terminated.tolist() == [True]


def test_transitions_without_episodes(tmp_path):
    text = "step,state,action,reward,next_state\n1,0,0,1,1\n1,0,1,2,0\n"
    log = read_log(csv(tmp_path / "log.csv", text))
    assert log.episode is None
    assert log.next_state.tolist() == [1, 0]


@pytest.mark.parametrize(
    "labels",
    [("007", "7"), ("True", "False"), ("2024-01-01", "12:30"), ("NA", "null"), ("é", "😀")],
)
def test_labels_come_as_they_are_written(tmp_path, labels):
    one, two = labels
    text = f"episode,state,action,reward\n0,{one},{one},1\n0,{two},{two},1\n"
    log = read_log(csv(tmp_path / "log.csv", text))
    assert log.state_labels == tuple(sorted(labels))
    assert log.action_labels == tuple(sorted(labels))


@pytest.mark.parametrize(
    ("states", "next_states"),
    [
        (("3", "1"), ("1.0", "")),
        (("3", "1"), ("1.0", "nan")),
        (("3.0", "1.0"), ("1", "-1")),
        ((" 3", "1 "), ("1", "")),
    ],
)
def test_integers_may_be_written_as_numbers_are(tmp_path, states, next_states):
    rows = "".join(f"0,{x},0,1,{y}\n" for x, y in zip(states, next_states, strict=True))
    log = read_log(csv(tmp_path / "log.csv", "episode,state,action,reward,next_state\n" + rows))
    assert log.state_labels == ("1", "3")
    assert log.state.tolist() == [1, 0]
    assert log.next_state.tolist() == [0, -1]


def test_fractions_are_the_same_labels_in_both_formats(tmp_path):
    table = pa.table({"episode": [0, 0], "state": [0.5, 2.0], "action": [0, 0], "reward": [1, 1]})
    pq.write_table(table, tmp_path / "log.parquet")
    csv(tmp_path / "log.csv", "episode,state,action,reward\n0,0.5,0,1\n0,2.0,0,1\n")
    for name in ("log.csv", "log.parquet"):
        assert read_log(tmp_path / name).state_labels == ("0.5", "2")


def test_a_label_late_in_a_long_file(tmp_path):
    rows = "0,1,0,1\n" * 200_000 + "0,1,0,0.5\n0,home,0,0.25\n"
    log = read_log(csv(tmp_path / "log.csv", "episode,state,action,reward\n" + rows))
    assert log.state_labels == ("1", "home")
    assert log.reward[-2:].tolist() == [0.5, 0.25]


def test_a_label_with_commas_quotes_and_a_line_break(tmp_path):
    text = 'episode,state,action,reward\n0,"a, ""b""\nc",x,1\n'
    assert read_log(csv(tmp_path / "log.csv", text)).state_labels == ('a, "b"\nc',)


def test_windows_line_ends_and_byte_order_mark(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xef\xbb\xbfepisode,state,action,reward\r\n0,a,0,1\r\n0,b,0,2\r\n")
    log = read_log(path)
    assert log.state_labels == ("a", "b")
    assert log.reward.tolist() == [1.0, 2.0]


def test_columns_without_a_name_are_passed_over(tmp_path):
    text = "episode,state,action,reward,,\n0,3,0,1,,\n"
    assert read_log(csv(tmp_path / "log.csv", text)).state_labels == ("3",)


def test_episodes_named_by_text(tmp_path):
    text = "episode,state,action,reward\nzoe,0,0,1\nadam,1,0,2\nzoe,2,0,3\n"
    log = read_log(csv(tmp_path / "log.csv", text))
    assert log.episode.tolist() == [0, 1, 1]
    assert log.state.tolist() == [1, 0, 2]
    assert log.next_state.tolist() == [-1, 2, -1]


STEPS = [
    ["2024-02-01", "2023-12-31", "2024-01-15"],
    ["2024-01-02T10:00:00", "2024-01-01T23:00:00", "2024-01-02T09:59:59"],
    ["10", "2", "9"],
    ["0.3", "-1.5", "0.25"],
]


@pytest.mark.parametrize("steps", STEPS)
def test_steps_in_a_csv_file(tmp_path, steps):
    rows = "".join(f"0,{step},{state},0,0\n" for step, state in zip(steps, [2, 0, 1], strict=True))
    log = read_log(csv(tmp_path / "log.csv", "episode,step,state,action,reward\n" + rows))
    assert log.state.tolist() == [0, 1, 2]
    are_numbers = steps == ["10", "2", "9"]
    assert log.is_gap.any() == are_numbers, "times only order; whole numbers count the steps"


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_steps_that_are_text_are_ordered_by_what_they_mean(tmp_path, steps, kind):
    table = pa.table({"episode": [0] * 3, "step": pa.array(steps, pa.string()).cast(kind),
                      "state": [2, 0, 1], "action": [0] * 3, "reward": [0.0] * 3})  # fmt: skip
    pq.write_table(table, tmp_path / "log.parquet")
    assert read_log(tmp_path / "log.parquet").state.tolist() == [0, 1, 2]


def test_steps_without_an_order(tmp_path):
    text = "episode,step,state,action,reward\n0,day-2,0,0,0\n0,day-10,0,0,0\n"
    with pytest.raises(DataError, match=r"column 'step' of .* such as 'day-2'; expected numbers"):
        read_log(csv(tmp_path / "log.csv", text))


@pytest.mark.parametrize("steps", ["1,1", "2024-01-01,2024-01-01", "0.5,0.50"])
def test_the_same_step_twice(tmp_path, steps):
    one, two = steps.split(",")
    text = f"episode,step,state,action,reward\na,9,0,0,0\nb,{one},0,0,0\nb,{two},0,0,0\n"
    text = text.replace("a,9", f"a,{one}")
    with pytest.raises(DataError, match=r"twice \(1 rows too many in all\).*rows 2 and 3"):
        read_log(csv(tmp_path / "log.csv", text))


@pytest.mark.parametrize(
    ("true", "false"), [("true", "false"), ("True", ""), ("1", "0"), ("1.0", "0.0"), ("YES", "no")]
)
def test_flags_however_they_are_written(tmp_path, true, false):
    text = (
        "state,action,reward,next_state,terminated\n"
        f"0,0,1,1,{true}\n0,0,1,1,{false}\n0,0,1,1,{false}\n"
    )
    log = read_log(csv(tmp_path / "log.csv", text))
    assert log.terminated.tolist() == [True, False, False]


def test_a_column_of_empty_flags_is_false(tmp_path):
    text = "episode,state,action,reward,truncated\n0,0,0,1,\n0,0,0,1,\n"
    assert read_log(csv(tmp_path / "log.csv", text)).truncated.tolist() == [False, False]


def test_renamed_columns(tmp_path):
    text = "id,ward,what,score,state\n0,a,x,1.5,junk\n0,b,y,2.5,junk\n"
    columns = {"episode": "id", "state": "ward", "action": "what", "reward": "score"}
    log = read_log(csv(tmp_path / "log.csv", text), columns=columns)
    assert log.state_labels == ("a", "b")
    assert log.action_labels == ("x", "y")
    assert log.reward.tolist() == [1.5, 2.5]


def test_columns_may_swap_their_names(tmp_path):
    text = "state,action,reward,next_state\n1,0,0,0\n"
    columns = {"state": "next_state", "next_state": "state"}
    log = read_log(csv(tmp_path / "log.csv", text), columns=columns)
    assert (log.state.tolist(), log.next_state.tolist()) == ([0], [1])


def test_renamed_labels_are_kept_as_written(tmp_path):
    text = "episode,ward,action,reward\n0,007,0,1\n"
    log = read_log(csv(tmp_path / "log.csv", text), columns={"state": "ward"})
    assert log.state_labels == ("007",)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"stat": "state"}, r"columns renames 'stat'; expected one of .*write state=state"),
        ({"state": "wrd"}, r"state is in column 'wrd', which .* does not have.*write state=ward"),
        ({"state": "x", "action": "x"}, r"columns gives 2 names to 1 columns"),
    ],
)
def test_renaming_gone_wrong(tmp_path, columns, message):
    path = csv(tmp_path / "log.csv", "episode,ward,x,state,action,reward\n0,0,0,0,0,1\n")
    with pytest.raises(DataError, match=message):
        read_log(path, columns=columns)


def test_a_folder_and_a_glob(tmp_path):
    head = "episode,state,action,reward\n"
    csv(tmp_path / "b.csv", head + "2,2,0,1\n")
    csv(tmp_path / "a.csv", head + "1,1,0,1\n1,0,1,1\n")
    table = pa.table({"episode": [3], "state": [3], "action": [0], "reward": [2.5]})
    pq.write_table(table, tmp_path / "c.parquet")
    csv(tmp_path / "README.txt", "not a log")
    assert read_log(tmp_path).state.tolist() == [1, 0, 2, 3]
    assert read_log(tmp_path / "*.csv").state.tolist() == [1, 0, 2]
    assert read_log(tmp_path / "c.parquet").reward.tolist() == [2.5]


def test_an_episode_may_go_on_in_another_file(tmp_path):
    head = "episode,step,state,action,reward\n"
    csv(tmp_path / "a.csv", head + "0,1,1,0,1\n")
    csv(tmp_path / "b.csv", head + "0,0,0,0,1\n")
    log = read_log(tmp_path)
    assert log.state.tolist() == [0, 1]
    assert log.next_state.tolist() == [1, -1]


def test_files_of_a_folder_need_not_agree_on_order_and_kind(tmp_path):
    csv(tmp_path / "a.csv", "episode,state,action,reward,terminated\n0,7,0,1,1\n")
    csv(tmp_path / "b.csv", "terminated,reward,action,state,episode\nfalse,0.5,0,home,1\n")
    log = read_log(tmp_path)
    assert log.state_labels == ("7", "home")
    assert log.reward.tolist() == [1.0, 0.5]
    assert log.terminated.tolist() == [True, False]


def test_files_of_different_kinds(tmp_path):
    csv(tmp_path / "a.csv", "episode,state,action,reward\n0,0,0,1\n")
    csv(tmp_path / "b.csv", "state,action,probability\n0,0,1\n")
    message = r"different columns: not all of them have 'episode', 'probability', 'reward'"
    with pytest.raises(DataError, match=message):
        read_log(tmp_path)


HEAD = "episode,step,state,action,reward,next_state,terminated\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("State,Acton,reward,episode\n0,0,1,0\n", r"no column 'state', but it has 'State'.*=State"),
        ("episode,next_state,action,reward\n0,0,0,1\n", r"no column 'state'; .*state=YOUR_COLUMN"),
        ("state,acton,reward\n0,0,1\n", r"no column 'action', but it has 'acton'"),
        ("state,action,reward,step\n0,0,1,0\n", r"neither .*--columns episode=.*leave out step"),
        ("state,action,reward,Episodes\n0,0,1,2\n", r"neither.*=Episodes.*leave out Episodes"),
        ("state action reward\n0 0 1\n", r"no column 'state'.*separate the fields by commas"),
        ("state,state,action,reward\n0,0,0,1\n", r"has 2 columns called 'state'"),
        (HEAD + ",0,0,0,0,0,0\n", r"column 'episode' of .* has an empty cell \(first at row 1\)"),
        (HEAD + "0,0,0,0,0,0,0\n0,,0,0,0,0,0\n", r"column 'step' .* empty cell \(first at row 2"),
        (HEAD + "0,0,,0,0,0,0\n", r"column 'state' of .* has an empty cell"),
        (HEAD + "0,0,0,,0,0,0\n", r"column 'action' of .* has an empty cell"),
        (HEAD + "0,0,0,0,,0,0\n", r"reward is missing or not finite in 1 rows \(first at row 1 of"),
        (HEAD + "0,0,0,0,0,0,0\n0,1,0,0,-inf,0,0\n", r"reward .*not finite.*\(first at row 2 of"),
        (HEAD + "0,0,0,0,good,0,0\n", r"'reward' of .* not a number: 'good' \(first at row 1"),
        (HEAD + '0,0,0,0,"1,5",0,0\n', r"not a number: '1,5'.*a point for decimals"),
        (HEAD + "0,0,0,0,2024-01-01,0,0\n", r"not a number: '2024-01-01'"),
        (HEAD + "0,0,0,0,0,0,perhaps\n", r"'terminated' holds 'perhaps' \(first at row 1 of"),
        (HEAD + "0,0,-4,0,0,0,0\n", r"state -4 is out of range \(first at row 1 of"),
        (HEAD + "0,0,0,0,0,-2,0\n", r"next_state -2 is out of range"),
        (HEAD + "0,0,0\n", r"a row has 3 fields \(first at row 1\); expected 7, as in the header"),
    ],
)  # fmt: skip
def test_refused_files(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_log(csv(tmp_path / "log.csv", text))


NAN = float("nan")
ROW = {"episode": [0], "step": [0], "state": [0], "action": [0], "reward": [1.0]}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"state": [NAN]}, r"column 'state' of .* has an empty cell"),
        ({"episode": [NAN]}, r"column 'episode' of .* has an empty cell"),
        ({"step": [NAN]}, r"column 'step' of .* has an empty cell"),
        ({"state": [[1, 2]]}, r"column 'state' of .* holds values of type list"),
        ({"step": [[1, 2]]}, r"column 'step' of .* holds values of type list"),
        ({"terminated": [[True]]}, r"column 'terminated' of .* holds values of type list"),
        ({"reward": [[1.0]]}, r"column 'reward' of .* not a number"),
        ({"state": [1e300]}, r"state \d+ is out of range"),
        ({"state": [b"\xff"]}, r"cannot read the log .*'state'.*[Ii]nvalid UTF8"),
    ],
)
def test_refused_parquet(tmp_path, column, message):
    pq.write_table(pa.table({**ROW, **column}), tmp_path / "log.parquet")
    with pytest.raises(DataError, match=message):
        read_log(tmp_path / "log.parquet")


def test_text_that_is_not_utf8(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes("episode,state,action,reward\n0,Kälte,0,1\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"cannot read the log .*invalid UTF8.*text in UTF-8"):
        read_log(path)
