"""What a training reads: transitions, the baseline and the pseudo-counts at their states."""

from __future__ import annotations

import hashlib
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.compiled.arrays import as_float32
from spibb.deep.baseline import check_distributions, checked_probabilities
from spibb.deep.pseudo_counts import FittedCounts, PseudoCounts, checked_counts
from spibb.deep.transitions import Floats, Transitions, check_carried, check_column, checked_scale
from spibb.errors import DataError

# The columns of `TrainingData` that engines read, of one data set or of several in a row.
Records = namedtuple(
    "Records", "state action reward next_state terminated n_here baseline_next n_next"
)
COLUMNS = Records._fields


@dataclass(frozen=True, eq=False)
class TrainingData:
    """One data set, ready for training.

    Attributes:
        state: States x, shape (N, d), float32.
        action: Actions a taken in them, shape (N,), int64.
        reward: Rewards, shape (N,), float32.
        next_state: States x' entered, shape (N, d), float32.
        terminated: Whether the task ended in x', shape (N,).
        n_here: Pseudo-count of the pair taken, N~(x, a), shape (N,), float32.
        baseline_next: Probabilities of the baseline at x', shape (N, A), float32.
        n_next: Pseudo-counts at x', shape (N, A), float32.
        baseline: The baseline that was asked, which a trained policy will need again.
        pseudo_counts: The fitted pseudo-counts that were asked, likewise.
        scale: Units of the coordinates, shape (d,): states here are observations divided by them;
            None where they are the observations.
    """

    state: Floats
    action: NDArray[np.int64]
    reward: Floats
    next_state: Floats
    terminated: NDArray[np.bool_]
    n_here: Floats
    baseline_next: Floats
    n_next: Floats
    baseline: Any = field(default=None, repr=False)
    pseudo_counts: FittedCounts | None = field(default=None, repr=False)
    scale: Floats | None = None

    def __post_init__(self) -> None:
        given = self.records._asdict()
        answers = {name: as_float32(given.pop(name), name) for name in COLUMNS[5:]}
        shape = answers["n_next"].shape
        if len(shape) != 2 or shape[1] == 0:
            raise DataError(f"n_next has shape {shape}", expected="(N, A)")
        steps = Transitions.from_arrays(**given, n_actions=shape[1])
        for name, column in answers.items():
            wanted = (len(steps),) if name == "n_here" else (len(steps), shape[1])
            if column.shape != wanted:
                raise DataError(f"{name} has shape {column.shape}", expected=f"{wanted}")
            check_column(name, column, column >= 0, "numbers >= 0")
        check_distributions(answers["baseline_next"])
        for name in COLUMNS:
            object.__setattr__(self, name, answers.get(name, getattr(steps, name, None)))

    @classmethod
    def from_transitions(
        cls,
        transitions: Transitions,
        baseline: Any,
        pseudo_counts: PseudoCounts | FittedCounts,
        *,
        scale: ArrayLike | None = None,
    ) -> TrainingData:
        """Ask the baseline and the pseudo-counts about every state of a data set, once.

        Args:
            transitions: The data set.
            baseline: Function of states (N, d) to probabilities (N, A), or an object with a method
                ``action_probabilities`` that is one.
            pseudo_counts: A way to count, fitted here to the transitions, or already fitted.
            scale: Units of the coordinates, a number or one for each. Networks and pseudo-counts
                see states divided by them (those fitted before are of ``transitions.scaled``), the
                baseline sees them as they are.
        """
        check_carried(transitions)
        units = None if scale is None else checked_scale(scale, transitions.n_dimensions)
        seen = transitions if units is None else transitions.scaled(units)
        counts, n_actions = _fitted(pseudo_counts, seen), seen.n_actions
        n_here = checked_counts(counts, seen.state, n_actions)[np.arange(len(seen)), seen.action]
        baseline_next = checked_probabilities(baseline, transitions.next_state, n_actions)
        n_next = checked_counts(counts, seen.next_state, n_actions)
        steps = (getattr(seen, name) for name in COLUMNS[:5])
        records = Records._make([*steps, n_here, baseline_next, n_next])
        return cls(*records, baseline, counts, units)

    def __len__(self) -> int:
        return len(self.action)

    @property
    def n_features(self) -> int:
        """Length of a state."""
        return int(self.state.shape[1])

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.n_next.shape[1])

    @property
    def records(self) -> Records:
        """The columns that engines read."""
        return Records._make(getattr(self, name) for name in COLUMNS)

    def fingerprint(self) -> str:
        """Return a digest of all that a training reads."""
        digest = hashlib.sha256()
        for name, column in zip(COLUMNS, self.records, strict=True):
            digest.update(f"{name}{column.shape}{column.dtype}".encode())
            digest.update(column.data)
        return digest.hexdigest()


def _fitted(pseudo_counts: Any, transitions: Transitions) -> FittedCounts:
    """Return pseudo-counts that know these transitions' actions."""
    fit = None if isinstance(pseudo_counts, type) else getattr(pseudo_counts, "fit", None)
    counts = pseudo_counts if fit is None else fit(transitions)
    if isinstance(counts, type) or not callable(getattr(counts, "counts", None)):
        expected = "an object with a method fit, or with counts where it is fitted"
        hint = "use KernelCounts(width=0.2)"
        raise DataError(f"the pseudo-counts are {counts!r}", expected=expected, hint=hint)
    n_actions = getattr(counts, "n_actions", None)
    if n_actions != transitions.n_actions:
        expected = f"{transitions.n_actions}, as the transitions have"
        hint = "fit them on these transitions"
        raise DataError(f"pseudo-counts of {n_actions} actions", expected=expected, hint=hint)
    return counts  # type: ignore[no-any-return]
