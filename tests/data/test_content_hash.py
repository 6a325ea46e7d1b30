"""The hash of a log: the same through every reader and in any order, another for another log."""

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from spibb import Log, read_log
from spibb.data.content_hash import LogHash, hash_log, name_keys
from spibb.names import Names

FRAME = pd.DataFrame(
    {
        "episode": [0, 0, 1, 1, 2],
        "step": [0, 1, 0, 1, 0],
        "state": [0, 1, 0, 2, 10],
        "action": [1, 0, 0, 1, 1],
        "reward": [0.1, -0.0, 2.5, 1e-9, -3.0],
        "next_state": [1, 2, 2, 0, 1],
        "terminated": [False, True, False, False, True],
        "truncated": [False, False, False, True, False],
    }
)
HASH = Log.from_dataframe(FRAME).content_hash


def named(frame):
    """Return the same rows with states and actions by name."""
    states = {0: "a b", 1: "Söhne", 2: "007", 10: "x,\ny"}
    frame = frame.copy()
    for column in ("state", "next_state"):
        frame[column] = frame[column].map(states)
    return frame.assign(action=frame["action"].map({0: "wait", 1: "treat"}))


@pytest.mark.parametrize("frame", [FRAME, named(FRAME)], ids=["numbers", "names"])
def test_every_reader_gives_the_same(tmp_path, frame):
    frame.to_csv(tmp_path / "log.csv", index=False)
    frame.to_parquet(tmp_path / "log.parquet")
    small = frame.assign(reward=frame["reward"].astype("float32"))
    small.to_parquet(tmp_path / "small.parquet")
    pq.write_table(
        pa.Table.from_pandas(frame).set_column(
            2, "state", pa.array(frame["state"].astype(str)).dictionary_encode()
        ),
        tmp_path / "dictionary.parquet",
    )
    (tmp_path / "parts").mkdir()
    frame[:2].to_csv(tmp_path / "parts" / "1.csv", index=False)
    frame[2:].to_parquet(tmp_path / "parts" / "2.parquet")
    expected = Log.from_dataframe(frame).content_hash
    for name in ("log.csv", "log.parquet", "small.parquet", "dictionary.parquet", "parts"):
        assert read_log(tmp_path / name).content_hash == expected, name
    assert read_log(frame.astype({"episode": str})).content_hash == expected
    assert read_log(pa.Table.from_pandas(frame)).content_hash == expected


def test_arrays_give_the_same():
    columns = {name: FRAME[name].to_numpy() for name in FRAME}
    assert Log.from_arrays(**columns).content_hash == HASH
    assert Log.from_arrays(**columns, n_states=50).content_hash == HASH
    labels = [str(place) for place in range(11)]
    assert Log.from_arrays(**columns, state_labels=labels).content_hash == HASH


def test_order_and_names_of_episodes_do_not_count():
    shuffled = FRAME.sample(frac=1.0, random_state=3)
    assert Log.from_dataframe(shuffled).content_hash == HASH
    renamed = FRAME.assign(episode=FRAME["episode"].map({0: "z", 1: "m", 2: "b"}))
    assert Log.from_dataframe(renamed).content_hash == HASH
    states = tuple(map(str, (5, 0, 1, 2, 10, 3, 4, 6, 7, 8, 9)))
    names = Log.from_dataframe(FRAME).renamed(Names(states, 11), Names(("1", "0"), 2))
    assert names.content_hash == HASH


@pytest.mark.parametrize(
    "change",
    [
        {"state": [0, 1, 0, 2, 9]},
        {"action": [1, 0, 1, 1, 1]},
        {"reward": [0.1, 0.0, 2.5, 2e-9, -3.0]},
        {"reward": [-0.1, 0.0, 2.5, 1e-9, -3.0]},
        {"reward": [2.5, 0.0, 0.1, 1e-9, -3.0]},
        {"next_state": [1, 2, 2, 0, 2]},
        {"terminated": [False, True, False, True, True]},
        {"truncated": [False, False, False, False, False]},
        {"episode": [0, 0, 1, 2, 3]},
        {"step": [1, 0, 0, 1, 0]},
    ],
)
def test_another_log_is_another(change):
    assert Log.from_dataframe(FRAME.assign(**change)).content_hash != HASH


def test_a_log_twice_or_without_a_row_is_another():
    twice = pd.concat([FRAME, FRAME.assign(episode=FRAME["episode"] + 3)])
    assert Log.from_dataframe(twice).content_hash != HASH
    assert Log.from_dataframe(FRAME[:-1]).content_hash != HASH


def test_rewards_beyond_small_floats_are_told_apart():
    hashes = {
        Log.from_arrays(state=[0], action=[0], reward=[r], episode=[0]).content_hash
        for r in (0.0, 1e-60, 2e-60, 1e60, 2e60, -1e60)
    }
    assert len(hashes) == 6


logs = st.integers(0, 2**32 - 1).map(
    lambda seed: _drawn(np.random.default_rng(seed), np.random.default_rng(seed).integers(1, 40))
)


def _drawn(rng, n):
    return Log.from_arrays(
        state=rng.integers(0, 4, n), action=rng.integers(0, 3, n), reward=rng.integers(0, 3, n),
        next_state=rng.integers(-1, 4, n), terminated=rng.random(n) < 0.3,
        episode=rng.integers(0, 6, n),
    )  # fmt: skip


@given(logs, st.lists(st.integers(0, 40), max_size=4))
@settings(max_examples=60, deadline=None)
def test_pieces_add_up(log, cuts):
    places = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log)]
    pieces, ended = LogHash(), []
    names = ("state", "action", "reward", "next_state", "terminated", "truncated", "episode")
    for start, stop in pairwise(places):
        rows = {name: getattr(log, name)[start:stop] for name in names}
        ended.append(pieces.add(name_keys(log.states), name_keys(log.actions), **rows))
    digest, episodes = hash_log(log)
    assert pieces.digest() == digest == log.content_hash
    np.testing.assert_array_equal(np.concatenate([*ended, pieces.last()]), episodes)
    assert len(episodes) == log.n_episodes


@given(logs)
@settings(max_examples=60, deadline=None)
def test_it_tells_apart_what_a_slow_comparison_does(log):
    """Two logs of the same multiset of episodes agree, others do not: by sorted lists."""
    other = log.take(log.episode != log.episode[0]) if log.n_episodes > 1 else log

    def listed(part):
        steps = {}
        for row in range(len(part)):
            key = int(part.episode[row])
            steps.setdefault(key, []).append(
                (int(part.state[row]), int(part.action[row]), float(part.reward[row]),
                 int(part.next_state[row]), bool(part.terminated[row]), bool(part.truncated[row]))
            )  # fmt: skip
        return sorted(steps.values())

    assert (log.content_hash == other.content_hash) == (listed(log) == listed(other))


def test_a_log_without_episodes_is_its_rows():
    rows = {"state": [0, 1, 1], "action": [0, 0, 1], "reward": [1.0, 2.0, 3.0]}
    loose = Log.from_arrays(**rows, next_state=[1, 1, 0])
    mixed = Log.from_arrays(
        state=[1, 0, 1], action=[1, 0, 0], reward=[3.0, 1.0, 2.0], next_state=[0, 1, 1]
    )
    assert loose.content_hash == mixed.content_hash
    assert len(hash_log(loose)[1]) == 3
