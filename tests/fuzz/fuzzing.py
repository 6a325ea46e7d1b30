"""How long, how often and with what: the settings of the fuzzers, and what they are made of.

``make fuzz`` runs them at length, with a seed that it prints; the tests run them briefly.
"""

import os
import signal
import threading
from contextlib import contextmanager

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# How many times as many cases as in the tests.
TIMES = int(os.environ.get("SPIBB_FUZZ", "1"))
SECONDS = 30


def cases(number):
    """Return the settings of a fuzzer that tries so many cases in the tests."""
    return settings(
        max_examples=number * TIMES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        # At length every seed is new; in the tests the same cases come every time.
        derandomize=TIMES == 1,
        database=None,
        print_blob=True,
    )


class Hang(BaseException):
    """Something took too long; no handler of the package may catch it."""


@contextmanager
def limited():
    """Raise where something takes longer than anybody waits."""

    def ring(*_):
        raise Hang(f"more than {SECONDS} s")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# Cells that readers have stumbled over, each in a log somewhere.
NASTY = [
    "", " ", "0", "1", "2", "10", "-1", "007", "7", "1e1", "1.0", "2.", "0.50", "0.5", ".5", "+1",
    "nan", "NaN", "NA", "null", "inf", "-inf", "1e400", "True", "false", "yes", "0x10", "1_0",
    "9007199254740992", "9007199254740993", "18446744073709551615", "9999999",
    "123456789012345678901234567890", "2024-01-31", "2024-01-31T10:00:00", "12:30", "1,5",
    'a "b" c', "a,b", "two\nlines", "tab\there", "ümlaut", "日本", "\U0001f600", "\x1b[31mred",
    "\x00", "=1+1", "'quoted'", "{x}", "[/x]", "$x$", "a" * 300, "_mine", "-0", "0.0",
]  # fmt: skip
cells = st.one_of(
    st.sampled_from(NASTY),
    st.integers(-3, 12).map(str),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
numbers = st.one_of(
    st.sampled_from(
        [0.0, -0.0, 1.0, -1.0, 0.5, 1e-320, 1e300, -1e300, float("inf"), float("-inf"),
         float("nan"), 2.0**53 + 2, 1e-9]
    ),
    st.floats(-10, 10),
    st.integers(-5, 5).map(float),
)  # fmt: skip


def mutated(data, draw):
    """Change some bytes of a file: flip, cut, repeat, insert."""
    found = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(found) - 1, 0)))
        kind = draw(st.sampled_from(["flip", "cut", "insert", "repeat", "zero"]))
        if kind == "flip" and found:
            found[place] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del found[place:]
        elif kind == "insert":
            found[place:place] = draw(st.binary(min_size=1, max_size=6))
        elif kind == "repeat":
            found[place:place] = found[place : place + 20]
        elif found:
            found[place : place + 8] = b"\0" * len(found[place : place + 8])
    return bytes(found)
