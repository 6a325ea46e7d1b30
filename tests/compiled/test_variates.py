"""Variates are distributed as they are called."""

import numpy as np
import pytest
from scipy import stats

from spibb.compiled.jit import jit
from spibb.compiled.random_numbers import numbers
from spibb.compiled.variates import gamma, normal, uniform

N = 20_000


@jit
def _many(which, state, shape, out):
    for k in range(len(out)):
        if which == 0:
            out[k] = uniform(state)
        elif which == 1:
            out[k] = normal(state)
        else:
            out[k] = gamma(state, shape)


def many(which, seed=0, shape=1.0):
    out = np.empty(N)
    _many(which, numbers(seed, 0, [0]), shape, out)
    return out


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("which", "shape", "law"),
    [
        (0, 1.0, stats.uniform()),
        (1, 1.0, stats.norm()),
        *((2, shape, stats.gamma(shape)) for shape in (0.04, 0.17, 0.5, 1.0, 2.7, 40.0, 1e5)),
    ],
)
def test_they_are_distributed_as_they_should_be(which, shape, law):
    """Kolmogorov and Smirnov: a right sampler fails once in 10,000 seeds, and this one is fixed."""
    drawn = many(which, shape=shape)
    assert stats.kstest(drawn, law.cdf).pvalue > 1e-4
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.04


def test_seeds_decide():
    assert np.array_equal(many(1, 3), many(1, 3))
    assert not np.array_equal(many(1, 3), many(1, 4))
    assert many(2, shape=0.0).max() == 0.0
