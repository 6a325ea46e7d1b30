"""Tables in files: finding, reading, naming columns, turning names into integers."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spibb.errors import DataError
from spibb.names import nearest
from spibb.tables.columns import read_numbers, require_columns
from spibb.tables.files import find_files
from spibb.tables.label_columns import check_size, encode, encode_together
from spibb.tables.reading import read_table


def csv(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def column(*values, kind=None):
    return pa.chunked_array([pa.array(values, type=kind)])


def test_csv_and_parquet_read_alike(tmp_path):
    table = pa.table({"state": [0, 1], "reward": [0.5, -1.0], "next_state": ["a", "b"]})
    pq.write_table(table, tmp_path / "log.parquet")
    pq.write_table(table, tmp_path / "log.pq")
    csv(tmp_path / "log.csv", "state,reward,next_state\n0,0.5,a\n1,-1.0,b\n")
    for name in ("log.parquet", "log.pq", "log.csv"):
        found = read_table(
            tmp_path / name, what="log", names=[["state"], ["next_state"]], numbers=("reward",)
        )
        assert found.to_pydict() == table.to_pydict()


def test_a_folder_and_a_glob_are_one_table(tmp_path):
    csv(tmp_path / "parts" / "b.csv", "state\n2\n")
    csv(tmp_path / "parts" / "a.csv", "state\n1\n")
    csv(tmp_path / "parts" / "notes.txt", "not a table")
    pq.write_table(pa.table({"state": [3]}), tmp_path / "parts" / "c.parquet")
    folder = read_table(tmp_path / "parts", what="log", names=[["state", "next_state"], ["action"]])
    assert folder["state"].to_pylist() == [1, 2, 3]
    glob = read_table(
        tmp_path / "parts" / "*.csv", what="log", names=[["state", "next_state"], ["action"]]
    )
    assert glob["state"].to_pylist() == [1, 2]
    deep = find_files(tmp_path / "**" / "*.parquet", what="log")
    assert deep == [tmp_path / "parts" / "c.parquet"]


def test_parts_may_differ_in_width_and_have_empty_cells(tmp_path):
    csv(tmp_path / "parts" / "a.csv", "state,note\n1,\n")
    csv(tmp_path / "parts" / "b.csv", "state,note\n1.5,x\n")
    table = read_table(tmp_path / "parts", what="log", names=[["state", "next_state"], ["action"]])
    assert table["state"].to_pylist() == ["1", "1.5"]
    assert table["note"].to_pylist() == [None, None], "there, but not read"


def test_an_empty_cell_is_missing_but_na_is_a_label(tmp_path):
    path = csv(tmp_path / "log.csv", "state,reward\nNA,1\n,2\nnull,3\n")
    assert read_table(path, what="log", names=[["state", "next_state"], ["action"]])[
        "state"
    ].to_pylist() == ["NA", None, "null"]


def test_nothing_there(tmp_path):
    message = r"no such log: .*; expected a table in CSV, .*: a file, folder or glob"
    for absent in ("absent.csv", "*.csv"):
        with pytest.raises(DataError, match=message):
            read_table(tmp_path / absent, what="log", names=[["state", "next_state"], ["action"]])
    with pytest.raises(DataError, match=message):
        find_files(tmp_path, what="log")


def test_unknown_format(tmp_path):
    path = csv(tmp_path / "log.xlsx", "")
    with pytest.raises(
        DataError,
        match=r"format of the policy .*log\.xlsx; expected a name in \.csv, \.jsonl, \.parquet",
    ):
        read_table(path, what="policy", names=[["state", "next_state"], ["action"]])


@pytest.mark.parametrize(
    ("name", "text"),
    [("empty.csv", ""), ("ragged.csv", "state,b\n1\n"), ("torn.parquet", "PAR1 and no more")],
)
def test_unreadable_files(tmp_path, name, text):
    path = csv(tmp_path / name, text)
    with pytest.raises(DataError, match=rf"cannot read the log .*{name}: \w+") as caught:
        read_table(path, what="log", names=[["state", "next_state"], ["action"]])
    assert "\n" not in str(caught.value)


def test_no_rows(tmp_path):
    path = csv(tmp_path / "log.csv", "state,action\n")
    with pytest.raises(DataError, match=r"the log .* has no rows; expected at least one row"):
        read_table(path, what="log", names=[["state", "next_state"], ["action"]])


def test_parts_with_different_columns(tmp_path):
    csv(tmp_path / "parts" / "a.csv", "state\n1\n")
    csv(tmp_path / "parts" / "b.csv", "place\n1\n")
    with pytest.raises(DataError, match=r"the files of the log .* have different columns"):
        read_table(tmp_path / "parts", what="log", names=[["state", "next_state"], ["action"]])


def test_parts_may_order_their_columns_differently(tmp_path):
    csv(tmp_path / "parts" / "a.csv", "state,action\n1,2\n")
    csv(tmp_path / "parts" / "b.csv", "action,state\n4,3\n")
    table = read_table(tmp_path / "parts", what="log", names=[["state", "next_state"], ["action"]])
    assert table.to_pydict() == {"state": [1, 3], "action": [2, 4]}


def test_numbers_here_and_names_there_are_names(tmp_path):
    csv(tmp_path / "parts" / "a.csv", "state,reward\n1,0\n")
    csv(tmp_path / "parts" / "b.csv", "state,reward\nx,0.5\n")
    table = read_table(tmp_path / "parts", what="log", names=[["state"]], numbers=("reward",))
    assert table["state"].to_pylist() == ["1", "x"]
    assert table["reward"].to_pylist() == [0.0, 0.5]


def test_the_suffix_may_be_in_capitals(tmp_path):
    path = csv(tmp_path / "LOG.CSV", "state\n1\n")
    assert read_table(path, what="log", names=[["state", "next_state"], ["action"]])[
        "state"
    ].to_pylist() == [1]


def test_columns_without_a_name_are_dropped(tmp_path):
    path = csv(tmp_path / "log.csv", ",state\n0,5\n1,6\n")
    assert read_table(
        path, what="log", names=[["state", "next_state"], ["action"]]
    ).to_pydict() == {"state": [5, 6]}


def test_one_name_twice(tmp_path):
    path = csv(tmp_path / "log.csv", "state,action,state\n0,1,0\n")
    with pytest.raises(DataError, match=r"2 columns called 'state'; expected each name once"):
        read_table(path, what="log", names=[["state", "next_state"], ["action"]])


def test_columns_that_are_there():
    require_columns(["state", "action", "more"], ("action", "state"), "log.csv")


def test_a_missing_column_names_the_nearest():
    with pytest.raises(
        DataError,
        match=r"log\.csv has no column 'action', but it has 'Actions'; .*state, Actions.*"
        r"--columns action=Actions",
    ):
        require_columns(["state", "Actions"], ("state", "action"), "log.csv")


def test_a_missing_column_without_a_near_one():
    with pytest.raises(DataError, match=r"no column 'state'; .*x, y.*state=YOUR_COLUMN"):
        require_columns(["x", "y"], ("state",), "log.csv")


def test_a_file_with_another_separator():
    with pytest.raises(DataError, match="separate the fields by commas"):
        require_columns(["state;action"], ("state",), "log.csv")


def test_the_nearest_name():
    assert nearest("probability", ["state", "Prob"]) == "Prob"
    assert nearest("reward", ["state", "rewards"]) == "rewards"
    assert nearest("reward", ["state", "zzz"]) is None


def test_numbers_with_empty_cells():
    values = read_numbers(column(1, None, 2), "reward", "log.csv")
    np.testing.assert_array_equal(values, [1.0, np.nan, 2.0])
    assert values.dtype == np.float64
    np.testing.assert_array_equal(read_numbers(column("1.5", "-2"), "reward", "f"), [1.5, -2.0])


def test_something_that_is_not_a_number():
    with pytest.raises(
        DataError, match=r"column 'reward' of log\.csv .*not a number: 'much' \(first at row 2\)"
    ):
        read_numbers(column("1", "much"), "reward", "log.csv")


def test_a_table_that_would_not_fit():
    check_size(10_000, 50, "log.csv")
    with pytest.raises(DataError, match=r"9000000 states and 100 actions.*group states"):
        check_size(9_000_000, 100, "log.csv")


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint32(), pa.float32(), pa.float64()])
def test_integers_are_labels_in_their_order_as_numbers(kind):
    codes, labels = encode(column(30, 4, 30, kind=kind), "state", "log.csv")
    assert codes.tolist() == [1, 0, 1]
    assert codes.dtype == np.int64
    assert labels == ("4", "30")
    codes, labels = encode(column(1, 0, kind=kind), "state", "log.csv")
    assert (codes.tolist(), labels) == ([1, 0], None)
    codes, labels = encode(column(30, 4, kind=kind), "state", "log.csv", are_indices=True)
    assert (codes.tolist(), labels) == ([30, 4], None)


def test_actions_may_be_below_zero():
    codes, labels = encode(column(10, -2, -10, 0), "action", "log.csv")
    assert (codes.tolist(), labels) == ([3, 1, 0, 2], ("-10", "-2", "0", "10"))


def test_labels_are_numbered_in_sorted_order():
    codes, labels = encode(column("b", "a", "c", "a"), "state", "log.csv")
    assert codes.tolist() == [1, 0, 2, 0]
    assert labels == ("a", "b", "c")


def test_fractions_and_flags_are_labels():
    assert encode(column(0.5, 2.0), "state", "log.csv")[1] == ("0.5", "2")
    assert encode(column(True, False), "state", "log.csv")[1] == ("false", "true")


def test_dictionaries_are_labels():
    names = pa.chunked_array([pa.array(["b", "a"]).dictionary_encode()])
    codes, labels = encode(names, "state", "log.csv")
    assert (codes.tolist(), labels) == ([1, 0], ("a", "b"))


def test_chunks_share_their_labels():
    names = pa.chunked_array([["b"], [], ["a", "b"]])
    codes, labels = encode(names, "state", "log.csv")
    assert (codes.tolist(), labels) == ([1, 0, 1], ("a", "b"))


def test_columns_together_share_their_labels():
    codes, labels = encode_together(
        {"state": column("b", "a"), "next_state": column("c", None)},
        "log.csv",
        missing_allowed=("next_state",),
    )
    assert [code.tolist() for code in codes] == [[1, 0], [2, -1]]
    assert labels == ("a", "b", "c")


def test_one_column_of_labels_makes_labels_of_all():
    codes, labels = encode_together({"state": column(10, 2), "next_state": column("end", "2")}, "f")
    assert [code.tolist() for code in codes] == [[0, 1], [2, 1]]
    assert labels == ("10", "2", "end")


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
def test_missing_integers_become_minus_one(kind):
    codes, labels = encode_together(
        {"state": column(0, 1), "next_state": column(1, None, kind=kind)},
        "log.csv",
        missing_allowed=("next_state",),
    )
    assert [code.tolist() for code in codes] == [[0, 1], [1, -1]]
    assert labels is None


def test_a_column_of_nothing_but_empty_cells():
    codes, _ = encode_together(
        {"state": column(0, 1), "next_state": column(None, None, kind=pa.null())},
        "log.csv",
        missing_allowed=("next_state",),
    )
    assert codes[1].tolist() == [-1, -1]


@pytest.mark.parametrize("values", [(0, None), ("a", None), (0.0, None), (0.0, np.nan)])
def test_empty_cells_where_none_may_be(values):
    with pytest.raises(
        DataError, match=r"column 'state' of log\.csv has an empty cell \(first at row 2\)"
    ):
        encode(column(*values), "state", "log.csv")


@pytest.mark.parametrize("value", [-1, 10_000_000])
def test_integers_out_of_range(value):
    with pytest.raises(
        DataError,
        match=rf"state {value} is out of range \(first at row 2 of log\.csv\).*identifiers as text",
    ):
        encode(column(0, value), "state", "log.csv", are_indices=True)


def test_decimals_without_a_fraction_are_integers():
    kind, far = pa.decimal128(38, 0), Decimal(10**30)
    codes, labels = encode(column(Decimal(10), Decimal(9), kind=kind), "state", "log.csv")
    assert (codes.tolist(), labels) == ([1, 0], ("9", "10"))
    assert encode(column(Decimal(9), far, kind=kind), "state", "log.csv")[1] == (str(far), "9")
    assert encode(column(Decimal("1.50")), "state", "log.csv")[1] == ("1.50",)


def test_numbers_that_were_rounded_are_no_names():
    with pytest.raises(DataError, match=r"out of range \(first at row 2 of log\.csv\).*2\^53"):
        encode(column(0.0, 1e300), "state", "log.csv")


@pytest.mark.parametrize("kind", [pa.uint64(), pa.int64()])
def test_identifiers_of_many_digits(kind):
    huge = [2**62, 2**62 + 1] if kind == pa.int64() else [2**63 + 7, 2**63 + 8]
    codes, labels = encode(column(*huge, kind=kind), "state", "log.csv")
    assert (codes.tolist(), labels) == ([0, 1], tuple(map(str, huge)))


def test_lists_are_neither_integers_nor_labels():
    with pytest.raises(DataError, match=r"column 'state' of log\.csv holds values of type list"):
        encode(column([0], [1]), "state", "log.csv")


def test_minus_two_is_never_a_missing_state():
    with pytest.raises(DataError, match="next_state -2 is out of range"):
        encode_together({"next_state": column(-1, -2)}, "f", missing_allowed=("next_state",))
