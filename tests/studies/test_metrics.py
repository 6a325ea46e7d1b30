"""Metrics against numbers by hand, plain loops and simulation."""

import numpy as np
import pytest

from spibb.errors import DataError, SettingsError
from spibb.studies.metrics import (
    MIN_TAIL,
    Measure,
    cvar,
    cvar_interval,
    has_interval,
    normalised_performance,
    student_interval,
)


def test_normalised_performance_is_0_at_the_baseline_and_1_at_the_optimum():
    found = normalised_performance([0.25, 0.75, 0.5, 0.0], baseline=0.25, best=0.75)
    assert found.tolist() == [0, 1, 0.5, -0.5]


def test_normalised_performance_has_no_scale_where_the_baseline_is_optimal():
    found = normalised_performance([[0.5], [0.25]], baseline=[0.25, 0.5], best=0.5)
    np.testing.assert_array_equal(found, [[1.0, np.nan], [0.0, np.nan]])


def test_mean_interval_by_hand():
    """Deviation 1.29099, half width 3.18245 (t with 3 degrees of freedom) x 1.29099 / 2."""
    mean, low, high = student_interval(2.5, np.std([1.0, 2.0, 3.0, 4.0], ddof=1), 4)
    assert mean == 2.5
    assert (low, high) == pytest.approx((2.5 - 2.054260, 2.5 + 2.054260), abs=1e-6)


def test_one_run_has_no_interval():
    assert np.isnan(student_interval(0.5, np.nan, 1).low)
    assert student_interval(0.5, np.nan, 1).value == 0.5


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.2, 0.0),  # one run
        (0.3, (0 + 0.5 * 1) / 1.5),  # one and a half
        (0.4, 0.5),  # two
        (0.9, (0 + 1 + 2 + 3 + 0.5 * 10) / 4.5),
        (0.1, 0.0),  # half a run: the worst
        (0.001, 0.0),
        (1.0, 16 / 5),
    ],
)
def test_cvar_by_hand(share, expected):
    assert cvar([3.0, 0.0, 10.0, 2.0, 1.0], share) == pytest.approx(expected, abs=1e-15)


def test_rounding_adds_no_run_to_the_tail():
    """0.07 x 100 is 7.000000000000001; seven kept runs are enough for it."""
    assert cvar(np.arange(7), 0.07, n_runs=100) == pytest.approx(3.0)


def test_metrics_work_along_the_last_axis():
    scores = np.random.default_rng(1).normal(size=(2, 3, 250))
    for metric in (
        lambda x: student_interval(x.mean(axis=-1), x.std(axis=-1), x.shape[-1]),
        lambda x: cvar(x, 0.033),
        lambda x: cvar_interval(x, 0.1, np.random.default_rng(2), n_resamples=50),
    ):
        together = np.asarray(metric(scores))
        assert together.shape[-2:] == (2, 3)
        for place in np.ndindex(2, 3):
            np.testing.assert_allclose(together[(..., *place)], metric(scores[place]), rtol=1e-12)


def test_the_worst_runs_stand_for_all_of_them():
    scores = np.random.default_rng(3).normal(size=1_000)
    worst = np.sort(scores)[:100]
    assert cvar(worst, 0.03, n_runs=1_000) == cvar(scores, 0.03)
    of_all = cvar_interval(scores, 0.03, np.random.default_rng(4))
    of_worst = cvar_interval(worst, 0.03, np.random.default_rng(4), n_runs=1_000)
    assert of_worst == pytest.approx(of_all, abs=1e-12)


def test_too_few_of_the_worst_runs_are_refused():
    with pytest.raises(DataError, match=r"only the worst 9 runs.*expected 10 for a CVaR of 1 %"):
        cvar(np.arange(9), 0.01, n_runs=1_000)


@pytest.mark.statistical
def test_resampling_the_tail_is_resampling_all_runs():
    """The quantiles agree with those of a plain bootstrap within five standard errors."""
    scores = np.sort(np.random.default_rng(5).normal(size=60))
    n_resamples, rng = 20_000, np.random.default_rng(6)
    plain = [cvar(scores[rng.integers(0, 60, 60)], 0.375) for _ in range(n_resamples)]
    _, low, high = cvar_interval(scores, 0.375, rng, n_resamples=n_resamples)
    for end, level in ((low, 0.025), (high, 0.975)):
        below = np.mean(np.array(plain) <= end)
        assert abs(below - level) < 5 * np.sqrt(2 * level * (1 - level) / n_resamples)


@pytest.mark.statistical
def test_the_bootstrap_interval_holds_the_truth():
    """Of the 10 %-CVaR of a normal score, -1.75498, in 1,000 studies of 1,000 runs."""
    scores = np.random.default_rng(7).normal(size=(1_000, 1_000))
    value, low, high = cvar_interval(scores, 0.1, np.random.default_rng(8))
    assert 0.90 < np.mean((low <= -1.75498) & (high >= -1.75498)) < 0.97
    assert ((low <= value) & (value <= high)).all()


def test_the_interval_needs_runs_in_the_tail():
    scores = np.linspace(-1, 1, 199)
    value, low, high = cvar_interval(scores, 0.1, np.random.default_rng(9))
    assert value == cvar(scores, 0.1)
    assert np.isnan([low, high]).all()
    assert not has_interval(199, 0.1)
    assert has_interval(200, 0.1)
    assert has_interval(100_000, 0.001)
    assert has_interval(MIN_TAIL, 1.0)


@pytest.mark.parametrize(
    ("n_runs", "expected"),
    [
        (40, "the 1 %-CVaR of 40 runs is the worst run"),
        (100, "the 1 %-CVaR of 100 runs is the worst run"),
        (1_500, "the 1 %-CVaR of 1,500 runs is the mean of 15: too few for an interval"),
        (2_000, ""),
    ],
)
def test_what_is_said_of_few_runs(n_runs, expected):
    assert Measure(0.01).remark(n_runs) == expected
    assert Measure().remark(n_runs) == ""


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, np.nan])
def test_shares_out_of_range(share):
    with pytest.raises(SettingsError, match=r"share is .*expected a number in \(0, 1\]"):
        cvar([1.0, 2.0], share)


def test_bad_input():
    with pytest.raises(DataError, match="there are no scores"):
        cvar([], 0.5)
    with pytest.raises(SettingsError, match="n_runs is 1; expected at least the 2 scores given"):
        cvar([1.0, 2.0], 0.5, n_runs=1)
