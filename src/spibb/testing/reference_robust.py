"""Slow, obvious twins of the robust kernels: linear programs and plain loops, one row at a time.

They follow the definitions, never the structure of the kernels. A row is a distribution over the
states and, as its last entry, ending; values have a 0 in that place. A set of models is given by
its centre, by a radius for every pair, and by the rewards: the least ones for a worst case, the
largest ones for a best case.

Letters: v state values, q action values, pi a policy, x a state, a an action, d the bound D.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from spibb.mdp.model import TabularMDP

Array = NDArray[np.float64]
# For pairs (x, a) whose successors are known: the states that may follow.
Reach = Mapping[tuple[int, int], Collection[int]]

_TIGHTEST = 1e-10


def worst_by_program(row: Array, values: Array, radius: float) -> tuple[float, Array]:
    """Minimise P.values over the L1 ball around a row, by scipy's HiGHS.

    Args:
        row: A distribution.
        values: One for each outcome.
        radius: Largest sum of |P - row|.

    Returns:
        The minimum and where it is reached.

    Example:
        >>> worst_by_program(np.array([0.5, 0.5]), np.array([1.0, 0.0]), 0.2)[0].__round__(9)
        0.4
    """
    n = len(row)
    eye, ones, zeros = np.eye(n), np.ones(n), np.zeros(n)
    upper = np.vstack([np.block([[eye, -eye], [-eye, -eye]]), np.append(zeros, ones)])
    solution = scipy.optimize.linprog(
        c=np.append(values, zeros),
        A_ub=upper,
        b_ub=np.concatenate([row, -row, [radius]]),
        A_eq=np.append(ones, zeros)[None],
        b_eq=[1.0],
        bounds=(0.0, None),
        method="highs-ds",
        options={
            "primal_feasibility_tolerance": _TIGHTEST,
            "dual_feasibility_tolerance": _TIGHTEST,
        },
    )
    if solution.status != 0 or solution.x is None or solution.fun is None:
        raise ArithmeticError(f"linprog failed: {solution.message}")
    return float(solution.fun), np.asarray(solution.x[:n])


def worst_mean(row: Sequence[float], values: Sequence[float], radius: float) -> float:
    """Minimise by sorting: half of the radius goes from the best outcomes to the worst one.

    Example:
        >>> worst_mean([0.5, 0.5], [1.0, 0.0], 0.2)
        0.4
    """
    p = list(row)
    worst = min(range(len(p)), key=lambda k: values[k])
    left = min(radius / 2.0, 1.0 - p[worst])
    p[worst] += left
    for k in sorted(range(len(p)), key=lambda k: -values[k]):
        if k != worst:
            given = min(p[k], left)
            p[k] -= given
            left -= given
    return sum(mass * value for mass, value in zip(p, values, strict=True))


def robust_backup(
    transition: Array,
    reward: Array,
    gamma: float,
    radius: Array,
    v: Array,
    *,
    best: bool = False,
    may_end: bool = True,
    reach: Reach | None = None,
) -> Array:
    """Return R + gamma min P.v for every pair, or max for the best case.

    Args:
        transition: Centres, shape (S, A, S); mass that a row lacks ends the episode.
        reward: Shape (S, A).
        gamma: Discount.
        radius: Shape (S, A).
        v: Shape (S,).
        best: Whether to maximise.
        may_end: Whether ending is an outcome that mass may be moved to.
        reach: The states that mass may be moved to, for pairs where not all are possible.
    """
    sign = -1.0 if best else 1.0
    q = np.zeros(reward.shape)
    for x in range(reward.shape[0]):
        for a in range(reward.shape[1]):
            row = [*transition[x, a], 1.0 - sum(transition[x, a])]
            states = (reach or {}).get((x, a), range(len(v)))
            kept = [y for y in range(len(v)) if y in states or row[y] > 0.0]
            kept += [len(v)] if may_end or row[-1] > 1e-12 else []
            values = [sign * v[y] if y < len(v) else 0.0 for y in kept]
            worst = worst_mean([row[y] for y in kept], values, radius[x, a])
            q[x, a] = reward[x, a] + gamma * sign * worst
    return q


def robust_values(
    transition: Array,
    reward: Array,
    gamma: float,
    radius: Array,
    policy: Array | None = None,
    *,
    best: bool = False,
    tolerance: float = 1e-10,
    may_end: bool = True,
    reach: Reach | None = None,
) -> tuple[Array, Array]:
    """Iterate backups until the error is below the tolerance.

    Args:
        transition: Centres, shape (S, A, S).
        reward: Shape (S, A).
        gamma: Discount below 1.
        radius: Shape (S, A).
        policy: The policy to evaluate; None: the best action of each state.
        best: Whether the best model is meant instead of the worst.
        tolerance: Largest error, by contraction.
        may_end: Whether ending is an outcome that mass may be moved to.
        reach: The states that mass may be moved to; see :func:`robust_backup`.

    Returns:
        v (S,) and q (S, A).
    """
    v = np.zeros(len(reward))

    def back_up(v: Array) -> Array:
        return robust_backup(
            transition, reward, gamma, radius, v, best=best, may_end=may_end, reach=reach
        )

    while True:
        q = back_up(v)
        new = np.zeros(len(reward))
        for x in range(len(reward)):
            new[x] = max(q[x]) if policy is None else sum(policy[x] * q[x])
        change = max(abs(new - v))
        v = new
        if change * gamma <= tolerance * (1.0 - gamma):
            return v, back_up(v)


def regret_bound(
    transition: Array,
    gamma: float,
    radius: Array,
    policy: Array,
    baseline: Array,
    q_worst: Array,
    q_best: Array,
    tolerance: float = 1e-10,
    *,
    may_end: bool = True,
    reach: Reach | None = None,
) -> tuple[Array, Array]:
    """Iterate D(x) = sum_a m gamma min P.D + (pi - m) Q_worst - (pi_b - m) Q_best.

    Args:
        transition: Centres, shape (S, A, S).
        gamma: Discount below 1.
        radius: Shape (S, A).
        policy: Shape (S, A).
        baseline: Shape (S, A).
        q_worst: Worst-case values of the policy, shape (S, A).
        q_best: Best-case values of the baseline, shape (S, A).
        tolerance: Largest error, by contraction.
        may_end: Whether ending is an outcome that mass may be moved to.
        reach: The states that mass may be moved to; see :func:`robust_backup`.

    Returns:
        D (S,) and gamma min P.D (S, A).
    """
    d = np.zeros(len(policy))
    nothing = np.zeros(policy.shape)

    def back_up(d: Array) -> Array:
        return robust_backup(transition, nothing, gamma, radius, d, may_end=may_end, reach=reach)

    while True:
        later = back_up(d)
        new = np.zeros(len(policy))
        for x in range(len(policy)):
            for a in range(policy.shape[1]):
                common = min(policy[x, a], baseline[x, a])
                new[x] += common * later[x, a]
                new[x] += (policy[x, a] - common) * q_worst[x, a]
                new[x] -= (baseline[x, a] - common) * q_best[x, a]
        change = max(abs(new - d))
        d = new
        if change * gamma <= tolerance * (1.0 - gamma):
            return d, back_up(d)


def worst_start(initial: Sequence[float], values: Sequence[float], radius: float) -> float:
    """Minimise the mean of values over the L1 ball around a start distribution.

    Example:
        >>> worst_start([0.5, 0.5, 0.0], [1.0, 0.0, -1.0], 0.5)
        0.0
    """
    return worst_mean(initial, values, radius)


def time_uniform(n: int, alpha: float, rho: float = 10.0) -> float:
    """Return sqrt(2 (1 + rho / N) / N log(sqrt(1 + N / rho) / alpha)), infinite for N = 0.

    Example:
        >>> round(time_uniform(1_000, 0.025), 4)
        0.1101
    """
    if n == 0:
        return math.inf
    return math.sqrt(2 * (1 + rho / n) / n * math.log(math.sqrt(1 + n / rho) / alpha))


def robust_candidate(
    transition: Array, reward: Array, gamma: float, radius: Array, baseline: Array
) -> Array:
    """Return a policy that is optimal in its worst model; a row that ties stays the baseline's."""
    _, q = robust_values(transition, reward, gamma, radius)
    return _greedy_or(q, baseline)


