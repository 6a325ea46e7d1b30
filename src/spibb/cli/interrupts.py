"""Ctrl-C that is answered within seconds, also where compiled code does not look up.

Python tells the main thread of a signal when it is back from compiled code, and a factorisation of
a large model may take minutes. The system's own part of the handler runs at once, and writes to a
pipe: a thread reads it, gives the main thread time to leave in order, and then ends the process.
What was half written lies under a name of its own, and the next run sweeps it
(spibb.whole_folders).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Seconds that leaving in order may take, and what shells expect of a program that Ctrl-C ended.
_PATIENCE = 1.0
INTERRUPTED = 130


@contextmanager
def prompt_interrupts() -> Iterator[None]:
    """End the process soon after Ctrl-C; not where somebody else handles or ignores it."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    has_left = threading.Event()
    watcher = threading.Thread(target=_watch, args=(reader, has_left), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        has_left.set()
        signal.set_wakeup_fd(before)
        os.close(writer)
        watcher.join()
        os.close(reader)


def _watch(reader: int, has_left: threading.Event) -> None:
    while byte := os.read(reader, 1):
        if byte[0] == signal.SIGINT and not has_left.wait(_PATIENCE):
            shown = "\x1b[?25h" if sys.stderr.isatty() else ""  # a spinner hides the cursor
            os.write(2, f"{shown}Interrupted.\n".encode())
            os._exit(INTERRUPTED)
