"""Standard output and error, where they are closed, as by ``>&-`` in a shell."""

from __future__ import annotations

import os
import sys


def open_closed_streams() -> None:
    """Write to nowhere what would be printed; call it before anything is opened.

    The next file that is opened would take the place of the stream, and what is printed would end
    in that file.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    # Open until the end of the program.
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")  # noqa: SIM115
