"""The GPU's RMSProp step, in Numba's simulator; test_training.py has it on a GPU where one is."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("descent_in_simulator.py")


def test_equal_to_numpy_and_members_that_diverged_stay():
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert float(done.stdout) < 1e-6
