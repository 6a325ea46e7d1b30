"""BLAS with one thread, and results that do not depend on how many it has."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from spibb import Log, Problem, TabularPolicy
from spibb.compiled import blas
from spibb.compiled.blas import n_blas_threads, one_blas_thread


@pytest.fixture
def two_threads():
    """Let BLAS have two threads, on any machine; skip where it is not OpenBLAS."""
    libraries = blas._libraries()
    if not libraries:
        pytest.skip("NumPy and SciPy have another BLAS than OpenBLAS")
    before = [library.get() for library in libraries]
    for library in libraries:
        library.set(2)
    yield
    for library, n in zip(libraries, before, strict=True):
        library.set(n)


def test_one_thread_and_then_as_many_as_before(two_threads):
    assert n_blas_threads() == {2}
    with one_blas_thread():
        assert n_blas_threads() == {1}
        with one_blas_thread():
            assert n_blas_threads() == {1}
        assert n_blas_threads() == {1}
    assert n_blas_threads() == {2}


def test_whoever_asks_last_puts_it_back(two_threads):
    is_inside, may_leave = threading.Event(), threading.Event()

    @one_blas_thread()
    def wait():
        is_inside.set()
        may_leave.wait(timeout=30)

    other = threading.Thread(target=wait)
    other.start()
    assert is_inside.wait(timeout=30)
    with one_blas_thread():
        may_leave.set()
        other.join(timeout=30)
        assert n_blas_threads() == {1}
    assert n_blas_threads() == {2}


def chain(n_states):
    """Return a random log in so many states, and its baseline."""
    rng = np.random.default_rng(0)
    state, action = rng.integers(0, n_states, 4_000), rng.integers(0, 2, 4_000)
    log = Log.from_arrays(
        state=state, action=action, reward=rng.random(4_000), next_state=np.append(state[1:], 0),
        n_states=n_states, n_actions=2,
    )  # fmt: skip
    return log, TabularPolicy.uniform(n_states, 2)


def test_values_do_not_depend_on_threads(two_threads):
    log, baseline = chain(300)
    two = Problem.of(log, baseline=baseline, gamma=0.95).baseline_values.v
    with one_blas_thread():
        one = Problem.of(log, baseline=baseline, gamma=0.95).baseline_values.v
    assert two.tobytes() == one.tobytes()


def test_improve_gives_the_same_bytes_with_every_number_of_threads(tmp_path):
    log, _ = chain(150)
    rows = zip(log.state, log.action, log.reward, log.next_state, strict=True)
    table = ["state,action,reward,next_state", *(",".join(map(repr, map(float, r))) for r in rows)]
    labels = [line.replace(".0,", ",") for line in table]
    rule = ["state,action,probability", *(f"{x},{a},0.5" for x in range(150) for a in range(2))]
    for name, lines in (("log.csv", labels), ("rule.csv", rule)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", "utf-8")
    command = [sys.executable, "-m", "spibb", "improve", "log.csv", "--baseline", "rule.csv",
               "--gamma", "0.95", "--epsilon", "0.5", "--format", "json",
               "--overwrite", "--out", "out"]  # fmt: skip
    found = []
    for n in ("1", "2"):
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, "OPENBLAS_NUM_THREADS": n},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        files = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
        found.append((done.stdout, files))
    assert found[0] == found[1]
