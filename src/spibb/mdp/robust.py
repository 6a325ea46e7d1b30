r"""Values and plans in the worst model of a set: L1 balls around the rows of a batch.

    V(x) = sum_a w(a | x) [R(x, a) + gamma min_{||P - P^(x, a)||_1 <= r(x, a)} P.V]

where outcomes are the states and ending, which is worth 0, or fewer where :class:`Balls` says so.
Each pair has a ball of its own, so the minimum over stationary models is reached and this equation
gives it (Iyengar 2005, Nilim and El Ghaoui 2005). Weights w are a policy, or any non-negative table
under which sum_a w P^ <= 1.

The inner minimum moves r / 2 of the mass from the pair's best outcomes to the worst outcome of all:
a heap gives it in O(k + m log k) for k successors of which m lose mass. Evaluation alternates the
adversary's answer to V with the exact value of that answer: Newton's method, which falls
monotonically and ends after a few solves. The adversary's last answer gives the residual
max |T V - V|, hence the bound |V - V_worst| <= residual / (1 - gamma) that is returned as `error`.
Planning is policy iteration on top: finite, since a row changes only for a strict gain.

The best case is the worst case of the negated problem. Letters: p transition, r radius, v and q
values, w weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.blas import one_blas_thread
from spibb.compiled.jit import jit
from spibb.compiled.threads import over_chunks
from spibb.errors import SettingsError
from spibb.mdp.batch import ModelBatch
from spibb.mdp.chain import Chain
from spibb.mdp.evaluation import LARGEST_COMPILED, eliminate, is_large
from spibb.mdp.greedy import improve_greedily
from spibb.mdp.krylov import solve_chain
from spibb.mdp.l1_ball import BallArrays, back_up, fill_worst, make_scratch, write_worst
from spibb.mdp.planning import DEFAULT_CAP

# A solve leaves a residual of a few units in the last place; this is 450 of them.
_TOLERANCE = 1e-13
# What solving by steps may leave of a residual.
_LEFT = 1e-3
# Newton's method needs 2 to 6 solves; where rounding makes it chatter, the residual says so.
_MOST_SOLVES = 100


@dataclass(frozen=True, eq=False)
class Balls:
    """The rows that models of a set may have, around the rows of a batch.

    Attributes:
        radius: L1 radius of every pair, shape (B, S, A); 2 and more is anything at all.
        may_end: Whether ending is an outcome of every pair.
        reach_indptr: Where the successors that a pair may have begin in `reach_indices`, shape
            (B * S * A + 1,); a pair without any may be followed by every state. Of length 1: all.
        reach_indices: Those successors.
    """

    radius: NDArray[np.float64]
    may_end: bool = True
    reach_indptr: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    reach_indices: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def with_free_action(self) -> Balls:
        """Return the balls with one more action in every state, whose row is known."""
        radius = np.append(self.radius, np.zeros((*self.radius.shape[:2], 1)), axis=2)
        if len(self.reach_indptr) == 1:
            return replace(self, radius=radius)
        begins = self.reach_indptr[:-1].reshape(-1, self.radius.shape[2])
        ends = self.reach_indptr[self.radius.shape[2] :: self.radius.shape[2]]
        indptr = np.append(np.append(begins, ends[:, None], axis=1).ravel(), ends[-1])
        return replace(self, radius=radius, reach_indptr=indptr)

    def of(self, problem: int) -> Balls:
        """Return the balls of one problem."""
        radius = self.radius[problem : problem + 1]
        if len(self.reach_indptr) == 1:
            return replace(self, radius=radius)
        indptr = self.reach_indptr[problem * radius.size : (problem + 1) * radius.size + 1]
        return replace(
            self,
            radius=radius,
            reach_indptr=indptr - indptr[0],
            reach_indices=self.reach_indices[indptr[0] : indptr[-1]],
        )


@dataclass(frozen=True, eq=False)
class RobustValues:
    """Values in the worst, or the best, model of a set.

    Attributes:
        v: Shape (B, S).
        q: One backup of v, shape (B, S, A).
        error: The true extreme values differ from v by at most this, in every state; shape (B,).
    """

    v: NDArray[np.float64]
    q: NDArray[np.float64]
    error: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RobustPlan:
    """A policy that is optimal in its worst model.

    Attributes:
        policy: Shape (B, S, A).
        values: Its values in that model.
        n_iterations: Improvement steps, shape (B,).
        is_settled: Whether no row could be improved any more, shape (B,).
    """

    policy: NDArray[np.float64]
    values: RobustValues
    n_iterations: NDArray[np.int64]
    is_settled: NDArray[np.bool_]


def robust_evaluation(
    batch: ModelBatch,
    balls: Balls,
    weights: NDArray[np.float64],
    start: NDArray[np.float64] | None = None,
) -> RobustValues:
    """Evaluate weights in the worst model of each problem.

    Args:
        batch: The centres of the balls, with the least rewards of the set.
        balls: The balls.
        weights: Policies, or tables of non-negative weights, shape (B, S, A).
        start: Values to start from, such as those in the centres; shape (B, S).

    Example:
        One state that pays 1 and goes on: half of the radius, 0.1, may end instead.

        >>> from spibb.mdp.model import TabularMDP
        >>> batch = ModelBatch.stack([TabularMDP([[[1.0]]], [[1.0]], gamma=0.5)])
        >>> balls = Balls(np.array([[[0.2]]]))
        >>> robust_evaluation(batch, balls, np.ones((1, 1, 1))).v.round(9)
        array([[1.81818182]])
    """
    _require_discount(batch)
    model = _arrays(batch, balls)
    v = np.zeros(batch.shape[:2]) if start is None else start.copy()
    q, residual = np.empty(batch.shape), np.empty(batch.shape[0])
    if batch.shape[1] <= LARGEST_COMPILED:
        over_chunks(lambda part: _evaluate_small(part, model, weights, v, q, residual), _all(v))
    else:
        for problem in _all(v):
            _evaluate_large(batch, balls, int(problem), weights, v, residual)
        _back_up(model, v, q, _places(v))
    return _bounded(batch.gamma, v, q, residual)


def optimistic_evaluation(
    batch: ModelBatch,
    balls: Balls,
    weights: NDArray[np.float64],
    start: NDArray[np.float64] | None = None,
) -> RobustValues:
    """Evaluate weights in the best model of each problem; `batch` has the largest rewards."""
    mirror = replace(batch, reward=-batch.reward)
    found = robust_evaluation(mirror, balls, weights, None if start is None else -start)
    return RobustValues(-found.v, -found.q, found.error)


def robust_planning(
    batch: ModelBatch,
    balls: Balls,
    start: NDArray[np.float64],
    values: NDArray[np.float64] | None = None,
    max_iterations: int = DEFAULT_CAP,
) -> RobustPlan:
    """Find a policy that is optimal in its worst model, for each problem.

    Args:
        batch: The centres of the balls, with the least rewards of the set.
        balls: The balls.
        start: Policies to start from, shape (B, S, A). Rows that no action beats stay.
        values: Values to start from, shape (B, S).
        max_iterations: Improvement steps at most.
    """
    _require_discount(batch)
    model = _arrays(batch, balls)
    policy = np.array(start, dtype=np.float64)
    v = np.zeros(batch.shape[:2]) if values is None else values.copy()
    q, residual = np.empty(batch.shape), np.empty(batch.shape[0])
    n_steps = np.zeros(batch.shape[0], dtype=np.int64)
    settled = np.zeros(batch.shape[0], dtype=np.bool_)
    if batch.shape[1] <= LARGEST_COMPILED:
        over_chunks(
            lambda part: _plan_small(
                part, model, max_iterations, policy, v, q, residual, n_steps, settled
            ),
            _all(v),
        )
    else:
        for problem in _all(v):
            while n_steps[problem] < max_iterations and not settled[problem]:
                _evaluate_large(batch, balls, int(problem), policy, v, residual)
                _back_up(model, v, q, problem * v.shape[1] + np.arange(v.shape[1]))
                settled[problem] = not improve_greedily(policy[problem], q[problem])
                n_steps[problem] += 1
    return RobustPlan(policy, _bounded(batch.gamma, v, q, residual), n_steps, settled)


def worst_expectations(
    batch: ModelBatch, balls: Balls, v: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return min P.v over the ball of every pair, shape (B, S, A)."""
    found = np.empty(batch.shape)
    plain = replace(batch, reward=np.zeros_like(batch.reward), gamma=1.0)
    _back_up(_arrays(plain, balls), v, found, _places(v))
    return found


