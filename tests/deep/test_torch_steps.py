"""The steps on whole tensors equal the row functions, ties and limits included."""

import numpy as np
import pytest
import torch
from small_problems import DEVICES

from spibb import operators
from spibb.deep.torch_steps import step
from spibb.operators import Operator

REFERENCE = {
    Operator.GREEDY: lambda q, b, e, epsilon: operators.greedy(q),
    Operator.PI_B: lambda q, b, e, epsilon: operators.pi_b_step(q, b, np.isfinite(e)),
    Operator.PI_LEQ_B: lambda q, b, e, epsilon: operators.pi_leq_b_step(q, b, np.isfinite(e)),
    Operator.SOFT_APPROX: operators.soft_approx_step,
    Operator.SOFT_EXACT: operators.soft_exact_step,
}


def rows(n_actions, *, has_ties):
    rng = np.random.default_rng(0)
    shape = (3_000, n_actions)
    q, b = rng.normal(size=shape), rng.dirichlet(np.ones(n_actions), shape[0])
    e, epsilon = rng.exponential(size=shape), rng.exponential(size=shape[0])
    if has_ties:
        q, e = rng.integers(0, 3, shape).astype(float), rng.integers(1, 4, shape) / 2
        b[rng.random(shape) < 0.3] = 0
        b[:, 0] += 1e-9
        b /= b.sum(axis=1, keepdims=True)
    e[rng.random(shape) < 0.2] = np.inf
    e[rng.random(shape) < 0.1] = 0
    e[200:250] = np.inf
    epsilon[:100], epsilon[100:200] = np.inf, 0
    return q, b, e, epsilon


@pytest.mark.parametrize("operator", REFERENCE, ids=lambda operator: operator.name)
@pytest.mark.parametrize("n_actions", [1, 2, 4, 9, 25])
@pytest.mark.parametrize("has_ties", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_equal_to_the_row_functions(operator, n_actions, has_ties, device):
    parts = rows(n_actions, has_ties=has_ties)
    expected = REFERENCE[operator](*parts)
    found = step(operator, *(torch.tensor(part, device=device) for part in parts))
    np.testing.assert_allclose(found.cpu().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("operator", REFERENCE, ids=lambda operator: operator.name)
def test_any_leading_axes_and_float32(operator):
    q, b, e, epsilon = (torch.tensor(part).float() for part in rows(4, has_ties=False))
    flat = step(operator, q, b, e, epsilon)
    found = step(
        operator, *(part.unflatten(0, (30, 100)) for part in (q, b, e)), epsilon.view(30, 100)
    )
    assert found.dtype == torch.float32
    assert torch.equal(found.flatten(0, 1), flat)
    np.testing.assert_allclose(found.sum(-1), 1.0, atol=1e-5)
