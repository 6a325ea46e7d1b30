"""How functions are compiled: once, cached on disk, and without the interpreter's lock.

Division by zero follows IEEE rules, as on a GPU: an infinite ratio is an answer, no error.

Compiled functions take numbers and arrays, never a generator of NumPy's. Numba runs Python to
unbox one, and an interrupt (Ctrl-C) that is raised there ends the process.

Numba keeps its cache beside the sources, or in the user's cache folder. Where neither can be
written, as for a service without a home, the cache is a folder for temporary files.
"""

import os
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

_OPTIONS: Any = {"cache": True, "nogil": True, "error_model": "numpy"}
# What numba says where it finds no folder for its cache.
_NO_FOLDER = "no locator available"


def _compiler(**options: Any) -> Callable[[Any], Any]:
    """Return numba's decorator; one with a cache does not need a folder that numba finds."""

    def decorate(function: Any) -> Any:
        try:
            return numba.njit(**options)(function)
        except RuntimeError as error:
            if _NO_FOLDER not in str(error):
                raise
        if _has_temporary_cache():
            return numba.njit(**options)(function)
        return numba.njit(**{**options, "cache": False})(function)

    return decorate


def _has_temporary_cache() -> bool:
    """Move numba's cache to a temporary folder, say so, and return whether there is one.

    Processes that are started later find the folder in their environment and say nothing.
    """
    global _has_said
    if _has_said:
        return False
    _has_said = True
    folder = _temporary_folder()
    where = f"is kept in {folder}" if folder else "is not kept, and every start takes a minute"
    print(
        f"Note: no folder for compiled code can be written. It {where}; set NUMBA_CACHE_DIR to a "
        "folder that lasts.", file=sys.stderr, flush=True,
    )  # fmt: skip
    if folder is None:
        return False
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    numba.config.reload_config()
    return True


_has_said = False


def _temporary_folder() -> Path | None:
    """Return a temporary folder of this user alone, the same one each time; None: there is none."""
    try:
        user = os.getuid() if hasattr(os, "getuid") else "user"
        folder = Path(tempfile.gettempdir()) / f"spibb-compiled-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        # What is cached is run: a folder that somebody else can write to is none.
        is_own = not hasattr(os, "getuid") or (
            found.st_uid == os.getuid() and not found.st_mode & 0o077
        )
        if stat.S_ISDIR(found.st_mode) and is_own:
            return folder
        return Path(tempfile.mkdtemp(prefix="spibb-compiled-"))
    except OSError:
        return None


jit = _compiler(**_OPTIONS)
# For the pieces of a hot loop, which are one function to the compiler.
inlined_jit = _compiler(**_OPTIONS, inline="always")
# Sums may be added up in another order, which lets them be vectorised; NaN and infinity still hold.
reassociating_jit = _compiler(**_OPTIONS, fastmath={"reassoc", "contract"})
# Quotients by one divisor may be products with its reciprocal, besides.
reciprocal_jit = _compiler(**_OPTIONS, fastmath={"reassoc", "contract", "arcp", "nsz"})
# For functions that are made around others at run time, which no cache on disk could tell apart.
uncached_jit = _compiler(**{**_OPTIONS, "cache": False})
