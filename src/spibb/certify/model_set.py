r"""The models that a log cannot rule out, at every number of rows at once.

For every pair, with N its rows, outcomes the states, ending (worth 0) and, unless the states are
declared complete, *elsewhere*: a state that neither log nor baseline names, of which nothing is
known but the range of rewards,

    ||P - P^||_1 <= min(2, r_P(N)),   |R - R^| <= r_R(N) (high - low) / 2,   low <= R <= high,

and for the first state, unless its distribution is given, ||p - p^||_1 <= r_0 with N the number of
episodes. r is the radius of spibb.uncertainty.time_uniform with log(1 / alpha) equal to

    r_P: log(|X||A| / delta_P) + log(2^(n - 1) - 1)     r_R: log(|X||A| / delta_R)
    r_0: log(1 / delta_0) + log(2^(n - 1) - 1)          delta_0 = delta / (|X||A| + 1)

for n outcomes (the states that do not end the process, ending, elsewhere; fewer where successors
are known, or where it is declared that nothing ends). What delta_0 leaves is divided as the two
matter: a share max(1 - gamma, 1/4) for rewards, the rest for transitions. M* is in the set with
probability 1 - delta, whatever decided how often each pair was visited, and this event does not
depend on any policy or baseline: any number of them may be tested on it, and the best one kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.mdp.batch import ModelBatch
from spibb.mdp.robust import Balls, RobustValues, optimistic_evaluation, robust_evaluation
from spibb.problem import Problem, ProblemBatch
from spibb.uncertainty.time_uniform import log_events, time_uniform_radius

Array = NDArray[np.float64]

# Where little is discounted transitions matter most; where episodes are short rewards still do.
_LEAST_REWARD_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class StartBall:
    """Where episodes may begin, for each problem of a batch.

    Attributes:
        initial: The centre, shape (B, S); elsewhere, where it is possible, is the last state.
        radius: L1 radius, shape (B,); 0 where the distribution was given.
        is_possible: Whether episodes can begin there: not in a terminal state; shape (B, S).
    """

    initial: Array
    radius: Array
    is_possible: NDArray[np.bool_]

    @classmethod
    def of(cls, problems: ProblemBatch, delta: float) -> StartBall:
        """Return the ball around the first states of the episodes, by its share of delta."""
        initial, possible = problems.models.initial, ~problems.terminal
        if not problems.declared.states_complete:
            initial = np.append(initial, np.zeros((len(initial), 1)), axis=1)
            possible = np.append(possible, np.ones((len(possible), 1), np.bool_), axis=1)
        if problems.declared.initial is not None:
            return cls(initial, np.zeros(len(initial)), possible)
        n_episodes = np.array([part.counts.n_initial.sum() for part in problems])
        log_term = log_events(possible.sum(axis=1)) - np.log(start_share(problems[0], delta))
        return cls(initial, np.minimum(2.0, time_uniform_radius(n_episodes, log_term)), possible)

    def worst(self, v: Array) -> Array:
        """Return the least mean of values over the first state, shape (B,), for v of (B, S)."""
        values = np.where(self.is_possible | (self.initial > 0), v, np.inf)
        order = np.argsort(-np.where(self.initial > 0, values, -np.inf), axis=1, kind="stable")
        p = np.take_along_axis(self.initial, order, axis=1)
        before = np.cumsum(p, axis=1) - p
        given = np.clip(self.radius[:, None] / 2.0 - before, 0.0, p)
        mean = np.where(self.initial > 0, self.initial * v, 0.0).sum(axis=1)
        above = np.take_along_axis(v, order, axis=1) - values.min(axis=1, keepdims=True)
        return np.asarray(mean - (given * above).sum(axis=1))


def start_share(problem: Problem, delta: float) -> float:
    """Return the part of delta that the start distribution takes, one row among all pairs."""
    given = problem.declared.initial is not None
    return 0.0 if given else delta / (problem.counts.n_sa.size + 1)


def radii(
    problems: ProblemBatch, delta: float, *, known_rewards: bool = False
) -> tuple[Array, Array]:
    """Return how far transitions and rewards may be off; see the module's docstring.

    Returns:
        The L1 radius of every pair, at most 2 and 0 in terminal states, and the largest error of
        the mean reward, infinite without data; of shape (B, S, A) both.
    """
    n_sa = problems.n_sa
    share = 0.0 if known_rewards else max(1.0 - problems.gamma, _LEAST_REWARD_SHARE)
    pairs = np.log(n_sa[0].size) - np.log(delta - start_share(problems[0], delta))
    with np.errstate(divide="ignore"):  # a share of nothing: no confidence, and no need of it
        log_p, log_r = pairs - np.log1p(-share), pairs - np.log(share)
    events = log_events(_n_outcomes(problems))
    certain = np.isneginf(events)  # one outcome alone
    log_term = np.add(log_p, events, out=events, where=~certain)
    transition = np.minimum(2.0, time_uniform_radius(n_sa, log_term))
    if known_rewards:
        reward = np.zeros(n_sa.shape)
    else:
        width = _column([part.values.high - part.values.low for part in problems])
        reward = time_uniform_radius(np.maximum(n_sa, 1), log_r) * width / 2.0
    terminal = problems.terminal[:, :, None]
    return np.where(terminal, 0.0, transition), np.where(n_sa > 0, reward, np.inf)


def _n_outcomes(problems: ProblemBatch) -> NDArray[np.int64]:
    """Return how many outcomes every pair may have, shape (B, S, A)."""
    declared, live, shape = problems.declared, ~problems.terminal, problems.n_sa.shape
    n = live.sum(axis=1) + (0 if declared.states_complete else 1)
    found = np.broadcast_to(n[:, None, None], shape)
    if declared.successors is not None:
        parts: list[Any] = [one.declared.successors for one in problems]
        # An end in a terminal state is an end.
        n_live = [part @ goes_on for part, goes_on in zip(parts, live.astype(int), strict=True)]
        listed = [np.diff(part.indptr) > 0 for part in parts]
        found = np.where(np.reshape(listed, shape), np.reshape(n_live, shape), found)
    return np.asarray(found + (0 if declared.never_ends else 1))


@dataclass(frozen=True, eq=False)
class ModelSet:
    """All models that a log cannot rule out, for each problem of a batch.

    Attributes:
        low: The estimated transitions with the smallest rewards of the set; S states, and one more
            for elsewhere unless the states are complete.
        high: The same with the largest rewards.
        balls: What the rows may be.
        start: Where episodes may begin.
        has_elsewhere: Whether the last state is elsewhere.
    """

    low: ModelBatch
    high: ModelBatch
    balls: Balls
    start: StartBall
    has_elsewhere: bool

    @classmethod
    def of(cls, problems: ProblemBatch, delta: float, *, known_rewards: bool = False) -> ModelSet:
        """Return the set of confidence 1 - delta.

        Args:
            problems: The problems; all declare the same of states, ends and successors.
            delta: Probability that the true model is not in the set.
            known_rewards: Whether the mean rewards of the log are the true ones.
        """
        problems = problems.counted
        declared, frame = problems.declared, problems.models
        radius, error = radii(problems, delta, known_rewards=known_rewards)
        least = _column([part.values.low for part in problems])
        most = _column([part.values.high for part in problems])
        # Nothing is done in a terminal state, so nothing is uncertain there: it ends and pays 0.
        terminal = problems.terminal[:, :, None]
        low = np.where(terminal, 0.0, np.clip(frame.reward - error, least, most))
        high = np.where(terminal, 0.0, np.clip(frame.reward + error, least, most))
        reach, successors = _reach(problems)
        start = StartBall.of(problems, delta)
        if not declared.states_complete:  # one more state: anything may happen, for any reward
            low, high, radius = _extended(low, least), _extended(high, most), _extended(radius, 2.0)
            reach = _with_rows(reach, frame.shape) if len(reach) > 1 else reach
            indptr, ending = _with_rows(frame.indptr, frame.shape), _extended(frame.ending, 1.0)
            frame = replace(frame, indptr=indptr, ending=ending, initial=start.initial)
        return cls(
            low=replace(frame, reward=low),
            high=replace(frame, reward=high),
            balls=Balls(radius, not declared.never_ends, reach, successors),
            start=start,
            has_elsewhere=not declared.states_complete,
        )

    def policy(self, table: Array) -> Array:
        """Return policies (B, S, A) with a row for elsewhere, where all act alike."""
        return _extended(table, np.eye(1, table.shape[2])) if self.has_elsewhere else table

    def listed(self, table: Array) -> Array:
        """Return a table of states without the row for elsewhere."""
        return table[:, : self.low.shape[1] - self.has_elsewhere]

    def values(self, v: Array) -> Array:
        """Return values to start from, (B, S), with a place for elsewhere."""
        return np.append(v, v.min(axis=1, keepdims=True), axis=1) if self.has_elsewhere else v

    def worst(self, policy: Array, start: Array | None = None) -> RobustValues:
        """Evaluate policies, with a row for elsewhere, in their worst models."""
        return robust_evaluation(self.low, self.balls, policy, start)

    def best(self, policy: Array, start: Array | None = None) -> RobustValues:
        """Evaluate policies, with a row for elsewhere, in their best models."""
        return optimistic_evaluation(self.high, self.balls, policy, start)


def _column(numbers: Sequence[float]) -> Array:
    return np.array(numbers, dtype=np.float64)[:, None, None]


def _extended(table: Array, row: Array | float) -> Array:
    """Add a row for one more state to tables (B, S, A)."""
    more = np.broadcast_to(np.asarray(row), (len(table), 1, table.shape[2]))
    return np.concatenate([table, more], axis=1)


def _with_rows(indptr: NDArray[np.int64], shape: tuple[int, int, int]) -> NDArray[np.int64]:
    """Add the empty rows of one more state to each problem of a batch (B, S, A)."""
    n_problems, n_states, n_actions = shape
    begins = indptr[:-1].reshape(n_problems, n_states * n_actions)
    ends = indptr[n_states * n_actions :: n_states * n_actions]
    more = np.repeat(ends[:, None], n_actions, axis=1)
    return np.append(np.append(begins, more, axis=1).ravel(), indptr[-1])


def _reach(problems: ProblemBatch) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the known successors of all problems, one behind the other; see Balls."""
    if problems.declared.successors is None:
        return np.zeros(1, np.int64), np.zeros(0, np.int32)
    parts: list[Any] = [one.declared.successors for one in problems]
    offsets = np.append(0, np.cumsum([part.nnz for part in parts]))
    starts = [part.indptr[:-1] + offset for part, offset in zip(parts, offsets[:-1], strict=True)]
    indptr = np.append(np.concatenate(starts), offsets[-1]).astype(np.int64)
    return indptr, np.concatenate([part.indices for part in parts]).astype(np.int32)
