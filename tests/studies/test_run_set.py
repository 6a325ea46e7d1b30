"""Sets of runs as ranges, against Python's sets."""

from hypothesis import given, settings
from hypothesis import strategies as st

from spibb.studies.results.run_set import RunSet

RUNS = st.sets(st.integers(0, 30))


@given(RUNS, RUNS)
@settings(deadline=None)
def test_they_behave_like_sets(one, other):
    a, b = RunSet.of(sorted(one)), RunSet.of(list(other))
    assert len(a) == len(one)
    assert a | b == b | a == RunSet.of(list(one | other))
    assert a.first_common(b) == min(one & other, default=None)
    assert {run for first, last in a.ranges for run in range(first, last)} == one
    assert all(before[1] < after[0] for before, after in zip(a.ranges, a.ranges[1:], strict=False))
