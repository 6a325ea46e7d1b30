r"""The models that a log cannot rule out, at every number of rows at once.

For every pair, with N its rows, outcomes the states, ending (worth 0) and, unless the states are
declared complete, *elsewhere*: a state that neither log nor baseline names, of which nothing is
known but the range of rewards,

    ||P - P^||_1 <= min(2, r_P(N)),   |R - R^| <= r_R(N) (high - low) / 2,   low <= R <= high,

and for the first state, unless its distribution is given, ||p - p^||_1 <= r_0 with N the number of
episodes. All are radii of spibb.uncertainty.time_uniform, r_R that of a mean, r_P and r_0 of an L1
distance:

* *No list.* Without a declaration nothing that the log names was fixed before it was seen. The
  radius is that of the k outcomes that appeared after the pair, which holds whatever else there is
  and whatever is merged (ends, elsewhere). The m-th pair to appear in the log, the start being the
  first, has the share 1 / (m (m + 1)) of delta; all of M take the last one's, 1 / (M (M + 1)).
* *A list.* Where the states are declared complete, or the successors of a pair are, n outcomes are
  fixed beforehand (the states that do not end the process, and ending). The smaller of the two
  radii counts, each at half of the share. Complete states fix the pairs, too: each of |X||A| and
  the start has an equal share.

A pair's share is divided as the two matter: max(1 - gamma, 1/4) for rewards, the rest for
transitions. M* is in the set with probability 1 - delta, whatever decided how often each pair was
visited, and this event does not depend on any policy or baseline: any number of them may be tested
on it, and the best one kept.
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
from spibb.uncertainty.time_uniform import found_radius, log_events, time_uniform_radius

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
    def of(cls, problems: ProblemBatch, delta: float, share: float | None = None) -> StartBall:
        """Return the ball around the first states of the episodes.

        Args:
            problems: The problems.
            delta: Probability that the true model is not in the set.
            share: The ball's own part of it; None: that of a row of the set.
        """
        initial, possible = problems.models.initial, ~problems.terminal
        if not problems.declared.states_complete:
            initial = np.append(initial, np.zeros((len(initial), 1)), axis=1)
            possible = np.append(possible, np.ones((len(possible), 1), np.bool_), axis=1)
        if problems.declared.initial is not None:
            return cls(initial, np.zeros(len(initial)), possible)
        n_episodes = np.array([part.counts.n_initial.sum() for part in problems])
        log_term = _log_shares(problems, delta)
        if share is not None:
            log_term = np.full(len(log_term), -np.log(share))
        radius = _l1_radius(
            n_episodes,
            (initial > 0.0).sum(axis=1),
            possible.sum(axis=1),
            log_term,
            np.full(len(initial), problems.declared.states_complete),
        )
        return cls(initial, radius, possible)

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
    """Return the part of delta that the start takes where states are listed, a row among all.

    The list is one that was fixed before the log, which Theorem 1 assumes and complete states give.
    """
    given = problem.declared.initial is not None
    return 0.0 if given else delta / (problem.counts.n_sa.size + 1)


def listed_radii(
    n: float, n_pairs: int, n_outcomes: int, gamma: float, delta: float
) -> tuple[float, float]:
    """Return r_P and r_R of a pair with n rows where outcomes are listed, at most.

    Args:
        n: Rows of the pair.
        n_pairs: Pairs that share delta.
        n_outcomes: Outcomes of the list.
        gamma: The discount.
        delta: What the pairs share, without the start's part.
    """
    share, pairs = _reward_share(gamma), np.log(n_pairs) - np.log(delta)
    events = log_events(n_outcomes)
    with np.errstate(divide="ignore"):
        log_p, log_r = pairs - np.log1p(-share) + np.log(2.0) + events, pairs - np.log(share)
    transition = np.minimum(2.0, time_uniform_radius(n, log_p))
    return float(transition), float(time_uniform_radius(n, log_r))


def _reward_share(gamma: float) -> float:
    """Return which part of a pair's share its rewards take."""
    return max(1.0 - gamma, _LEAST_REWARD_SHARE)


