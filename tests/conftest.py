"""What every test relies on."""

import signal
import threading


def pytest_configure(config):
    """Let Ctrl-C be heard: a shell starts what it puts into the background deaf to it."""
    is_deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if is_deaf and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
