"""What a training reads: transitions, the baseline and the pseudo-counts at their states."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.arrays import as_float32
from spibb.deep.baseline import as_probabilities, refuse_bad_rows
from spibb.deep.pseudo_counts import FittedCounts, PseudoCounts, checked_counts
from spibb.deep.transitions import Transitions, flags, refuse_others, whole_actions
from spibb.errors import DataError

Floats = NDArray[np.float32]
_NUMBERS = ("state", "reward", "next_state", "n_here", "baseline_next", "n_next")


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
    """

    state: Floats
    action: NDArray[np.int64]
    reward: Floats
    next_state: Floats
    terminated: NDArray[np.bool_]
    n_here: Floats
    baseline_next: Floats
    n_next: Floats

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            object.__setattr__(self, name, as_float32(getattr(self, name), name))
        object.__setattr__(self, "action", whole_actions(self.action))
        object.__setattr__(self, "terminated", flags("terminated", self.terminated))
        _refuse_shapes(self)
        _refuse_values(self)

    @classmethod
    def from_transitions(
        cls,
        transitions: Transitions,
        baseline: Any,
        pseudo_counts: PseudoCounts | FittedCounts,
    ) -> TrainingData:
        """Ask the baseline and the pseudo-counts about every state of a data set, once.

        Args:
            transitions: The data set.
            baseline: Function of states (N, d) to probabilities (N, A), or an object with a method
                ``action_probabilities`` that is one.
            pseudo_counts: A way to count, fitted here to the transitions, or already fitted.
        """
        refuse_others(transitions)
        counts = _fitted(pseudo_counts, transitions)
        n_actions = transitions.n_actions
        here = as_float32(checked_counts(counts, transitions.state, n_actions), "n_here")
        ask = as_probabilities(baseline, n_actions)
        return cls(
            state=transitions.state,
            action=transitions.action,
            reward=transitions.reward,
            next_state=transitions.next_state,
            terminated=transitions.terminated,
            n_here=here[np.arange(len(transitions)), transitions.action],
            baseline_next=ask(transitions.next_state),
            n_next=checked_counts(counts, transitions.next_state, n_actions),
        )

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

    def fingerprint(self) -> str:
        """Return a digest of everything in here."""
        digest = hashlib.sha256()
        for item in fields(self):
            column = getattr(self, item.name)
            digest.update(f"{item.name}{column.shape}{column.dtype}".encode())
            digest.update(column.data)
        return digest.hexdigest()


def _fitted(pseudo_counts: Any, transitions: Transitions) -> FittedCounts:
    """Return pseudo-counts that know these transitions' actions."""
    fit = None if isinstance(pseudo_counts, type) else getattr(pseudo_counts, "fit", None)
    counts = pseudo_counts if fit is None else fit(transitions)
    if isinstance(counts, type) or not callable(getattr(counts, "counts", None)):
        raise DataError(
            f"the pseudo-counts are {counts!r}",
            expected="an object with a method fit, or with counts where it is fitted",
            hint="use KernelCounts(width=0.2)",
        )
    n_actions = getattr(counts, "n_actions", None)
    if n_actions != transitions.n_actions:
        raise DataError(
            f"pseudo-counts of {n_actions} actions",
            expected=f"{transitions.n_actions}, as the transitions have",
            hint="fit them on these transitions",
        )
    return counts  # type: ignore[no-any-return]


def _refuse_shapes(data: TrainingData) -> None:
    n_rows = len(data.action)
    if n_rows == 0:
        raise DataError("the data set is empty", expected="at least one transition")
    if data.state.ndim != 2 or data.n_next.ndim != 2 or 0 in data.n_next.shape + data.state.shape:
        raise DataError(
            f"state has shape {data.state.shape}, n_next {data.n_next.shape}",
            expected="(N, d) and (N, A)",
        )
    for name, shape in (
        ("state", (n_rows, data.n_features)),
        ("action", (n_rows,)),
        ("reward", (n_rows,)),
        ("next_state", (n_rows, data.n_features)),
        ("terminated", (n_rows,)),
        ("n_here", (n_rows,)),
        ("baseline_next", (n_rows, data.n_actions)),
        ("n_next", (n_rows, data.n_actions)),
    ):
        found = getattr(data, name).shape
        if found != shape:
            raise DataError(f"{name} has shape {found}", expected=f"{shape}")


def _refuse_values(data: TrainingData) -> None:
    for name, good, expected in (
        ("state", np.isfinite(data.state), "finite numbers"),
        ("next_state", np.isfinite(data.next_state), "finite numbers"),
        ("reward", np.isfinite(data.reward), "finite numbers"),
        (
            "action",
            (data.action >= 0) & (data.action < data.n_actions),
            f"an action below {data.n_actions}",
        ),
        ("n_here", data.n_here >= 0, "a count >= 0"),
        ("n_next", data.n_next >= 0, "counts >= 0"),
    ):
        if not good.all():
            place = tuple(int(k) for k in np.argwhere(~good)[0])
            raise DataError(
                f"{name} is {getattr(data, name)[place]}",
                where=f"row {place[0]}",
                expected=expected,
            )
    refuse_bad_rows(data.baseline_next)
