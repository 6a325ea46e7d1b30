"""Uniform, normal and gamma variates from splitmix64, compiled.

A generator is an array of one unsigned 64-bit number, its state: it costs nothing to start one for
each thing that is drawn, so that nothing depends on what is drawn beside it.
"""

from __future__ import annotations

import math

import numpy as np

from spibb.compiled.jit import jit
from spibb.compiled.random_numbers import mix64

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(11)


@jit
def uniform(state):  # type: ignore[no-untyped-def]
    """Return a number in (0, 1), an odd multiple of 2^-54."""
    state[0] += _GOLDEN
    return (float(mix64(state[0]) >> _SHIFT) + 0.5) * 2.0**-53


@jit
def normal(state):  # type: ignore[no-untyped-def]
    """Return a standard normal number (Box and Muller 1958)."""
    radius = math.sqrt(-2.0 * math.log(uniform(state)))
    return radius * math.cos(2.0 * math.pi * uniform(state))


@jit
def gamma(state, shape):  # type: ignore[no-untyped-def]
    """Return a gamma number of scale 1 (Marsaglia and Tsang 2000); 0 for shape 0."""
    if shape <= 0.0:
        return 0.0
    boost = 1.0
    if shape < 1.0:  # a number of shape + 1, times a power of a uniform one
        boost = math.exp(math.log(uniform(state)) / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(state)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u = uniform(state)
        # Their squeeze: whoever passes it would pass the test with logarithms, too.
        if u < 1.0 - 0.0331 * (x * x) * (x * x):
            return boost * d * v
        if math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
            return boost * d * v