def worst_model(
    batch: ModelBatch,
    balls: Balls,
    v: NDArray[np.float64],
    weights: NDArray[np.float64] | None = None,
) -> ModelBatch:
    """Return the models that answer ``v`` worst; a row may list its worst state twice.

    Args:
        batch: The centres of the balls.
        balls: The balls.
        v: Values, shape (B, S).
        weights: Where given, rows of pairs of weight 0 are left empty.
    """
    n_problems, n_states, n_actions = batch.shape
    n_pairs = n_problems * n_states * n_actions
    indptr = batch.indptr + np.arange(n_pairs + 1)  # one more place a row, for the worst state
    indices = np.zeros(indptr[-1], dtype=np.int32)
    data, ending = np.zeros(indptr[-1]), np.ones(batch.shape)
    wanted = np.ones(batch.shape) if weights is None else weights
    written = (indptr, indices, data, ending)
    model = _arrays(batch, balls)
    over_chunks(lambda part: _write_some(part, model, wanted, v, written), _places(v))
    return replace(batch, indptr=indptr, indices=indices, data=data, ending=ending)


def _require_discount(batch: ModelBatch) -> None:
    if batch.gamma == 1.0:
        raise SettingsError(
            "values in the worst model with gamma = 1",
            expected="gamma < 1: the worst model need not end",
        )