def _log_shares(problems: ProblemBatch, delta: float) -> Array:
    """Return log(1 / share) of one row, a pair or the start, of each problem; shape (B,)."""
    declared, n_sa = problems.declared, problems.n_sa
    n_start = 0 if declared.initial is not None else 1
    if declared.states_complete:
        return np.full(len(n_sa), np.log(n_sa[0].size + n_start) - np.log(delta))
    n_rows = np.maximum((n_sa > 0).sum(axis=(1, 2)) + n_start, 1).astype(np.float64)
    return np.asarray(np.log(n_rows) + np.log1p(n_rows) - np.log(delta))


def _l1_radius(n: Any, n_found: Any, n_listed: Any, log_term: Any, is_listed: Any) -> Array:
    """Return the L1 radius, at most 2, of n observations with so many outcomes.

    Args:
        n: Observations.
        n_found: Outcomes that appeared.
        n_listed: Outcomes of the list, where there is one.
        log_term: log(1 / share).
        is_listed: Whether the list of outcomes was fixed before the log was seen.
    """
    halved = log_term + np.where(is_listed, np.log(2.0), 0.0)
    found, events = found_radius(n, n_found, halved), log_events(n_listed)
    # One outcome alone is certain.
    term = np.where(np.isneginf(events), events, halved + np.maximum(events, 0.0))
    listed = time_uniform_radius(n, term)
    return np.asarray(np.minimum(2.0, np.where(is_listed, np.minimum(found, listed), found)))


def radii(
    problems: ProblemBatch, delta: float, *, known_rewards: bool = False
) -> tuple[Array, Array]:
    """Return how far transitions and rewards may be off; see the module's docstring.

    Returns:
        The L1 radius of every pair, at most 2 and 0 in terminal states, and the largest error of
        the mean reward, infinite without data; of shape (B, S, A) both.
    """
    problems = problems.counted
    n_sa, pairs = problems.n_sa, _log_shares(problems, delta)[:, None, None]
    share = 0.0 if known_rewards else _reward_share(problems.gamma)
    with np.errstate(divide="ignore"):  # a share of nothing: no confidence, and no need of it
        log_p, log_r = pairs - np.log1p(-share), pairs - np.log(share)
    outcomes = _n_found(problems), *_listed(problems)
    transition = _l1_radius(n_sa, *outcomes[:2], log_p, outcomes[2])
    if known_rewards:
        reward = np.zeros(n_sa.shape)
    else:
        width = _column([part.values.high - part.values.low for part in problems])
        reward = time_uniform_radius(np.maximum(n_sa, 1), log_r) * width / 2.0
    terminal = problems.terminal[:, :, None]
    return np.where(terminal, 0.0, transition), np.where(n_sa > 0, reward, np.inf)


def _n_found(problems: ProblemBatch) -> NDArray[np.int64]:
    """Return how many outcomes appeared after every pair, all ends being one; shape (B, S, A)."""
    models, shape = problems.models, problems.n_sa.shape
    rows = np.repeat(np.arange(problems.n_sa.size), np.diff(models.indptr))
    problem = rows // (shape[1] * shape[2])
    is_end = problems.terminal[problem, models.indices]
    held = models.data > 0.0
    n_going_on = np.bincount(rows[held & ~is_end], minlength=problems.n_sa.size)
    n_ending = np.bincount(rows[held & is_end], minlength=problems.n_sa.size).reshape(shape)
    ends = (n_ending > 0) | (models.ending * problems.n_sa > 0.5)
    return np.asarray(n_going_on.reshape(shape) + ends)


def _listed(problems: ProblemBatch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return how many outcomes are listed for every pair, and whether they are; (B, S, A) both."""
    declared, live, shape = problems.declared, ~problems.terminal, problems.n_sa.shape
    n_live = np.broadcast_to(live.sum(axis=1)[:, None, None], shape)
    is_listed = np.full(shape, declared.states_complete)
    if declared.successors is not None:
        parts: list[Any] = [one.declared.successors for one in problems]
        # An end in a terminal state is an end.
        counted = [part @ goes_on for part, goes_on in zip(parts, live.astype(int), strict=True)]
        known = np.reshape([np.diff(part.indptr) > 0 for part in parts], shape)
        n_live, is_listed = np.where(known, np.reshape(counted, shape), n_live), is_listed | known
    return np.asarray(n_live + (0 if declared.never_ends else 1)), is_listed


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
