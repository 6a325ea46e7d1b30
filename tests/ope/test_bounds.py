"""Bounds: equal to the printed formulas, to scipy's BCa, and silent where nothing can be said."""

import math

import numpy as np
import pytest
import scipy.stats

from spibb import HCPI, Log, TabularPolicy
from spibb.errors import DataError, SettingsError
from spibb.ope import bounds, evaluate_policy
from spibb.ope.confidence import BOUNDS
from spibb.ope.estimators import ESTIMATORS
from spibb.ope.estimators.weighted import WeightedMean
from spibb.ope.return_range import ReturnRange, checked_range
from spibb.ope.statistics import Mean
from spibb.ope.trajectories import Trajectories
from spibb.ope.weights import ImportanceWeights
from spibb.problem.ranges import ValueRange
from spibb.testing import reference_ope


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.5])
def test_student_t_equals_the_loop(seed, delta):
    terms = np.random.default_rng(seed).exponential(size=17)
    expected = reference_ope.student_t(terms.tolist(), delta)
    np.testing.assert_allclose(bounds.student_t(terms, delta), expected, rtol=1e-10)


def test_student_t_divides_by_the_root_of_n():
    """The released code divides by sqrt(n - 1), and runs at delta = 0.9: above the mean."""
    terms = np.array([1.0, 2.0, 3.0, 4.0])
    lower, upper = bounds.student_t(terms, 0.05)
    half = terms.std(ddof=1) / 2 * scipy.stats.t.ppf(0.95, 3)
    assert lower == pytest.approx(2.5 - half)
    assert upper == pytest.approx(2.5 + half)
    assert bounds.student_t(terms, 0.9)[0] > 2.5


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("threshold", [0.3, 1.0, 10.0])
def test_concentration_equals_the_printed_formula(seed, threshold):
    terms = np.random.default_rng(seed).exponential(size=40)
    expected = reference_ope.concentration(terms.tolist(), threshold, 0.1)
    assert bounds.thresholded_bound(terms, threshold, 0.1) == pytest.approx(expected)


def test_the_released_concentration_is_far_off():
    """Its figure for 240 returns in [0, 1] at delta = 0.9 is -17122 (FIELD.md 1.3, no. 16)."""
    terms = np.random.default_rng(0).binomial(1, 0.4, 240).astype(float)
    bound = bounds.thresholded_bound(terms, 1.0, 0.9)
    assert 0.25 < bound < terms.mean()


def test_the_threshold_is_the_best_prediction():
    rng = np.random.default_rng(1)
    terms = rng.lognormal(sigma=1.5, size=60)
    chosen, best = bounds.best_threshold(terms, 500, 0.05)

    def predicted(c):
        cut = np.minimum(terms, c)
        log_term = math.log(2 / 0.05)
        loss = 7 * c * log_term / (3 * 499) + math.sqrt(2 * cut.var(ddof=1) * log_term / 500)
        return cut.mean() - loss

    assert predicted(chosen) == pytest.approx(max(predicted(c) for c in terms))
    assert best == pytest.approx(predicted(chosen))
    assert predicted(chosen) >= max(predicted(c) for c in np.linspace(0.01, 20, 500)) - 1e-2


def test_the_threshold_does_not_look_at_the_tested_terms():
    """Changing the tested terms, and not those that choose, leaves the threshold as it was."""
    terms = np.random.default_rng(2).exponential(size=200)
    order = np.random.default_rng(7).permutation(200)
    chosen, _ = bounds.best_threshold(terms[order[:10]], 190, 0.05)
    lower = bounds.concentration(terms, 0.05, np.random.default_rng(7))
    expected = bounds.thresholded_bound(terms[order[10:]], chosen, 0.05)
    assert lower == pytest.approx(max(0.0, expected))


def test_concentration_needs_terms_that_are_not_negative():
    with pytest.raises(DataError, match=r"1 of 4 terms are negative \(first at episode 2\)"):
        bounds.concentration([1.0, -0.5, 2.0, 0.0], 0.05, np.random.default_rng(0))