def _arrays(batch: ModelBatch, balls: Balls) -> BallArrays:
    """Return what the kernels take of a batch and its balls."""
    radius = np.require(balls.radius, np.float64, ["C", "W"])
    return BallArrays(
        batch.indptr, batch.indices, batch.data, batch.reward, batch.ending, float(batch.gamma),
        radius, balls.may_end, balls.reach_indptr, balls.reach_indices,
    )  # fmt: skip


def _all(v: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.arange(len(v), dtype=np.int64)


def _places(v: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return every state of every problem, as spibb.mdp.l1_ball numbers them."""
    return np.arange(v.size, dtype=np.int64)


def _bounded(
    gamma: float, v: NDArray[np.float64], q: NDArray[np.float64], residual: NDArray[np.float64]
) -> RobustValues:
    """Turn residuals into bounds; the residual itself is rounded like the values it is made of."""
    rounding = _TOLERANCE * np.abs(v).max(axis=1)
    return RobustValues(v, q, (residual + rounding) / (1.0 - gamma))


def _evaluate_large(
    batch: ModelBatch,
    balls: Balls,
    problem: int,
    weights: NDArray[np.float64],
    v: NDArray[np.float64],
    residual: NDArray[np.float64],
) -> None:
    """Evaluate one problem, in place, its states spread over the cores."""
    one, balls = _single(batch, problem), balls.of(problem)
    answer = _answer_sparse if is_large(batch.shape[1]) else _answer_dense
    for _ in range(_MOST_SOLVES):
        residual[problem], solved = answer(one, balls, weights[problem], v[problem])
        if residual[problem] <= _TOLERANCE * np.abs(v[problem]).max():
            return
        v[problem] = solved()


Answer = tuple[float, Callable[[], NDArray[np.float64]]]


@one_blas_thread()
def _solved(matrix: NDArray[np.float64], rhs: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.solve(matrix, rhs), np.float64)


def _answer_dense(
    one: ModelBatch, balls: Balls, weights: NDArray[np.float64], v: NDArray[np.float64]
) -> Answer:
    """Return the residual of values, and what gives those of the adversary's answer to them."""
    model = _arrays(one, balls)
    found: list[float] = []
    matrix, rhs = np.empty((len(v), len(v))), np.empty(len(v))
    over_chunks(
        lambda part: found.append(_fill_some(part, model, weights, v, matrix, rhs)),
        _all(v),
    )
    return max(found), lambda: _solved(matrix, rhs)


def _answer_sparse(
    one: ModelBatch, balls: Balls, weights: NDArray[np.float64], v: NDArray[np.float64]
) -> Answer:
    """Do the same with sparse rows."""
    back = one.reward + one.gamma * worst_expectations(one, balls, v[None])
    residual = float(np.abs((weights * back[0]).sum(axis=1) - v).max())

    def solved() -> NDArray[np.float64]:
        chain = Chain.of(worst_model(one, balls, v[None], weights[None]), 0, weights)
        found = v.copy()
        # What is left shall not show beside what the next answer of the adversary gains.
        solve_chain(chain, found, goal=_LEFT * residual, what="values in the worst model")
        return found

    return residual, solved


def _back_up(
    model: BallArrays, v: NDArray[np.float64], q: NDArray[np.float64], places: NDArray[np.int64]
) -> None:
    """Back up some states, spread over the cores."""
    over_chunks(lambda part: _back_up_some(part, model, v, q), places)


def _single(batch: ModelBatch, problem: int) -> ModelBatch:
    """Return one problem of a batch as a batch of its own."""
    size = batch.shape[1] * batch.shape[2]
    indptr = batch.indptr[problem * size : (problem + 1) * size + 1]
    here, rows = slice(problem, problem + 1), slice(int(indptr[0]), int(indptr[-1]))
    return replace(
        batch,
        indptr=indptr - indptr[0],
        indices=batch.indices[rows],
        data=batch.data[rows],
        reward=batch.reward[here],
        ending=batch.ending[here],
        initial=batch.initial[here],
    )


@jit
def _evaluate_small(problems, model, weights, v, q, residual):  # type: ignore[no-untyped-def]
    states = np.arange(v.shape[1])
    scratch = make_scratch(model.indptr)
    matrix, rhs = np.empty((len(states), len(states))), np.empty(len(states))
    for problem in problems:
        residual[problem] = _evaluate_one(
            problem, states, model, weights[problem], v[problem], scratch, matrix, rhs
        )
        back_up(problem * len(states) + states, model, v, scratch, q)


@jit
def _plan_small(problems, model, cap, policy, v, q, residual, n_steps, settled):  # type: ignore[no-untyped-def]
    states = np.arange(v.shape[1])
    scratch = make_scratch(model.indptr)
    matrix, rhs = np.empty((len(states), len(states))), np.empty(len(states))
    for problem in problems:
        for _ in range(cap):
            residual[problem] = _evaluate_one(
                problem, states, model, policy[problem], v[problem], scratch, matrix, rhs
            )
            back_up(problem * len(states) + states, model, v, scratch, q)
            n_steps[problem] += 1
            if not improve_greedily(policy[problem], q[problem]):
                settled[problem] = True
                break


@jit
def _evaluate_one(problem, states, model, weights, v, scratch, matrix, rhs):  # type: ignore[no-untyped-def]
    """Alternate the adversary's answer and its exact value, in place; return the residual."""
    residual = 0.0
    for _ in range(_MOST_SOLVES):
        residual = fill_worst(problem, states, model, weights, v, scratch, matrix, rhs)
        if residual <= _TOLERANCE * np.abs(v).max():
            break
        eliminate(matrix, rhs, 0, 1)
        v[:] = rhs
    return residual


@jit
def _back_up_some(places, model, v, q):  # type: ignore[no-untyped-def]
    back_up(places, model, v, make_scratch(model.indptr), q)


@jit
def _fill_some(states, model, weights, v, matrix, rhs):  # type: ignore[no-untyped-def]
    return fill_worst(0, states, model, weights, v, make_scratch(model.indptr), matrix, rhs)


@jit
def _write_some(places, model, weights, v, to):  # type: ignore[no-untyped-def]
    write_worst(places, model, weights, v, make_scratch(model.indptr), to)
