"""Print how far the GPU's rows, in Numba's simulator, are from the CPU's, for every operator."""

import json

import numpy as np


def differences(n_actions):
    """Launch more rows than there are threads with scratch, on a row of few and of many actions."""
    from spibb.operators import cuda
    from spibb.operators.rows import Operator, step_rows

    # One thread a block: threads of the simulator share a module's globals, to which a first
    # warning of NumPy adds a name while others look through them.
    cuda._THREADS = 1
    rng = np.random.default_rng(0)
    q, g = rng.normal(size=(2, 5, n_actions))
    baseline, errors = rng.dirichlet(np.ones(n_actions), 5), rng.exponential(size=(5, n_actions))
    errors[0, 1], errors[1, 2] = np.inf, 0.0
    epsilon, out = np.full(5, 0.4), np.empty((5, n_actions))
    found = {}
    for operator in Operator:
        work = np.empty((3, max(1, operator.needs.scratch(n_actions)), n_actions))
        cuda.launch(operator, (q, baseline, errors, epsilon, g), (out, work), stream=0)
        expected = np.empty((5, n_actions))
        step_rows(int(operator), q, baseline, errors, epsilon, g, expected)
        found[operator.name] = float(np.abs(out - expected).max())
    return found


if __name__ == "__main__":
    from spibb.operators.sorting import FEW

    few, many = differences(4), differences(FEW + 6)
    print(json.dumps({name: max(few[name], many[name]) for name in few}))
