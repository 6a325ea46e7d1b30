"""Processes whose actions and outcomes have an unrecorded cause, with known truth.

In each step a cause u is drawn, given the state x alone. Those who act see x and u, and u changes
what follows, too. A log has x only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from spibb.data.log import Log
from spibb.representation.steps import Array, Codes

# Rewards are uniform around their mean, so far at most.
_NOISE = 0.1


@dataclass(frozen=True, eq=False)
class ConfoundedProcess:
    """A process of states, causes and actions; X states, U causes, A actions.

    Attributes:
        cause: Probability of each cause in each state, shape (X, U).
        behaviour: How those who know the cause act, shape (X, U, A).
        reward: Mean rewards, shape (X, U, A).
        moves: Probabilities of the next state; what is missing ends the process; (X, U, A, X).
        start: Probability of each first state, shape (X,).
        gamma: The discount.
        policy: A policy of states, to be judged, shape (X, A).
        returns: The least and the largest return that is possible.
        length: Steps after which a record is cut.
        lasts: Whether a cause that was drawn stays for the whole record.
    """

    cause: Array
    behaviour: Array
    reward: Array
    moves: Array
    start: Array
    gamma: float
    policy: Array
    returns: tuple[float, float]
    length: int
    lasts: bool = False

    @property
    def share(self) -> Array:
        """Probability of each cause given the state alone, shape (X, U).

        A cause that lasts shows in the states that it leads to.
        """
        if not self.lasts:
            return self.cause
        now = self.start[:, None] * self.cause
        visits = np.zeros_like(now)
        for _ in range(self.length):
            visits += now
            now = np.einsum("xu,xua,xuay->yu", now, self.behaviour, self.moves)
        total = visits.sum(axis=1, keepdims=True)
        return np.where(total > 0.0, visits / np.maximum(total, 1e-300), self.cause)

    @property
    def baseline(self) -> Array:
        """How often each action is taken in each state, shape (X, A)."""
        return np.asarray(np.einsum("xu,xua->xa", self.share, self.behaviour))

    @property
    def odds_ratio(self) -> float:
        """The largest factor by which a cause changes the odds of an action in a state."""
        p, average = self.behaviour, self.baseline[:, None, :]
        # Odds of actions that are never taken are 0, and stay so.
        odds = np.maximum(p, 1e-300) * (1.0 - average)
        factor = odds / (np.maximum(average, 1e-300) * (1.0 - p))
        return float(np.maximum(factor, 1.0 / factor).max())

    @property
    def gain(self) -> float:
        """What the policy truly earns more than the behaviour, which goes on where both agree."""
        goes_on = np.abs(self.policy - self.baseline).max(axis=1) < 1e-9
        policy = np.where(goes_on[:, None, None], self.behaviour, self.policy[:, None, :])
        return self._value(policy) - self._value(self.behaviour)

    def _value(self, acting: Array) -> float:
        # Of states with causes; a cause that lasts goes on with the next state.
        n_states, n_causes, _ = acting.shape
        moves = np.einsum("xua,xuay->xuy", acting, self.moves)
        carried = np.eye(n_causes) if self.lasts else None
        size = n_states * n_causes
        chain = np.zeros((n_states, n_causes, n_states, n_causes))
        for x, u in np.ndindex(n_states, n_causes):
            after = carried[u] if carried is not None else self.cause
            chain[x, u] = moves[x, u][:, None] * after
        reward = np.einsum("xua,xua->xu", acting, self.reward).ravel()
        v = np.linalg.solve(np.eye(size) - self.gamma * chain.reshape(size, size), reward)
        return float((self.start[:, None] * self.cause).ravel() @ v)

    def draw(self, n_episodes: int, seed: int) -> Log:
        """Return a log of the behaviour."""
        rng = np.random.default_rng(seed)
        x = rng.choice(len(self.start), n_episodes, p=self.start)
        u = _drawn(self.cause[x], rng)
        alive, columns = np.arange(n_episodes), []
        for step in range(self.length):
            a = _drawn(self.behaviour[x, u], rng)
            reward = self.reward[x, u, a] + _NOISE * rng.uniform(-1.0, 1.0, len(x))
            y = _drawn(self.moves[x, u, a], rng)
            ends = y == len(self.start)
            cut = ~ends & (step == self.length - 1)
            columns.append(np.column_stack([alive, x, a, reward, ends, cut]))
            alive, x, u = alive[~ends], y[~ends], u[~ends]
            u = u if self.lasts else _drawn(self.cause[x], rng)
        rows = np.concatenate(columns)
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        episode, state, action = rows[:, :3].astype(np.int64).T
        return Log.from_arrays(
            state=state, action=action, reward=rows[:, 3], terminated=rows[:, 4] > 0.0,
            truncated=rows[:, 5] > 0.0, episode=episode, n_states=len(self.start),
            n_actions=self.behaviour.shape[2],
        )  # fmt: skip


def _drawn(probabilities: Array, rng: np.random.Generator) -> Codes:
    """Draw a column for each row; the number of columns where none is drawn."""
    bounds = np.cumsum(probabilities, axis=1)
    # Sums that should be 1 are not exactly.
    bounds[np.abs(bounds - 1.0) < 1e-9] = 2.0
    return np.asarray((rng.random(len(bounds))[:, None] >= bounds).sum(axis=1))


def _odds(probability: float, factor: float) -> float:
    odds = factor * probability / (1.0 - probability)
    return odds / (1.0 + odds)


def _two_actions(second: Array) -> Array:
    """Return behaviours (X, U, 2) from probabilities of the second action."""
    return np.stack([1.0 - second, second], axis=2)


def treatment() -> ConfoundedProcess:
    """One decision: the sick are treated more often and die more often; treatment helps a bit."""
    cause = np.array([[0.7, 0.3], [0.5, 0.5], [0.6, 0.4]])
    treated = np.array([[0.4, 0.65], [0.45, 0.7], [0.3, 0.55]])
    alive = np.array([[0.9, 0.4], [0.8, 0.3], [0.85, 0.35]])
    reward = np.stack([alive, alive + 0.08], axis=2)
    return _one_step(cause, _two_actions(treated), reward, np.array([[1.0, 0.0]] * 3))


def flagship() -> ConfoundedProcess:
    """One decision of four: the interested are shown the flagship, and buy whatever they see."""
    rng = np.random.default_rng(4)
    cause = np.full((6, 3), 1.0 / 3.0)
    weight = np.ones((6, 3, 4)) + 0.3 * rng.random((6, 1, 4))
    weight[:, 2, 3] *= 2.2
    weight[:, 0, 3] /= 1.6
    buys = 0.2 + 0.15 * np.arange(3)[None, :, None] + 0.1 * rng.random((6, 1, 4))
    policy = np.tile([0.0, 0.0, 0.0, 1.0], (6, 1))
    return _one_step(cause, weight / weight.sum(axis=2, keepdims=True), buys, policy)


def tight(n_states: int = 1) -> ConfoundedProcess:
    """One decision for which the bound at an odds ratio of 2 is the truth."""
    treated = np.tile([1.0 / 3.0, 2.0 / 3.0], (n_states, 1))
    reward = np.tile([[0.5, 0.0], [0.5, 1.0]], (n_states, 1, 1))
    policy = np.tile([0.0, 1.0], (n_states, 1))
    return _one_step(np.full((n_states, 2), 0.5), _two_actions(treated), reward, policy)


def tight_stay() -> ConfoundedProcess:
    """Four days, on each of which the bound at an odds ratio of 2 is the truth."""
    days = 4
    treated = np.tile([1.0 / 3.0, 2.0 / 3.0], (days, 1))
    reward, moves = np.zeros((days, 2, 2)), np.zeros((days, 2, 2, days))
    for day in range(days - 1):
        moves[day, :, 0, day + 1] = 0.8
        moves[day, 1, 1, day + 1] = 1.0  # treated: the strong live, the weak die
    reward[-1, :, 0], reward[-1, 1, 1] = 0.8, 1.0
    return ConfoundedProcess(
        cause=np.full((days, 2), 0.5),
        behaviour=_two_actions(treated),
        reward=reward,
        moves=moves,
        start=np.eye(days)[0],
        gamma=0.99,
        policy=np.tile([0.0, 1.0], (days, 1)),
        returns=(0.0, 1.0),
        length=days,
    )


def stays() -> ConfoundedProcess:
    """Stays in hospital: a bad day makes a drug likelier, and death; the drug helps a little."""
    n = 4
    cause = np.array([[0.8, 0.2], [0.7, 0.3], [0.6, 0.4], [0.5, 0.5]])
    drug = np.array([[_odds(p, 0.75), _odds(p, 1.6)] for p in (0.3, 0.4, 0.5, 0.6)])
    moves, reward = np.zeros((n, 2, 2, n)), np.zeros((n, 2, 2))
    for x, u, a in np.ndindex(n, 2, 2):
        dies = 0.01 + 0.02 * x + 0.10 * u - 0.02 * a * u
        leaves = 0.25 - 0.05 * x + 0.03 * a
        rest = 1.0 - dies - leaves
        moves[x, u, a, max(0, x - 1)] += rest * (0.5 - 0.2 * u)
        moves[x, u, a, min(n - 1, x + 1)] += rest * (0.5 + 0.2 * u)
        reward[x, u, a] = leaves
    return ConfoundedProcess(
        cause=cause, behaviour=_two_actions(drug), reward=reward, moves=moves,
        start=np.array([0.1, 0.3, 0.4, 0.2]), gamma=0.98, policy=np.tile([1.0, 0.0], (n, 1)),
        returns=(0.0, 1.0), length=60,
    )  # fmt: skip


def queue() -> ConfoundedProcess:
    """A queue without an end: a rush makes a second server likelier, and the queue longer."""
    n = 6
    cause = np.tile([0.7, 0.3], (n, 1))
    fast = np.array([[_odds(p, 0.7), _odds(p, 1.8)] for p in np.linspace(0.25, 0.7, n)])
    moves, reward = np.zeros((n, 2, 2, n)), np.zeros((n, 2, 2))
    for x, u, a in np.ndindex(n, 2, 2):
        longer, shorter = (0.25, 0.6)[u], (0.35, 0.6)[a]
        moves[x, u, a, min(n - 1, x + 1)] += longer * (1.0 - shorter)
        moves[x, u, a, max(0, x - 1)] += shorter * (1.0 - longer)
        moves[x, u, a, x] += longer * shorter + (1.0 - longer) * (1.0 - shorter)
        reward[x, u, a] = 1.0 - x / (n - 1) - 0.05 * a
    policy = np.where(np.arange(n)[:, None] < 3, [1.0, 0.0], [0.3, 0.7])
    return ConfoundedProcess(
        cause=cause, behaviour=_two_actions(fast), reward=reward, moves=moves,
        start=np.full(n, 1.0 / n), gamma=0.9, policy=policy, returns=(-0.5, 10.0), length=50,
    )  # fmt: skip


def machine() -> ConfoundedProcess:
    """A machine: a noise that nobody records makes repair likelier, and breakdowns too."""
    n = 5
    cause = np.tile([0.85, 0.15], (n, 1))
    repair = np.array([[_odds(p, 0.8), _odds(p, 2.2)] for p in (0.1, 0.15, 0.25, 0.4, 0.5)])
    moves, reward = np.zeros((n, 2, 2, n)), np.zeros((n, 2, 2))
    for x, u in np.ndindex(n, 2):
        breaks = min(0.9, 0.03 * x + 0.2 * u)
        moves[x, u, 0, n - 1] += breaks
        moves[x, u, 0, min(n - 1, x + 1)] += (1.0 - breaks) * 0.6
        moves[x, u, 0, x] += (1.0 - breaks) * 0.4
        moves[x, u, 1, 0] = 1.0
        reward[x, u] = 1.0 - breaks, 0.3
    policy = np.where(np.arange(n)[:, None] < 3, [1.0, 0.0], [0.0, 1.0])
    return ConfoundedProcess(
        cause=cause, behaviour=_two_actions(repair), reward=reward, moves=moves,
        start=np.eye(n)[0], gamma=0.9, policy=policy, returns=(0.1, 10.0), length=40,
    )  # fmt: skip


def many_states() -> ConfoundedProcess:
    """A random process of thirty states, of which most have been seen a few times."""
    rng = np.random.default_rng(7)
    n, n_actions = 30, 3
    cause = np.tile([0.5, 0.5], (n, 1))
    weight = 1.0 + rng.random((n, 1, n_actions)) + 0.5 * rng.random((n, 2, n_actions))
    moves = 0.9 * rng.dirichlet(np.full(n, 0.1), (n, 2, n_actions))
    reward = rng.random((n, 1, n_actions)) * 0.6 + 0.4 * np.arange(2)[None, :, None]
    policy = np.eye(n_actions)[reward.mean(axis=1).argmax(axis=1)]
    return ConfoundedProcess(
        cause=cause, behaviour=weight / weight.sum(axis=2, keepdims=True), reward=reward,
        moves=moves, start=np.full(n, 1.0 / n), gamma=0.95,
        policy=0.5 * policy + 0.5 / n_actions, returns=(0.0, 1.0 / (1.0 - 0.95 * 0.9)), length=100,
    )  # fmt: skip


def lasting() -> ConfoundedProcess:
    """Four treatments in a row cure only the strong, who are treated: beyond the bounds.

    Who has been treated so often is strong, so that the states themselves hide a cause that lasts.
    It changes odds by a factor of 2 on the first day, and of 3.4 on the last, given the state.
    """
    days = 4
    reward, moves = np.full((days, 2, 2), 0.6), np.zeros((days, 2, 2, days))
    for day in range(days - 1):
        moves[day, :, 1, day + 1] = 1.0
        reward[day, :, 1] = 0.0
    reward[-1, :, 1] = 0.0, 1.0
    return ConfoundedProcess(
        cause=np.full((days, 2), 0.5),
        behaviour=_two_actions(np.tile([1.0 / 3.0, 2.0 / 3.0], (days, 1))),
        reward=reward, moves=moves, start=np.eye(days)[0], gamma=1.0,
        policy=np.tile([0.0, 1.0], (days, 1)), returns=(0.0, 1.0), length=days, lasts=True,
    )  # fmt: skip


def copied() -> ConfoundedProcess:
    """Stays in hospital, of which the policy changes the worst days; the behaviour goes on else."""
    one = stays()
    return replace(one, policy=np.where(np.arange(4)[:, None] < 3, one.baseline, one.policy))


def rare() -> ConfoundedProcess:
    """One decision: three in a hundred are given what does nothing; the strong more often."""
    given = np.array([[0.02, 0.04], [0.02, 0.05]])
    reward = np.repeat(np.array([[0.8, 0.9], [0.75, 0.85]])[:, :, None], 2, axis=2)
    policy = np.tile([0.0, 1.0], (2, 1))
    return _one_step(np.full((2, 2), 0.5), _two_actions(given), reward, policy)


def untried() -> ConfoundedProcess:
    """One decision of three: the policy takes a bad action at times that nobody ever took."""
    behaviour = np.zeros((2, 2, 3))
    behaviour[:, :, :2] = _two_actions(np.array([[0.4, 0.6], [0.3, 0.5]]))
    reward = np.tile([[0.3, 0.5, 0.2], [0.4, 0.6, 0.3]], (2, 1, 1))
    policy = np.tile([0.0, 0.8, 0.2], (2, 1))
    return _one_step(np.full((2, 2), 0.5), behaviour, reward, policy)


def _one_step(cause: Array, behaviour: Array, reward: Array, policy: Array) -> ConfoundedProcess:
    n_states = len(cause)
    return ConfoundedProcess(
        cause=cause, behaviour=behaviour, reward=reward,
        moves=np.zeros((*behaviour.shape, n_states)), start=np.full(n_states, 1.0 / n_states),
        gamma=1.0, policy=policy, returns=(0.0, 1.0), length=1,
    )  # fmt: skip


PROCESSES: dict[str, Callable[[], ConfoundedProcess]] = {
    "treatment": treatment,
    "flagship": flagship,
    "tight": tight,
    "tight, many states": lambda: tight(20),
    "tight stay": tight_stay,
    "stays": stays,
    "queue": queue,
    "machine": machine,
    "many states": many_states,
    "copied state": copied,
    "rare action": rare,
    "untried action": untried,
}
