"""Episodes of a log, which are copied when they are looked at, are the rows that are asked for."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb import Counts, Log, TabularPolicy
from spibb.data.log_part import LogPart
from spibb.errors import SpibbError
from spibb.memory import TooLargeError
from spibb.problem import Problem

COLUMNS = ("state", "action", "reward", "next_state", "terminated", "truncated", "episode", "step")


def rows_of(log, rows):
    """The obvious version: every column, copied."""
    return replace(log, **{name: getattr(log, name)[rows] for name in COLUMNS})


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    chosen=st.lists(st.booleans(), min_size=8, max_size=8),
    seed=st.integers(0, 99),
    jumps=st.booleans(),
)
def test_a_part_is_its_rows(lengths, chosen, seed, jumps):
    rng = np.random.default_rng(seed)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    n = len(episode)
    step = np.concatenate([np.arange(length) + rng.integers(0, 2) for length in lengths])
    if jumps:
        step = step * 1 + np.cumsum(rng.random(n) < 0.2)
    log = Log.from_arrays(
        state=rng.integers(0, 3, n), action=rng.integers(0, 2, n), reward=rng.normal(size=n),
        next_state=rng.integers(0, 3, n), terminated=rng.random(n) < 0.1, episode=episode,
        step=step,
    )  # fmt: skip
    rows = np.array(chosen)[: len(lengths)][log.episode]
    if not rows.any():
        return
    part, wanted = log.take(rows), rows_of(log, rows)
    assert isinstance(part, LogPart)
    assert len(part) == len(wanted)
    assert part.n_gaps == wanted.n_gaps
    try:
        counts = Counts.from_log(wanted)
    except SpibbError:
        return
    found = Counts.from_log(part)
    # Counting looks at no column of the part.
    assert not set(COLUMNS) & set(part.__dict__)
    for name in ("n_sa", "reward_sum", "n_initial"):
        np.testing.assert_array_equal(getattr(found, name), getattr(counts, name))
    assert (found.n_sas != counts.n_sas).nnz == 0
    assert (found.n_dropped, found.n_gaps) == (counts.n_dropped, counts.n_gaps)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(part, name), getattr(wanted, name))
    assert part.content_hash == wanted.content_hash
    raised = replace(part, reward=part.reward + 1.0)
    assert type(raised) is Log
    np.testing.assert_array_equal(raised.reward, wanted.reward + 1.0)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_of_logs_whose_columns_are_made_late(copied):
    log = Log.from_arrays(
        state=[0, 1, 0, 1], action=[0, 0, 1, 1], reward=[1.0, 2.0, 3.0, 4.0], episode=[0, 0, 1, 1]
    )
    assert copied(log).step.tolist() == [0, 1, 0, 1]
    part = copied(log.take(np.array([False, False, True, True])))
    assert part.step.tolist() == [0, 1]
    assert part.reward.tolist() == [3.0, 4.0]
    assert log.given_step is part.given_step is None


def test_rows_of_torn_episodes_are_copied():
    log = Log.from_arrays(
        state=[0, 1, 0], action=[0, 0, 1], reward=[1.0, 2.0, 3.0], episode=[0, 0, 1]
    )
    part = log.take(np.array([True, False, True]))
    assert not isinstance(part, LogPart)
    assert part.state.tolist() == [0, 0]
    assert not hasattr(log.take(np.array([True, True, False])), "colour")


def test_tables_that_do_not_fit_are_refused_before_they_are_made(monkeypatch):
    log = Log.from_arrays(
        state=[0, 1], action=[0, 1], reward=[1.0, 2.0], next_state=[1, 0], n_states=3_000_000,
        n_actions=5_000,
    )  # fmt: skip
    monkeypatch.setattr("spibb.memory.available_bytes", lambda: 2**34)
    with pytest.raises(TooLargeError, match=r"3,000,000 states x 5,000 actions need 670.6 GiB"):
        Counts.from_log(log)
    counts = Counts.from_log(replace(log, n_states=2, n_actions=2))
    monkeypatch.setattr("spibb.memory._SMALL", 0)
    monkeypatch.setattr("spibb.memory.available_bytes", lambda: 100)
    with pytest.raises(TooLargeError, match="2 states x 2 actions"):
        Problem.of(counts, baseline=TabularPolicy([[0.5, 0.5]] * 2), gamma=0.9)
