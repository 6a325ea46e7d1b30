"""Files that were once read as something else than what stands in them, without a word."""

import datetime
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spibb import Log, TabularPolicy, read_log
from spibb.errors import DataError, SpibbError

HEAD = "episode,state,action,reward\n"


def csv(path, text):
    path.write_text(text)
    return path


def parquet(path, **columns):
    n = len(next(iter(columns.values())))
    known = {"state": [0] * n, "action": [0] * n, "reward": [0.0] * n} | columns
    pq.write_table(pa.table(known), path)
    return path


@pytest.mark.parametrize(
    "ids",
    [
        ("9007199254740992", "9007199254740993", "9007199254740994", "9007199254740995"),
        ("007", "7", "07", "0007"),
        ("1e1", "10", "1E1", "10e0"),
        ("123456789012345678901", "123456789012345678902", "a", "b"),
        ("0.1234567890123456781", "0.1234567890123456782", "0.12", "0.13"),
        ("0x10", "16", "True", "true"),
        ("1.10", "1.1", "-0", "0"),
        ("1.0", "1", " 7", "7"),
    ],
)
def test_episodes_are_what_is_written(tmp_path, ids):
    """Four patients are four."""
    log = read_log(csv(tmp_path / "log.csv", HEAD + "".join(f"{one},0,0,1\n" for one in ids)))
    assert log.n_episodes == 4


@pytest.mark.parametrize("column", ["state", "action"])
def test_states_and_actions_are_what_is_written(tmp_path, column):
    rows = "".join(f"0,{one},0,1\n" for one in ("1e1", "10", "007", "7"))
    head = HEAD if column == "state" else "episode,action,state,reward\n"
    log = read_log(csv(tmp_path / "log.csv", head + rows))
    assert set(getattr(log, f"{column}_labels")) == {"1e1", "10", "007", "7"}


def test_whole_numbers_with_a_point_are_the_same_whole_numbers(tmp_path):
    """What a data frame makes of integers beside empty cells."""
    text = "episode,state,action,reward,next_state\n0,0,0,1,1.0\n0,1,0,1,\n"
    log = read_log(csv(tmp_path / "log.csv", text))
    assert log.next_state.tolist() == [1, -1]
    assert log.state_labels is None


STEPS = [b"0", b"1", b"10", b"11", b"2"]


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.string_view(),
        pa.binary_view(), pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int32(), pa.binary()),
    ],
    ids=str,
)  # fmt: skip
def test_steps_stored_as_text_are_numbers_all_the_same(tmp_path, kind):
    is_bytes = "binary" in str(kind)
    values = STEPS if is_bytes else [step.decode() for step in STEPS]
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    steps = pa.array(values, plain)
    steps = steps.dictionary_encode() if plain is not kind else steps
    path = parquet(tmp_path / "log.parquet", state=[0, 1, 10, 11, 2], episode=[0] * 5, step=steps)
    if "view" in str(kind):  # files have no views; data frames do
        table = pq.read_table(path).set_column(4, "step", steps)
        log = Log.from_dataframe(table)
    else:
        log = read_log(path)
    assert [log.states[x] for x in log.state] == ["0", "1", "2", "10", "11"]


def test_steps_of_fixed_width(tmp_path):
    steps = pa.array([b"00", b"01", b"10", b"11", b"02"], pa.binary(2))
    path = parquet(tmp_path / "log.parquet", state=[0, 1, 10, 11, 2], episode=[0] * 5, step=steps)
    log = read_log(path)
    assert [log.states[x] for x in log.state] == ["0", "1", "2", "10", "11"]


def test_steps_and_episodes_beyond_what_a_signed_number_holds(tmp_path):
    huge = pa.array([2**63 + 1, 2**63, 5], pa.uint64())
    path = parquet(tmp_path / "log.parquet", episode=[0] * 3, step=huge)
    with pytest.raises(DataError, match=r"column 'step' .* 9223372036854775809; expected .* 2\^63"):
        read_log(path)
    assert read_log(parquet(tmp_path / "b.parquet", episode=huge)).n_episodes == 3


@pytest.mark.parametrize(
    "steps",
    [
        pa.array([3, 1, 2], pa.time64("ns")),
        pa.array([3, 1, 2], pa.time32("s")),
        pa.array([3, 1, 2], pa.duration("ms")),
        pa.array([datetime.date(2024, 1, day) for day in (3, 1, 2)]),
        pa.array([3, 1, 2], pa.timestamp("ns", tz="UTC")),
        pa.array([3, 1, 2], pa.decimal128(5, 0)),
    ],
    ids=lambda steps: str(steps.type),
)
def test_steps_that_are_times(tmp_path, steps):
    path = parquet(tmp_path / "log.parquet", state=[3, 1, 2], episode=[0] * 3, step=steps)
    assert read_log(path).state.tolist() == [0, 1, 2]


