"""The process between states that weighted steps make, and its linear systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as sparse_linalg
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order

from spibb.confounding.groups import Groups
from spibb.representation.steps import Array, Codes, Steps

# Beyond so many states a system is solved by iteration: it then has few entries, or a good start.
_LARGEST_FACTORED = 150
# Of the right side, so much may remain.
_RESIDUAL, _MOST_ITERATIONS = 1e-10, 200


@dataclass(frozen=True, eq=False)
class Chain:
    """Where copies of steps lead.

    Attributes:
        gamma: The discount, below 1.
        state: State before each copy.
        after: State after it; the number of states is the end.
        reward: Its reward.
        cell: Place of (state, after) among the cells.
        cells: (state, after) in one number each, sorted.
        first_state: States in which episodes begin.
        start: Their frequencies, shape (S,).
    """

    gamma: float
    state: Codes
    after: Codes
    reward: Array
    cell: Codes
    cells: Codes
    first_state: Codes
    start: Array

    @classmethod
    def of(cls, steps: Steps, groups: Groups, n_states: int, gamma: float) -> Chain:
        """Return the chain of the copies of steps."""
        after, state = after_labels(steps, n_states)[groups.step], steps.state[groups.step]
        flat = state * (n_states + 1) + after
        cells = np.flatnonzero(np.bincount(flat))
        place = np.zeros(n_states * (n_states + 1), np.int64)
        place[cells] = np.arange(len(cells))
        first = steps.label_of[steps.first]
        return cls(
            gamma=gamma,
            state=state,
            after=after,
            reward=steps.reward[groups.step],
            cell=place[flat],
            cells=cells,
            first_state=first,
            start=np.bincount(first, minlength=n_states) / len(first),
        )

    def outcomes(self, v: Array) -> Array:
        """Return r + gamma V(x') of each copy."""
        return np.asarray(self.reward + self.gamma * np.append(v, 0.0)[self.after])

    def rewards(self, weight: Array) -> Array:
        """Return the expected reward of each state, for weighted copies."""
        found = np.bincount(self.state, weight * self.reward, len(self.start))
        return np.asarray(found, np.float64)

    def system(self, weight: Array) -> System:
        """Return I - gamma P, for weighted copies."""
        n = len(self.start)
        entries = -self.gamma * np.bincount(self.cell, weight, len(self.cells))
        row, column = np.divmod(self.cells, n + 1)
        stays = column < n
        entries, row, column = entries[stays], row[stays], column[stays]
        if n > _LARGEST_FACTORED:
            moves = sp.csr_array((entries, (row, column)), shape=(n, n))
            return System(sp.csr_array(sp.eye_array(n) + moves), None)
        matrix = np.eye(n)
        matrix[row, column] += entries
        return System(matrix, scipy.linalg.lu_factor(matrix, check_finite=False))

    def never_ends(self, weight: Array) -> bool:
        """Say whether some state is reached, for weighted copies, from which no end is."""
        n = len(self.start)
        taken = np.bincount(self.cell, weight, len(self.cells)) > 0.0
        row, column = np.divmod(self.cells[taken], n + 1)
        begins = np.flatnonzero(self.start)
        # A node before all: there the process begins.
        row = np.concatenate([row, np.full(len(begins), n + 1)])
        column = np.concatenate([column, begins])
        moves = sp.csr_array((np.ones(len(row)), (row, column)), shape=(n + 2, n + 2))
        reached = breadth_first_order(moves, n + 1, return_predecessors=False)
        ending = breadth_first_order(sp.csr_array(moves.T), n, return_predecessors=False)
        acts = np.unique(self.state)
        return bool(np.isin(np.intersect1d(reached, acts), ending, invert=True).any())


def after_labels(steps: Steps, n_states: int) -> Codes:
    """Return the state that follows each step; the number of states where the process ends."""
    goes_on = steps.following >= 0
    return np.where(goes_on, steps.label_of[np.maximum(steps.following, 0)], n_states)


@dataclass(frozen=True, eq=False)
class System:
    """A linear system between states.

    Attributes:
        matrix: The matrix.
        factor: Its factors, where there are few states.
    """

    matrix: Array | sp.csr_array
    factor: tuple[Array, NDArray[np.int32]] | None

    def solve(self, right: Array, start: Array | None = None, *, transposed: bool = False) -> Array:
        """Return the solution.

        Args:
            right: Right side.
            start: A solution nearby.
            transposed: Solve with the transposed matrix.
        """
        if self.factor is not None:
            return _factored_solution(self.factor, right, 1 if transposed else 0)
        matrix = self.matrix.T if transposed else self.matrix
        found, missed = sparse_linalg.bicgstab(
            matrix, right, start, rtol=_RESIDUAL, maxiter=_MOST_ITERATIONS
        )
        # Slow where the process hardly ever ends: then the matrix is factored after all.
        return np.asarray(sparse_linalg.spsolve(sp.csc_array(matrix), right) if missed else found)


def _factored_solution(
    factor: tuple[Array, NDArray[np.int32]], right: Array, trans: Literal[0, 1]
) -> Array:
    return np.asarray(scipy.linalg.lu_solve(factor, right, trans=trans, check_finite=False))
