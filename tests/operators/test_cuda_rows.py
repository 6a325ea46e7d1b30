"""The operators on a GPU equal those on the CPU; skipped where there is no GPU."""

import numpy as np
import pytest
import torch

from spibb import operators
from spibb.errors import SettingsError

if not torch.cuda.is_available():
    pytest.skip("no GPU here", allow_module_level=True)

STEPS = {
    "greedy": lambda q, b, e, t, g: operators.greedy(q),
    "pi_b": lambda q, b, e, t, g: operators.pi_b_step(q, b, t),
    "pi_leq_b": lambda q, b, e, t, g: operators.pi_leq_b_step(q, b, t),
    "soft_exact": lambda q, b, e, t, g: operators.soft_exact_step(q, b, e, 0.5),
    "soft_approx": lambda q, b, e, t, g: operators.soft_approx_step(q, b, e, 0.5),
    "lower_exact": lambda q, b, e, t, g: operators.lower_exact_step(q, b, e, 0.5),
    "lower_approx": lambda q, b, e, t, g: operators.lower_approx_step(q, b, e, 0.5),
    "adv_exact": lambda q, b, e, t, g: operators.adv_exact_step(q, b, e, 0.5, g),
    "adv_approx": lambda q, b, e, t, g: operators.adv_approx_step(q, b, e, 0.5, g),
}


def rows(n_rows, n_actions):
    rng = np.random.default_rng(0)
    q, g = rng.normal(size=(2, n_rows, n_actions))
    baseline = rng.dirichlet(np.ones(n_actions), n_rows)
    errors = rng.exponential(size=(n_rows, n_actions))
    errors[rng.random(errors.shape) < 0.1] = np.inf
    errors[rng.random(errors.shape) < 0.1] = 0.0
    return q, baseline, errors, np.isfinite(errors), g


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("n_actions", [1, 4, 9, 25, 300, 5_000])
def test_gpu_rows_equal_cpu_rows(name, n_actions):
    # At 300 actions more rows than there are threads with scratch.
    parts = rows(20_000 if n_actions < 5_000 else 200, n_actions)
    expected = STEPS[name](*parts)
    found = STEPS[name](*(torch.tensor(part, device="cuda") for part in parts))
    assert found.is_cuda
    assert found.dtype == torch.float64
    # Fused multiply-adds round otherwise; where that flips a tie, values still agree.
    np.testing.assert_allclose(
        (found.cpu().numpy() * parts[0]).sum(axis=1), (expected * parts[0]).sum(axis=1), atol=1e-9
    )
    np.testing.assert_allclose(found.cpu().numpy().sum(axis=1), 1.0, atol=1e-12)


def test_types_shapes_and_errors():
    q = torch.randn(2, 3, 4, device="cuda", dtype=torch.float32, requires_grad=True)
    found = operators.soft_exact_step(q, [0.25] * 4, [1.0] * 4, 0.5)
    assert found.shape == (2, 3, 4)
    assert found.dtype == torch.float32
    assert not found.requires_grad
    with pytest.raises(SettingsError, match="q is nan"):
        operators.greedy(torch.tensor([[0.0, float("nan")]], device="cuda"))
    assert operators.greedy(torch.empty((0, 3), device="cuda")).shape == (0, 3)
