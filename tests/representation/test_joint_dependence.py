"""What columns explain together equals slow loops, and keeps its level on sound logs."""

import numpy as np
import pytest

from spibb.data.log import Log
from spibb.inspection.evidence import Evidence
from spibb.inspection.finding import Finding
from spibb.inspection.memory import Memory
from spibb.representation.joint_dependence import (
    beyond_other_blocks,
    joint_dependence,
    orthonormal,
    permutation_moments,
    ranks,
)
from spibb.testing import reference_representation as slow


def centred(values, label):
    found = np.array(values, dtype=float)
    for s in np.unique(label):
        found[label == s] -= found[label == s].mean(axis=0)
    return found


@pytest.mark.parametrize("sizes", [(5,), (4, 3), (3, 2, 2), (1, 4, 2)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_moments_by_chance_are_those_of_all_orders(sizes, seed):
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(len(sizes)), sizes)
    x = centred(rng.normal(size=(len(label), 2)), label)
    y = centred(rng.choice([0.0, 0.0, 1.0, 3.0], size=(len(label), 2)), label)
    explained, mean, variance = slow.permuted_moments(x, y, label.tolist())
    basis = orthonormal(x)
    assert float(((basis.T @ y) ** 2).sum()) == pytest.approx(explained)
    found = permutation_moments(basis, y, np.array(sizes))
    assert found == pytest.approx((mean, variance))


def test_a_column_twice_counts_once():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 1))
    y = x + rng.normal(size=(400, 1))
    label, block = rng.integers(0, 3, 400), np.arange(400)
    once = joint_dependence(x, label, y, block)
    twice = joint_dependence(np.column_stack([x, x, np.ones(400)]), label, y, block)
    assert twice == pytest.approx(once)


def test_rows_are_held_to_those_of_other_blocks():
    rng = np.random.default_rng(4)
    label, block = rng.integers(0, 3, 30), np.arange(30) // 6
    values = rng.normal(size=(30, 2))
    found = beyond_other_blocks(values, label, block)
    twin = slow.beyond_other_blocks(values, label.tolist(), block.tolist())
    assert found == pytest.approx(twin)


def test_ranks_of_equal_and_missing_values():
    label = np.array([0, 0, 0, 1, 1, 1, 1])
    values = np.array([5.0, 1.0, 5.0, np.nan, 2.0, np.nan, 1e300])
    expected = [1.5 / 3, 0.0, 1.5 / 3, 0.5 / 4, 2.0 / 4, 0.5 / 4, 3.0 / 4]
    assert ranks(label, values) == pytest.approx(expected)


def simulate(n_episodes, seed, strength):
    """Two hidden levels that last; who acts sees them; readings (the states) do not show them."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(n_episodes):
        level = rng.normal()
        for _ in range(20):
            level = 0.9 * level + 0.4 * rng.normal()
            p = 1.0 / (1.0 + np.exp(-strength * level))
            action = int(rng.random() < p)
            rows.append((episode, int(rng.integers(4)), action, level + rng.normal()))
    episode, state, action, reward = map(np.array, zip(*rows, strict=True))
    return Log.from_arrays(state=state, action=action, reward=reward, episode=episode)


def findings(log):
    return [one for one in Memory().run(Evidence.of(log)) if isinstance(one, Finding)]


def test_a_trace_that_is_spread_over_many_columns_is_found():
    (found,) = findings(simulate(150, seed=5, strength=0.6))
    assert found.verdict_effect == "pilot"
    assert found.share > max(one["of actions"] for one in found.places)
    assert not findings(simulate(150, seed=5, strength=0.0))


@pytest.mark.statistical
def test_the_test_keeps_its_level_where_states_last():
    """Where a state lasts, past actions are those of the same state: centring must not tell."""
    p_values = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        n, length = 600, 30
        state = np.zeros(n, dtype=int)
        for row in range(1, n):
            stays = row % length and rng.random() < 0.9
            state[row] = state[row - 1] if stays else rng.integers(12)
        usual = rng.dirichlet(np.ones(3), 12)
        action = np.array([rng.choice(3, p=usual[s]) for s in state])
        log = Log.from_arrays(
            state=state, action=action, reward=rng.normal(size=n), episode=np.arange(n) // length
        )
        result = next(iter(Memory().run(Evidence.of(log))))
        p_values.append(result.p_value)
    # Of 120 logs 6 and 1.2 are expected; these are upper 99.9 % limits.
    assert sum(p <= 0.05 for p in p_values) <= 15
    assert sum(p <= 0.01 for p in p_values) <= 6
