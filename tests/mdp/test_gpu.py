"""Policy iteration on a GPU equals that on the CPU: in Numba's simulator here, on a GPU if any."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import spibb
from spibb.envs.garnet import Garnet
from spibb.errors import MissingDependencyError, SettingsError

SCRIPT = Path(__file__).with_name("gpu_agreement.py")
has_gpu = Path("/dev/nvidiactl").exists()


def agreement(*shape, **environment):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, shape)],
        env={**os.environ, **environment}, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    return json.loads(done.stdout)


def check(found):
    assert found["values"] < 1e-9
    assert found["baselines"] < 1e-9
    assert found["changed"] > 0.1


@pytest.mark.parametrize("shape", [(5, 3, 2)])
def test_the_kernels_in_the_simulator(shape):
    check(agreement(*shape, NUMBA_ENABLE_CUDASIM="1"))


@pytest.mark.skipif(not has_gpu, reason="no GPU here")
@pytest.mark.parametrize("shape", [(50, 4, 200), (76, 5, 50), (9, 2, 1)])
def test_the_kernels_on_a_gpu(shape):
    check(agreement(*shape))


@pytest.mark.skipif(has_gpu, reason="a GPU is here")
def test_a_gpu_asked_for_and_absent():
    rng = np.random.default_rng(0)
    garnet = Garnet.random(rng, n_states=6, n_actions=2, n_successors=2)
    counts = spibb.Counts.sample(garnet.mdp, garnet.uniform.policy, n_episodes=9, rng=rng)
    with pytest.raises((SettingsError, MissingDependencyError), match="GPU"):
        spibb.improve_many(
            [spibb.BasicRL()], [counts], baselines=garnet.uniform.policy, gamma=0.95, device="cuda"
        )
    with pytest.raises(SettingsError, match="device is 'tpu'"):
        spibb.improve_many(
            [spibb.BasicRL()], [counts], baselines=garnet.uniform.policy, gamma=0.95, device="tpu"
        )