def test_concentration_is_never_below_what_is_known():
    assert bounds.concentration(np.zeros(10), 0.05, np.random.default_rng(0)) == 0.0
    assert bounds.concentration([0.1, 5.0, 0.2], 0.05, np.random.default_rng(0)) == 0.0


def weighted_mean(weight, values, axis=-1):
    return (weight * values).sum(axis=axis) / weight.sum(axis=axis)


@pytest.mark.parametrize("delta", [0.025, 0.05, 0.2])
@pytest.mark.parametrize("kind", ["mean", "weighted"])
def test_bca_agrees_with_scipy_on_the_same_resamples(kind, delta):
    rng = np.random.default_rng(3)
    values, weight = rng.exponential(size=60), rng.lognormal(size=60)
    if kind == "mean":
        data, statistic, function = (values,), Mean(values), np.mean
    else:
        data, statistic, function = (weight, values), WeightedMean(weight, values), weighted_mean
    theirs = scipy.stats.bootstrap(
        data, function, paired=True, vectorized=True, n_resamples=2_000,
        confidence_level=1 - 2 * delta, method="BCa", rng=np.random.default_rng(11),
    )  # fmt: skip
    ours = bounds.bca(statistic, delta, np.random.default_rng(11))
    replicates = bounds.resample([statistic], 2_000, np.random.default_rng(11))[0]
    np.testing.assert_allclose(replicates, theirs.bootstrap_distribution, rtol=1e-10)
    np.testing.assert_allclose(ours, theirs.confidence_interval, rtol=1e-9)


