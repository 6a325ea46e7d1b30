r"""Large sparse systems V = b + C V: BiCGSTAB (van der Vorst 1992), preconditioned where that pays.

Two families have to be served. Chains that mix fast, as random graphs, have one large eigenvalue
and the rest in a small disc: Krylov steps end after a dozen products, and any factor would fill in.
Chains that mix slowly, as corridors, need thousands of plain products; their graphs are long and
thin, and an incomplete factor in the order of a breadth-first search (spibb.mdp.incomplete_lu) is
nearly exact. Which one it is shows in how residuals fall. Should both stall, plain sweeps go on,
which contract whatever the chain; docs/large-models.md has what else was tried.

Whoever asks gets a solution whose residual was computed, not the one of the recursion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.blas import one_blas_thread
from spibb.compiled.jit import jit
from spibb.mdp.chain import Chain, blocks, over_blocks
from spibb.mdp.incomplete_lu import IncompleteLU
from spibb.progress import Progress, tell

# Residuals are brought below this share of the values: about a hundred times their rounding.
ACCURACY = 2e-14
# Steps until the residual is computed afresh; without a factor they are looked at sooner.
_ROUND = 40
_LOOK = 12
# So many steps are worth no factor.
_FEW = 100
_SWEEPS = 200

Array = NDArray[np.float64]


class Preconditioner(Protocol):
    """Something near the inverse of I - C."""

    def solve(self, x: Array, to: Array) -> None:
        """Write what it makes of a vector."""


@dataclass
class Manner:
    """How chains of one model are solved: what one of them taught serves the next.

    Attributes:
        order: The order of the states in which factors pay; None where they have not, yet.
        is_filling: Whether factors fill in, and are not to be tried again.
    """

    order: NDArray[np.int32] | None = None
    is_filling: bool = False


def solve_chain(
    chain: Chain,
    x: Array,
    *,
    goal: float = 0.0,
    what: str = "values",
    manner: Manner | None = None,
) -> float:
    """Bring x to the solution of x = b + C x, in place; return its residual, max |b + C x - x|.

    Args:
        chain: The system; its policy must end where gamma is 1.
        x: Where to start, shape (S,).
        goal: A residual that suffices; never less than rounding allows.
        what: What is solved for, for those who watch.
        manner: What other chains of the same model taught, and this one may add to.
    """
    manner = manner or Manner()
    r, best = np.empty(chain.n_states), x.copy()
    worst = chain.residual(x, r)
    least = float(np.abs(chain.reward).max())
    factor = None if manner.order is None else IncompleteLU.of(chain, manner.order)
    is_stuck = False
    while worst > (target := max(goal, ACCURACY * max(least, float(np.abs(x).max())))):
        if is_stuck:
            _sweep(chain, x, r)
        else:
            looks = factor is None and not manner.is_filling
            n_steps = bicgstab(chain, x, r, 0.3 * target, _ROUND, factor, looks=looks, what=what)
        new = chain.residual(x, r)
        fell = new / worst if np.isfinite(new) else math.inf
        tell(Progress(what, new, target))
        if fell < 1.0:
            worst, best = new, x.copy()
        else:  # breakdown, or rounding
            x[:] = best
            chain.residual(x, r)
        if is_stuck and fell > _least_fall(chain):
            break
        if worst == 0.0:
            break
        if factor is None and not manner.is_filling and _is_slow(fell, target / worst, n_steps):
            factor = IncompleteLU.of(chain)
            manner.order, manner.is_filling = getattr(factor, "order", None), factor is None
        elif fell > 0.5:
            is_stuck = True
    return worst


def _is_slow(fell: float, wanted: float, n_steps: int) -> bool:
    """Tell whether steps that left `fell` of a residual have many to follow to leave `wanted`."""
    if not 0.0 < fell < 0.5:
        return fell > 0.0
    return wanted < 1.0 and n_steps * math.log(wanted) / math.log(fell) > _FEW


def _least_fall(chain: Chain) -> float:
    """Return how much of a residual a round of sweeps leaves at most, rounding apart."""
    return max(0.9999, 1.0 - 0.5 * _SWEEPS * max(0.0, 1.0 - chain.contraction))


def _sweep(chain: Chain, x: Array, r: Array) -> None:
    """Make sweeps x <- b + C x: each leaves at most `contraction` of the error."""
    for _ in range(_SWEEPS):
        chain.residual(x, r)
        x += r


@one_blas_thread()
def bicgstab(
    chain: Chain,
    x: Array,
    r: Array,
    goal: float,
    cap: int,
    factor: Preconditioner | None = None,
    *,
    looks: bool = False,
    what: str = "values",
) -> int:
    """Make steps until max |r| <= goal, in place; return how many.

    Args:
        chain: The system.
        x: The solution so far.
        r: Its residual, kept by recursion.
        goal: When to stop.
        cap: Steps at most; fewer where the recursion breaks down.
        factor: Preconditioner.
        looks: Whether to stop soon where many steps are to come.
        what: What is solved for, for those who watch.
    """
    n, bounds = chain.n_states, blocks(chain.n_states)
    rows = (chain.indptr, chain.indices, chain.data)
    shadow, p, v, t = r.copy(), r.copy(), np.empty(n), np.empty(n)
    p_hat, r_hat = (p, r) if factor is None else (np.empty(n), np.empty(n))
    sums, moves = np.zeros((len(bounds) - 1, 3)), np.zeros(3)
    rho, first = float(shadow @ r), float(np.abs(r).max())
    for step in range(cap):
        if factor is not None:
            factor.solve(p, p_hat)
        over_blocks(lambda part: _apply(part, bounds, rows, p_hat, v, shadow, p, sums), bounds)
        below = float(sums[:, 0].sum())
        if below == 0.0 or not math.isfinite(below) or rho == 0.0:
            return step
        moves[0] = alpha = rho / below
        over_blocks(lambda part: _half(part, bounds, moves, v, r), bounds)
        if factor is not None:
            factor.solve(r, r_hat)
        over_blocks(lambda part: _apply(part, bounds, rows, r_hat, t, shadow, r, sums), bounds)
        along, size = float(sums[:, 1].sum()), float(sums[:, 2].sum())
        moves[1] = omega = along / size if size > 0.0 else 0.0
        # shadow . s is 0 by the choice of alpha, so that the next rho is known before the residual.
        after = -omega * float(sums[:, 0].sum())
        moves[2] = after / rho * alpha / omega if omega != 0.0 else 0.0
        over_blocks(
            lambda part: _finish(part, bounds, moves, p_hat, r_hat, v, t, x, r, p, sums), bounds
        )
        rho, now = after, float(sums[:, 0].max())
        tell(Progress(what, now, goal))
        if now <= goal or omega == 0.0:
            return step + 1
        if looks and step + 1 == _LOOK and _is_slow(now / first, goal / now, _LOOK):
            return _LOOK
    return cap


@jit
def _apply(chosen, bounds, rows, x, to, shadow, other, sums):  # type: ignore[no-untyped-def]
    """Write x - C x, and its products with the shadow, with another vector and with itself."""
    indptr, indices, data = rows
    for block in chosen:
        along_shadow, along_other, size = 0.0, 0.0, 0.0
        for s in range(bounds[block], bounds[block + 1]):
            total = x[s]
            for k in range(indptr[s], indptr[s + 1]):
                total -= data[k] * x[indices[k]]
            to[s] = total
            along_shadow += total * shadow[s]
            along_other += total * other[s]
            size += total * total
        sums[block, 0], sums[block, 1], sums[block, 2] = along_shadow, along_other, size


@jit
def _half(chosen, bounds, moves, v, r):  # type: ignore[no-untyped-def]
    for block in chosen:
        for s in range(bounds[block], bounds[block + 1]):
            r[s] -= moves[0] * v[s]


@jit
def _finish(chosen, bounds, moves, p_hat, r_hat, v, t, x, r, p, sums):  # type: ignore[no-untyped-def]
    """Move the solution, its residual and the direction; write the largest residual."""
    alpha, omega, beta = moves[0], moves[1], moves[2]
    for block in chosen:
        worst = 0.0
        for s in range(bounds[block], bounds[block + 1]):
            x[s] += alpha * p_hat[s] + omega * r_hat[s]
            r[s] -= omega * t[s]
            p[s] = r[s] + beta * (p[s] - omega * v[s])
            worst = max(worst, abs(r[s]))
        sums[block, 0] = worst
