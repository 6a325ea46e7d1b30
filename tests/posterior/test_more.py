"""About N more episodes: the formula, and that the choice turns with them as often as not."""

import numpy as np
import pytest

from spibb import AutoSPIBB, Counts, Problem, TabularMDP, TabularPolicy
from spibb.envs import Garnet, RareAction
from spibb.posterior.more import more_episodes, more_for_choice
from spibb.posterior.posterior import Posterior
from spibb.posterior.risk import Gain
from spibb.testing.reference_posterior import dense_draw


def gain(mean, deviation):
    return Gain(mean, deviation, (0, 0), (0, 0), 0.1, -1.0, 100)


def test_the_formula():
    assert more_episodes([gain(1.0, 0.2)], 3.0, 50) == 0
    assert more_episodes([gain(1.0, 4.0 / 3.0)], 3.0, 50) == 350  # 50 (4^1.5 - 1)
    assert more_episodes([gain(1.0, 4.0 / 3.0), gain(1.0, 0.1)], 3.0, 50) == 350
    assert more_episodes([gain(1.0, 1.0), gain(-0.1, 1.0)], 3.0, 50) is None


def possible_world(posterior, number, prior):
    """Return a drawn model as a process; its last state is the end."""
    draws = posterior._draws([number], 0, posterior.priors[prior])
    known = dense_draw(draws, 0)
    n_states, n_actions, _ = known.shape
    transition = np.zeros((n_states + 1, n_actions, n_states + 1))
    transition[:-1, :, :-1] = known
    transition[:-1, :, -1] = np.clip(1.0 - known.sum(axis=2), 0.0, 1.0)
    reward = np.vstack([draws.reward[0], np.zeros(n_actions)])
    terminal = np.append(~posterior.problem.outcomes.live, True)
    start = np.append(posterior._starts([number], 0)[0], 0.0)
    return TabularMDP(transition, reward, posterior.problem.gamma, start, terminal)


def share_turned(truth, baseline, n_episodes, max_steps, seed, n_worlds=16):
    rng = np.random.default_rng(seed)
    counts = Counts.sample(truth, baseline, n_episodes=n_episodes, max_steps=max_steps, rng=rng)
    given = {"baseline": baseline, "gamma": truth.gamma}
    choice = AutoSPIBB().improve(counts, **given).choice
    more = more_for_choice(choice, n_episodes)
    assert more is not None
    posterior, turned = Posterior(Problem.of(counts, **given)), 0
    table = np.vstack([baseline.probabilities, np.full(truth.n_actions, 1 / truth.n_actions)])
    wider = TabularPolicy(table)
    for number in range(n_worlds):
        world = possible_world(posterior, number, "careful" if number % 2 else "neutral")
        drawn = Counts.sample(world, wider, n_episodes=more, max_steps=max_steps, rng=rng)
        both = counts.renamed(drawn.states, drawn.actions) + drawn
        again = AutoSPIBB().improve(both, baseline=wider, gamma=truth.gamma)
        turned += again.choice.chosen is not None
    return turned / n_worlds


def test_with_so_many_more_the_choice_turns_as_often_as_not():
    found = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        garnet = Garnet.random(rng, n_states=15, n_actions=3, n_successors=3)
        found.append(share_turned(garnet.mdp, garnet.baseline(0.8, rng), 10, 30, seed))
    drug = RareAction()
    found.append(share_turned(drug.to_mdp(0.9), drug.baseline(0.3), 60, 40, 0))
    assert 0.25 <= np.median(found) <= 0.75
    assert 0.25 <= np.mean(found) <= 0.75


def test_nothing_is_missing_where_something_was_chosen():
    drug, rng = RareAction(), np.random.default_rng(0)
    baseline = drug.baseline(0.3)
    counts = Counts.sample(drug.to_mdp(0.9), baseline, n_episodes=500, max_steps=40, rng=rng)
    choice = AutoSPIBB().improve(counts, baseline=baseline, gamma=0.9).choice
    assert choice.chosen is not None
    assert more_for_choice(choice, 500) is None


@pytest.mark.parametrize("caution", [1.0, 3.0])
def test_more_caution_needs_no_fewer(caution):
    few = more_episodes([gain(0.5, 1.0)], caution, 40)
    assert few <= more_episodes([gain(0.5, 1.0)], caution + 1.0, 40)
