"""What users call things: lists of names, where each stands, and which is meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Names:
    """The names of all states, or of all actions, in order.

    Attributes:
        labels: The names; None where they are the integers from 0.
        size: How many there are.

    Example:
        >>> wards = Names(("mild", "severe"), 2)
        >>> wards[1], wards.places["severe"], Names(None, 3)[2]
        ('severe', 1, '2')
        >>> wards.union(Names(("severe", "lost"), 2)).labels
        ('lost', 'mild', 'severe')
    """

    labels: tuple[str, ...] | None
    size: int

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, place: int) -> str:
        return str(place) if self.labels is None else self.labels[place]

    def __iter__(self) -> Iterator[str]:
        return iter(map(str, range(self.size)) if self.labels is None else self.labels)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each name stands."""
        return {name: place for place, name in enumerate(self)}

    @cached_property
    def are_numbers(self) -> bool:
        """Whether some of the labels are whole numbers, which places could be taken for."""
        return any(name.removeprefix("-").isdigit() for name in self.labels or ())

    def within(self, others: Names) -> NDArray[np.int64]:
        """Return where each of these names stands among others, -1 where it does not."""
        if self.labels is None and others.labels is None:
            here = np.arange(self.size)
            return np.where(here < others.size, here, -1)
        return np.array([others.places.get(name, -1) for name in self], dtype=np.int64)

    def union(self, others: Names) -> Names:
        """Return these names if they hold the others; else those of both, in order."""
        if others == self or not (others.within(self) < 0).any():
            return self
        if self.labels is None and others.labels is None:
            return Names(None, max(self.size, others.size))
        both = {*self, *others}
        if not all(name.isascii() and name.removeprefix("-").isdigit() for name in both):
            return Names(tuple(sorted(both)), len(both))
        # "7" and "07" are different names of the same size.
        ordered = tuple(sorted(both, key=lambda name: (int(name), name)))
        is_plain = ordered == tuple(Names(None, len(both)))
        return Names(None if is_plain else ordered, len(both))


class Named:
    """Base of what has states and actions, by number and by name."""

    n_states: Any
    n_actions: Any
    state_labels: tuple[str, ...] | None
    action_labels: tuple[str, ...] | None

    @cached_property
    def states(self) -> Names:
        """Names of the states."""
        return Names(self.state_labels, self.n_states)

    @cached_property
    def actions(self) -> Names:
        """Names of the actions."""
        return Names(self.action_labels, self.n_actions)

    def place(self, state: int, action: int | None = None) -> str:
        """Return a state, or a pair, as messages name it."""
        named = f"state {self.states[state]}"
        return named if action is None else f"{named}, action {self.actions[action]}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is spelt most like this one, if any is."""
    by_lower = {other.lower(): other for other in known}
    name = name.lower()
    near = difflib.get_close_matches(name, by_lower, n=1)
    # "prob" for "probability" is too short to be close.
    near += [other for other in by_lower if len(other) > 2 and name.startswith(other)]
    return by_lower[near[0]] if near else None
