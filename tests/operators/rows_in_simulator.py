"""Print how far the GPU's rows, in Numba's simulator, are from the CPU's, for every operator."""

import json

import numpy as np


def differences():
    from spibb.operators.cuda import launch
    from spibb.operators.rows import Operator, step_rows

    rng = np.random.default_rng(0)
    q, g = rng.normal(size=(2, 5, 4))
    baseline, errors = rng.dirichlet(np.ones(4), 5), rng.exponential(size=(5, 4))
    errors[0, 1], errors[1, 2] = np.inf, 0.0
    epsilon, out = np.full(5, 0.4), np.empty((5, 4))
    found = {}
    for operator in Operator:
        work = np.empty((5, max(1, operator.needs.n_scratch_rows), 4))
        launch(operator, (q, baseline, errors, epsilon, g), (out, work), stream=0)
        expected = np.empty((5, 4))
        step_rows(int(operator), q, baseline, errors, epsilon, g, expected)
        found[operator.name] = float(np.abs(out - expected).max())
    return found


if __name__ == "__main__":
    print(json.dumps(differences()))
