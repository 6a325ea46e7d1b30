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
    def of(
        cls, problems: Sequence[Problem], initial: Array, delta: float, *, with_elsewhere: bool
    ) -> StartBall:
        """Return the ball of confidence 1 - delta around the first states of the episodes.

        Args:
            problems: The problems.
            initial: Estimated or given distributions, shape (B, S).
            delta: Probability that the true distribution is not in it.
            with_elsewhere: Whether an episode may begin in a state that nobody named.
        """
        possible = ~np.stack([one.counts.terminal for one in problems])
        if with_elsewhere:
            initial = np.append(initial, np.zeros((len(initial), 1)), axis=1)
            possible = np.append(possible, np.ones((len(possible), 1), np.bool_), axis=1)
        n_episodes = np.array([part.counts.n_initial.sum() for part in problems])
        # What is given takes no share of delta.
        log_term = log_events(possible.sum(axis=1)) - (np.log(delta) if delta > 0.0 else 0.0)
        radius = np.minimum(2.0, time_uniform_radius(n_episodes, log_term))
        is_given = np.array([part.declared.initial is not None for part in problems])
        return cls(initial, np.where(is_given, 0.0, radius), possible)

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


@dataclass(frozen=True, eq=False)
class Radii:
    """How far transitions and rewards may be off, for each problem of a batch.

    Attributes:
        transition: L1 radius of every pair, at most 2; 0 in terminal states; shape (B, S, A).
        reward: Largest error of the mean reward, infinite without data; shape (B, S, A).
        delta_start: What is left of delta for the first state.
    """

    transition: Array
    reward: Array
    delta_start: float

    @classmethod
    def of(cls, problems: Sequence[Problem], delta: float, *, known_rewards: bool = False) -> Radii:
        """Return the radii of confidence 1 - delta; see the module's docstring."""
        n_sa = np.stack([part.counts.n_sa for part in problems])
        gamma = problems[0].values.gamma
        delta_start = start_share(problems[0], delta)
        share = 0.0 if known_rewards else max(1.0 - gamma, _LEAST_REWARD_SHARE)
        pairs = np.log(n_sa[0].size) - np.log(delta - delta_start)
        with np.errstate(divide="ignore"):  # a share of nothing: no confidence, and no need of it
            log_p, log_r = pairs - np.log1p(-share), pairs - np.log(share)
        terminal = np.stack([one.counts.terminal for one in problems])
        events = log_events(_n_outcomes(problems, terminal))
        certain = np.isneginf(events)  # one outcome alone
        log_term = np.add(log_p, events, out=events, where=~certain)
        transition = np.minimum(2.0, time_uniform_radius(n_sa, log_term))
        if known_rewards:
            reward = np.where(n_sa > 0, 0.0, np.inf)
        else:
            width = np.array([part.values.high - part.values.low for part in problems])
            unit = time_uniform_radius(np.maximum(n_sa, 1), log_r)
            reward = np.where(n_sa > 0, unit * width[:, None, None] / 2.0, np.inf)
        return cls(np.where(terminal[:, :, None], 0.0, transition), reward, delta_start)


def _n_outcomes(problems: Sequence[Problem], is_terminal: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many outcomes every pair may have, shape (B, S, A)."""
    declared = problems[0].declared
    n = (~is_terminal).sum(axis=1) + (0 if declared.states_complete else 1)
    shape = (len(problems), *problems[0].counts.n_sa.shape)
    found = np.broadcast_to(n[:, None, None], shape)
    if declared.successors is not None:
        found = found.copy()
        for k, (part, ends) in enumerate(zip(problems, is_terminal, strict=True)):
            successors = part.declared.successors
            assert successors is not None  # all declare alike
            # An end in a terminal state is an end.
            live = (successors @ (~ends).astype(np.int64)).reshape(shape[1:])
            listed = np.diff(successors.indptr).reshape(shape[1:]) > 0
            found[k] = np.where(listed, live, found[k])
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
        models, listed = problems.models, list(problems)  # each problem is made once
        radii = Radii.of(listed, delta, known_rewards=known_rewards)
        declared = listed[0].declared
        least = _column([part.values.low for part in listed])
        most = _column([part.values.high for part in listed])
        # Nothing is done in a terminal state, so nothing is uncertain there: it ends and pays 0.
        terminal = np.stack([one.counts.terminal for one in listed])[:, :, None]
        low = np.where(terminal, 0.0, np.clip(models.reward - radii.reward, least, most))
        high = np.where(terminal, 0.0, np.clip(models.reward + radii.reward, least, most))
        indptr, indices = _reach(listed)
        balls = Balls(radii.transition, not declared.never_ends, indptr, indices)
        elsewhere = not declared.states_complete
        start = StartBall.of(listed, models.initial, radii.delta_start, with_elsewhere=elsewhere)
        found = cls(replace(models, reward=low), replace(models, reward=high), balls, start, False)
        return found._with_elsewhere(least, most) if elsewhere else found

    def _with_elsewhere(self, least: Array, most: Array) -> ModelSet:
        """Add a state in which anything may happen, for any reward of the range."""
        n_problems, n_states, n_actions = self.low.shape
        indptr = _with_rows(self.low.indptr, n_problems, n_states, n_actions)
        reach = self.balls.reach_indptr
        if len(reach) > 1:
            reach = _with_rows(reach, n_problems, n_states, n_actions)

        def extended(table: Array, value: Array | float) -> Array:
            row = np.broadcast_to(np.asarray(value), (n_problems, 1, n_actions))
            return np.concatenate([table, row], axis=1)

        frame = replace(
            self.low,
            indptr=indptr,
            ending=extended(self.low.ending, 1.0),
            initial=self.start.initial,
        )
        return replace(
            self,
            low=replace(frame, reward=extended(self.low.reward, least)),
            high=replace(frame, reward=extended(self.high.reward, most)),
            balls=replace(self.balls, radius=extended(self.balls.radius, 2.0), reach_indptr=reach),
            has_elsewhere=True,
        )

    def policy(self, table: Array) -> Array:
        """Return policies (B, S, A) with a row for elsewhere, where all act alike."""
        if not self.has_elsewhere:
            return table
        row = np.zeros((len(table), 1, table.shape[2]))
        row[:, :, 0] = 1.0
        return np.concatenate([table, row], axis=1)

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


def _with_rows(
    indptr: NDArray[np.int64], n_problems: int, n_states: int, n_actions: int
) -> NDArray[np.int64]:
    """Add the empty rows of one more state to each problem."""
    begins = indptr[:-1].reshape(n_problems, n_states * n_actions)
    ends = indptr[n_states * n_actions :: n_states * n_actions]
    more = np.repeat(ends[:, None], n_actions, axis=1)
    return np.append(np.append(begins, more, axis=1).ravel(), indptr[-1])


def _reach(problems: Sequence[Problem]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the known successors of all problems, one behind the other; see Balls."""
    parts = [part.declared.successors for part in problems if part.declared.successors is not None]
    if not parts:
        return np.zeros(1, np.int64), np.zeros(0, np.int32)
    offsets = np.append(0, np.cumsum([part.nnz for part in parts]))
    starts = [part.indptr[:-1] + offset for part, offset in zip(parts, offsets[:-1], strict=True)]
    indptr = np.append(np.concatenate(starts), offsets[-1]).astype(np.int64)
    return indptr, np.concatenate([part.indices for part in parts]).astype(np.int32)
