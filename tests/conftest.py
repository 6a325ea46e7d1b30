"""What every test relies on, and the fast tier of the tests."""

import os
import signal
import threading
from pathlib import Path

from fast_tier import SLOW

# Beside other workers, a second thread of BLAS does not help but waits in a loop, at the cost of
# theirs: a factorisation took thirty times as long. Studies start their workers so, too.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_configure(config):
    """Let Ctrl-C be heard: a shell starts what it puts into the background deaf to it."""
    is_deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if is_deaf and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--fast", action="store_true", help="run the fast tier only")


def pytest_ignore_collect(collection_path, config):
    """Do not even import a slow module for the fast tier."""
    place = collection_path.relative_to(Path(__file__).parent).as_posix()
    return True if config.getoption("fast") and place in SLOW else None


def is_slow(item):
    """Return whether a collected test is not in the fast tier."""
    place = f"{'/'.join(item.path.parts[-2:])}::{item.name.split('[')[0]}"
    return place in SLOW or item.get_closest_marker("statistical") is not None


def pytest_collection_modifyitems(config, items):
    """Start what takes longest first, lest a worker is left with it at the end."""
    if config.getoption("fast"):
        slow = [item for item in items if is_slow(item)]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not is_slow(item)]
    items.sort(key=lambda item: item.path.name not in ("test_docs.py", "test_extending.py"))
