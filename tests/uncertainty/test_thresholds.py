"""Thresholds: round trips, orderings, and where the beta bound fails."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import spibb
from spibb.errors import SettingsError
from spibb.uncertainty.thresholds import radius

FACTS = {"delta": 0.1, "n_states": 25, "n_actions": 4, "v_max": 0.6, "gamma": 0.95}
BOUNDS = ["original", "two-successor", "two-point", "beta"]


@given(
    n=st.integers(1, 10**9),
    delta=st.floats(1e-6, 1.0),
    n_states=st.integers(1, 2_000),
    n_actions=st.integers(1, 50),
    bound=st.sampled_from(BOUNDS[:3]),
)
@settings(max_examples=300, deadline=None)
def test_round_trip_is_exact(n, delta, n_states, n_actions, bound):
    facts = {"delta": delta, "n_states": n_states, "n_actions": n_actions, "v_max": 1.0,
             "gamma": 0.9, "bound": bound}  # fmt: skip
    assert spibb.n_wedge(zeta=spibb.zeta(n_wedge=n, **facts), **facts) == n


@given(n=st.integers(1, 5_000))
@settings(max_examples=100, deadline=None)
def test_round_trip_of_beta_is_exact(n):
    facts = {**FACTS, "bound": "beta"}
    assert spibb.n_wedge(zeta=spibb.zeta(n_wedge=n, **facts), **facts) == n


def test_the_published_example():
    promised = spibb.zeta(n_wedge=100, **FACTS)
    found = [spibb.n_wedge(zeta=promised, bound=bound, **FACTS) for bound in BOUNDS]
    assert found == [100, 55, 44, 27]


@given(
    n_states=st.integers(2, 200),
    n_actions=st.integers(2, 20),
    delta=st.floats(1e-4, 0.5),
    zeta=st.floats(0.5, 50.0),
)
@settings(max_examples=150, deadline=None)
def test_order_of_the_bounds(n_states, n_actions, delta, zeta):
    facts = {"delta": delta, "n_states": n_states, "n_actions": n_actions, "v_max": 1.0,
             "gamma": 0.9, "zeta": zeta}  # fmt: skip
    original, two_successor, two_point, beta = (
        spibb.n_wedge(bound=bound, **facts) for bound in BOUNDS
    )
    assert beta <= two_successor
    assert two_point <= two_successor
    if 4 * n_states * n_actions <= 2.0**n_states:
        assert two_successor <= original


def test_beta_is_the_quantile_it_says():
    delta_t = 0.1 / (25**2 * 4**2)
    for n in (1, 7, 50, 400):
        quantile = scipy.special.betaincinv(n / 2 + 1, n / 2 + 1, delta_t / 2)
        found = radius(n, delta=0.1, n_states=25, n_actions=4, bound="beta")
        assert found == pytest.approx(1 - 2 * quantile, rel=1e-6)


@pytest.mark.parametrize(("n", "factor"), [(10, 216), (27, 12), (55, 2.8), (400, 1.0)])
def test_beta_fails_at_small_n(n, factor):
    """Centred at the estimate, the posterior misses the radius far more often than promised."""
    delta_t = 1e-5
    r = radius(n, delta=delta_t, n_states=1, n_actions=1, bound="beta") / 2  # L1 of two outcomes
    k = np.arange(n + 1)
    posterior = scipy.stats.beta(k + 1, n - k + 1)
    missed = posterior.cdf(k / n - r) + posterior.sf(k / n + r)
    assert missed.max() / delta_t == pytest.approx(factor, rel=0.05)


def test_thousands_of_states_do_not_overflow():
    facts = {**FACTS, "n_states": 5_000}
    assert np.isfinite(spibb.zeta(n_wedge=10, **facts))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"zeta": 0.0}, "zeta is 0"),
        ({"delta": 0.0}, "delta is 0"),
        ({"gamma": 1.0}, "gamma is 1"),
        ({"n_states": 0}, "at least one state"),
        ({"v_max": np.inf}, "finite V_max"),
        ({"bound": "gamma"}, "bound is 'gamma'"),
        ({"zeta": 1e-12}, "no threshold below"),
    ],
)
def test_bad_values_are_refused(change, message):
    with pytest.raises(SettingsError, match=message):
        spibb.n_wedge(**{**FACTS, "zeta": 1.0, **change})
