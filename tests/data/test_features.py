"""Raw columns beside the states: what is read, what is missing, what is refused."""

import datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb import read_log
from spibb.data.features import Features
from spibb.data.log import Log
from spibb.errors import DataError

NAN = float("nan")
SCALARS = (
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(max_size=3)
    | st.decimals(allow_nan=False) | st.binary(max_size=2) | st.dates()
    | st.lists(st.integers(), max_size=2)
)  # fmt: skip


def some_log(n=4, **more):
    return Log.from_arrays(
        state=[0] * n, action=[0] * n, reward=[1.0] * n, episode=[0] * n, **more
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given_", "values"),
    [
        ([1, 2, 3], [1.0, 2.0, 3.0]),
        ([True, False, True], [1.0, 0.0, 1.0]),
        ([True, None, False], [1.0, NAN, 0.0]),
        ([1.5, NAN, None], [1.5, NAN, NAN]),
        ([Decimal("1.5"), None, Decimal("NaN")], [1.5, NAN, NAN]),
        (np.array([7, 7, 7], dtype=np.int8), [7.0, 7.0, 7.0]),
        ((x for x in (1, 2, 3)), [1.0, 2.0, 3.0]),
    ],
)
def test_numbers(given_, values):
    found = Features.of({"x": given_})
    np.testing.assert_array_equal(found.values[:, 0], values)
    assert found.categories == (None,)


@pytest.mark.parametrize(
    ("given_", "codes", "names"),
    [
        (["b", "a", "b"], [1.0, 0.0, 1.0], ("a", "b")),
        (["b", None, "a"], [1.0, NAN, 0.0], ("a", "b")),
        ([NAN, "m", "nan"], [NAN, 0.0, 1.0], ("m", "nan")),
        (["10", "9", "x"], [1.0, 0.0, 2.0], ("9", "10", "x")),
        ([1, "a", None], [0.0, 1.0, NAN], ("1", "a")),
        (np.array(["b", "a", "b"]), [1.0, 0.0, 1.0], ("a", "b")),
    ],
)
def test_categories(given_, codes, names):
    """A missing number beside texts is missing, and no category of its own."""
    found = Features.of({"x": given_})
    np.testing.assert_array_equal(found.values[:, 0], codes)
    assert found.categories == (names,)


def test_columns_of_pandas():
    pd = pytest.importorskip("pandas")
    found = Features.of(
        {
            "integer": pd.array([1, None, 3], dtype="Int64"),
            "text": pd.array(["b", None, "a"], dtype="string"),
            "category": pd.Categorical(["x", "y", None]),
            "flag": pd.array([True, None, False], dtype="boolean"),
        }
    )
    expected = [[1.0, 1.0, 0.0, 1.0], [NAN, NAN, 1.0, NAN], [3.0, 0.0, NAN, 0.0]]
    np.testing.assert_array_equal(found.values, expected)


@pytest.mark.parametrize(
    "given_",
    [
        [1.0, float("inf")],
        [None, -float("inf")],
        [10**400, 1],
        [[1, 2], [3, 4]],
        [[1], [2, 3]],
        3.0,
        "text",
        [1j, 2j],
        [datetime.date(2020, 1, 1), None],
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        [{"a": 1}, None],
        [f"name {k}" for k in range(201)],
    ],
)
def test_what_is_no_column_is_refused(given_):
    with pytest.raises(DataError):
        Features.of({"x": given_})


def test_lengths_must_agree_and_something_must_be_given():
    with pytest.raises(DataError, match="different lengths"):
        Features.of({"x": [1.0], "y": [1.0, 2.0]})
    with pytest.raises(DataError, match="no features"):
        Features.of({})
    with pytest.raises(DataError, match="features have 3 rows"):
        some_log().with_features({"x": [1.0, 2.0, 3.0]})
    assert some_log(features={}).features is None
    assert some_log(features={"x": [1, 2, 3, 4]}).with_features(None).features is None


@settings(max_examples=300, deadline=None)
@given(st.lists(SCALARS, max_size=6))
def test_any_list_is_read_or_refused(values):
    try:
        found = Features.of({"x": values})
    except DataError:
        return
    column, names = found.values[:, 0], found.categories[0]
    assert len(column) == len(values)
    assert not np.isinf(column).any()
    for value, code in zip(values, column, strict=True):
        assert np.isnan(code) == (value is None or (value != value))
        if names is not None and not np.isnan(code):
            assert names[int(code)] == str(value)
        elif names is None and not np.isnan(code):
            assert code == float(value)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.none() | st.floats(-1e6, 1e6) | st.sampled_from(["a", "B", "x y"]), min_size=2,
        max_size=6,
    )
)  # fmt: skip
def test_a_file_is_read_as_its_columns_are(tmp_path_factory, values):
    """Rows may be sorted; a text that is no number makes categories of all of a column."""
    path = tmp_path_factory.mktemp("log") / "log.csv"
    n = len(values)
    rows = [f"{n - k},{k},0,a,1,{'' if v is None else v}" for k, v in enumerate(values)]
    path.write_text("episode,step,state,action,reward,x\n" + "\n".join(rows) + "\n", "utf-8")
    if all(value is None for value in values):
        with pytest.raises(DataError, match="has no value in any row"):
            read_log(path, features=["x"])
        return
    log = read_log(path, features=["x"])
    found, expected = log.features, Features.of({"x": values[::-1]})
    assert found.categories == expected.categories
    np.testing.assert_array_equal(found.values, expected.values)


def test_decimals_as_text_in_a_file_are_numbers_and_infinities_are_refused(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('episode,state,action,reward,x\n0,a,b,1,"1.50"\n0,a,b,1,nan\n0,a,b,1,-2e3\n')
    np.testing.assert_array_equal(
        read_log(path, features=["x"]).features.values, [[1.5], [NAN], [-2000.0]]
    )
    path.write_text("episode,state,action,reward,x\n0,a,b,1,1\n0,a,b,1,inf\n")
    with pytest.raises(DataError, match="feature x is infinite"):
        read_log(path, features=["x"])


def test_cuts_in_words():
    found = Features.of({"x": [1.0, 2.0], "y": list("ab")})
    assert found.describe(0, 1.5) == "x at 1.5"
    assert found.describe(1, 0.5) == "y in a"
