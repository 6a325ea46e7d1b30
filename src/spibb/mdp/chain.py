"""The Markov chain of a policy, as sparse rows: what large models are solved by.

A policy makes of a model the system V = r_pi + gamma P_pi V. Successors that several actions share
are one entry, and what stays in its state is divided out (Jacobi's scaling), so that a state that
only stays, as one that was never met does, is solved by writing it down:

    V = b + C V,   b = r_pi / d,   C = gamma (P_pi - diag) / d,   d = 1 - gamma P_pi(x, x)

C is not negative, and its rows sum to at most gamma. Loops run over blocks of states that do not
depend on the number of threads; neither do results, therefore, and between two calls the
interpreter answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.compiled.threads import over_chunks
from spibb.mdp.batch import ModelBatch
from spibb.memory import check_fits

# States of a block: enough to be worth a thread, few enough for two threads to share 50,000.
_BLOCK = 25_000


@dataclass(frozen=True, eq=False)
class Chain:
    """V = b + C V, for one policy in one model.

    Attributes:
        indptr: Where the rows of C start, shape (S + 1,).
        indices: Columns.
        data: Entries.
        reward: b, shape (S,).
        staying: d, shape (S,).
        contraction: The largest sum of a row of C.
        n_terms: The most products that were added up for a row, for bounds on rounding.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[np.float64]
    reward: NDArray[np.float64]
    staying: NDArray[np.float64]
    contraction: float
    n_terms: int

    @classmethod
    def of(cls, batch: ModelBatch, problem: int, policy: NDArray[np.float64]) -> Chain:
        """Return the chain of a policy (S, A) in one model of a batch."""
        _, n_states, n_actions = batch.shape
        first = problem * n_states * n_actions
        indptr = batch.indptr[first : first + n_states * n_actions + 1]
        bounds = blocks(n_states)
        sizes, terms = np.zeros(n_states + 1, np.int64), np.zeros(n_states, np.int64)
        over_blocks(
            lambda part: _count(part, bounds, indptr, batch.indices, policy, sizes, terms), bounds
        )
        starts = np.cumsum(sizes)
        n_entries = int(starts[-1])
        check_fits(12 * n_entries, f"the {n_entries:,} transitions that a policy can make")
        indices, data = np.empty(n_entries, np.int32), np.empty(n_entries)
        reward, staying, mass = np.empty(n_states), np.empty(n_states), np.empty(n_states)
        model = (indptr, batch.indices, batch.data, batch.reward[problem], float(batch.gamma))
        over_blocks(
            lambda part: _fill(part, bounds, model, policy, starts, indices, data, reward,
                               staying, mass), bounds
        )  # fmt: skip
        return cls(
            starts, indices, data, reward, staying, float(mass.max()), int(terms.max()) + n_actions
        )

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.reward)

    @property
    def matrix(self) -> sp.csr_array:
        """C, its arrays not copied."""
        shape = (self.n_states, self.n_states)
        return sp.csr_array((self.data, self.indices, self.indptr), shape=shape)

    def paying(self, reward: NDArray[np.float64]) -> Chain:
        """Return the same chain with other rewards (S,), in the units of the model."""
        return Chain(
            self.indptr, self.indices, self.data, reward / self.staying, self.staying,
            self.contraction, self.n_terms,
        )  # fmt: skip

    def residual(self, x: NDArray[np.float64], to: NDArray[np.float64]) -> float:
        """Write b + C x - x; return the largest of its absolute values."""
        bounds = blocks(self.n_states)
        worst = np.zeros(len(bounds) - 1)
        rows = (self.indptr, self.indices, self.data)
        over_blocks(lambda part: _residual(part, bounds, rows, self.reward, x, to, worst), bounds)
        return float(worst.max())


def blocks(n_states: int) -> NDArray[np.int64]:
    """Return where blocks of states begin, and the end of the last."""
    n_blocks = max(1, -(-n_states // _BLOCK))
    return np.linspace(0, n_states, n_blocks + 1).astype(np.int64)


def over_blocks(function: Callable[[NDArray[np.int64]], Any], bounds: NDArray[np.int64]) -> None:
    """Call a function on groups of blocks, in threads if there are several."""
    over_chunks(function, np.arange(len(bounds) - 1), are_long=True)


@jit
def _count(chosen, bounds, indptr, indices, policy, sizes, terms):  # type: ignore[no-untyped-def]
    """Write how many successors each state has, itself apart, and how many products that takes."""
    n_states, n_actions = policy.shape
    seen = np.full(n_states, -1, np.int32)
    for block in chosen:
        for x in range(bounds[block], bounds[block + 1]):
            n = 0
            n_terms = 0
            seen[x] = x
            for a in range(n_actions):
                if policy[x, a] > 0.0:
                    pair = x * n_actions + a
                    n_terms += indptr[pair + 1] - indptr[pair]
                    for k in range(indptr[pair], indptr[pair + 1]):
                        y = indices[k]
                        if seen[y] != x:
                            seen[y] = x
                            n += 1
            sizes[x + 1] = n
            terms[x] = n_terms


@jit
def _fill(chosen, bounds, model, policy, starts, to_indices, to_data, reward, staying, mass):  # type: ignore[no-untyped-def]
    """Write the rows of C, b and d."""
    indptr, indices, data, rewards, gamma = model
    n_states, n_actions = policy.shape
    places = np.full(n_states, -1, np.int64)  # blocks come in order, so do places
    for block in chosen:
        for x in range(bounds[block], bounds[block + 1]):
            begin = starts[x]
            end = begin
            r = 0.0
            stays = 0.0
            for a in range(n_actions):
                weight = policy[x, a]
                if weight > 0.0:
                    r += weight * rewards[x, a]
                    pair = x * n_actions + a
                    for k in range(indptr[pair], indptr[pair + 1]):
                        y = indices[k]
                        p = weight * data[k]
                        if y == x:
                            stays += p
                        elif places[y] < begin:
                            places[y] = end
                            to_indices[end] = y
                            to_data[end] = p
                            end += 1
                        else:
                            to_data[places[y]] += p
            d = 1.0 - gamma * stays
            total = 0.0
            for k in range(begin, end):
                to_data[k] *= gamma / d
                total += to_data[k]
            reward[x] = r / d
            staying[x] = d
            mass[x] = total


@jit
def _residual(chosen, bounds, rows, b, x, to, worst):  # type: ignore[no-untyped-def]
    indptr, indices, data = rows
    for block in chosen:
        most = 0.0
        for s in range(bounds[block], bounds[block + 1]):
            total = b[s]
            for k in range(indptr[s], indptr[s + 1]):
                total += data[k] * x[indices[k]]
            total -= x[s]
            to[s] = total
            # Written so that NaN is the worst.
            if not abs(total) <= most:
                most = abs(total)
        worst[block] = most
