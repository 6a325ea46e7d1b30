"""Slow, obvious twins of the kernels: plain loops, one state at a time.

They are the oracle of the tests and the peer of the benchmarks, so they follow the text of the
papers, never the structure of the kernels. Rows are one-dimensional; results are NumPy arrays.

Letters: q action values, v state values, pi a policy or one row of it, x a state, a an action,
e errors, z the linear program's bound on ``|pi - baseline|``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

Array = NDArray[np.float64]
Row = Sequence[float] | Array
Flags = Sequence[bool] | NDArray[np.bool_]

# HiGHS accepts nothing tighter; its default, 1e-7, would hide small overruns of the budget.
_TIGHTEST = 1e-10


def greedy_row(q: Row) -> Array:
    """Put all probability on the first action of largest q.

    Example:
        >>> greedy_row([1.0, 3.0, 3.0])
        array([0., 1., 0.])
    """
    best = max(range(len(q)), key=lambda a: (q[a], -a))
    pi = np.zeros(len(q))
    pi[best] = 1.0
    return pi


def pi_b_row(q: Row, baseline: Row, trusted: Flags) -> Array:
    """Copy the baseline on bootstrapped actions; the best trusted one takes the rest.

    Example:
        >>> pi_b_row([1, 2, 3, 4], [0.1, 0.4, 0.3, 0.2], [False, True, True, False])
        array([0.1, 0. , 0.7, 0.2])
    """
    pi = np.array(baseline, dtype=np.float64)
    candidates = [a for a in range(len(q)) if trusted[a]]
    if not candidates:
        return pi
    best = max(candidates, key=lambda a: (q[a], -a))
    pi[candidates] = 0.0
    pi[best] = sum(baseline[a] for a in candidates)
    return pi


def pi_leq_b_row(q: Row, baseline: Row, trusted: Flags) -> Array:
    """Visit actions by decreasing q; a bootstrapped one gets at most the baseline's share.

    The first trusted action takes all that is left. In ties trusted actions go first, then lower
    indices.

    Example:
        >>> pi_leq_b_row([1, 2, 3, 4], [0.1, 0.4, 0.3, 0.2], [False, True, True, False])
        array([0. , 0. , 0.8, 0.2])
    """
    pi = np.zeros(len(q))
    left = 1.0
    for a in sorted(range(len(q)), key=lambda a: (-q[a], not trusted[a], a)):
        if trusted[a]:
            pi[a] = left
            break
        pi[a] = min(baseline[a], left)
        left -= pi[a]
    return pi


def soft_exact_row(q: Row, baseline: Row, errors: Row, epsilon: float) -> Array:
    """Maximise q within the budget by the paper's linear program, with scipy's HiGHS.

    Actions of infinite error keep the baseline's probability bit for bit and stay out of the
    program; ``epsilon = inf`` drops the constraint, theirs too.

    Example:
        >>> soft_exact_row([0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 0.4).round(9)
        array([0.3, 0.7])
    """
    if math.isinf(epsilon):
        return greedy_row(q)
    pi = np.array(baseline, dtype=np.float64)
    free = [a for a in range(len(q)) if errors[a] < math.inf]
    if free:
        pi[free] = _solve_program(np.array(q)[free], pi[free], np.array(errors)[free], epsilon)
    return pi


def _solve_program(q: Array, b: Array, e: Array, epsilon: float) -> Array:
    """Maximise q.pi over rows with the mass of b, with pi - b <= z, b - pi <= z, e.z <= epsilon."""
    n = len(q)
    eye, ones, zeros = np.eye(n), np.ones(n), np.zeros(n)
    scale = e.max() or 1.0  # HiGHS rounds coefficients below 1e-9 to zero
    upper = np.vstack([np.block([[eye, -eye], [-eye, -eye]]), np.append(zeros, e / scale)])
    solution = scipy.optimize.linprog(
        c=np.append(-q, zeros),
        A_ub=upper,
        b_ub=np.concatenate([b, -b, [epsilon / scale]]),
        A_eq=np.append(ones, zeros)[None],
        b_eq=[float(b.sum())],
        bounds=(0.0, None),
        method="highs-ds",
        options={
            "primal_feasibility_tolerance": _TIGHTEST,
            "dual_feasibility_tolerance": _TIGHTEST,
        },
    )
    if solution.status != 0 or solution.x is None:
        raise ArithmeticError(f"linprog failed: {solution.message}")
    pi = np.clip(solution.x[:n], 0.0, None)
    # Nothing to share where every free action has probability zero.
    return np.asarray(pi * (b.sum() / pi.sum()) if pi.sum() > 0.0 else pi, dtype=np.float64)


def soft_approx_row(q: Row, baseline: Row, errors: Row, epsilon: float) -> Array:
    """Follow the paper's Pseudo-code 2, with the deviations that the kernel lists.

    A donor gives to an action of larger q and finite error or not at all; ties of the ratio go to
    the largest q; ``epsilon = inf`` is greedy.

    Example:
        >>> soft_approx_row([0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 0.4)
        array([0.3, 0.7])
    """
    if math.isinf(epsilon):
        return greedy_row(q)
    pi = np.array(baseline, dtype=np.float64)
    budget = epsilon
    for donor in sorted(range(len(q)), key=lambda a: (q[a], a)):
        receiver = _best_receiver(q, errors, donor)
        if receiver is None:
            continue
        mass = min(
            pi[donor],
            _affordable(budget, errors[donor]),
            _affordable(budget, errors[receiver]),
        )
        if mass > 0.0:
            pi[receiver] += mass
            pi[donor] -= mass
            budget = max(0.0, budget - mass * (errors[donor] + errors[receiver]))
    return pi


def _best_receiver(q: Row, e: Row, donor: int) -> int | None:
    """Return the action of largest positive gain per unit of error, if there is one."""
    ratios = {}
    for a in range(len(q)):
        gain = q[a] - q[donor]
        if gain > 0.0 and e[a] < math.inf:
            ratios[a] = math.inf if e[a] == 0.0 else gain / e[a]
    if not ratios:
        return None
    return max(ratios, key=lambda a: (ratios[a], q[a], -a))


def _affordable(budget: float, error: float) -> float:
    """Return the mass whose cost at ``error`` is half the budget."""
    return math.inf if error == 0.0 else budget / (2.0 * error)


def constraint_cost(pi: Row, baseline: Row, errors: Row) -> float:
    """Return ``sum e |pi - baseline|``, where inf x 0 counts as 0.

    Example:
        >>> constraint_cost([0.5, 0.25, 0.25], [0.5, 0.5, 0.0], [float("inf"), 2.0, 4.0])
        1.5
    """
    total = 0.0
    for new, old, error in zip(pi, baseline, errors, strict=True):
        if new != old:
            total += float(error * abs(new - old))
    return total


def evaluate(transition: Array, reward: Array, gamma: float, policy: Array) -> tuple[Array, Array]:
    """Solve ``(I - gamma P_pi) v = r_pi`` and back it up once.

    Args:
        transition: P(x' | x, a), shape (S, A, S); mass that a row lacks ends the episode.
        reward: R(x, a), shape (S, A).
        gamma: Discount.
        policy: Probabilities, shape (S, A).

    Returns:
        v (S,) and q (S, A).
    """
    n_states, n_actions = reward.shape
    system = np.eye(n_states)
    r_pi = np.zeros(n_states)
    for x in range(n_states):
        for a in range(n_actions):
            system[x] -= gamma * policy[x, a] * transition[x, a]
            r_pi[x] += policy[x, a] * reward[x, a]
    v: Array = np.linalg.solve(system, r_pi).astype(np.float64)
    q: Array = np.zeros((n_states, n_actions))
    for x in range(n_states):
        for a in range(n_actions):
            q[x, a] = reward[x, a] + gamma * transition[x, a] @ v
    return v, q


def policy_iteration(
    transition: Array,
    reward: Array,
    gamma: float,
    baseline: Array,
    row_step: Callable[[Array, int], Array],
    max_iterations: int = 1000,
) -> tuple[Array, Array, Array, int]:
    """Evaluate, improve state by state, and repeat until nothing changes.

    A new row is kept only if its expected q is not below the old one's. The loop stops when the
    Frobenius norm of the change in q is at most 1e-10 x max(1, norm of q).

    Args:
        transition: Shape (S, A, S).
        reward: Shape (S, A).
        gamma: Discount.
        baseline: The policy to start from, shape (S, A).
        row_step: ``(q_row, x) -> row``, the improvement step in state x.
        max_iterations: Improvement steps at most.

    Returns:
        The policy, its q and v, and the number of improvement steps, the last idle one included.
    """
    policy = np.array(baseline, dtype=np.float64)
    v, q = evaluate(transition, reward, gamma, policy)
    for iteration in range(1, max_iterations + 1):
        improved = _improve(policy, q, row_step)
        if (improved == policy).all():
            return policy, q, v, iteration
        policy, last_q = improved, q
        v, q = evaluate(transition, reward, gamma, policy)
        if np.linalg.norm(q - last_q) <= 1e-10 * max(1.0, float(np.linalg.norm(q))):
            return policy, q, v, iteration
    return policy, q, v, max_iterations


def _improve(policy: Array, q: Array, row_step: Callable[[Array, int], Array]) -> Array:
    improved = policy.copy()
    for x in range(len(policy)):
        row = row_step(q[x], x)
        if sum(row * q[x]) >= sum(policy[x] * q[x]):
            improved[x] = row
    return improved


def maximum_likelihood(
    states: Sequence[int],
    actions: Sequence[int],
    rewards: Sequence[float],
    next_states: Sequence[int],
    terminated: Sequence[bool],
    n_states: int,
    n_actions: int,
    unseen: str = "average",
    terminal: Sequence[int] = (),
) -> tuple[Array, Array, NDArray[np.int64]]:
    """Estimate the model from the rows of a log, one at a time.

    A terminated row adds to the count of its pair but to no successor: the mass that P lacks is
    the probability of ending. A pair never seen does what all rows of its state did, or, where
    there is none, stays for the mean reward of the log and ends as often as its rows do; with
    ``unseen="terminal"``, or in a terminal state, it ends for nothing.

    Returns:
        P (S, A, S), R (S, A) and the counts (S, A).

    Example:
        >>> p, r, n_sa = maximum_likelihood([0, 0], [0, 0], [1.0, 2.0], [1, 1], [False, True], 2, 1)
        >>> p[0, 0], float(r[0, 0]), n_sa.ravel()
        (array([0. , 0.5]), 1.5, array([2, 0]))
        >>> p[1, 0], float(r[1, 0])
        (array([0. , 0.5]), 1.5)
    """
    transition = np.zeros((n_states, n_actions, n_states))
    reward = np.zeros((n_states, n_actions))
    n_sa = np.zeros((n_states, n_actions), dtype=np.int64)
    for x, a, r, successor, ends in zip(
        states, actions, rewards, next_states, terminated, strict=True
    ):
        n_sa[x, a] += 1
        reward[x, a] += r
        if not ends:
            transition[x, a, successor] += 1.0
    pooled, paid = transition.sum(axis=1), reward.sum(axis=1)
    for x in range(n_states):
        for a in range(n_actions):
            if n_sa[x, a] > 0:
                transition[x, a] /= n_sa[x, a]
                reward[x, a] /= n_sa[x, a]
            elif unseen == "terminal" or x in terminal:
                continue
            elif n_sa[x].sum() > 0:
                transition[x, a] = pooled[x] / n_sa[x].sum()
                reward[x, a] = paid[x] / n_sa[x].sum()
            else:
                transition[x, a, x] = 1.0 - sum(terminated) / len(terminated)
                reward[x, a] = sum(rewards) / len(rewards)
    return transition, reward, n_sa


def reference_baseline_fit(
    n_sa: NDArray[np.int64], baseline: NDArray[np.float64]
) -> tuple[float, float]:
    """Return p-value and distance of a baseline, one action after the other.

    Each alternative of the first kind is an urn: it holds c b(a | x) balls of every action, and one
    more of each that was taken. The distance takes off the expectation over all binomial outcomes.
    """
    ratios = []
    for c in (1.0, 10.0, 100.0, 1e3, 1e4, 1e5):
        ratio = 0.0
        for counts, probabilities in zip(n_sa, baseline, strict=True):
            balls, total = [c * p for p in probabilities], c
            for action, n in enumerate(counts):
                for _ in range(n):
                    ratio += math.log(balls[action] / total) - math.log(probabilities[action])
                    balls[action] += 1.0
                    total += 1.0
        ratios.append(ratio)
    tilts = [2.0**k for k in range(-9, 3)]
    kinds = [
        [math.exp(ratio) for ratio in ratios],
        _reference_tilted(n_sa, baseline, tilts, share=1.0),
        _reference_tilted(n_sa, baseline, [0.5, 2.0], share=0.5),
    ]
    single, every, half = (sum(kind) / len(kind) for kind in kinds)
    wealth = single / 2.0 + every / 4.0 + half / 4.0
    distance, n_rows = 0.0, 0
    for counts, probabilities in zip(n_sa, baseline, strict=True):
        n = int(sum(counts))
        n_rows += n
        for k, p in zip(counts, probabilities, strict=True):
            chance = sum(
                math.comb(n, i) * p**i * (1.0 - p) ** (n - i) * abs(i - n * p) for i in range(n + 1)
            )
            distance += (abs(k - n * p) - chance) / 2.0
    shown = _reference_pooled_distance(n_sa, baseline)
    return min(1.0, 1.0 / wealth), max(distance, shown) / max(1, n_rows)


def _reference_scores(probabilities: NDArray[np.float64]) -> list[list[float]]:
    """Return the scores of actions: each one's indicator, and the baseline's own probability."""
    n_actions = len(probabilities)
    indicators = [[float(a == taken) for taken in range(n_actions)] for a in range(n_actions)]
    return [*indicators, [float(p) for p in probabilities]]


def _reference_tilted(
    n_sa: NDArray[np.int64], baseline: NDArray[np.float64], tilts: list[float], share: float
) -> list[float]:
    """Return the wealth of bets on each score, sign and tilt, in a share of the states, by rows."""
    found = []
    for k in range(n_sa.shape[1] + 1):
        for t in tilts:
            for sign in (1.0, -1.0):
                wealth = 1.0
                for counts, probabilities in zip(n_sa, baseline, strict=True):
                    score = _reference_scores(probabilities)[k]
                    mean = sum(p * s for p, s in zip(probabilities, score, strict=True))
                    spread = sum(
                        p * (s - mean) ** 2 for p, s in zip(probabilities, score, strict=True)
                    )
                    cost, in_state = min((math.exp(t) - 1.0 - t) * spread, t * t / 8.0), 1.0
                    for action, n in enumerate(counts):
                        for _ in range(n):
                            in_state *= math.exp(sign * t * (score[action] - mean) - cost)
                    wealth *= 1.0 - share + share * in_state
                found.append(wealth)
    return found


def _reference_pooled_distance(n_sa: NDArray[np.int64], baseline: NDArray[np.float64]) -> float:
    """Return how far sums of scores over all rows are off, beyond chance."""
    beyond = []
    for k in range(n_sa.shape[1] + 1):
        off, variance = 0.0, 0.0
        for counts, probabilities in zip(n_sa, baseline, strict=True):
            score = _reference_scores(probabilities)[k]
            mean = sum(p * s for p, s in zip(probabilities, score, strict=True))
            spread = sum(p * (s - mean) ** 2 for p, s in zip(probabilities, score, strict=True))
            for n, s in zip(counts, score, strict=True):
                off += n * (s - mean)
                variance += n * spread
        beyond.append(abs(off) - math.sqrt(2.0 / math.pi * variance))
    return max(sum(beyond[:-1]) / 2.0, beyond[-1])