def test_steps_that_are_nothing_of_the_kind(tmp_path):
    path = parquet(tmp_path / "log.parquet", episode=[0, 0], step=[True, False])
    with pytest.raises(DataError, match=r"column 'step' of .* holds values of type bool"):
        read_log(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('0,0,0,1,a\n0,1,0,2,"open\n0,2,0,3,b\n0,0,0,1,c\n', r"never closed \(first at row 2\)"),
        ('0,0,0,1,a\n0,1,0,2,"open\n0,2,0,3,b\n0,0,0,1,"c\n', r"followed by more text .* row 2"),
        ('0,0,0,1,"a"b\n', r"followed by more text in its field \(first at row 1\)"),
    ],
)
def test_a_quotation_mark_does_not_swallow_the_rest(tmp_path, text, said):
    with pytest.raises(DataError, match=said):
        read_log(csv(tmp_path / "log.csv", "episode,state,action,reward,note\n" + text))


def test_quotation_marks_that_are_right_are_left_alone(tmp_path):
    rows = '0,a,0,1,"two\nlines, ""quoted"""\n0,b,0,2,5" pipe\n0,"c",0,3,\n'
    log = read_log(csv(tmp_path / "log.csv", "episode,state,action,reward,note\n" + rows))
    assert log.state_labels == ("a", "b", "c")
    # Lines inside of a field, where blocks of a large file would be cut.
    many = 'x,0,0,1,"' + "line\n" * 40 + '"\n'
    log = read_log(csv(tmp_path / "log.csv", "episode,state,action,reward,note\n" + many * 20_000))
    assert len(log) == 20_000


def test_files_that_each_count_their_episodes_are_refused(tmp_path):
    folder = tmp_path / "wards"
    folder.mkdir()
    for name in ("north", "south"):
        csv(folder / f"{name}.csv", HEAD + "0,0,0,1\n0,1,0,1\n")
    with pytest.raises(DataError, match=r"row 1 of .*north\.csv, and row 1 of .*south") as told:
        read_log(folder)
    assert told.value.episode == "0"
    # With steps, an episode may go on in another file; the same step twice is refused.
    for k, name in enumerate(("north", "south")):
        csv(folder / f"{name}.csv", "episode,step,state,action,reward\n" + f"0,{k},{k},0,1\n")
    assert read_log(folder).n_episodes == 1
    csv(folder / "south.csv", "episode,step,state,action,reward\n0,0,0,0,1\n")
    with pytest.raises(DataError, match="the same step of an episode is there twice"):
        read_log(folder)


@pytest.mark.parametrize("written", ["0x10", "1_0", "1,5", "½", "--1"])
def test_a_reward_that_is_no_number_is_refused(tmp_path, written):
    text = HEAD + f'0,0,0,1\n0,0,0,"{written}"\n'
    with pytest.raises(DataError, match=r"not a number.*row 2"):
        read_log(csv(tmp_path / "log.csv", text))


def test_a_reward_beyond_2_to_53_is_a_number(tmp_path):
    log = read_log(csv(tmp_path / "log.csv", HEAD + "0,0,0,9007199254740993\n"))
    assert log.reward[0] == 2.0**53
    assert read_log(parquet(tmp_path / "a.parquet", episode=[0], reward=[2**53 + 1])).reward[0] > 1


def test_spaces_around_the_names_of_columns_are_none_of_theirs(tmp_path):
    log = read_log(csv(tmp_path / "log.csv", "episode, state ,action,\treward\n0, a ,0, 1.5\n"))
    assert log.reward.tolist() == [1.5]


def test_a_label_twice_is_refused():
    columns = {"state": [0, 1], "action": [0, 0], "reward": [0.0, 0.0], "next_state": [1, 0]}
    with pytest.raises(DataError, match=r"state_labels holds 'a' twice"):
        Log.from_arrays(**columns, state_labels=["a", "a"])
    with pytest.raises(DataError, match=r"action_labels holds 'x' twice"):
        Log.from_arrays(**columns, action_labels=["x", "x"])
    with pytest.raises(SpibbError, match="repeats a label"):
        TabularPolicy([[1.0], [1.0]], state_labels=["a", "a"])


def test_names_and_labels_that_are_not_utf_8(tmp_path):
    labels = pa.StringArray.from_buffers(
        2, pa.array([0, 1, 2], pa.int32()).buffers()[1], pa.py_buffer(b"a\xff")
    )
    path = parquet(tmp_path / "log.parquet", episode=[0, 0], state=labels)
    with pytest.raises(DataError, match=r"cannot read the log"):
        read_log(path)
    name = parquet(tmp_path / "names.parquet", episode=[0], zzzz=[1])
    name.write_bytes(name.read_bytes().replace(b"zzzz", b"z\xff\xffz"))
    with pytest.raises(DataError, match=r"cannot read the log"):
        read_log(name)


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="no file, but a pipe or a device"):
        read_log(tmp_path / name)


