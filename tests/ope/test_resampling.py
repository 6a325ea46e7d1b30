"""Resamples of many episodes: drawn by counter, in threads, with what few episodes give."""

import numpy as np
import pytest

from spibb import Log, TabularPolicy, evaluate_policy
from spibb.ope import resampling
from spibb.ope.estimators import stepwise
from spibb.ope.estimators.weighted import WeightedMean
from spibb.ope.resampling import draw, resample, resampled_sums
from spibb.ope.statistics import Difference, Mean
from spibb.ope.trajectories import Trajectories


@pytest.mark.parametrize("n", [7, 1000, 1001])
def test_every_episode_is_drawn_alike(n):
    found = np.empty((400, n), np.int64)
    draw(np.uint64(3), np.arange(400), found)
    assert found.min() == 0
    assert found.max() == n - 1
    counts = np.bincount(found.ravel(), minlength=n)
    # A chi-square statistic of n - 1 degrees of freedom, within five standard deviations.
    chi = ((counts - 400) ** 2 / 400).sum()
    assert abs(chi - (n - 1)) < 5 * np.sqrt(2 * n)
    # Neighbours, which one number of 64 bits draws, have nothing to do with each other.
    left, right = found[:, 0 : n - 1 : 2].ravel(), found[:, 1::2].ravel()
    assert abs(np.corrcoef(left, right)[0, 1]) < 5 / np.sqrt(len(left))


def test_a_resample_is_its_number_s_whatever_else_is_drawn():
    some, one = np.empty((3, 50), np.int64), np.empty((1, 50), np.int64)
    draw(np.uint64(1), np.array([4, 9, 2]), some)
    draw(np.uint64(1), np.array([9]), one)
    assert np.array_equal(some[1], one[0])


@pytest.mark.parametrize("n", [5, 1024, 2600])
def test_slabs_are_drawn_as_all_would_be(n):
    """Every resample has n episodes, and each episode its share, whichever slab it is of."""
    n_resamples = 1003  # no multiple of what is drawn together
    times = resampled_sums(np.eye(n), n_resamples, np.uint64(5))
    assert (times.sum(axis=1) == n).all()
    assert (times == np.round(times)).all()
    # Of each episode, a binomial number: mean 1 and variance 1 - 1 / n.
    chi = (n_resamples * (times.mean(axis=0) - 1.0) ** 2 / (1.0 - 1.0 / n)).sum()
    assert abs(chi - (n - 1)) < 5 * np.sqrt(2 * n)
    assert abs(times.var() - (1.0 - 1.0 / n)) < 6 * np.sqrt(3 / times.size)
    # Two episodes of a slab, and of different ones, take from each other alike.
    for one, other in ((0, 1), (0, n - 1)):
        product = float(((times[:, one] - 1.0) * (times[:, other] - 1.0)).mean())
        assert abs(product + 1.0 / n) < 5 / np.sqrt(n_resamples)


def test_sums_of_a_resample_say_what_its_episodes_do(monkeypatch):
    """Every statistic of sums, and several at once, on the very resamples that were drawn."""
    monkeypatch.setattr(stepwise, "MANY_EPISODES", 1)
    rng = np.random.default_rng(3)
    n, n_resamples, seed = 1500, 7, np.uint64(8)
    weight, values, lengths = rng.gamma(2.0, size=n), rng.normal(size=n), rng.integers(4, 7, n)
    log = Log.from_arrays(
        state=np.zeros(lengths.sum(), int), action=np.zeros(lengths.sum(), int),
        reward=rng.normal(size=lengths.sum()), episode=np.repeat(np.arange(n), lengths),
    )  # fmt: skip
    steps = stepwise.StepwiseMean(
        Trajectories.from_log(log), rng.gamma(2.0, size=lengths.sum()), 0.9
    )
    ratio, mean = WeightedMean(weight, values), Mean(values)
    times = resampled_sums(np.eye(n), n_resamples, seed).astype(np.int64)
    indices = np.stack([np.repeat(np.arange(n), row) for row in times])
    for one in (mean, ratio, steps, Difference(ratio, mean), Difference(mean, steps)):
        found = one.of_sums(resampled_sums(one.columns, n_resamples, seed))
        np.testing.assert_allclose(found, one.resampled(indices), rtol=1e-12)
    monkeypatch.setattr(resampling, "MANY_EPISODES", 1)
    drawn = resample([mean, steps, ratio], n_resamples, np.random.default_rng(4))
    for one, values in zip((mean, steps, ratio), drawn, strict=True):
        alone = resample([one], n_resamples, np.random.default_rng(4))[0]
        np.testing.assert_allclose(values, alone, rtol=1e-12)


def test_steps_that_would_be_mostly_empty_are_not_laid_out(monkeypatch):
    monkeypatch.setattr(stepwise, "MANY_EPISODES", 1)
    lengths = np.array([1] * 30 + [40])
    log = Log.from_arrays(
        state=np.zeros(lengths.sum(), int), action=np.zeros(lengths.sum(), int),
        reward=np.ones(lengths.sum()), episode=np.repeat(np.arange(31), lengths),
    )  # fmt: skip
    steps = stepwise.StepwiseMean(Trajectories.from_log(log), np.ones(lengths.sum()), 0.9)
    assert steps.columns is None
    assert steps.estimate == pytest.approx((1 + sum(0.9**t for t in range(1, 40)) / 31), rel=1e-12)


def test_many_spread_as_few_do(monkeypatch):
    values = np.random.default_rng(0).exponential(size=500)
    plain = resample([Mean(values)], 4000, np.random.default_rng(1))[0]
    monkeypatch.setattr(resampling, "MANY_EPISODES", 1)
    many = resample([Mean(values)], 4000, np.random.default_rng(1))[0]
    again = resample([Mean(values)], 4000, np.random.default_rng(1))[0]
    monkeypatch.setenv("SPIBB_THREADS", "1")
    alone = resample([Mean(values)], 4000, np.random.default_rng(1))[0]
    assert np.array_equal(many, again)
    assert np.array_equal(many, alone)
    error = values.std() / np.sqrt(len(values))
    assert abs(many.mean() - plain.mean()) < 5 * error * np.sqrt(2 / 4000)
    assert many.std() == pytest.approx(plain.std(), rel=0.1)


def test_every_interval_of_many_is_that_of_few(monkeypatch):
    """With the counter in place of the generator, and full tables in place of sparse ones."""
    rng = np.random.default_rng(2)
    n, lengths = 600, rng.integers(3, 6, 600)
    log = Log.from_arrays(
        state=rng.integers(0, 3, lengths.sum()), action=rng.integers(0, 2, lengths.sum()),
        reward=rng.normal(size=lengths.sum()), episode=np.repeat(np.arange(n), lengths),
    )  # fmt: skip
    asked = {
        "policy": TabularPolicy([[0.6, 0.4], [0.3, 0.7], [0.5, 0.5]]), "gamma": 0.9,
        "baseline": TabularPolicy(np.full((3, 2), 0.5)), "reward_range": (-5.0, 5.0),
        "estimators": ["is", "pdis", "wis", "cwpdis"],
    }  # fmt: skip
    few = evaluate_policy(log, **asked)
    for place in (resampling, stepwise):
        monkeypatch.setattr(place, "MANY_EPISODES", 1)
    many = evaluate_policy(log, **asked)
    for one, other in zip(few.estimates, many.estimates, strict=True):
        assert one.estimate == pytest.approx(other.estimate, rel=1e-12)
        width = one.interval[1] - one.interval[0]
        assert np.allclose(one.interval, other.interval, atol=0.15 * width)