def test_bca_agrees_with_scipy_where_replicates_tie():
    values = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 3.0, 0.0, 1.0])
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=2_000, confidence_level=0.9, method="BCa",
        rng=np.random.default_rng(5),
    )  # fmt: skip
    ours = bounds.bca(Mean(values), 0.05, np.random.default_rng(5))
    np.testing.assert_allclose(ours, theirs.confidence_interval, rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_bca_equals_the_loop(seed):
    rng = np.random.default_rng(seed)
    values, weight = rng.normal(size=12), rng.exponential(size=12)
    indices = np.random.default_rng(seed).integers(0, 12, (2_000, 12))

    def slow(rows):
        return sum(weight[i] * values[i] for i in rows) / sum(weight[i] for i in rows)

    statistic = WeightedMean(weight, values)
    ours = bounds.bca_ends(
        statistic.estimate, statistic.resampled(indices), statistic.jackknife(), 0.1
    )
    np.testing.assert_allclose(ours, reference_ope.bca(slow, indices, 12, 0.1), rtol=1e-8)


def test_the_sign_of_the_acceleration_matters():
    """Right-skewed terms: BCa moves both ends to the right of the plain percentiles."""
    values = np.random.default_rng(4).lognormal(sigma=1.2, size=80)
    statistic = Mean(values)
    lower, upper = bounds.bca(statistic, 0.05, np.random.default_rng(0))
    replicates = bounds.resample([statistic], 2_000, np.random.default_rng(0))[0]
    assert lower > np.quantile(replicates, 0.05)
    assert upper > np.quantile(replicates, 0.95)


def test_no_bound_where_nothing_varies():
    same = np.full(10, 3.0)
    assert bounds.student_t(same, 0.05) == bounds.NO_BOUND
    assert bounds.bca(Mean(same), 0.05, np.random.default_rng(0)) == bounds.NO_BOUND
    nearly = same + 1e-15 * np.arange(10)
    assert bounds.student_t(nearly, 0.05) == bounds.NO_BOUND


def test_an_infinite_z0_gives_no_bound():
    replicates = np.linspace(1.0, 2.0, 2_000)
    jackknife = np.array([-1.0, 0.5, 0.5])
    assert bounds.bca_ends(0.5, replicates, jackknife, 0.05) == bounds.NO_BOUND
    assert bounds.bca_ends(2.5, replicates, jackknife, 0.05) == bounds.NO_BOUND


def test_beyond_its_pole_bca_gives_no_bound():
    replicates = np.linspace(0.0, 1.0, 2_000)
    skewed = np.append(np.full(3, -1e-3), 1.0)
    # The acceleration is near 1/6, and 1 - a (z0 + z) vanishes at z = 6 or so.
    lower, upper = bounds.bca_ends(0.5, replicates, skewed, 1e-12)
    assert lower >= 0.0
    assert upper == math.inf


def test_resamples_without_weight_give_no_bound():
    weight = np.array([1.0, 0.0, 0.0])
    statistic = WeightedMean(weight, np.arange(3.0))
    assert bounds.bca(statistic, 0.05, np.random.default_rng(0)) == bounds.NO_BOUND
    nothing = WeightedMean(np.zeros(3), np.arange(3.0))
    assert bounds.bca(nothing, 0.05, np.random.default_rng(0)) == bounds.NO_BOUND


def test_more_resamples_for_smaller_levels():
    """Some replicates must lie beyond the quantile: 2,000 do not reach one in 10,000."""

    class Counting(Mean):
        def resampled(self, indices):
            drawn.append(len(indices))
            return super().resampled(indices)

    drawn: list[int] = []
    bounds.bca(Counting(np.arange(9.0)), 1e-4, np.random.default_rng(0))
    assert sum(drawn) == 200_000


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_levels_outside_of_zero_and_one_are_refused(delta):
    for bound in (
        lambda: bounds.student_t([1.0, 2.0], delta),
        lambda: bounds.bca(Mean(np.arange(5.0)), delta, np.random.default_rng(0)),
        lambda: bounds.concentration(np.arange(5.0), delta, np.random.default_rng(0)),
    ):
        with pytest.raises(SettingsError, match=r"a level in \(0, 1\)"):
            bound()


def test_too_few_terms_are_refused():
    with pytest.raises(DataError, match="at least 2"):
        bounds.student_t([1.0], 0.05)
    with pytest.raises(DataError, match="at least 3"):
        bounds.concentration([1.0, 2.0], 0.05, np.random.default_rng(0))
    with pytest.raises(DataError, match="at least two"):
        bounds.bca(Mean(np.ones(1)), 0.05, np.random.default_rng(0))


def some_walk(n=50, gamma=0.9, seed=0):
    """Terms of one-step episodes: rewards in [0, 1], weights of mean 1."""
    rng = np.random.default_rng(seed)
    weight, gain = rng.exponential(size=(n, 1)), rng.random(n)
    log = Log.from_arrays(state=[0] * n, action=[0] * n, reward=gain, episode=range(n))
    episodes = Trajectories.from_log(log)
    parts = [(episodes.everything, None)]
    return ImportanceWeights(episodes, parts, gamma, weight * gain[:, None], weight, weight, gain)


def test_one_sided_terms_say_the_same_of_the_mean():
    found = some_walk()
    weight = found.weight[:, 0]
    for low, high in ((0.0, 1.0), (-3.0, 2.0)):
        for name in ("is", "pdis"):
            below, above = ESTIMATORS[name].about(found, low), ESTIMATORS[name].about(-found, -high)
            plain = (weight * found.gain).mean()
            assert low + below.mean() == pytest.approx(plain + (1 - weight.mean()) * low)
            assert high - above.mean() == pytest.approx(plain + (1 - weight.mean()) * high)
            # No episode is cut: they are never negative as they are.
            np.testing.assert_allclose(ESTIMATORS[name].above(found, low), below)
            np.testing.assert_allclose(ESTIMATORS[name].above(-found, -high), above)


def test_bca_has_no_scale():
    """Weights of long episodes are tiny: their squares must not vanish."""
    terms = np.random.default_rng(0).exponential(size=40)
    here = bounds.bca(Mean(terms), 0.05, np.random.default_rng(1))
    for scale in (1e-200, 1e-300, 1e200):
        there = bounds.bca(Mean(scale * terms), 0.05, np.random.default_rng(1))
        assert there == pytest.approx([scale * end for end in here], rel=1e-9)


def test_range_of_returns():
    rewards = ValueRange(-1.0, 2.0, 0.9, is_observed=True)
    implied = ReturnRange.of(rewards, None, np.zeros(3))
    assert (implied.low, implied.high) == pytest.approx((-10.0, 20.0))
    assert "observed" in implied.statement(ESTIMATORS["is"])
    given = ReturnRange.of(rewards, (0.0, 1.0), np.array([0.2, 0.9]))
    assert (given.low, given.high, given.is_given) == (0.0, 1.0, True)
    assert (
        given.statement(ESTIMATORS["is"]) == "Returns, from any step on, lie in [0, 1], as given."
    )
    assert (
        given.statement(ESTIMATORS["pdis"])
        == "Rewards lie in [-1, 2], as observed in the log, not given."
    )
    with pytest.raises(SettingsError, match=r"returns from 0.2 to 1.9.*widen return_range"):
        ReturnRange.of(rewards, (0.0, 1.0), np.array([0.2, 1.9]))
    with pytest.raises(SettingsError, match="gamma is 1"):
        ReturnRange.of(ValueRange(0.0, 1.0, 1.0, is_observed=True), None, np.zeros(3))
    for bad in ((1.0, 0.0), (0.0, np.inf), "ab", None):
        with pytest.raises(SettingsError, match=r"return_range is.*\(low, high\), finite"):
            checked_range(bad)


def test_who_may_not_use_the_concentration_inequality():
    for name in ("dr", "wis", "cwpdis", "model"):
        with pytest.raises(SettingsError, match=f"does not hold for '{name}'"):
            BOUNDS["concentration"].check(ESTIMATORS[name])
        with pytest.raises(SettingsError, match=f"'betting' does not hold for '{name}'"):
            BOUNDS["betting"].check(ESTIMATORS[name])
    costs = ValueRange(-5.0, 1.0, 0.9, is_observed=False)
    gains = ValueRange(0.0, 1.0, 0.9, is_observed=False)
    BOUNDS["concentration"].check(ESTIMATORS["pdis"], gains)
    BOUNDS["concentration"].check(ESTIMATORS["is"], costs)
    BOUNDS["betting"].check(ESTIMATORS["pdis"], costs)
    with pytest.raises(SettingsError, match=r"down to -5.*rewards >= 0.*use the bound 'betting'"):
        BOUNDS["concentration"].check(ESTIMATORS["pdis"], costs)


@pytest.mark.parametrize("delta", [1e-7, 1e-310])
def test_levels_beyond_resampling_are_refused_at_once(delta):
    """Twenty over delta resamples of four rows took a minute, 6.5 GB, or overflowed."""
    with pytest.raises(SettingsError, match=r"BCa is asked for ends .* at least 0.0001"):
        bounds.bca(Mean(np.arange(4.0)), delta, np.random.default_rng(0))
    log = Log.from_arrays(
        state=[0] * 4, action=[0, 1, 0, 1], reward=[0.0, 1.0, 2.0, 3.0], episode=np.arange(4)
    )
    with pytest.raises(SettingsError, match="use a larger delta, or the bound 'betting'"):
        evaluate_policy(
            log, policy=TabularPolicy([[0.5, 0.5]]), gamma=0.9, delta=delta,
            baseline=TabularPolicy([[0.5, 0.5]]),
        )  # fmt: skip
    with pytest.raises(SettingsError, match="BCa is asked"):
        HCPI(bound="bca", delta=delta)


def test_ends_that_contradict_each_other_are_no_interval():
    """A log that the baseline did not make: every weight is 50."""
    log = Log.from_arrays(
        state=[0] * 400, action=[1] * 400, reward=[0.5] * 400, episode=np.arange(400), n_actions=2
    )
    for bound in ("betting", "concentration"):
        found = evaluate_policy(
            log, policy=TabularPolicy([[0.0, 1.0]]), baseline=TabularPolicy([[0.98, 0.02]]),
            gamma=0.0, bound=bound, reward_range=(0.0, 1.0), accept_baseline=True,
        )["is"]  # fmt: skip
        assert found.interval == (0.0, 1.0)
        assert any("contradict each other" in text for text in found.warnings)
