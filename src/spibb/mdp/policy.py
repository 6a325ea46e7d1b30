"""A policy for finitely many states and actions: a table of probabilities, with its labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.errors import PolicyError
from spibb.files import as_path, write_whole
from spibb.names import Named

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT_VERSION = 1
# Files round to six digits: a row that misses one by this much for each action is rescaled, by
# more it is refused.
_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class TabularPolicy(Named):
    """For every state, a distribution over the actions.

    Args:
        probabilities: Shape (states, actions); each row sums to one.
        state_labels: Names of the states, in order; None where states are plain integers.
        action_labels: Names of the actions, in order.
        is_estimated: Whether it was estimated from the log it is said to have made.

    Example:
        >>> policy = TabularPolicy([[0.25, 0.75], [1.0, 0.0]], action_labels=("wait", "treat"))
        >>> policy.n_states, policy.n_actions
        (2, 2)
        >>> float(policy.probabilities[0, 1])
        0.75
    """

    probabilities: NDArray[np.float64]
    state_labels: tuple[str, ...] | None = None
    action_labels: tuple[str, ...] | None = None
    is_estimated: bool = False

    def __init__(
        self,
        probabilities: ArrayLike,
        state_labels: Sequence[str] | None = None,
        action_labels: Sequence[str] | None = None,
        *,
        is_estimated: bool = False,
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

    def sample(self, state: int, rng: np.random.Generator) -> int:
        """Draw an action for ``state``."""
        return int(rng.choice(self.n_actions, p=self.probabilities[state]))

    def write(self, path: str | Path, metadata: dict[str, Any] | None = None) -> None:
        """Write the long table ``state, action, probability`` as CSV or Parquet.

        Args:
            path: File name; the suffix ``.csv`` or ``.parquet`` decides the format.
            metadata: Facts to keep beside the table; only Parquet files can hold them.
        """
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet

        path = as_path(path)
        table, sink = self.to_table(), pa.BufferOutputStream()
        if path.suffix == ".csv":
            pyarrow.csv.write_csv(table, sink)
        elif path.suffix == ".parquet":
            facts = {"format": "spibb-policy", "version": FORMAT_VERSION, **(metadata or {})}
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


def _named(indices: NDArray[np.int64], labels: tuple[str, ...] | None) -> Any:
    import pyarrow as pa

    if labels is None:
        return pa.array(indices)
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
