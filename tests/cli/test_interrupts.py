"""Ctrl-C ends every command with exit code 130; benchmarks/interrupts.py tries it 300 times."""

import ast
import importlib.util
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def interrupts():
    """Return the module of the benchmark."""
    place = ROOT / "benchmarks" / "interrupts.py"
    spec = importlib.util.spec_from_file_location("interrupts", place)
    module = importlib.util.module_from_spec(spec)
    sys.modules["interrupts"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("what", ["one process", "two processes", "improve"])
def test_an_interrupt_at_any_moment_ends_the_command(interrupts, tmp_path, what):
    make = {
        "one process": lambda: interrupts.study(tmp_path, 1),
        "two processes": lambda: interrupts.study(tmp_path, 2),
        "improve": lambda: interrupts.improve(tmp_path),
    }[what]()
    moment = random.Random(what).uniform(0.1, 1.5)
    outcome = interrupts.interrupted(make(0), moment)
    assert outcome is not None, "it was over before it was interrupted"
    assert outcome.code == 130 or outcome.is_before, outcome
    # The bound is two seconds; beside other tests, a machine may give none to this process.
    assert outcome.seconds < 10.0, outcome


SWALLOWING = """
import sys, time
from spibb.cli.interrupts import prompt_interrupts
with prompt_interrupts():
    print("here", flush=True)
    while True:
        try:
            time.sleep(60)
        except BaseException:  # as a finaliser or a callback of a compiler does
            pass
"""
COMPUTING = """
import hashlib, threading, time
from concurrent.futures import ThreadPoolExecutor
from spibb.cli.interrupts import prompt_interrupts, say_when_interrupted
say_when_interrupted(lambda: "It is kept.")
with prompt_interrupts():
    pool = ThreadPoolExecutor(1)
    pool.submit(hashlib.pbkdf2_hmac, "sha256", b"x", b"y", 10**9)
    print("here", flush=True)
    time.sleep(60)
"""


READING = """
import ctypes, io, signal
from spibb.cli.disable_pandas import leave_pandas_out
leave_pandas_out()
import pyarrow.csv

def handler():  # as the system knows it
    found = ctypes.create_string_buffer(512)
    ctypes.CDLL(None).sigaction(signal.SIGINT, None, found)
    return found.raw[:8]

class Stream(io.BytesIO):
    met = set()
    def read(self, *size):
        self.met.add(handler())
        return super().read(*size)

before = handler()
assert pyarrow.csv.read_csv(Stream(b"a,b\\n1,2\\n")).num_rows == 1
print(Stream.met == {before})
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the handler of a signal")
def test_reading_tables_does_not_take_ctrl_c_away():
    done = subprocess.run(
        [sys.executable, "-c", READING], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize(
    ("program", "said"), [(SWALLOWING, "Interrupted.\n"), (COMPUTING, "It is kept.\n")]
)
def test_an_interrupt_that_is_dropped_or_held_up_ends_the_command(program, said):
    with subprocess.Popen(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, said)


GENERATORS = set(dir(np.random.Generator)) - set(dir(np.ndarray)) - set(dir(object))


def generators_in(source):
    """Return where compiled functions call a method of a generator that they were given."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef):
            continue
        names = [ast.unparse(one) for one in node.decorator_list]
        if not any("jit" in name for name in names):
            continue
        given = {one.arg for one in node.args.args}
        found += [
            f"{node.name}: {ast.unparse(call.func)}"
            for call in ast.walk(node)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name) and call.func.value.id in given
            and call.func.attr in GENERATORS
        ]  # fmt: skip
    return found


def test_no_compiled_function_takes_a_generator():
    """Numba runs Python to unbox one, and an interrupt raised there ends the process."""
    assert generators_in("@jit\ndef f(rng):\n    return rng.integers(0, 2)") == ["f: rng.integers"]
    places = sorted((ROOT / "src").rglob("*.py"))
    assert len(places) > 100
    found = {str(place): generators_in(place.read_text("utf-8")) for place in places}
    assert {place: calls for place, calls in found.items() if calls} == {}
