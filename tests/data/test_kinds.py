"""Kinds of states: found where there are some, and not where there are none."""

import numpy as np
import pytest

from spibb import AutoSPIBB, Counts, Log, Problem, TabularPolicy, evaluate
from spibb.data.kinds import expected_strength, kinds
from spibb.data.prior import STRENGTHS
from spibb.envs.garnet import Garnet
from spibb.studies.risk.problems import PROBLEMS


def draw_counts(rng, strength, n_rows=8, n_outcomes=5):
    """Counts of one pair whose outcomes are drawn about equal shares."""
    p = rng.dirichlet(np.full(n_outcomes, strength / n_outcomes))
    return rng.multinomial(n_rows, p)


def log_likelihood(n, strengths):
    """Of a pair under each strength, by the chain rule: row after row."""
    found = np.zeros(len(strengths))
    for k, m in enumerate(strengths):
        seen, total = np.zeros(len(n)), 0.0
        for outcome in np.repeat(np.arange(len(n)), n):
            found[k] += np.log((seen[outcome] + m / len(n)) / (total + m))
            seen[outcome] += 1.0
            total += 1.0
    return found


def likelihoods(seed, strengths, n_pairs=4):
    rng = np.random.default_rng(seed)
    return np.array(
        [
            sum(log_likelihood(draw_counts(rng, m), STRENGTHS) for _ in range(n_pairs))
            for m in strengths
        ]
    )


EXPECTED = expected_strength(np.array(STRENGTHS))


def test_states_that_are_alike_are_of_one_kind():
    several = 0
    for seed in range(100):
        found = kinds(likelihoods(seed, [1.0] * 30), EXPECTED)
        several += len(set(found.tolist())) > 1
        assert 0.25 <= STRENGTHS[int(np.median(found))] <= 4.0
    assert several <= 3


def test_two_kinds_are_told_apart():
    for seed in range(20):
        found = np.array(STRENGTHS)[kinds(likelihoods(seed, [0.25] * 20 + [256.0] * 20), EXPECTED)]
        assert (found[:20] <= 1.0).mean() > 0.9
        assert (found[20:] >= 8.0).mean() > 0.9


def test_the_hypothesis_of_a_kind_explains_its_states_best():
    likelihood = likelihoods(3, [0.25] * 20 + [256.0] * 20)
    found = kinds(likelihood, EXPECTED)
    assert len(set(found.tolist())) == 2
    for hypothesis in set(found.tolist()):
        mine = found == hypothesis
        assert (likelihood[mine].sum(axis=0) + EXPECTED).argmax() == hypothesis


def test_states_without_rows_are_of_the_commonest_kind():
    likelihood = np.concatenate([likelihoods(1, [0.25] * 30 + [256.0] * 10), np.zeros((5, 11))])
    found = kinds(likelihood, EXPECTED)
    assert len(set(found[40:].tolist())) == 1
    assert found[40] == np.bincount(found[:30]).argmax()


def test_random_mdps_have_one_kind():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        garnet = Garnet.random(rng)
        baseline = garnet.baseline(0.5, rng)
        counts = Counts.sample(garnet.mdp, baseline, n_episodes=100, max_steps=50, rng=rng)
        prior = Problem.of(counts, baseline=baseline, gamma=0.95).prior
        assert len(np.unique(np.stack([prior.share, prior.strength]), axis=1).T) == 1


def test_wards_behind_corridors_are_another_kind():
    """Doors lead where they lead; drugs cure about as often as each other."""
    rng = np.random.default_rng(0)
    truth, baseline = PROBLEMS["corridors-alike"].make(rng)
    counts = PROBLEMS["corridors-alike"].count((truth, baseline), 1_000, rng)
    prior = Problem.of(counts, baseline=baseline, gamma=0.99).prior
    corridors, wards = prior.strength[:40], prior.strength[40:60]
    assert np.median(corridors) <= 0.5
    assert np.median(wards) >= 8.0


@pytest.mark.parametrize("name", ["corridors", "corridors-alike"])
@pytest.mark.parametrize("size", [50, 100])
def test_no_ward_is_chosen_for_its_luck(name, size):
    """Nearly half of these were worse when priors had one strength, and luck was not counted."""
    worse = 0
    for seed in range(12):
        rng = np.random.default_rng([seed, size])
        truth, baseline = PROBLEMS[name].make(rng)
        counts = PROBLEMS[name].count((truth, baseline), size, rng)
        found = AutoSPIBB().improve(counts, baseline=baseline, gamma=0.99).policy
        gain = evaluate(truth, found).performance - evaluate(truth, baseline).performance
        worse += gain < -1e-9
    assert worse <= 1


def test_an_order_that_was_seen_is_not_turned_round():
    """What a usual action pays is not given to a rare one, nor the other way round.

    Successors are alike whatever is done, so that surroundings count for much.
    """
    rng = np.random.default_rng(0)
    n_states = 12
    truth_pays = np.array([2.0, -4.0])
    baseline = TabularPolicy([[0.9, 0.1]] * n_states)
    state = rng.integers(n_states, size=3_000)
    action = (rng.random(3_000) < 0.1).astype(int)
    log = Log.from_arrays(
        state=state, action=action, reward=truth_pays[action], next_state=np.roll(state, -1),
        n_states=n_states, n_actions=2, terminated=np.zeros(3_000, bool),
    )  # fmt: skip
    problem = Problem.of(log, baseline=baseline, gamma=0.9)
    assert problem.prior.strength.min() >= 16.0
    reward = problem.expected.reward
    assert (reward[:, 0] > reward[:, 1] + 1.0).all()
