"""What the user declares about a process beyond its log, for guarantees to rest on.

A log cannot show that it names every state, that nothing ever ends, what may follow what, or where
episodes begin when it holds few. Whoever knows may say so; what is said is checked against the log,
listed among the assumptions, and makes bounds tighter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from spibb.data.counts import Counts
from spibb.errors import DataError, SettingsError
from spibb.names import Names

# Probabilities by state, or (state, next state) or (state, action, next state), by name or number.
Start = Mapping[Any, float] | ArrayLike
Successors = Literal["seen"] | Iterable[tuple[Any, ...]]

_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Declarations:
    """Declarations, in the states and actions of the problem.

    Attributes:
        initial: Distribution of the first state, shape (S,); None: unknown, as far as the log goes.
        states_complete: Every state and action of the process is among those of the problem.
        never_ends: The process never ends.
        successors: Which states may follow each pair, sparse booleans of shape (S * A, S); a row
            without any may be followed by every state. None: nothing is said.
        is_seen: Whether `successors` is what followed in the log.
    """

    initial: NDArray[np.float64] | None = None
    states_complete: bool = False
    never_ends: bool = False
    successors: sp.csr_array | None = None
    is_seen: bool = False

    @classmethod
    def of(
        cls,
        counts: Counts,
        *,
        initial: Start | None = None,
        states_complete: bool = False,
        never_ends: bool = False,
        successors: Successors | None = None,
    ) -> Declarations:
        """Check declarations against the counts of the log."""
        if never_ends and counts.n_ended:
            raise SettingsError(
                f"never_ends, but {counts.n_ended} rows of the log end the process",
                expected="a log without terminations",
                hint="leave never_ends out, or mark those rows as truncated, if the process went "
                "on after them",
            )
        return cls(
            initial=None if initial is None else _checked_start(counts, initial),
            states_complete=bool(states_complete),
            never_ends=bool(never_ends),
            successors=_checked_successors(counts, successors),
            is_seen=isinstance(successors, str),
        )

    def for_counts(self, counts: Counts) -> Declarations:
        """Return what is declared on other counts of the same states: what was seen may differ."""
        if not self.is_seen:
            return self
        return replace(self, successors=_checked_successors(counts, "seen"))

    @property
    def kinds(self) -> tuple[bool, ...]:
        """What is declared at all, whatever it is."""
        given = self.initial is not None, self.successors is not None
        return *given, self.states_complete, self.never_ends, self.is_seen

    @property
    def proviso(self) -> str | None:
        """What a statement that rests on successors of the log says of it; None without them."""
        return "if what can follow was seen to follow" if self.is_seen else None

    @property
    def statements(self) -> tuple[str, ...]:
        """What was declared, as assumptions in words."""
        given = self.successors is not None and not self.is_seen
        statements = {
            "The first state is distributed as given.": self.initial is not None,
            "The process has no states or actions but those listed, as declared.": (
                self.states_complete
            ),
            "The process never ends, as declared.": self.never_ends,
            "A state is followed only by states that followed it in the log, under any action: "
            "what can follow was seen to follow.": self.is_seen,
            "States are followed only by the successors that were given for them.": given,
        }
        return tuple(text for text, holds in statements.items() if holds)


def _place(name: Any, known: Names, what: str, where: str) -> int:
    if str(name) not in known.places:
        raise DataError(
            f"{where} names the {what} {str(name)!r}",
            expected=f"one of the log or the baseline, such as {known[0]!r}",
            hint="check that names are spelt alike",
        )
    return known.places[str(name)]


def _checked_start(counts: Counts, initial: Start) -> NDArray[np.float64]:
    """Return a start distribution over the states of the counts."""
    start = np.zeros(counts.n_states)
    if isinstance(initial, Mapping):
        for name, probability in initial.items():
            start[_place(name, counts.states, "state", "initial")] = float(probability)
    elif counts.state_labels is not None:
        raise SettingsError(
            "initial is a list, but states have names",
            expected="a mapping from states to probabilities, as {'mild': 0.7, 'severe': 0.3}",
        )
    else:
        given = np.asarray(initial, dtype=np.float64)
        if given.shape != start.shape:
            raise SettingsError(
                f"initial has shape {given.shape}",
                expected=f"one probability for each of {counts.n_states} states, or a mapping "
                "from states to probabilities",
            )
        start[:] = given
    if not (start >= 0).all():
        raise SettingsError(
            f"initial has a probability {start[~(start >= 0)][0]:g}", expected="numbers >= 0"
        )
    if not abs(start.sum() - 1.0) <= _SUM_TOLERANCE:
        raise SettingsError(
            f"initial sums to {start.sum():.9g}", expected="probabilities that sum to 1"
        )
    return np.asarray(start / start.sum())


def _checked_successors(counts: Counts, successors: Successors | None) -> sp.csr_array | None:
    """Return which states may follow each pair, or refuse what the log contradicts."""
    if successors is None:
        return None
    shape = (counts.n_sa.size, counts.n_states)
    if isinstance(successors, str):
        if successors != "seen":
            raise SettingsError(
                f"successors is {successors!r}", expected="'seen', or rows of states that follow"
            )
        return _followers(counts)
    states, actions = counts.states, counts.actions
    pairs, followers = [], []
    for row in successors:
        if len(row) not in (2, 3):
            raise SettingsError(
                f"successors holds {row!r}", expected="(state, next_state) or (state, action, next)"
            )
        state = _place(row[0], states, "state", "successors")
        chosen = [_place(name, actions, "action", "successors") for name in row[1:-1]]
        follower = _place(row[-1], states, "state", "successors")
        for action in chosen or range(counts.n_actions):
            pairs.append(state * counts.n_actions + action)
            followers.append(follower)
    ones = np.ones(len(pairs), dtype=np.bool_)
    given = sp.csr_array(sp.coo_array((ones, (pairs, followers)), shape=shape))
    given.sum_duplicates()
    _check_contradiction(counts, given)
    return given


def _followers(counts: Counts) -> sp.csr_array:
    """Return what followed each state, under any action, for every one of its pairs."""
    owner = np.repeat(np.arange(counts.n_states), counts.n_actions)
    pool = sp.csr_array((np.ones(len(owner)), (owner, np.arange(len(owner)))))
    return sp.csr_array(sp.csr_array((pool @ counts.n_sas) > 0)[owner])


def _check_contradiction(counts: Counts, given: sp.csr_array) -> None:
    listed = np.repeat(np.diff(given.indptr) > 0, np.diff(counts.n_sas.indptr))
    rows = np.repeat(np.arange(counts.n_sa.size), np.diff(counts.n_sas.indptr))
    allowed = np.asarray(given[rows, counts.n_sas.indices]).ravel() if len(rows) else listed
    wrong = listed & ~allowed
    if wrong.any():
        place = int(np.argmax(wrong))
        state, action = divmod(int(rows[place]), counts.n_actions)
        raise DataError(
            f"the log holds {int(counts.n_sas.data[wrong].sum())} transitions that successors rule "
            "out",
            where=f"{counts.place(state, action)}, next "
            f"{counts.place(int(counts.n_sas.indices[place]))}",
            expected="every state that followed among those that may follow",
            hint="complete the successors, or correct the log",
        )
