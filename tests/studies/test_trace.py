"""What states hide of how people act, and how much of it the past shows."""

from dataclasses import replace

import numpy as np
import pytest

from spibb.studies.representations.registry import SIMULATORS
from spibb.studies.representations.simulator import choose, simulate_log
from spibb.studies.representations.trace import LEAST_TRACE, behaviour_probabilities, find_trace


def find(simulator, states):
    one = next(x for x in SIMULATORS[simulator].representations if x.name == states)
    return find_trace(SIMULATORS[simulator], one)


@pytest.mark.parametrize("simulator", SIMULATORS.values(), ids=SIMULATORS)
def test_inadequate_states_hide_more_than_adequate_ones(simulator):
    adequate = find_trace(simulator, simulator.adequate)
    others = [find_trace(simulator, x) for x in simulator.representations if not x.is_adequate]
    assert all(0.0 <= one.past < one.hidden < 1.0 for one in others)
    assert adequate.hidden < max(one.hidden for one in others) / 2


def test_decisions_of_one_step_leave_no_trace():
    assert find("shop", "age").past == 0.0
    assert not find("shop", "age").is_left


def test_lasting_causes_leave_a_trace_and_those_that_actions_take_back_do_not():
    lasting, taken_back = find("machine", "gauge"), find("vitals", "temperature")
    assert lasting.is_left
    assert lasting.share > 4 * LEAST_TRACE
    # Both hide much of how people act.
    assert min(lasting.hidden, taken_back.hidden) > 0.1
    assert not taken_back.is_left
    assert taken_back.share < LEAST_TRACE / 3


def test_states_that_hold_what_is_looked_at_hide_nothing():
    simulator = SIMULATORS["machine"]
    states = simulator.representations[0]

    def behave(columns, u):
        probabilities = np.full((len(u), len(simulator.actions)), 0.2)
        probabilities[:, 0] += 1.0 - probabilities.sum(axis=1)
        return choose(probabilities, u)

    trace = find_trace(replace(simulator, behave=behave), states)
    assert trace.hidden == pytest.approx(0.0, abs=1e-12)
    assert trace.share == 0.0
    assert not trace.is_left


def test_probabilities_of_the_behaviour_agree_with_its_actions():
    simulator = SIMULATORS["plant"]
    log, columns = simulate_log(simulator, simulator.adequate, 60, np.random.default_rng(5))
    found = behaviour_probabilities(simulator, columns, log)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    taken = np.eye(log.n_actions)[log.action]
    # The mean of the probability of what was done is that of the sum of squares.
    n = len(log)
    error = 4.0 * np.sqrt(((taken * found).sum(axis=1) - (found**2).sum(axis=1)).var() / n)
    assert abs((taken * found).sum() / n - (found**2).sum() / n) < error + 1.0 / 40
