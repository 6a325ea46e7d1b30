"""The result folder: all of it or nothing, and what it replaces."""

import json

import numpy as np
import pytest

from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB
from spibb.assessment.assessment import Assessment
from spibb.atomic_folders import check_replaceable
from spibb.data.log import Log
from spibb.errors import OutputError
from spibb.mdp.policy import TabularPolicy
from spibb.report.folder import FILES, write_result
from spibb.report.summary import result_summary


def improved(n_states=2, algorithm=None, gamma=0.9, **columns):
    states = np.repeat(np.arange(n_states), 2)
    log = Log.from_arrays(
        state=states, action=np.tile([0, 1], n_states), reward=np.tile([0.0, 1.0], n_states),
        episode=np.arange(len(states)), **columns,
    )  # fmt: skip
    chosen = algorithm or ApproxSoftSPIBB()
    return chosen.improve(log, baseline=TabularPolicy.uniform(n_states, 2), gamma=gamma)


def test_all_files(tmp_path):
    write_result(improved(), tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_large_policy_is_parquet_only(tmp_path):
    """Beyond 200,000 pairs nobody reads a CSV file by eye."""
    write_result(improved(n_states=100_001), tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(FILES) - {"policy.csv"}
    assert TabularPolicy.read(tmp_path / "out" / "policy.parquet").n_states == 100_001


def test_a_folder_that_appears_meanwhile_is_not_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputError, match=r"out exists already.*--overwrite"):
        write_result(improved(), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_replacing_leaves_nothing_of_the_earlier_result(tmp_path):
    write_result(improved(algorithm=BasicRL()), tmp_path / "out")
    write_result(improved(), tmp_path / "out", overwrite=True)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))
    assert summary["algorithm"]["algorithm"] == "approx-soft-spibb"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_others_may_read_the_folder(tmp_path):
    write_result(improved(), tmp_path / "out")
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_may_be_written(tmp_path, overwrite):
    check_replaceable(tmp_path / "absent", overwrite=overwrite, known=FILES)
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match=r"is a file; expected a folder"):
        check_replaceable(tmp_path / "file", overwrite=overwrite, known=FILES)


def test_which_folder_may_be_overwritten(tmp_path):
    check_replaceable(tmp_path, overwrite=True, known=FILES)
    (tmp_path / "policy.csv").write_text("x")
    check_replaceable(tmp_path, overwrite=True, known=FILES)
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(OutputError, match=r"holds 'notes\.md', which is not part of a result"):
        check_replaceable(tmp_path, overwrite=True, known=FILES)


def test_the_summary_is_strict_json_even_without_values():
    """Undiscounted, and no step ends: there are no values to report."""
    log = Log.from_arrays(state=[0, 0], action=[0, 1], reward=[1.0, 2.0], next_state=[0, 0])
    result = BasicRL().improve(log, baseline=TabularPolicy.uniform(1, 2), gamma=1.0)
    summary = result_summary(Assessment.of(result))
    assert summary["status"] == "not-terminating"
    assert summary["estimated_performance"] is None
    assert summary["estimated_gain"] is None
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_the_summary_tells_a_guarantee_from_a_vacuous_one():
    """Six rows bound little; the baseline itself loses nothing; without a discount none applies."""
    told = [
        result_summary(Assessment.of(improved(algorithm=algorithm)))
        for algorithm in (ApproxSoftSPIBB(), ApproxSoftSPIBB(epsilon=0.0), BasicRL())
    ]
    found = [(one["is_guaranteed"], one["is_vacuous"]) for one in told]
    assert found == [(True, False), (True, False), (True, False)]
    assert told[0]["bound"] < 0 == told[1]["bound"]
    assert [len(one["other_guarantees"]) for one in told] == [1, 1, 0]


def test_the_summary_counts():
    summary = result_summary(Assessment.of(improved(n_states=3)))
    assert (summary["n_states"], summary["n_actions"]) == (3, 2)
    assert (summary["n_rows"], summary["n_episodes"], summary["n_unobserved_pairs"]) == (6, 6, 0)
    assert summary["n_states_changed"] == 3
    # Every pair was seen once: the model's estimates mean nothing, and are not told.
    assert summary["estimated_gain"] is summary["estimated_performance"] is None
    assert "100 % of the new policy's visits are to pairs seen fewer than 5" in summary["withheld"]
