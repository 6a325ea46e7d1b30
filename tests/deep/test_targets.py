"""Targets: numbers by hand, the limits, and both kinds of arrays."""

import math

import numpy as np
import pytest
import torch
from small_problems import DEVICES, LOOSE, TIGHT
from small_problems import RULES as USED

from spibb.deep.rules import (
    DQN,
    ApproxSoftSPIBBDQN,
    DoubleDQN,
    ExactSoftSPIBBDQN,
    PiBSPIBBDQN,
    PiLeqBSPIBBDQN,
    RaMDPDQN,
)
from spibb.deep.targets import errors_of, improved_policy, targets

INF = math.inf


def batch(n_actions=5, shape=(4, 30), dtype=np.float64):
    rng = np.random.default_rng(0)
    q_online, q_target = rng.normal(size=(2, *shape, n_actions)).astype(dtype)
    n_next = rng.exponential(5, (*shape, n_actions)).astype(dtype)
    n_next[rng.random(n_next.shape) < 0.2] = 0
    return {
        "reward": rng.normal(size=shape).astype(dtype),
        "terminated": rng.random(shape) < 0.3,
        "q_online": q_online,
        "q_target": q_target,
        "baseline_next": rng.dirichlet(np.ones(n_actions), shape).astype(dtype),
        "n_next": n_next,
        "n_here": (rng.exponential(5, shape) + 1).astype(dtype),
    }


HAND = {
    "reward": np.array([1.0]),
    "terminated": np.array([False]),
    "q_online": np.array([[0.0, 2.0, 1.0]]),
    "q_target": np.array([[5.0, 3.0, 4.0]]),
    "baseline_next": np.array([[0.5, 0.25, 0.25]]),
    "n_next": np.array([[16.0, 1.0, 4.0]]),
    "n_here": np.array([4.0]),
}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (DQN(), 1 + 0.5 * 5),
        (DoubleDQN(), 1 + 0.5 * 3),
        (RaMDPDQN(kappa=1), 1 - 0.5 + 0.5 * 3),
        # The second action is rare: the third, better online, takes the first one's mass.
        (PiBSPIBBDQN(n_wedge=4), 1 + 0.5 * (0.25 * 3 + 0.75 * 4)),
        (PiLeqBSPIBBDQN(n_wedge=4), 1 + 0.5 * (0.25 * 3 + 0.75 * 4)),
        # Ratios 2 / 1 and 1 / 0.5 tie: the larger q receives; 0.1 = 2 m max(0.25, 1), and 0.0375
        # are left. The third action then gives 0.0375 / 2 to the second.
        (ApproxSoftSPIBBDQN(epsilon=0.1), 1 + 0.5 * (0.45 * 5 + 0.31875 * 3 + 0.23125 * 4)),
        # Per unit of budget the second brings 2 / 1.25, the third 1 / 0.75: the second again,
        # with m = 0.1 / 1.25.
        (ExactSoftSPIBBDQN(epsilon=0.1), 1 + 0.5 * (0.42 * 5 + 0.33 * 3 + 0.25 * 4)),
    ],
    ids=lambda value: getattr(value, "id", ""),
)
def test_by_hand(rule, expected):
    np.testing.assert_allclose(targets(rule, gamma=0.5, **HAND), [expected], rtol=1e-12)


@pytest.mark.parametrize("rule", LOOSE, ids=lambda rule: rule.id)
def test_loose_limits_are_double_dqn_exactly(rule):
    parts = batch(dtype=np.float32)
    parts["n_here"][0] = 0
    np.testing.assert_array_equal(
        targets(rule, gamma=0.9, **parts), targets(DoubleDQN(), gamma=0.9, **parts)
    )


@pytest.mark.parametrize("rule", TIGHT, ids=lambda rule: rule.id)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tight_limits_are_the_baseline_exactly(rule, dtype):
    parts = batch(dtype=dtype)
    found = improved_policy(
        rule, parts["q_online"], baseline=parts["baseline_next"], counts=parts["n_next"]
    )
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, parts["baseline_next"])


@pytest.mark.parametrize("rule", USED, ids=lambda rule: rule.id)
@pytest.mark.parametrize("device", DEVICES)
def test_tensors_give_what_arrays_give(rule, device):
    parts = batch()
    expected = targets(rule, gamma=0.9, **parts)
    tensors = {name: torch.tensor(part, device=device) for name, part in parts.items()}
    found = targets(rule, gamma=0.9, **tensors)
    assert found.device.type == device
    np.testing.assert_allclose(found.cpu(), expected, atol=1e-12)


def test_terminated_transitions_earn_nothing_more():
    parts = batch() | {"q_target": np.full((4, 30, 5), 1e30)}
    found = targets(DoubleDQN(), gamma=0.9, **parts)
    np.testing.assert_array_equal(found[parts["terminated"]], parts["reward"][parts["terminated"]])


def test_errors_of_counts():
    np.testing.assert_array_equal(errors_of([0, 4]), [INF, 0.5])
    assert errors_of(torch.tensor([0, 4])).tolist() == [INF, 0.5]
