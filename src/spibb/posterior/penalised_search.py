"""Policies that maximise the expected gain less a penalty on what is uncertain.

For a penalty c, each step maximises in every state

    sum_a pi(a) Q(x, a) - more(x, a) (pi(a) - b(a))_+ - less(x, a) (b(a) - pi(a))_+
          - c d(x) var(x, a) (pi(a) - b(a))^2 / 2

where d are discounted visits, var is the variance of the mean of a pair, and more and less are the
expected costs of unseen losses and of unseen wins that are given up. Values, visits and steps are
computed by turns, for all penalties at once. Large penalties change little, small ones much.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.posterior.gain_moments import GainMoments

Array = NDArray[np.float64]

# Penalties, in units of one over the standard deviation of outcomes.
PENALTIES = 2.0 ** np.arange(10, -7, -1.0)
_N_STEPS = 8
_SETTLED = 1e-3
_BISECTIONS = 60
# Probabilities that rounding alone makes.
_ROUNDING = 1e-12


def search(
    moments: GainMoments, start: Array, most: Array | None, caution: float
) -> Array:  # fmt: skip
    """Return a policy for each penalty, shape (K, S, A).

    Args:
        moments: Moments of gains.
        start: The policy that the penalty holds to, shape (S, A).
        most: Largest probability of each action, shape (S, A); None: 1.
        caution: Standard deviations by which unseen losses are raised.
    """
    model = moments.model
    most = np.ones(start.shape) if most is None else np.maximum(most, start)
    variance, unit = _variances(moments)
    seen = model.is_seen[:, None]
    policies = np.repeat(start[None], len(PENALTIES), axis=0)
    penalties = PENALTIES[:, None, None] / unit
    is_open = np.ones(len(policies), dtype=np.bool_)
    values = model.evaluate(policies[:1])
    v = np.repeat(values.v, len(policies), axis=0)
    visits = np.repeat(values.visits, len(policies), axis=0)
    for _ in range(_N_STEPS):
        q = model.q(v[is_open])
        more, less = moments.losses.prices(q, caution)
        curvature = penalties[is_open] * visits[is_open][:, :, None] * variance
        curvature += 1e-9 * unit
        moved = np.empty(q.shape)
        _step(np.where(seen, q, 0.0), more, less, curvature, start, most, moved)
        is_start = np.abs(moved - start).max(axis=2, keepdims=True) <= _ROUNDING
        moved = np.where(seen & ~is_start, moved, start)
        change = np.abs(moved - policies[is_open]).max(axis=(1, 2))
        policies[is_open] = moved
        places = np.flatnonzero(is_open)
        is_open[places[change < _SETTLED]] = False
        if not is_open.any():
            break
        found = model.evaluate(policies[places])
        v[places], visits[places] = found.v, found.visits
    return policies


def _variances(moments: GainMoments) -> tuple[Array, float]:
    """Return the variance of the mean of each pair, and the unit of penalties."""
    model, n = moments.model, moments.model.rows.n
    variance = moments.baseline_spread[:, None] * model.shrinkage.by_pair + moments.event_spread
    of_rows = float((variance * n).sum() / n.sum())
    return variance, float(np.sqrt(max(model.variance, of_rows)))


@jit
def _step(q, more, less, curvature, start, most, moved):  # type: ignore[no-untyped-def]
    """Maximise, in each row, by bisection of a price of probability.

    q pi - more (pi - b)_+ - less (b - pi)_+ - curvature (pi - b)^2 / 2
    """
    n_policies, n_states, n_actions = q.shape
    for k in range(n_policies):
        largest = 0.0
        for x in range(n_states):
            for a in range(n_actions):
                largest = max(largest, abs(q[k, x, a]))
        floor = 1e-12 * max(largest, 1e-12)
        for x in range(n_states):
            low, high = np.inf, -np.inf
            for a in range(n_actions):
                c = max(curvature[k, x, a], floor)
                low = min(low, q[k, x, a] - more[k, x, a] - c)
                high = max(high, q[k, x, a] + less[x, a] + c)
            for _ in range(_BISECTIONS):
                price, total = 0.5 * (low + high), 0.0
                for a in range(n_actions):
                    c = max(curvature[k, x, a], floor)
                    off, give_up = q[k, x, a] - price, less[x, a]
                    total += _at(off, more[k, x, a], give_up, c, start[x, a], most[x, a])
                if total > 1.0:
                    low = price
                else:
                    high = price
            price, total = 0.5 * (low + high), 0.0
            for a in range(n_actions):
                c = max(curvature[k, x, a], floor)
                off, give_up = q[k, x, a] - price, less[x, a]
                p = _at(off, more[k, x, a], give_up, c, start[x, a], most[x, a])
                moved[k, x, a] = p if p > _ROUNDING else 0.0
                total += moved[k, x, a]
            _complete(moved[k, x], most[x], total)


@jit
def _complete(row, most, total):  # type: ignore[no-untyped-def]
    """Make a row of probabilities sum to 1, none of which may exceed its largest value."""
    if total >= 1.0:
        row /= total
        return
    for is_taken in (True, False):  # first of actions that are taken at all
        room = 0.0
        for a in range(len(row)):
            if row[a] > 0.0 or not is_taken:
                room += max(most[a] - row[a], 0.0)
        if room >= 1.0 - total:
            share = (1.0 - total) / room
            for a in range(len(row)):
                if row[a] > 0.0 or not is_taken:
                    row[a] += share * max(most[a] - row[a], 0.0)
            return
    row /= total


@jit
def _at(off, more, less, curvature, start, most):  # type: ignore[no-untyped-def]
    """Return the best probability of an action at a price of probability."""
    found = start + (max(off - more, 0.0) + min(off + less, 0.0)) / curvature
    return min(max(found, 0.0), most)
