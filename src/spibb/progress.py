"""What long searches tell whoever watches: where they are, and how far from the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """Where a search stands.

    Attributes:
        what: What is computed.
        error: How far from it, in its own units.
        goal: The error at which it ends.
        step: Improvement steps that have been made; 0 where there are none.
        share: How much of it is done, where that is known.
        moment: When this was so, in seconds of the clock that only runs forward.
    """

    what: str
    error: float = math.nan
    goal: float = math.nan
    step: int = 0
    share: float = math.nan
    moment: float = field(default_factory=time.monotonic)


Watcher = Callable[[Progress], None]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def tell(progress: Progress) -> None:
    """Tell who watches, if anybody does."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(progress)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Call a function with every piece of progress that is made inside the block.

    Example:
        >>> heard = []
        >>> with watched(heard.append):
        ...     tell(Progress("values", 1e-3, 1e-9))
        >>> heard[0].what
        'values'
    """
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)
