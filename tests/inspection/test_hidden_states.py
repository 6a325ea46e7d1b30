"""Checks of what states hide: sound logs, few blocks, small and odd logs."""

import numpy as np
import pytest

import spibb
from spibb.data.log import Log
from spibb.inspection.evidence import Evidence
from spibb.inspection.finding import Finding
from spibb.inspection.memory import Memory
from spibb.inspection.persistent_rewards import PersistentRewards, _persistence
from spibb.inspection.raw_columns import ColumnsOfActions, ColumnsOfOutcomes
from spibb.inspection.windows import windows
from spibb.representation.history import history_columns
from spibb.representation.memory import find_memory
from spibb.representation.steps import Steps, blocks
from spibb.testing.clean_logs import clean_log

CHECKS = (Memory(), PersistentRewards(), ColumnsOfActions(), ColumnsOfOutcomes())


def run(check, log, **more):
    return list(check.run(Evidence.of(log, **more)))


def log_of(rewards, **more):
    n = len(rewards)
    return Log.from_arrays(
        **{"state": [0] * n, "action": [0] * n, "reward": rewards, "episode": [0] * n, **more}
    )


@pytest.mark.statistical
def test_sound_logs_have_no_finding():
    """The levels of the four checks add up to .0013: .4 findings are expected on 300 logs."""
    n_found, p_values = 0, {check.id: [] for check in CHECKS}
    for seed in range(300):
        _, log, baseline = clean_log(seed)
        rng = np.random.default_rng(seed)
        episode = np.arange(len(log)) if log.episode is None else np.cumsum(log.is_first)
        of_episode = rng.normal(size=episode.max() + 1)[episode]
        log = log.with_features({"new": rng.normal(size=len(log)), "constant": of_episode})
        for check in CHECKS:
            for one in run(check, log, baseline=baseline):
                n_found += isinstance(one, Finding)
                if getattr(one, "p_value", None) is not None:
                    p_values[check.id].append(one.p_value)
    assert n_found <= 3
    for found in p_values.values():
        assert len(found) > 100
        assert np.mean(np.array(found) <= 0.05) < 0.12
        assert np.mean(np.array(found) <= 0.01) < 0.04


def test_rewards_that_state_and_action_decide_are_no_evidence():
    """Rounding errors of means of .1 are correlated; before, their p-value was 1e-20."""
    rng = np.random.default_rng(0)
    state = rng.integers(0, 3, 600)
    log = log_of(np.array([0.1, 0.7, 1.1])[state], state=state)
    (result,) = run(PersistentRewards(), log)
    assert result.p_value is None


def test_two_rows_are_no_evidence():
    """One block has no spread, which is not certainty."""
    assert _persistence(log_of([1.0, 2.0])) is None
    share, p_value = _persistence(log_of([1.0, 1.0, 3.0, 3.0]))
    assert 0.0 < p_value <= 1.0
    assert share == pytest.approx(1.0 / 3.0)


