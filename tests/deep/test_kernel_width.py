"""The width chosen is the one at which neighbours predict each other."""

import numpy as np
import pytest

from spibb.deep.kernel_width import choose_width
from spibb.deep.transitions import Transitions
from spibb.errors import SettingsError


def test_width_follows_the_length_over_which_outcomes_change():
    rng = np.random.default_rng(5)
    chosen = []
    for period in (0.5, 2.0):
        x = rng.random((3_000, 1)) * 4
        moved = np.sin(2 * np.pi * x / period) + 0.3 * rng.standard_normal(x.shape)
        data = Transitions.from_arrays(
            x, np.zeros(3_000), np.zeros(3_000), x + moved, np.zeros(3_000)
        )
        chosen.append(choose_width(data, (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)))
    short, long = chosen
    assert 0.05 <= short.width < long.width <= 0.8
    # The noise is 0.09 of a variance of 0.59; nothing predicts better than that.
    assert 0.14 < min(short.error) < 0.3
    assert short.error[-1] > 0.9
    assert list(short.median_count) == sorted(short.median_count)
    assert short.alone[-1] == 0


def test_width_choice_against_the_definition():
    rng = np.random.default_rng(6)
    state = rng.random((30, 2))
    after = state + rng.random((30, 2))
    action = rng.integers(2, size=30)
    reward = rng.random(30)
    data = Transitions.from_arrays(state, action, reward, after, np.zeros(30))
    outcome = np.column_stack((data.next_state - data.state, data.reward)).astype(float)
    outcome = (outcome - outcome.mean(axis=0)) / outcome.std(axis=0)
    wrong, plain = [], []
    for i in range(30):
        others = [j for j in range(30) if j != i and action[j] == action[i]]
        mean = outcome[others].mean(axis=0)
        gaps = np.linalg.norm(data.state[others].astype(float) - data.state[i], axis=1)
        weight = np.maximum(0, 1 - gaps / 0.25)
        guess = weight @ outcome[others] / weight.sum() if weight.sum() else mean
        wrong.append(((outcome[i] - guess) ** 2).sum())
        plain.append(((outcome[i] - mean) ** 2).sum())
    found = choose_width(data, (0.25,))
    assert found.error[0] == pytest.approx(np.mean(wrong) / np.mean(plain), rel=1e-5)


def test_width_candidates_are_checked():
    data = Transitions.from_arrays([[0.0], [0.1]], [0, 0], [0, 1], [[0.1], [0.2]], [0, 1])
    with pytest.raises(SettingsError, match="at least one candidate"):
        choose_width(data, ())
    with pytest.raises(SettingsError, match="width is -1"):
        choose_width(data, (-1.0, 0.2))
    single = Transitions.from_arrays([[0.0]], [0], [0], [[0.0]], [0])
    assert choose_width(single, (0.2,)).alone == (1.0,)
