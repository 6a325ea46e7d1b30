"""Time exact steps with upper bounds beside the plain step, in one run: at most three times."""

import time

import numpy as np
import pytest

from spibb.operators.constrained import limited_step_rows
from spibb.operators.rows import Operator, step_rows

KINDS = {
    "every action may rise by 0.1": lambda b, rng: np.minimum(1.0, b + 0.1),
    "half of the actions may not rise": lambda b, rng: np.where(rng.random(b.shape) < 0.5, b, 1.0),
    "one action may not rise": lambda b, rng: np.where(np.arange(b.shape[1]) == 0, b, 1.0),
    "bounds that are none": lambda b, rng: np.ones_like(b),
}
EXACT = (Operator.SOFT_EXACT, Operator.LOWER_EXACT, Operator.ADV_EXACT)


def least_times(*functions):
    """Return the least processor time of each, taken in turn."""
    took = [[] for _ in functions]
    for number in range(8):
        for function, times in zip(functions, took, strict=True):
            start = time.process_time()
            function()
            if number > 0:  # the first may compile
                times.append(time.process_time() - start)
    return [min(times) for times in took]


@pytest.mark.parametrize("n_actions", [4, 9, 25, 64, 256, 1_000, 5_000])
@pytest.mark.parametrize("operator", EXACT, ids=lambda operator: operator.name.lower())
def test_limited_rows(benchmark, figures, operator, n_actions):
    rng = np.random.default_rng(4)
    n_rows = max(20, min(5_000, 60_000 // n_actions))
    q, g = rng.normal(size=(2, n_rows, n_actions))
    baseline = rng.dirichlet(np.ones(n_actions), n_rows)
    errors, out = rng.exponential(size=q.shape), np.empty_like(q)
    rows = (int(operator), q, baseline, errors, np.full(n_rows, 0.5), g)
    benchmark.pedantic(lambda: step_rows(*rows, out), rounds=3, warmup_rounds=1)
    for kind, bounds in KINDS.items():
        upper = bounds(baseline, rng)
        plain, limited = least_times(
            lambda: step_rows(*rows, out),
            lambda upper=upper: limited_step_rows(*rows, upper, out),
        )
        figures(
            f"{operator.name.lower()}, {n_actions:,} actions, {kind}",
            f"{1e6 * limited / n_rows:.2f} us", f"{1e6 * plain / n_rows:.2f} us (plain step)",
            plain / limited,
        )  # fmt: skip
        assert limited <= 3.0 * plain, kind
