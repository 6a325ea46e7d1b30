"""Public names that are loaded when they are first used, and listed once: in the package's stub.

A stub ``__init__.pyi`` says where each name lives, for type checkers and editors; the package
itself reads it too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

_IMPORT = re.compile(r"^from ([\w.]+) import (\w+) as \2$", re.M)


def read_stub(package: str, file: str) -> tuple[list[str], Callable[[str], Any]]:
    """Return the names that a package's stub lists, and what loads one of them.

    Args:
        package: Name of the package.
        file: Its ``__init__.py``, beside which the stub lies.
    """
    stub = Path(file).with_name("__init__.pyi").read_text(encoding="utf-8")
    homes = {name: home for home, name in _IMPORT.findall(stub)}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        if home == package or not hasattr(import_module(home), name):
            return import_module(f"{home}.{name}")  # a module
        return getattr(import_module(home), name)

    return sorted(homes), load
