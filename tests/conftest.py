"""What every test relies on."""

import os
import signal
import threading

# Beside other workers, a second thread of BLAS does not help but waits in a loop, at the cost of
# theirs: a factorisation took thirty times as long. Studies start their workers so, too.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_configure(config):
    """Let Ctrl-C be heard: a shell starts what it puts into the background deaf to it."""
    is_deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if is_deaf and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Start what takes longest first, lest a worker is left with it at the end."""
    items.sort(key=lambda item: item.path.name not in ("test_docs.py", "test_extending.py"))
