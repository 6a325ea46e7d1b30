"""Simulators with raw columns: logs, representations, common random numbers, true gains."""

import numpy as np
import pytest

from spibb.studies.representations.registry import SIMULATORS
from spibb.studies.representations.simulator import (
    behaviour_returns,
    simulate_log,
    table_act,
    true_gain,
    true_value,
)

SIMULATOR = pytest.mark.parametrize("simulator", SIMULATORS.values(), ids=SIMULATORS)
# Few episodes: what is tested is exact, or far from zero.
FEW = 200


def one_action(simulator, representation, action):
    table = np.zeros((representation.n_states, len(simulator.actions)))
    table[:, action] = 1.0
    return table


@SIMULATOR
def test_has_one_adequate_and_two_inadequate_representations(simulator):
    adequate = [one.is_adequate for one in simulator.representations]
    assert sum(adequate) == 1
    assert adequate.count(False) >= 2
    assert simulator.adequate.is_adequate
    names = [one.name for one in simulator.representations]
    assert len(set(names)) == len(names)
    for one in simulator.representations:
        assert set(one.columns) <= set(simulator.columns)


@SIMULATOR
def test_log_and_columns_are_aligned(simulator):
    for representation in simulator.representations:
        rng = np.random.default_rng(1)
        log, columns = simulate_log(simulator, representation, 20, rng)
        assert tuple(columns) == simulator.columns
        assert all(column.shape == (len(log),) for column in columns.values())
        np.testing.assert_array_equal(representation.encode(columns), log.state)
        assert log.n_states == representation.n_states
        assert log.action_labels == simulator.actions
        assert log.n_episodes == 20


@SIMULATOR
def test_columns_are_floats_or_codes(simulator):
    log, columns = simulate_log(simulator, simulator.adequate, 20, np.random.default_rng(2))
    assert set(simulator.categorical) <= set(columns)
    for name, column in columns.items():
        is_code = name in simulator.categorical
        assert column.dtype == (np.int64 if is_code else np.float64)
        assert not is_code or column.min() >= 0
        assert not np.isinf(column).any()
    assert np.isfinite(log.reward).all()


@SIMULATOR
def test_records_end_or_are_truncated_at_the_longest(simulator):
    log, _ = simulate_log(simulator, simulator.adequate, 30, np.random.default_rng(3))
    starts = np.flatnonzero(log.is_first)
    lengths = np.diff(np.append(starts, len(log)))
    last = starts + lengths - 1
    assert lengths.max() <= simulator.n_steps
    assert (log.terminated[last] ^ log.truncated[last]).all()
    assert (lengths[log.truncated[last]] == simulator.n_steps).all()
    assert log.terminated.sum() + log.truncated.sum() == log.n_episodes


@SIMULATOR
def test_logs_are_reproducible_from_the_seed(simulator):
    one, other = (
        simulate_log(simulator, simulator.adequate, 10, np.random.default_rng(4)) for _ in range(2)
    )
    np.testing.assert_array_equal(one[0].action, other[0].action)
    np.testing.assert_array_equal(one[0].reward, other[0].reward)
    for name in simulator.columns:
        np.testing.assert_array_equal(one[1][name], other[1][name])


@SIMULATOR
def test_representations_label_the_same_rows(simulator):
    logs = [
        simulate_log(simulator, one, 10, np.random.default_rng(5))[0]
        for one in simulator.representations
    ]
    for log in logs[1:]:
        np.testing.assert_array_equal(log.action, logs[0].action)
        np.testing.assert_array_equal(log.reward, logs[0].reward)


@SIMULATOR
def test_codes_are_in_range_where_readings_are_missing(simulator):
    _, columns = simulate_log(simulator, simulator.adequate, 10, np.random.default_rng(6))
    missing = {
        name: column if name in simulator.categorical else np.full(len(column), np.nan)
        for name, column in columns.items()
    }
    for representation in simulator.representations:
        for given in (columns, missing):
            codes = representation.encode(given)
            assert codes.dtype == np.int64
            assert codes.min() >= 0
            assert codes.max() < representation.n_states


def test_some_readings_are_missing_in_three_simulators():
    n_missing = 0
    for simulator in SIMULATORS.values():
        _, columns = simulate_log(simulator, simulator.adequate, 20, np.random.default_rng(7))
        n_missing += any(np.isnan(column).any() for column in columns.values())
    assert n_missing >= 3


@SIMULATOR
def test_the_behaviour_gains_nothing_over_itself(simulator):
    again = true_value(simulator, simulator.behave, FEW, 8)
    np.testing.assert_array_equal(again, behaviour_returns(simulator, FEW, 8))


@SIMULATOR
def test_policies_share_the_noise_of_the_process(simulator):
    """Environments draw as many numbers whatever is done: the last read depends on no action."""

    class Spy:
        def __init__(self, action):
            self.action, self.seen = action, []

        def __call__(self, columns, u):
            self.seen.append(u)
            return np.full(len(u), self.action)

    spies, rngs = [Spy(0), Spy(len(simulator.actions) - 1)], []
    for spy in spies:
        rngs.append(np.random.default_rng(9))
        # Few steps: nearly every record is alive, so both runs are as long.
        simulator.run(spy, FEW, min(5, simulator.n_steps), rngs[-1])
    np.testing.assert_array_equal(spies[0].seen, spies[1].seen)
    assert rngs[0].bit_generator.state == rngs[1].bit_generator.state


@SIMULATOR
def test_a_policy_sees_labels_alone(simulator):
    representation = simulator.representations[-1]
    act = table_act(representation, one_action(simulator, representation, 1))
    _, columns = simulate_log(simulator, representation, 10, np.random.default_rng(10))
    n = len(next(iter(columns.values())))
    assert (act(columns, np.random.default_rng(11).random(n)) == 1).all()
    shares = np.full((representation.n_states, len(simulator.actions)), 1 / len(simulator.actions))
    u = (np.arange(n) + 0.5) / n
    taken = np.bincount(table_act(representation, shares)(columns, u))
    assert taken.max() - taken.min() <= 1


@SIMULATOR
def test_gains_have_standard_errors_and_differ_among_actions(simulator):
    representation = simulator.adequate
    gains = [
        true_gain(simulator, representation, one_action(simulator, representation, action), 500)
        for action in range(len(simulator.actions))
    ]
    assert all(error > 0.0 for _, error in gains)
    means = [mean for mean, _ in gains]
    assert max(means) - min(means) > 3.0 * max(error for _, error in gains)
    assert gains[0] == true_gain(
        simulator, representation, one_action(simulator, representation, 0), 500
    )


# Policies of which it is known what they do: (action, smallest gain, largest gain), in any state.
KNOWN = {
    "queue": (0, -80.0, -50.0),  # one server, which is far from enough
    "machine": (0, -6.0, -2.0),  # no repair but after a breakdown
    "irrigation": (0, -30.0, -20.0),  # no water at all
    "shop": (4, -0.06, -0.03),  # the flagship for everyone
    "plant": (0, -150.0, -120.0),  # no heating
    "glucose": (0, -50.0, -35.0),  # no insulin
    "tutor": (2, -6.0, -3.0),  # ever harder items
    "vitals": (0, -0.65, -0.45),  # no treatment
}


@pytest.mark.parametrize("name", SIMULATORS)
def test_gains_of_known_policies(name):
    action, smallest, largest = KNOWN[name]
    simulator = SIMULATORS[name]
    representation = simulator.adequate
    gain, error = true_gain(
        simulator, representation, one_action(simulator, representation, action)
    )
    assert smallest < gain < largest
    assert error < 0.2 * abs(gain)
