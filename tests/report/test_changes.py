"""Where a policy differs from the baseline: which states, in which order."""

import numpy as np
import pytest

from spibb.algorithms.spibb_family import PiBSPIBB
from spibb.certify.certificate import StateAudit
from spibb.data.log import Log
from spibb.mdp.policy import TabularPolicy
from spibb.report.changes import Change, list_changes

BASELINE = TabularPolicy(
    [[0.5, 0.3, 0.2]] * 5, ("a", "b", "c", "d", "e"), ("left", "right", "stay")
)


def states(moved, n_rows):
    numbers = np.arange(len(moved), dtype=float)
    return StateAudit(
        spent=numbers, moved=np.array(moved), advantage=numbers, improvement=10 * numbers,
        n_rows=np.array(n_rows),
    )  # fmt: skip


def test_states_are_ordered_by_rows_moved():
    """0.1 x 100 = 10 rows, 0.5 x 30 = 15, none, 0.2 x 50 = 10, 1 x 0; ties keep their order."""
    found = list_changes(
        BASELINE, BASELINE, states([0.1, 0.5, 0.0, 0.2, 1.0], [100, 30, 50, 50, 0])
    )
    assert [change.state for change in found] == ["b", "a", "d", "e"]


def test_rounding_is_no_change():
    assert list_changes(BASELINE, BASELINE, states([1e-13] * 5, [10] * 5)) == []


def test_what_is_said_of_a_state():
    table = BASELINE.probabilities.copy()
    table[2] = [0.1, 0.45, 0.45]
    policy = TabularPolicy(table, BASELINE.state_labels, BASELINE.action_labels)
    (change,) = list_changes(policy, BASELINE, states([0, 0, 0.4, 0, 0], [1, 1, 7, 1, 1]))
    assert change == Change(
        state="c", n_rows=7, moved=0.4, less="left", less_from=0.5, less_by=pytest.approx(0.4),
        more="stay", more_from=0.2, more_by=pytest.approx(0.25), spent=2.0, value_gain=20.0,
    )  # fmt: skip


def test_the_changes_of_a_result():
    """Action 1 pays more in both states; state 1 was met three times as often."""
    log = Log.from_arrays(
        state=[0, 0, 1, 1, 1, 1, 1, 1], action=[0, 1, 0, 1, 0, 1, 0, 1],
        reward=[0.0, 1.0] * 4, episode=range(8),
    )  # fmt: skip
    result = PiBSPIBB(n_wedge=1).improve(log, baseline=TabularPolicy.uniform(2, 2), gamma=0.9)
    found = list_changes(result.policy, result.baseline.policy, result.certificate.states)
    assert [(change.state, change.n_rows) for change in found] == [("1", 6), ("0", 2)]
    for change in found:
        assert (change.less, change.more) == ("0", "1")
        assert (change.moved, change.less_by, change.more_by) == (0.5, 0.5, 0.5)
        assert change.value_gain == pytest.approx(0.5)
