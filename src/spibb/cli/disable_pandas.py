"""Arrow without pandas, and without a handler of signals of its own.

pyarrow imports pandas where it is installed, though no command needs it. That takes as long as
reading a million rows. While it reads a CSV file, it also puts a handler of its own in the place of
ours, which may then never hear of Ctrl-C.

Only the process of a command line is ours to decide this for; what imports pandas itself, as a
plugin may, finds it all the same.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _WithoutPandas(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def leave_pandas_out() -> None:
    """Let pyarrow look for pandas now, and find none; leave signals to us."""
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.array([])  # asks whether there is pandas, once and for all
        pa.enable_signal_handlers(False)
    finally:
        sys.meta_path.remove(finder)