def surrogate_candidate(
    transition: Array,
    reward: Array,
    least: Array,
    gamma: float,
    radius: Array,
    baseline: Array,
) -> Array:
    """Plan with one more action, "follow the baseline", that is free of error.

    Args:
        transition: Centres, shape (S, A, S).
        reward: Estimated rewards, shape (S, A).
        least: Least rewards of the set, shape (S, A).
        gamma: Discount below 1.
        radius: Shape (S, A).
        baseline: Shape (S, A).
    """
    n_states, n_actions = reward.shape
    rows = np.zeros((n_states, n_actions + 1, n_states))
    paid, balls = np.zeros((n_states, n_actions + 1)), np.zeros((n_states, n_actions + 1))
    for x in range(n_states):
        rows[x, :-1], paid[x, :-1], balls[x, :-1] = transition[x], least[x], radius[x]
        rows[x, -1] = baseline[x] @ transition[x]
        paid[x, -1] = baseline[x] @ reward[x]
    _, q = robust_values(rows, paid, gamma, balls)
    follow = np.zeros(paid.shape)
    follow[:, -1] = 1.0
    chosen = _greedy_or(q, follow)
    return np.asarray(chosen[:, :-1] + chosen[:, -1:] * baseline)


def regret_row(q_worst: Array, q_best: Array, later: Array, baseline: Array) -> Array:
    """Maximise sum_a m later + (pi - m) q_worst - (baseline - m) q_best over one row pi.

    Probability up to the baseline's earns later + q_best, any further one q_worst: hand it out in
    the order of what it earns.

    Example:
        >>> row = np.array([0.5, 0.5])
        >>> regret_row(np.array([1.0, 2.0]), np.array([1.5, 3.0]), np.zeros(2), row)
        array([0., 1.])
    """
    offers = [(later[a] + q_best[a], baseline[a], a) for a in range(len(baseline))]
    offers += [(q_worst[a], 1.0, a) for a in range(len(baseline))]
    pi = np.zeros(len(baseline))
    left = 1.0
    # In ties the baseline's own share goes first: it is listed first, and sorting is stable.
    for _, room, a in sorted(offers, key=lambda offer: -offer[0]):
        taken = min(room, left)
        pi[a] += taken
        left -= taken
    return pi


