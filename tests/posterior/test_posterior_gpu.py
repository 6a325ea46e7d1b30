"""Draws on a GPU equal the CPU's: in Numba's simulator here, on a GPU if there is one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("posterior_gpu_agreement.py")
has_gpu = Path("/dev/nvidiactl").exists()


def agreement(*shape, **environment):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, shape)],
        env={**os.environ, **environment}, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    return json.loads(done.stdout)


def test_the_kernels_in_the_simulator():
    found = agreement(5, 2, 2, 0, NUMBA_ENABLE_CUDASIM="1")
    assert max(found["neutral"], found["careful"]) < 1e-9
    assert found["size"] > 0.01


@pytest.mark.skipif(not has_gpu, reason="no GPU here")
@pytest.mark.parametrize("shape", [(50, 4), (76, 3)])
def test_the_kernels_on_a_gpu(shape):
    found = agreement(*shape, 100, 1)
    assert max(found["neutral"], found["careful"], found["chosen"]) < 1e-9
    assert min(found["size"], found["changed"]) > 0.01
