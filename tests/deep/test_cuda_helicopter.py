"""Counts and flights on a GPU equal those on the CPU; skipped where there is no GPU."""

import numpy as np
import pytest
import torch

from spibb.deep.pseudo_counts import KernelCounts
from spibb.envs.helicopter import Helicopter
from spibb.errors import DataError

if not torch.cuda.is_available():
    pytest.skip("no GPU here", allow_module_level=True)


def test_counts():
    helicopter = Helicopter()
    rng = np.random.default_rng(0)
    data = helicopter.collect(helicopter.baseline().action_probabilities, 3_000, rng)
    fitted = KernelCounts().fit(data)
    found = fitted.counts(torch.as_tensor(data.next_state, device="cuda").reshape(3, 1_000, 4))
    assert found.is_cuda
    assert found.shape == (3, 1_000, 9)
    expected = fitted.counts(data.next_state).reshape(3, 1_000, 9)
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-5, atol=1e-5)


def test_bad_states():
    helicopter = Helicopter()
    data = helicopter.collect(
        helicopter.baseline().action_probabilities, 100, np.random.default_rng(0)
    )
    states = torch.zeros(5, 4, device="cuda")
    states[3, 1] = torch.nan
    with pytest.raises(DataError, match="first at row 3"):
        KernelCounts().fit(data).counts(states)


@pytest.mark.parametrize("length", [{"n_episodes": 500}, {"n_steps": 1_000}])
def test_flights(length):
    helicopter = Helicopter()
    policy = helicopter.baseline().action_probabilities
    arrays = helicopter.run_episodes(policy, [1, 2, 3], **length)
    tensors = helicopter.run_episodes(policy, [1, 2, 3], device="cuda", **length)
    # Rounding may turn a choice now and then; the numbers drawn are the same.
    is_same = arrays.n_steps == tensors.n_steps
    if "n_episodes" in length:
        assert is_same.mean() > 0.98
    np.testing.assert_allclose(tensors.mean, arrays.mean, atol=0.25)