def _greedy_or(q: Array, policy: Array) -> Array:
    """Be greedy where that is better than a policy, and keep the policy elsewhere."""
    chosen = policy.copy()
    for x in range(len(q)):
        if max(q[x]) > sum(policy[x] * q[x]) + 1e-9:
            chosen[x] = 0.0
            chosen[x, int(np.argmax(q[x]))] = 1.0
    return chosen


def sample_models(
    mdp: TabularMDP, radius: Array, rng: np.random.Generator, n_models: int
) -> Iterator[TabularMDP]:
    """Draw models inside L1 balls around a model, half of them on the edge towards one outcome.

    Args:
        mdp: The centre.
        radius: Shape (S, A).
        rng: Source of randomness.
        n_models: How many.
    """
    full = np.append(mdp.dense, mdp.ending[:, :, None], axis=2)
    n_outcomes = full.shape[2]
    for k in range(n_models):
        other = np.eye(n_outcomes)[rng.integers(0, n_outcomes, radius.shape)]
        if k % 2:
            other = rng.dirichlet(np.full(n_outcomes, 0.3), radius.shape)
        gap = np.abs(other - full).sum(axis=2)
        mix = np.minimum(1.0, radius / np.maximum(gap, 1e-12))[..., None]
        moved = (1 - mix) * full + mix * other
        yield with_transitions(mdp, moved[:, :, :-1], mdp.reward)


def with_transitions(mdp: TabularMDP, transition: Array, reward: Array) -> TabularMDP:
    """Return a process with other transitions and rewards; mass that a row lacks ends it."""
    ending = 1.0 - transition.sum(axis=2)
    ending[np.abs(ending) < 1e-12] = 0.0
    return TabularMDP(transition, reward, mdp.gamma, mdp.initial, mdp.terminal, ending)