def test_what_lasts_is_found_in_few_records():
    rng = np.random.default_rng(1)
    lasting = np.repeat(rng.normal(size=40), 50) + 0.5 * rng.normal(size=2_000)
    found = run(PersistentRewards(), log_of(lasting, episode=np.arange(2_000) // 400))
    assert isinstance(found[-1], Finding)
    assert found[-1].share == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize(
    "columns",
    [
        {"reward": [1.0]},
        {"reward": [1.0, 2.0], "episode": [0, 1]},
        {"reward": [1.0, 2.0, 3.0], "next_state": [0, 0, -1], "truncated": [False, False, True]},
        {"reward": [1.0] * 5, "step": [0, 1, 5, 6, 9]},
        {"reward": [1.0, 2.0, 3.0, 4.0], "terminated": [False, True, False, True]},
        {"reward": [1e100, -1e100, 1e100, 0.0, 1e100, -1e100]},
        {"reward": [1.0, 2.0, 3.0], "n_states": 9, "n_actions": 4},
    ],
)
@pytest.mark.parametrize("raw", [[0.0], [1.0, float("nan")], ["a"], [1e300, -1e300]])
def test_small_and_odd_logs(columns, raw):
    log = log_of(**{"rewards" if k == "reward" else k: v for k, v in columns.items()})
    log = log.with_features({"x": (raw * len(log))[: len(log)]})
    for check in CHECKS:
        for one in run(check, log):
            assert not isinstance(one, Finding)
            assert one.p_value is None or 0.0 <= one.p_value <= 1.0
    problem = spibb.Problem.of(log, baseline="estimate", gamma=0.9)
    table = np.eye(log.n_actions)[np.zeros(log.n_states, dtype=int)]
    judged = spibb.Assessment.of(problem, named(problem, table))
    agreement = judged.representation
    if agreement is not None:
        for one in agreement.refinements:
            assert np.isfinite([one.gain, one.error]).all()
    assert (agreement is None) == bool(judged.representation_remark)


def named(problem, table):
    return spibb.TabularPolicy(table, list(problem.counts.states), list(problem.counts.actions))


def test_history_is_that_of_the_past_alone():
    """Whatever comes later, the columns of a row stay; pair means apart, which all rows share."""
    rng = np.random.default_rng(2)
    n = 60
    log = log_of(
        rng.normal(size=n), state=rng.integers(0, 2, n), action=rng.integers(0, 2, n),
        episode=np.arange(n) // 20,
    )  # fmt: skip
    found = history_columns(log, np.array([1.0, 3.0]), 0.9)
    assert (found.values[::20, :6] == 0.0).all()
    assert (found.values[::20, 6:8] == 50.0).all()
    assert (found.values[::20, 8:] == 0.0).all()
    names = list(found.names)
    for row in range(n):
        start = row - row % 20
        past = np.arange(start, row)
        mean = sum(0.2 * 0.8 ** (row - 1 - k) * [1.0, 3.0][log.state[k]] for k in past)
        column = names.index("values of the last five states")
        assert found.values[row, column] == pytest.approx(mean)
        for a in (0, 1):
            took = [k for k in past if log.action[k] == a]
            since = row - took[-1] if took else 50.0
            assert found.values[row, names.index(f"steps since {a}")] == since
            lately = sum(0.3 * 0.7 ** (row - 1 - k) for k in took)
            among = found.values[row, names.index(f"{a} among the last three actions")]
            assert among == pytest.approx(lately)
        same = 0
        while row - same > start and log.state[row - same - 1] == log.state[row]:
            same += 1
        assert found.values[row, names.index("steps in the state")] == same


def test_blocks():
    def lengths(*given):
        is_first = np.concatenate([np.arange(n) == 0 for n in given])
        found = blocks(is_first, len(is_first))
        assert (np.diff(found) >= 0).all()
        assert found[-1] + 1 == len(np.unique(found))
        # No block holds rows of two episodes.
        assert len(np.unique(found[is_first])) == len(given)
        return np.bincount(found).tolist()

    assert lengths(*[3] * 40) == [3] * 40
    assert lengths(300) == [10] * 30
    assert lengths(60, 60, 60, 60, 60) == [10] * 30
    assert lengths(1) == [1]
    # One record of most rows among many is cut.
    assert max(lengths(*[1] * 40, 960)) <= 40


def test_windows_do_not_join_what_does_not_follow():
    rng = np.random.default_rng(3)
    n = 450_000
    log = log_of(
        rng.normal(size=n), state=rng.integers(0, 3, n), action=rng.integers(0, 2, n),
        episode=np.arange(n) // 150_000,
    )  # fmt: skip
    part, remark = windows(log)
    assert len(part) <= 200_000
    assert "200,000 rows" in remark
    steps = Steps.of(part)
    goes_on = steps.following >= 0
    followed = part.state[steps.following[goes_on]]
    np.testing.assert_array_equal(followed, part.next_state[steps.row[goes_on]])
    memory = find_memory(part, 0.9)
    assert memory.actions.p_value.min() > 1e-4
