"""A policy for finitely many states and actions: a table of probabilities, with its labels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.atomic_files import as_path, write_whole
from spibb.display import Card, Display, listed
from spibb.errors import PolicyError
from spibb.names import Named, nearest

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT_VERSION = 1
# What files call the hash of the log that a policy was made of.
LOG_HASH = "log_hash"
# And whether it was made to minimize costs.
MINIMIZE = "minimize"
# Files round to six digits: a row that misses one by this much for each action is rescaled, by
# more it is refused.
_SUM_TOLERANCE = 1e-6
_WHOLE = re.compile(r"-?[1-9][0-9]{0,17}|0")
# How much of a table is shown.
_N_STATES, _N_ACTIONS = 5, 6


@dataclass(frozen=True, eq=False, repr=False)
class TabularPolicy(Named, Display):
    """For every state, a distribution over the actions.

    Args:
        probabilities: Shape (states, actions); each row sums to one.
        state_labels: Names of the states, in order; None where states are plain integers.
        action_labels: Names of the actions, in order.
        is_estimated: Whether it was estimated from the log it is said to have made.
        log_hash: `Log.content_hash` of the log it was made of, where that is known.
        minimize: Whether it was made to minimize costs; None where that is not known.

    Example:
        >>> policy = TabularPolicy([[0.25, 0.75], [1.0, 0.0]], action_labels=("wait", "treat"))
        >>> policy.n_states, policy.n_actions
        (2, 2)
        >>> policy[0], policy.sample(1)
        ({'wait': 0.25, 'treat': 0.75}, 'wait')
    """

    probabilities: NDArray[np.float64]
    state_labels: tuple[str, ...] | None = None
    action_labels: tuple[str, ...] | None = None
    is_estimated: bool = False
    log_hash: str | None = None
    minimize: bool | None = None

    def __init__(
        self,
        probabilities: ArrayLike,
        state_labels: Sequence[str] | None = None,
        action_labels: Sequence[str] | None = None,
        *,
        is_estimated: bool = False,
        log_hash: str | None = None,
        minimize: bool | None = None,
    ) -> None:
        states = None if state_labels is None else tuple(state_labels)
        actions = None if action_labels is None else tuple(action_labels)
        table = _checked_table(probabilities, states, actions)
        for name, labels, size in (
            ("state_labels", states, table.shape[0]),
            ("action_labels", actions, table.shape[1]),
        ):
            if labels is not None and len(labels) != size:
                raise PolicyError(f"{name} has {len(labels)} entries", expected=f"{size}")
            if labels is not None and len(set(labels)) != size:
                raise PolicyError(f"{name} repeats a label", expected="each label once")
        object.__setattr__(self, "probabilities", table)
        object.__setattr__(self, "state_labels", states)
        object.__setattr__(self, "action_labels", actions)
        object.__setattr__(self, "is_estimated", is_estimated)
        object.__setattr__(self, "log_hash", log_hash)
        object.__setattr__(self, "minimize", minimize)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.probabilities.shape[0])

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.probabilities.shape[1])

    @classmethod
    def uniform(cls, n_states: int, n_actions: int) -> TabularPolicy:
        """Return the policy that takes every action equally often."""
        return cls(np.full((n_states, n_actions), 1.0 / n_actions))

    @classmethod
    def from_counts(
        cls,
        n_sa: ArrayLike,
        state_labels: Sequence[str] | None = None,
        action_labels: Sequence[str] | None = None,
    ) -> TabularPolicy:
        """Estimate the policy that made a log: N(x, a) / N(x), uniform where N(x) = 0.

        Args:
            n_sa: How often each action was taken in each state, shape (states, actions).
            state_labels: Names of the states.
            action_labels: Names of the actions.
        """
        counts = np.asarray(n_sa, dtype=np.float64)
        if counts.ndim != 2 or not (counts >= 0).all():
            raise PolicyError(
                f"counts of shape {counts.shape}", expected="counts >= 0, shape (states, actions)"
            )
        totals = counts.sum(axis=1, keepdims=True)
        table = np.divide(
            counts, totals, out=np.full(counts.shape, 1.0 / counts.shape[1]), where=totals > 0
        )
        return cls(table, state_labels, action_labels, is_estimated=True)

    def __getitem__(self, state: int | str) -> dict[Any, float]:
        """Return the probability of each action in a state, given as in `action_probabilities`."""
        row = self.action_probabilities(state)
        return dict(zip(self.action_labels or range(self.n_actions), row.tolist(), strict=True))

    def __iter__(self) -> Iterator[Any]:
        """Go through the states: their names, or their places where they have none."""
        return iter(self.state_labels or range(self.n_states))

    def action_probabilities(self, states: Any) -> NDArray[np.float64]:
        """Return the probabilities of the actions, shape (..., A).

        Args:
            states: Names of states, or, where no name is a number, their places from 0; one, or
                an array of them.
        """
        return self.probabilities[self._places(states)]

    def act(self, states: Any, rng: np.random.Generator | None = None) -> Any:
        """Draw an action for each state: its name, or its place where actions have none.

        Args:
            states: Names of states, or, where no name is a number, their places from 0; one, or
                an array of them.
            rng: Source of randomness; None: a fresh one.
        """
        reached = self.action_probabilities(states).cumsum(axis=-1)
        chosen = np.random.default_rng() if rng is None else rng
        # The total is 1 up to rounding; drawing below it keeps the last action in range.
        draws = np.asarray(chosen.random(reached.shape[:-1]) * reached[..., -1])
        actions = (reached <= draws[..., None]).sum(axis=-1)
        return actions if self.action_labels is None else np.array(self.action_labels)[actions]

    def sample(self, state: int | str, rng: np.random.Generator | None = None) -> Any:
        """Draw an action for one state; see :meth:`act`."""
        return self.act(state, rng).item()

    def _places(self, states: Any) -> NDArray[np.int64]:
        given = np.asarray(states)
        # Where states are called by numbers, a number is a name.
        if given.dtype.kind in "iu" and not self.states.are_numbers:
            places = given.astype(np.int64)
        else:
            known = self.states.places
            found = [known.get(str(name), -1) for name in given.ravel()]
            places = np.array(found, dtype=np.int64).reshape(given.shape)
        wrong = (places < 0) | (places >= self.n_states)
        if wrong.any():
            name = given[wrong].tolist()[0]
            near = nearest(name, self.states) if isinstance(name, str) else None
            raise PolicyError(
                f"the policy has no state {name!r}",
                expected=f"one of {listed(self.states, self.n_states)}",
                hint=f"use {near!r}" if near else None,
            )
        return places

    def _card(self) -> Card:
        origin = ", estimated from its log" if self.is_estimated else ""
        shown = [(x, self.probabilities[x]) for x in range(min(self.n_states, _N_STATES))]
        return Card(
            f"TabularPolicy: {self.n_states:,} states, {self.n_actions:,} actions{origin}",
            {"actions": listed(self.actions, self.n_actions)},
            ("state", *(f"{self.actions[a]}" for a in range(min(self.n_actions, _N_ACTIONS)))),
            [(self.states[x], *(f"{p:.3g}" for p in row[:_N_ACTIONS])) for x, row in shown],
        )

    def write(
        self,
        path: str | Path,
        metadata: dict[str, Any] | None = None,
        *,
        states: NDArray[np.bool_] | None = None,
    ) -> None:
        """Write the long table ``state, action, probability`` as CSV or Parquet.

        Args:
            path: File name; the suffix ``.csv`` or ``.parquet`` decides the format.
            metadata: Facts to keep beside the table; only Parquet files can hold them, the hash of
                the log that the policy was made of, and whether that was to minimize costs.
            states: Which states to write, shape (S,); None: all.
        """
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet

        path = as_path(path)
        table, sink = self.to_table(), pa.BufferOutputStream()
        if states is not None:
            table = table.filter(pa.array(np.repeat(states, self.n_actions)))
        if path.suffix == ".csv":
            pyarrow.csv.write_csv(table, sink)
        elif path.suffix == ".parquet":
            made = {LOG_HASH: self.log_hash, MINIMIZE: self.minimize}
            told = {name: value for name, value in made.items() if value is not None}
            known = {"format": "spibb-policy", "version": FORMAT_VERSION, **told}
            facts = known | (metadata or {})
            keyed = {b"spibb": json.dumps(facts, sort_keys=True).encode()}
            pyarrow.parquet.write_table(table.replace_schema_metadata(keyed), sink)
        else:
            raise PolicyError(
                f"cannot tell the format of {path.name}", expected="a name in .csv or .parquet"
            )
        write_whole(path, sink.getvalue())

    def to_table(self) -> pa.Table:
        """Return the long table ``state, action, probability``."""
        import pyarrow as pa

        n_states, n_actions = self.probabilities.shape
        states = np.repeat(np.arange(n_states), n_actions)
        actions = np.tile(np.arange(n_actions), n_states)
        return pa.table(
            {
                "state": _named(states, self.state_labels),
                "action": _named(actions, self.action_labels),
                "probability": self.probabilities.ravel(),
            }
        )

    @classmethod
    def read(cls, path: str | Path) -> TabularPolicy:
        """Read a policy from a CSV or Parquet table ``state, action, probability``.

        Pairs that the table leaves out have probability 0.
        """
        from spibb.mdp.policy_file import read_policy

        return read_policy(path)

    @classmethod
    def from_dataframe(cls, frame: Any) -> TabularPolicy:
        """Make a policy of a pandas, polars or Arrow table ``state, action, probability``.

        Pairs that the table leaves out have probability 0.
        """
        from spibb.mdp.policy_file import policy_from_frame

        return policy_from_frame(frame)


def _named(indices: NDArray[np.int64], labels: tuple[str, ...] | None) -> Any:
    import pyarrow as pa

    if labels is None:
        return pa.array(indices)
    # Names that are integers go out as such, as they came in.
    if all(_WHOLE.fullmatch(label) for label in labels):
        return pa.array(np.array(labels, dtype=np.int64)[indices])
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(labels)).cast(pa.string())


def _checked_table(
    probabilities: ArrayLike, labels: tuple[str, ...] | None, actions: tuple[str, ...] | None
) -> NDArray[np.float64]:
    try:
        table = np.array(probabilities, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise PolicyError(f"probabilities are not an array of numbers ({error})") from None
    if table.ndim != 2 or 0 in table.shape:
        raise PolicyError(
            f"a policy of shape {table.shape}", expected="shape (states, actions), both at least 1"
        )

    def name(state: int) -> str:
        return f"state {state}" if labels is None else f"state {labels[state]!r}"

    bad = ~np.isfinite(table) | (table < 0)
    if bad.any():
        state, action = np.argwhere(bad)[0]
        named = repr(actions[action]) if actions and len(actions) > action else str(action)
        raise PolicyError(
            f"probability {table[state, action]} of action {named}",
            where=name(state),
            expected="a number between 0 and 1",
        )
    totals = table.sum(axis=1)
    off = np.abs(totals - 1.0) > _SUM_TOLERANCE * table.shape[1]
    if off.any():
        state = int(np.argmax(off))
        raise PolicyError(
            f"probabilities sum to {totals[state]:.9g} in {int(off.sum())} of {len(table)} states",
            where=name(state),
            expected="rows that sum to 1",
            hint="list every action of that state, or divide its probabilities by their sum",
        )
    # Rescale rounded rows only: a table that is already right stays as it is, bit for bit.
    inexact = np.abs(totals - 1.0) > 1e-14 * table.shape[1]
    table[inexact] /= totals[inexact, None]
    table.setflags(write=False)
    return table
