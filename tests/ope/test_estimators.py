"""Estimators: equal to plain loops on ragged logs, and to the truth by enumeration."""

import itertools

import numpy as np
import pytest

from spibb import Counts, Log, TabularMDP, TabularPolicy, evaluate
from spibb.algorithms.hcpi_candidates import Critic
from spibb.errors import DataError, PolicyError, SettingsError
from spibb.mdp.evaluation import evaluate_batch
from spibb.ope.estimators import ESTIMATORS
from spibb.ope.estimators.doubly_robust import N_FOLDS
from spibb.ope.estimators.model_based import ModelValue
from spibb.ope.estimators.stepwise import StepwiseMean
from spibb.ope.estimators.weighted import WeightedMean
from spibb.ope.fitted import fit_models
from spibb.ope.off_policy import OffPolicy
from spibb.ope.split import Split, all_but_one
from spibb.ope.statistics import Difference, Mean
from spibb.ope.trajectories import Trajectories
from spibb.ope.weights import effective_sample_size, walk
from spibb.testing import reference, reference_ope
from spibb.testing.checks import random_problem

GAMMA = 0.9


def ragged_log(seed, n_states=4, n_actions=3, n_episodes=15):
    """Random rows in episodes of 1 to 9 steps: some truncated, some of unknown next state."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 10, n_episodes)
    episode = np.repeat(rng.permutation(1000)[:n_episodes], lengths)
    is_last = np.append(episode[1:] != episode[:-1], True)
    state = rng.integers(0, n_states, len(episode))
    cut = is_last & (rng.random(len(episode)) < 0.3)
    following = np.append(state[1:], 0)
    next_state = np.where(is_last, rng.integers(-1, n_states, len(episode)), following)
    return Log.from_arrays(
        state=state,
        action=rng.integers(0, n_actions, len(episode)),
        reward=rng.normal(size=len(episode)),
        next_state=next_state,
        terminated=is_last & ~cut,
        truncated=cut,
        episode=episode,
        n_states=n_states,
        n_actions=n_actions,
    )


def two_policies(seed, n_states=4, n_actions=3):
    rng = np.random.default_rng(seed + 1000)
    baseline = rng.dirichlet(np.ones(n_actions), n_states) * 0.9 + 0.1 / n_actions
    policy = rng.dirichlet(np.ones(n_actions), n_states)
    policy[0] = np.eye(n_actions)[1]
    return policy, baseline


def off_policy(seed, gamma=GAMMA, **sizes):
    log = ragged_log(seed, **sizes)
    return log, OffPolicy(Trajectories.from_log(log), *two_policies(seed), gamma)


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_terms_equal_the_loops(seed, gamma):
    log, off = off_policy(seed, gamma)
    episodes = reference_ope.episodes_of(log)
    rng = np.random.default_rng(0)
    asked = (episodes, off.policy, off.baseline, gamma)
    np.testing.assert_allclose(
        off.statistic("is", rng).terms, reference_ope.importance_sampling(*asked), atol=1e-12
    )
    np.testing.assert_allclose(
        off.statistic("pdis", rng).terms, reference_ope.per_decision(*asked), atol=1e-12
    )
    assert off.statistic("wis", rng).estimate == pytest.approx(reference_ope.weighted(*asked))
    assert off.statistic("cwpdis", rng).estimate == pytest.approx(
        reference_ope.stepwise_weighted(*asked)
    )


@pytest.mark.parametrize("seed", range(8))
def test_doubly_robust_equals_the_loop_and_does_not_know_its_episode(seed):
    log, off = off_policy(seed)
    episodes = reference_ope.episodes_of(log)
    terms = ESTIMATORS["dr"].statistic(off, np.random.default_rng(3)).terms
    shuffled = np.random.default_rng(3).permutation(off.episodes.everything)
    folds = np.array_split(shuffled, N_FOLDS)
    assert sorted(np.concatenate(folds)) == list(range(len(episodes)))
    for fold in folds:
        others = [episode for i, episode in enumerate(episodes) if i not in fold]
        p, r, _ = reference_ope.model_of(reference_ope.recorded(others), *off.policy.shape)
        v, q = reference.evaluate(p, r, GAMMA, off.policy)
        expected = reference_ope.doubly_robust(
            [episodes[i] for i in fold], off.policy, off.baseline, GAMMA, q, v
        )
        np.testing.assert_allclose(terms[fold], expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_model_value_equals_the_loop_and_the_counts(seed):
    log, off = off_policy(seed)
    found = ModelValue(off)
    loop = reference_ope.model_value(reference_ope.episodes_of(log), off.policy, GAMMA)
    assert found.estimate == pytest.approx(loop)
    counted = evaluate(Counts.from_log(log).to_mdp(GAMMA), off.policy).performance
    assert found.estimate == pytest.approx(counted)


def test_models_of_choices_equal_counts():
    log = ragged_log(1)
    episodes = Trajectories.from_log(log)
    some = np.array([0, 3, 3, 7])
    batch = fit_models([(episodes, some), (episodes, episodes.everything)], GAMMA).models
    loops = reference_ope.episodes_of(log)
    p, r, _ = reference_ope.model_of([loops[i] for i in some], 4, 3)
    dense = np.zeros((12, 4))
    for pair in range(12):
        for k in range(batch.indptr[pair], batch.indptr[pair + 1]):
            dense[pair, batch.indices[k]] += batch.data[k]
    np.testing.assert_allclose(dense.reshape(4, 3, 4), p, atol=1e-12)
    np.testing.assert_allclose(batch.reward[0], r, atol=1e-12)
    np.testing.assert_allclose(batch.ending[0], 1 - p.sum(axis=2), atol=1e-12)
    whole = Counts.from_log(log).estimate(GAMMA)
    np.testing.assert_allclose(batch.reward[1], whole.reward, atol=1e-12)
    np.testing.assert_allclose(batch.initial[1], whole.initial, atol=1e-12)


def test_critic_values_many_policies_as_it_does_one():
    episodes = Trajectories.from_log(ragged_log(1))
    splits = [Split(episodes, (part,), part[:0]) for part in np.split(episodes.everything, 3)]
    models = fit_models([(episodes, split.train) for split in splits], GAMMA)
    policies = np.random.default_rng(3).dirichlet(np.ones(3), (3, 2, 4))
    critic = Critic.of(models, splits, policies[:, 0].copy(), 1.0)
    both = critic.q(policies)
    for c in range(2):
        np.testing.assert_array_equal(both[:, c], critic.q(policies[:, c].copy()))


@pytest.mark.parametrize("sizes", [(4, 3), (160, 12)], ids=["small", "large"])
@pytest.mark.parametrize("n_folds", [2, 3, 5])
def test_models_of_training_sets_equal_the_loops(n_folds, sizes):
    """However many states there are, and in whatever order the episodes come."""
    log = ragged_log(2, *sizes)
    episodes = Trajectories.from_log(log)
    folds = np.array_split(np.random.default_rng(0).permutation(len(episodes)), n_folds)
    unions = [*all_but_one(range(n_folds)), list(range(n_folds))]
    sets = [np.concatenate([folds[k] for k in union]) for union in unions]
    fitted = fit_models([(episodes, part) for part in folds], GAMMA, unions=unions)
    again = fit_models([(episodes, part) for part in sets], GAMMA)
    np.testing.assert_array_equal(fitted.models.indices, again.models.indices)
    np.testing.assert_allclose(fitted.models.data, again.models.data)
    np.testing.assert_allclose(fitted.models.reward, again.models.reward)
    policies = np.broadcast_to(two_policies(2, *sizes)[1], fitted.models.shape).copy()
    v, _, _ = evaluate_batch(fitted.models, policies)
    loops = reference_ope.episodes_of(log)
    for k, part in enumerate(sets):
        p, r, _ = reference_ope.model_of([loops[i] for i in part], *sizes)
        expected, _ = reference.evaluate(p, r, GAMMA, policies[k])
        np.testing.assert_allclose(v[k], expected, atol=1e-9)
        np.testing.assert_allclose(fitted.models.ending[k], 1 - p.sum(axis=2), atol=1e-12)
    counted = Counts.from_log(log)
    np.testing.assert_allclose(fitted.n_sa[-1], counted.n_sa)
    np.testing.assert_allclose(fitted.models.initial[-1], counted.initial)
    np.testing.assert_allclose(fitted.n_sa[:-1].sum(axis=0), (n_folds - 1) * counted.n_sa)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["is", "pdis", "wis", "cwpdis"])
def test_resamples_and_jackknife_equal_the_loops(seed, name):
    log, off = off_policy(seed, n_episodes=9)
    loops = {
        "is": lambda e: np.mean(reference_ope.importance_sampling(e, *rest)),
        "pdis": lambda e: np.mean(reference_ope.per_decision(e, *rest)),
        "wis": lambda e: reference_ope.weighted(e, *rest),
        "cwpdis": lambda e: reference_ope.stepwise_weighted(e, *rest),
    }
    rest = (off.policy, off.baseline, GAMMA)
    episodes = reference_ope.episodes_of(log)
    statistic = off.statistic(name, np.random.default_rng(0))
    indices = np.random.default_rng(seed).integers(0, 9, (20, 9))
    slow = [loops[name]([episodes[i] for i in row]) for row in indices]
    np.testing.assert_allclose(statistic.resampled(indices), slow, atol=1e-12)
    without = np.array(
        [loops[name]([e for k, e in enumerate(episodes) if k != i]) for i in range(9)]
    )
    np.testing.assert_allclose(statistic.jackknife(), without.mean() - without, atol=1e-10)


def test_jackknife_where_one_episode_has_nearly_all_weight():
    weight = np.array([1e12, 1.0, 2.0, 1.0])
    values = np.array([5.0, 1.0, 2.0, 4.0])
    statistic = WeightedMean(weight, values)
    without = np.array(
        [np.delete(weight * values, i).sum() / np.delete(weight, i).sum() for i in range(4)]
    )
    np.testing.assert_allclose(statistic.jackknife(), without.mean() - without, rtol=1e-12)
    log = Log.from_arrays(
        state=[0] * 4, action=[0] * 4, reward=values, episode=[0, 1, 2, 3], terminated=[True] * 4
    )
    steps = StepwiseMean(Trajectories.from_log(log), weight, GAMMA)
    np.testing.assert_allclose(steps.jackknife(), without.mean() - without, rtol=1e-12)


def test_model_jackknife_is_the_derivative():
    _, _, log = random_problem(5, n_episodes=60)
    off = OffPolicy(Trajectories.from_log(log), *two_policies(5, 6, 3), GAMMA)
    statistic = ModelValue(off)
    # Weight an episode up by one part in 400, by listing all of them 400 times and it once more.
    many = np.repeat(off.episodes.everything, 400)
    step = 1 / 400
    for i in (0, 11, 42):
        moved = statistic.resampled(np.append(many, i)[None])[0] - statistic.estimate
        slope = len(statistic) * moved / step
        assert statistic.jackknife()[i] * (len(statistic) - 1) == pytest.approx(slope, rel=2e-2)


def all_episodes(mdp, baseline, horizon):
    """Every trajectory of at most ``horizon`` steps with its probability under the baseline."""
    found = []

    def grow(x, steps, probability):
        if len(steps) == horizon:
            found.append((steps, probability))
            return
        for a, successor in itertools.product(range(mdp.n_actions), range(mdp.n_states)):
            p = probability * baseline[x, a] * mdp.dense[x, a, successor]
            if p > 0:
                done = bool(mdp.terminal[successor])
                longer = [*steps, (x, a, mdp.reward[x, a], successor, done)]
                if done:
                    found.append((longer, p))
                else:
                    grow(successor, longer, p)

    for x in range(mdp.n_states):
        if mdp.initial[x] > 0:
            grow(x, [], mdp.initial[x])
    return found


def log_of(episodes, n_states, n_actions):
    rows = [(i, *step) for i, episode in enumerate(episodes) for step in episode]
    number, x, a, r, successor, done = (list(column) for column in zip(*rows, strict=True))
    return Log.from_arrays(
        state=x, action=a, reward=r, next_state=successor, terminated=done, episode=number,
        n_states=n_states, n_actions=n_actions,
    )  # fmt: skip


@pytest.fixture(scope="module")
def tiny():
    """A problem of two live states whose trajectories of up to five steps can be listed."""
    transition = np.zeros((3, 2, 3))
    transition[0, 0], transition[0, 1] = [0.2, 0.5, 0.3], [0.0, 0.6, 0.4]
    transition[1, 0], transition[1, 1] = [0.5, 0.0, 0.5], [0.1, 0.3, 0.6]
    mdp = TabularMDP(
        transition, [[1.0, -2.0], [0.5, 3.0], [0, 0]], GAMMA, [0.7, 0.3, 0], [False, False, True]
    )
    baseline = np.array([[0.6, 0.4], [0.3, 0.7], [0.5, 0.5]])
    policy = np.array([[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]])
    horizon = 5
    listed = all_episodes(mdp, baseline, horizon)
    episodes, probability = zip(*listed, strict=True)
    assert sum(probability) == pytest.approx(1.0)
    # The value of the first five steps, by five Bellman backups.
    v = np.zeros(3)
    for _ in range(horizon):
        q = mdp.reward + GAMMA * mdp.dense @ v
        v = (policy * q).sum(axis=1) * ~mdp.terminal
    log = log_of(episodes, 3, 2)
    off = OffPolicy(Trajectories.from_log(log), policy, baseline, GAMMA)
    return off, np.array(probability), float(mdp.initial @ v), mdp


@pytest.mark.parametrize("name", ["is", "pdis"])
def test_expectation_over_all_trajectories_is_the_truth(tiny, name):
    off, probability, truth, _ = tiny
    assert probability @ off.statistic(name, None).terms == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_doubly_robust_is_unbiased_whatever_q_says(tiny, seed):
    off, probability, truth, _ = tiny
    rng = np.random.default_rng(seed)
    tables = off.tables(rng.normal(size=(3, 2)) * 5)
    found = walk(off.episodes, [(off.episodes.everything, tables)], GAMMA)
    assert probability @ found.value[:, 0] == pytest.approx(truth, abs=1e-12)


def test_mean_weights_are_one(tiny):
    off, probability, _, _ = tiny
    assert probability @ off.plain.weight[:, 0] == pytest.approx(1.0, abs=1e-12)
    assert probability @ off.plain.spread[:, 0] == pytest.approx(1.0, abs=1e-12)


def test_spread_weight_is_the_discounted_mean_of_weights(tiny):
    off, _, _, _ = tiny
    running = off.plain.running[:, 0]
    for i in (0, 10, 200):
        rows = slice(off.episodes.start[i], off.episodes.start[i + 1])
        w = running[rows]
        steps = np.arange(len(w))
        expected = (1 - GAMMA) * (GAMMA**steps * w).sum() + GAMMA ** len(w) * w[-1]
        assert off.plain.spread[i, 0] == pytest.approx(expected)


def test_weighted_estimates_and_the_model_approach_the_truth():
    """With every trajectory as often as its probability says, consistent estimates are exact."""
    transition = np.zeros((2, 2, 2))
    transition[0, 0], transition[0, 1] = [0.5, 0.5], [0.25, 0.75]
    mdp = TabularMDP(transition, [[1.0, 2.0], [0, 0]], 0.5, [1.0, 0.0], [False, True])
    baseline, policy = np.array([[0.5, 0.5]] * 2), np.array([[0.25, 0.75]] * 2)
    listed = all_episodes(mdp, baseline, 3)
    times = [round(p * 512) for _, p in listed]
    assert sum(times) == 512
    episodes = [episode for (episode, _), k in zip(listed, times, strict=True) for _ in range(k)]
    off = OffPolicy(Trajectories.from_log(log_of(episodes, 2, 2)), policy, baseline, 0.5)
    v = 0.0
    for _ in range(3):
        v = 0.25 * (1 + 0.5 * 0.5 * v) + 0.75 * (2 + 0.5 * 0.25 * v)
    for name in ("is", "pdis", "wis", "cwpdis"):
        assert off.statistic(name, None).estimate == pytest.approx(v, abs=1e-12), name
    whole = evaluate(mdp, policy).performance
    assert off.statistic("model", None).estimate == pytest.approx(whole, abs=1e-12)


def test_discount_stays_in_the_stepwise_estimate():
    """The released CWPDIS cancels it: one episode of rewards 1, 1 is worth 1 + gamma."""
    log = Log.from_arrays(state=[0, 0], action=[0, 0], reward=[1.0, 1.0], episode=[0, 0])
    off = OffPolicy(Trajectories.from_log(log), np.ones((1, 1)), np.ones((1, 1)), 0.5)
    assert off.statistic("cwpdis", None).estimate == 1.5


def test_ended_episodes_stay_in_the_denominator():
    """Half of the episodes earn a second reward: the second step is worth half of it."""
    log = Log.from_arrays(state=[0] * 3, action=[0] * 3, reward=[0.0, 1.0, 0.0], episode=[0, 0, 1])
    off = OffPolicy(Trajectories.from_log(log), np.ones((1, 1)), np.ones((1, 1)), 0.5)
    assert off.statistic("cwpdis", None).estimate == 0.25


@pytest.mark.parametrize("name", ["is", "pdis", "wis", "cwpdis"])
def test_the_baseline_itself_has_weights_one_and_the_mean_return(name):
    _, baseline, log = random_problem(2)
    b = baseline.probabilities
    off = OffPolicy(Trajectories.from_log(log), b, b, GAMMA)
    np.testing.assert_allclose(off.plain.weight, 1.0)
    np.testing.assert_allclose(off.plain.spread, 1.0)
    mean = off.episodes.returns(GAMMA).mean()
    assert off.statistic(name, None).estimate == pytest.approx(mean, abs=1e-12)


def test_weighted_importance_sampling_uses_its_weights():
    """The released list mode returns plain returns, whatever the policy."""
    log = Log.from_arrays(state=[0, 0], action=[0, 1], reward=[0.0, 1.0], episode=[0, 1])
    half = np.array([[0.5, 0.5]])
    for share in (0.1, 0.5, 0.9):
        off = OffPolicy(Trajectories.from_log(log), np.array([[1 - share, share]]), half, 0.9)
        assert off.statistic("wis", None).estimate == pytest.approx(share)


def test_doubly_robust_differs_from_per_decision_and_varies_less():
    """Where the model is right, the weights only carry what it did not foresee."""
    mdp, baseline, _ = random_problem(4)
    rng = np.random.default_rng(0)
    policy = 0.5 * baseline.probabilities + 0.5 * rng.dirichlet(np.ones(3), 6)
    log = Log.sample(mdp, baseline, n_episodes=400, max_steps=40, rng=rng)
    off = OffPolicy(Trajectories.from_log(log), policy, baseline.probabilities, GAMMA)
    dr, pdis = (off.statistic(name, rng).terms for name in ("dr", "pdis"))
    assert np.abs(dr - pdis).min() > 0
    assert dr.var() < 0.5 * pdis.var()
    # Values below 1 are kept: the released code rounds Q and V down to integers.
    small = OffPolicy(
        Trajectories.from_log(log_scaled(log, 0.01)), policy, baseline.probabilities, GAMMA
    )
    np.testing.assert_allclose(
        small.statistic("dr", np.random.default_rng(9)).terms,
        0.01 * off.statistic("dr", np.random.default_rng(9)).terms,
        atol=1e-9,
    )


def log_scaled(log, factor):
    return Log.from_arrays(
        state=log.state, action=log.action, reward=factor * log.reward, next_state=log.next_state,
        terminated=log.terminated, truncated=log.truncated, episode=log.episode,
        n_states=log.n_states, n_actions=log.n_actions,
    )  # fmt: skip


def test_a_log_needs_episodes():
    log = Log.from_arrays(state=[0], action=[0], reward=[1.0], next_state=[0])
    with pytest.raises(DataError, match=r"no episodes.*column 'episode'"):
        Trajectories.from_log(log)
    with pytest.raises(DataError, match="only counts"):
        Trajectories.from_log(None)


def test_propensity_zero_is_refused_with_the_number_of_rows():
    log = Log.from_arrays(
        state=[0, 1, 1], action=[0, 1, 1], reward=[0.0] * 3, episode=[0, 0, 1], n_actions=2
    )
    baseline = TabularPolicy([[0.5, 0.5], [1.0, 0.0]], ["a", "b"], ["go", "stay"])
    with pytest.raises(
        PolicyError, match=r"2 rows of the log \(first at state b, action stay.*estim"
    ):
        Trajectories.from_log(log).check_propensities(baseline)


def test_rows_after_an_end_are_left_out_and_gaps_are_counted():
    log = Log.from_arrays(
        state=[0, 1, 2, 0, 2], action=[0] * 5, reward=[1.0, 2.0, 4.0, 8.0, 16.0],
        next_state=[1, 2, 0, 1, 0], terminated=[False, True, False, False, True],
        episode=[0, 0, 0, 1, 1],
    )  # fmt: skip
    episodes = Trajectories.from_log(log)
    assert episodes.start.tolist() == [0, 2, 4]
    assert episodes.n_after_end == 1
    assert episodes.returns(1.0).tolist() == [3.0, 24.0]
    assert log.is_gap.tolist() == [False, False, False, True, False]
    assert [len(e) for e in reference_ope.episodes_of(log)] == [2, 2]
    assert not episodes.is_cut.any()


def test_overflowing_weights_are_refused():
    n = 400
    log = Log.from_arrays(state=[0] * n, action=[1] * n, reward=[0.0] * n, episode=[0] * n)
    policy, baseline = np.array([[0.0, 1.0]]), np.array([[0.99, 0.01]])
    off = OffPolicy(Trajectories.from_log(log), policy, baseline, GAMMA)
    with pytest.raises(PolicyError, match="beyond all numbers"):
        off.statistic("is", None)


def test_unknown_estimator_suggests_one():
    _, off = off_policy(0)
    with pytest.raises(SettingsError, match=r"'pdiss'.*use 'pdis'"):
        off.statistic("pdiss", None)
    assert set(ESTIMATORS) == {"is", "pdis", "wis", "cwpdis", "dr", "model"}


def test_estimates_without_weight_are_none():
    log = Log.from_arrays(state=[0, 0], action=[0, 0], reward=[1.0, 2.0], episode=[0, 1],
                          n_actions=2)  # fmt: skip
    policy, baseline = np.array([[0.0, 1.0]]), np.array([[0.5, 0.5]])
    off = OffPolicy(Trajectories.from_log(log), policy, baseline, GAMMA)
    assert off.statistic("is", None).estimate == 0.0
    assert np.isnan(off.statistic("wis", None).estimate)
    assert np.isnan(off.statistic("cwpdis", None).estimate)
    assert effective_sample_size(off.plain.weight[:, 0]) == 0.0


def test_differences_are_paired():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 10))
    paired = Difference(Mean(x), Mean(y))
    assert paired.estimate == pytest.approx((x - y).mean())
    indices = rng.integers(0, 10, (5, 10))
    np.testing.assert_allclose(paired.resampled(indices), (x - y)[indices].mean(axis=1))
    np.testing.assert_allclose(paired.jackknife(), Mean(x - y).jackknife())
    mixed = Difference(WeightedMean(np.ones(10), x), Mean(y))
    assert len(mixed) == 10
    with pytest.raises(NotImplementedError, match="no mean of terms"):
        _ = mixed.terms
