"""About N more episodes: the formula, and that with so many the choice mostly turns."""

import numpy as np
import pytest

from spibb import AutoSPIBB, Counts
from spibb.envs import Garnet, RareAction
from spibb.posterior.gain import Gain
from spibb.posterior.sample_size import more_episodes, more_for_choice


def test_the_formula():
    assert more_episodes(Gain(1.0, 0.2), 3.0, 50) == 0
    assert more_episodes(Gain(1.0, 4.0 / 3.0), 3.0, 50) == 350  # 50 (4^1.5 - 1)
    assert more_episodes(Gain(0.0, 1.0), 3.0, 50) is None
    assert more_episodes(Gain(-0.1, 1.0), 3.0, 50) is None


def draw_garnet(rng):
    garnet = Garnet.random(rng, n_states=15, n_actions=3, n_successors=3)
    return garnet.mdp, garnet.baseline(0.8, rng)


def draw_drug(rng):
    drug = RareAction()
    return drug.to_mdp(0.9), drug.baseline(0.3)


def turns(truth, baseline, n_episodes, rng):
    """Return whether a choice turns with an eighth of the episodes asked for, and with all."""

    def sample(n):
        return Counts.sample(truth, baseline, n_episodes=n, max_steps=30, rng=rng)

    def choose(counts):
        return AutoSPIBB().improve(counts, baseline=baseline, gamma=truth.gamma).choice

    counts = sample(n_episodes)
    more = more_for_choice(choose(counts), n_episodes)
    if more is None:
        return None
    more_counts = sample(max(more // 8, 1)), sample(more)
    return [choose(counts + one).chosen is not None for one in more_counts]


@pytest.mark.parametrize(("draw", "n_episodes"), [(draw_garnet, 10), (draw_drug, 30)])
def test_with_so_many_more_the_choice_mostly_turns(draw, n_episodes):
    """At least as often as not, since any of many candidates may be taken; much fewer are less."""
    found = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        found.append(turns(*draw(rng), n_episodes, rng))
    found = np.array([one for one in found if one is not None])
    assert len(found) >= 8
    few, asked = found.mean(axis=0)
    assert asked >= 0.5
    assert few <= asked - 0.2


def test_nothing_is_missing_where_something_was_chosen():
    drug, rng = RareAction(), np.random.default_rng(0)
    baseline = drug.baseline(0.3)
    counts = Counts.sample(drug.to_mdp(0.9), baseline, n_episodes=500, max_steps=40, rng=rng)
    choice = AutoSPIBB().improve(counts, baseline=baseline, gamma=0.9).choice
    assert choice.chosen is not None
    assert more_for_choice(choice, 500) is None


@pytest.mark.parametrize("caution", [1.0, 3.0])
def test_more_caution_needs_no_fewer(caution):
    few = more_episodes(Gain(0.5, 1.0), caution, 40)
    assert few <= more_episodes(Gain(0.5, 1.0), caution + 1.0, 40)
