"""Ctrl-C that ends the command within two seconds, with exit code 130, whatever it is doing.

Python answers a signal by an exception in the main thread. That alone is not enough:

* The exception is raised when the thread is back from compiled code. A factorisation of a large
  model may take minutes.
* It is dropped where Python ignores exceptions: in finalisers and in callbacks of compilers.
* Other threads that compute keep the process from ending, and so does what catches everything.

The system's own part of the handler runs at once and writes to a pipe. A thread reads it, gives the
main thread time to leave in order, and then ends the process. What was half written lies under a
name of its own, and the next run sweeps it (spibb.atomic_folders). Workers leave with this process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

# Seconds that leaving in order may take, and what shells expect of a program that Ctrl-C ended.
_PATIENCE = 0.5
INTERRUPTED = 130


@contextmanager
def prompt_interrupts() -> Iterator[None]:
    """End the process soon after Ctrl-C; not where somebody else handles or ignores it."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    watch = _Watch()
    try:
        yield
    except BaseException:
        # Whatever became of the interrupt on its way here.
        if not watch.has_come:
            raise
    finally:
        if not watch.has_come:
            watch.end()
    if watch.has_come:
        watch.leave()


def say_when_interrupted(words: Callable[[], str]) -> None:
    """Set what is said when the command is interrupted.

    Args:
        words: Returns it; any thread may call it.
    """
    global _last_words
    _last_words = words


_last_words: Callable[[], str] = lambda: "Interrupted."  # noqa: E731 - replaced as a whole


class _Watch:
    """A thread that is told of Ctrl-C as soon as it comes."""

    def __init__(self) -> None:
        self.has_come = False
        self._has_left, self._has_said = threading.Event(), threading.Lock()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, self._answer)

    def end(self) -> None:
        """Leave signals as they were."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._has_left.set()
        signal.set_wakeup_fd(self._before)
        os.close(self._writer)
        self._thread.join()
        os.close(self._reader)

    def say(self) -> None:
        """Say that the command was interrupted, once."""
        if self._has_said.acquire(blocking=False):
            shown = "\x1b[?25h" if os.isatty(2) else ""  # a spinner hides the cursor
            os.write(2, f"{shown}{_last_words()}\n".encode(errors="backslashreplace"))

    def leave(self) -> None:
        """Say so and end the process: to take down all packages in order takes too long."""
        with suppress(Exception):
            sys.stdout.flush()
        self._end_process()

    def _end_process(self) -> None:
        """Say so and leave; standard output may be locked by the main thread, and is left alone."""
        self.say()
        os._exit(INTERRUPTED)

    def _answer(self, *_: Any) -> None:
        self.has_come = True
        raise KeyboardInterrupt

    def _run(self) -> None:
        while byte := os.read(self._reader, 1):
            if byte[0] == signal.SIGINT and not self._has_left.wait(_PATIENCE):
                self._end_process()