def test_more_rows_than_memory_are_foreseen(tmp_path, monkeypatch):
    path = parquet(tmp_path / "log.parquet", episode=np.zeros(1000, int))
    monkeypatch.setattr("spibb.tables.free_memory._free_memory", lambda: 100_000)
    with pytest.raises(DataError, match=r"has 1,000 rows, which take about 0.0 GB.*count it while"):
        read_log(path)


def test_integers_that_are_identifiers_are_as_many_states_as_occur(tmp_path):
    path = csv(tmp_path / "log.csv", HEAD + "0,9999999,0,1\n0,123456789012345678,0,1\n0,7,0,1\n")
    log = read_log(path)
    assert log.state_labels == ("7", "9999999", "123456789012345678")
    assert log.state.tolist() == [1, 2, 0]
    with pytest.raises(DataError, match=r"state \d+ is out of range"):
        read_log(path, n_states=10)


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (("1.0,2.0", "2.0,END"), {"1", "2", "END"}),
        (("1,2", "2,END"), {"1", "2", "END"}),
        (("250.1,250.10", "250.10,END"), {"250.1", "250.10", "END"}),
    ],
)
def test_one_decision_for_states_and_what_follows(tmp_path, rows, labels):
    """Else 2.0 would be a number in one column and a name in the other: two states."""
    text = "state,next_state,action,reward\n" + "".join(f"{row},0,1\n" for row in rows)
    assert set(read_log(csv(tmp_path / "log.csv", text)).state_labels) == labels


def test_one_decision_for_all_files(tmp_path):
    folder = tmp_path / "wards"
    folder.mkdir()
    csv(folder / "a.csv", HEAD + "0,1.0,0,1\n0,2.0,0,1\n")
    csv(folder / "b.csv", HEAD + "1,1.0,0,1\n1,x,0,1\n")
    assert set(read_log(folder).state_labels) == {"1", "2", "x"}
    csv(folder / "a.csv", HEAD + "0,a,0,1\n7,b,0,1\n")
    csv(folder / "b.csv", HEAD + "7,a,0,1\nx,b,0,1\n")
    with pytest.raises(DataError, match="the same episode is in two files"):
        read_log(folder)


def test_a_name_of_a_file_that_is_not_utf_8(tmp_path):
    path = tmp_path / os.fsdecode(b"log\xff.csv")
    path.write_text(HEAD + "0,0,0,1\n")
    assert len(read_log(path)) == 1


def test_long_texts_are_foreseen(tmp_path, monkeypatch):
    """Few bytes in the file, gigabytes in memory: the same long label in every row."""
    path = parquet(tmp_path / "log.parquet", episode=[0] * 5_000, state=["x" * 5_000] * 5_000)
    assert path.stat().st_size < 50_000
    monkeypatch.setattr("spibb.tables.free_memory._free_memory", lambda: 20_000_000)
    # Read chunk by chunk, the label is there once; times need the whole table.
    assert read_log(path).n_states == 1
    times = [datetime.datetime(2024, 1, 31) + datetime.timedelta(minutes=k) for k in range(5_000)]
    parquet(path, episode=[0] * 5_000, state=["x" * 5_000] * 5_000, step=times)
    with pytest.raises(DataError, match=r"has 5,000 rows, which take about 0.1 GB"):
        read_log(path)


def test_files_of_data_frames_with_and_without_empty_cells(tmp_path):
    """A column of whole numbers is written 2.0 where a cell is empty, and 2 where none is."""
    folder, head = tmp_path / "wards", "episode,state,action,reward,next_state\n"
    folder.mkdir()
    csv(folder / "a.csv", head + "0,1,0,1,2\n0,2,0,1,1\n")
    csv(folder / "b.csv", head + "1,1,0,1,2.0\n1,2,0,1,\n")
    log = read_log(folder)
    assert log.state_labels == ("1", "2")
    assert log.next_state.tolist() == [1, 0, 1, -1]


def test_an_empty_cell_that_is_written_nan_is_empty_whatever_the_column_is_called(tmp_path):
    path = csv(tmp_path / "log.csv", "episode,state,action,reward,after\n0,1,0,1,2\n0,2,0,1,nan\n")
    log = read_log(path, {"next_state": "after"})
    assert log.state_labels == ("1", "2")
    assert log.next_state.tolist() == [1, -1]


@pytest.mark.parametrize("labels", [[1, "1"], [["a"], ["b"]]])
def test_labels_are_texts(labels):
    with pytest.raises(DataError, match=r"state_labels holds .*; expected texts"):
        Log.from_arrays(
            state=[0, 1], action=[0, 0], reward=[0.0, 0.0], next_state=[1, 0], state_labels=labels
        )
