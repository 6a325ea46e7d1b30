"""The distribution of a gain: a normal variable minus a gamma variable."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gamma, norm

from spibb.errors import SettingsError
from spibb.posterior.gain import TAIL, Gain
from spibb.posterior.settings import ModelSettings
from spibb.testing import reference_model

GAINS = {
    "about as much of each": Gain(1.0, 2.0, 1.0, 1.0),
    "hardly skewed": Gain(-0.5, 1.0, 4.0, 0.5),
    "hardly any normal part": Gain(0.3, 1.0, 0.8, 0.999999),
    "rare and large": Gain(0.1, 1.0, 0.05, 0.5),
    "rarer, and larger": Gain(0.1, 0.5, 0.04, 0.4),
    "large numbers": Gain(1e9, 2e9, 1e9, 1e9),
    "small numbers": Gain(1e-9, 2e-9, 1e-9, 1e-9),
    "no losses": Gain(0.2, 0.7),
}


@pytest.mark.parametrize("name", GAINS)
def test_it_is_what_draws_say(name):
    gain = GAINS[name]
    drawn = reference_model.draw_distribution(gain, 400_000, np.random.default_rng(0))
    unit = gain.deviation
    assert drawn.mean() == pytest.approx(gain.mean, abs=0.006 * unit)
    assert drawn.std() == pytest.approx(unit, rel=0.02)
    assert gain.probability_of_harm == pytest.approx((drawn < 0.0).mean(), abs=0.004)
    for x in np.quantile(drawn, [0.01, 0.3, 0.9]):
        assert gain.probability_below(x) == pytest.approx((drawn < x).mean(), abs=0.004)
    for share in (0.025, 0.1, 0.5, 0.9, 0.975):
        found = gain.quantile(share)
        assert found == pytest.approx(np.quantile(drawn, share), abs=0.05 * unit)
        assert gain.probability_below(found) == pytest.approx(share, abs=0.0026)
    assert gain.interval(0.95) == (gain.quantile(0.5 * (1.0 - 0.95)), gain.quantile(0.975))
    worst = drawn[: int(TAIL * len(drawn))].mean()
    assert gain.lower_tail_mean == pytest.approx(worst, abs=0.02 * unit)


@pytest.mark.parametrize("shape", [0.005, 0.03, 0.3, 3.0, 300.0])
def test_losses_keep_their_mean_however_skewed_they_are(shape):
    """With a hundred pairs, of which one is changed, the shape of the losses is 0.01."""
    gain = Gain(0.0, 1.0, 0.5 * shape**0.5, 0.5)
    assert gain._losses.mean() == pytest.approx(gain.loss_mean, rel=1e-9)
    assert (np.diff(gain._losses) >= 0.0).all()
    # The mean over all scenarios is that of the gain.
    below = [Gain(0.0, 1.0, gain.loss_mean, 0.5).quantile(s) for s in (np.arange(500) + 0.5) / 500]
    assert np.mean(below) == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("shape", [0.01, 0.2, 2.0])
def test_losses_alone_have_the_lower_tail_of_a_gamma(shape):
    deviation = 1.0 / shape**0.5
    gain = Gain(-1.0, deviation, 1.0, deviation)
    start = gamma.ppf(1.0 - TAIL, shape, scale=1.0 / shape)
    worst = gamma.sf(start * shape, shape + 1.0) / TAIL
    assert gain.lower_tail_mean == pytest.approx(-worst, rel=0.01)
    # Nearly the same with a little of a normal part.
    nearly = Gain(-1.0, deviation * (1.0 + 1e-10), 1.0, deviation)
    assert nearly.lower_tail_mean == pytest.approx(gain.lower_tail_mean, rel=1e-3)


def test_without_losses_it_is_normal():
    gain = Gain(1.0, 0.5)
    assert gain.probability_of_harm == pytest.approx(norm.cdf(-2.0))
    assert gain.quantile(0.1) == pytest.approx(norm.ppf(0.1, 1.0, 0.5))
    assert gain.lower_tail_mean == pytest.approx(1.0 - 0.5 * norm.pdf(norm.ppf(0.1)) / 0.1)
    assert gain.interval(0.8) == pytest.approx((gain.quantile(0.1), gain.quantile(0.9)))
    assert Gain(1e9, 1.0).lower_tail_mean == pytest.approx(1e9 - 1.754983, abs=1e-5)


@pytest.mark.parametrize("mean", [-1.0, 0.0, 1.0])
def test_what_is_certain(mean):
    gain = Gain(mean, 0.0)
    assert gain.probability_of_harm == (1.0 if mean < 0.0 else 0.0)
    assert gain.interval() == (mean, mean)
    assert gain.lower_tail_mean == mean
    assert set(gain.scenarios) == {mean}


def numbers(low, high):
    return st.floats(low, high, allow_nan=False)


@st.composite
def gains(draw):
    normal, loss = draw(numbers(0.0, 5.0)), draw(numbers(0.0, 5.0))
    shape = draw(numbers(0.01, 100.0))
    return Gain(draw(numbers(-5.0, 5.0)), float(np.hypot(normal, loss)), loss * shape**0.5, loss)


@given(gains(), numbers(1e-6, 1e6))
@settings(max_examples=50, deadline=None)
def test_quantiles_rise_and_scale(gain, unit):
    shares = [0.01, 0.1, 0.3, 0.5, 0.9, 0.99]
    found = [gain.quantile(share) for share in shares]
    assert (np.diff(found) >= -1e-8 * gain.deviation).all()
    assert gain.lower_tail_mean <= found[1] + 1e-8 * max(gain.deviation, 1e-300)
    assert 0.0 <= gain.probability_of_harm <= 1.0
    other = Gain(
        *(unit * part for part in (gain.mean, gain.deviation, gain.loss_mean, gain.loss_deviation))
    )
    size = unit * (gain.deviation + abs(gain.mean))
    assert other.quantile(0.3) == pytest.approx(unit * found[2], abs=1e-7 * size + 1e-300)
    assert other.lower_tail_mean == pytest.approx(
        unit * gain.lower_tail_mean, abs=1e-6 * size + 1e-300
    )


@given(gains(), numbers(-3.0, 3.0))
@settings(max_examples=50, deadline=None)
def test_a_better_mean_is_no_more_harm(gain, more):
    better = Gain(gain.mean + abs(more), gain.deviation, gain.loss_mean, gain.loss_deviation)
    assert better.probability_of_harm <= gain.probability_of_harm + 1e-12
    assert better.quantile(0.2) - gain.quantile(0.2) == pytest.approx(abs(more), abs=1e-6)


def test_scenarios_are_a_hundred_quantiles():
    gain = GAINS["about as much of each"]
    assert len(gain.scenarios) == 100
    assert list(gain.scenarios) == sorted(gain.scenarios)
    assert np.mean(gain.scenarios) == pytest.approx(gain.mean, abs=0.02)
    assert np.std(gain.scenarios) == pytest.approx(gain.deviation, rel=0.05)
    assert np.mean(gain.scenarios[:10]) == pytest.approx(gain.lower_tail_mean, abs=0.05)
    harmed = sum(one < 0.0 for one in gain.scenarios)
    assert harmed == pytest.approx(100.0 * gain.probability_of_harm, abs=1.0)


@pytest.mark.parametrize("level", [-0.1, 1.0, 1.1, float("nan"), "95 %"])
def test_levels_are_probabilities(level):
    with pytest.raises(SettingsError, match=r"level is .*a probability below 1"):
        Gain(0.0, 1.0).interval(level)


def test_losses_are_a_part_of_their_groups():
    with pytest.raises(SettingsError, match="at most as many"):
        ModelSettings(prior_losses=3.0, prior_groups=2.0)
