"""Slow, obvious twins of the judgement in finer states: loops over rows, dense arrays.

They follow the formulas of the documentation. A log is a list of episodes, an episode a list of
rows `(state, action, reward, terminated)` in order and without gaps. A row is a *step* if it ends
the process or if another row of its episode follows it; states of rows are numbered along the log.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Row = tuple[int, int, float, bool]
Episodes = Sequence[Sequence[Row]]
# Rows whose orders can be listed.
_MOST_LISTED = 6
# A process may never end in a model.
LARGEST_DISCOUNT = 1.0 - 1e-6


class Step(NamedTuple):
    """A row whose following one is known; `following` is None where the process ends."""

    row: int
    action: int
    reward: float
    following: int | None
    episode: int


class Gain(NamedTuple):
    """Gain of a policy over the behaviour, and the influence of each episode on it."""

    gain: float
    label_loss: float
    influence: Array
    unsupported: float


def steps_of(episodes: Episodes) -> tuple[list[Step], list[int]]:
    """Return the steps of a log, and the rows in which episodes begin."""
    steps, first, row = [], [], 0
    for number, rows in enumerate(episodes):
        first.append(row)
        for place, (_, action, reward, ends) in enumerate(rows):
            if ends:
                steps.append(Step(row, action, reward, None, number))
            elif place + 1 < len(rows):
                steps.append(Step(row, action, reward, row + 1, number))
            row += 1
    return steps, first


def refined_gain(
    episodes: Episodes, code: Sequence[int], table: Array, baseline: Array, gamma: float
) -> Gain:
    """Return the gain of a policy in fine states, as dense models of frequencies have it.

    Args:
        episodes: The log.
        code: Fine state of each row.
        table: The policy in fine states, shape (Z, A).
        baseline: The baseline in fine states, shape (Z, A).
        gamma: The discount.
    """
    steps, first = steps_of(episodes)
    gamma = min(gamma, LARGEST_DISCOUNT)
    new = _evaluated(steps, first, code, table, gamma)
    old = _evaluated(steps, first, code, baseline, gamma)
    behaved = _behaved(steps, first, code, len(table), gamma)
    influence = np.zeros(len(episodes))
    for number in range(len(episodes)):
        influence[number] = new[1].get(number, 0.0) - behaved[1].get(number, 0.0)
    return Gain(new[0] - behaved[0], behaved[0] - old[0], influence, new[2])


def _evaluated(
    steps: list[Step], first: list[int], code: Sequence[int], table: Array, gamma: float
) -> tuple[float, dict[int, float], float]:
    n_cells, n_actions = table.shape
    n = {(z, a): 0 for z in range(n_cells) for a in range(n_actions)}
    for step in steps:
        n[code[step.row], step.action] += 1
    n_cell = [sum(n[z, a] for a in range(n_actions)) for z in range(n_cells)]
    # The model of fine pairs: mean reward, and frequencies of the fine state that follows.
    reward, moves = np.zeros((n_cells, n_actions)), np.zeros((n_cells, n_actions, n_cells))
    for step in steps:
        z = code[step.row]
        reward[z, step.action] += step.reward / n[z, step.action]
        if step.following is not None:
            moves[z, step.action, code[step.following]] += 1.0 / n[z, step.action]
    for z, a in np.ndindex(n_cells, n_actions):
        if n[z, a] == 0 and n_cell[z] > 0:  # what its fine state does on average
            reward[z, a] = sum(n[z, b] * reward[z, b] for b in range(n_actions)) / n_cell[z]
            moves[z, a] = sum(n[z, b] * moves[z, b] for b in range(n_actions)) / n_cell[z]
    chain = np.array([table[z] @ moves[z] for z in range(n_cells)])
    v = np.linalg.solve(np.eye(n_cells) - gamma * chain, (table * reward).sum(axis=1))
    start = np.zeros(n_cells)
    for row in first:
        start[code[row]] += 1.0 / len(first)
    visits = np.linalg.solve(np.eye(n_cells) - gamma * chain.T, start)
    u = [sum(float(table[z, a]) for a in range(n_actions) if n[z, a] == 0) for z in range(n_cells)]
    value = float(start @ v)
    y = [_target(step, code, v, gamma) for step in steps]
    influence: dict[int, float] = {}
    for step, earned in zip(steps, y, strict=True):
        z, a = code[step.row], step.action
        of_pair = _mean_of(steps, y, code, z, a)
        of_cell = _mean_of(steps, y, code, z, None)
        weight = n_cell[z] * table[z, a] / n[z, a]
        part = weight * (earned - of_pair) + u[z] * (earned - of_cell)
        part *= visits[z] / n_cell[z]
        influence[step.episode] = influence.get(step.episode, 0.0) + part
    for number, row in enumerate(first):
        part = (v[code[row]] - value) / len(first)
        influence[number] = influence.get(number, 0.0) + part
    unsupported = sum(visits[z] * u[z] for z in range(n_cells)) / visits.sum()
    return value, influence, float(unsupported)


def _behaved(
    steps: list[Step], first: list[int], code: Sequence[int], n_cells: int, gamma: float
) -> tuple[float, dict[int, float]]:
    """Return the value of the chain that the behaviour made, as one without actions."""
    alone = [step._replace(action=0) for step in steps]
    value, influence, _ = _evaluated(alone, first, code, np.ones((n_cells, 1)), gamma)
    return value, influence


def _target(step: Step, code: Sequence[int], v: Array, gamma: float) -> float:
    later = 0.0 if step.following is None else float(v[code[step.following]])
    return step.reward + gamma * later


def _mean_of(
    steps: list[Step], y: list[float], code: Sequence[int], z: int, action: int | None
) -> float:
    found = [
        one
        for step, one in zip(steps, y, strict=True)
        if code[step.row] == z and action in (None, step.action)
    ]
    return sum(found) / len(found)


def linear_value(
    episodes: Episodes, values: Array, table: Array, gamma: float, ridge: float = 1e-3
) -> float:
    """Return the value of a policy by least-squares temporal differences, from feature vectors.

    Args:
        episodes: The log.
        values: Raw columns of each row, shape (rows, K).
        table: The policy, shape (S, A).
        gamma: The discount.
        ridge: Added to the diagonal of slopes.
    """
    steps, first = steps_of(episodes)
    gamma = min(gamma, LARGEST_DISCOUNT)
    label = [row[0] for rows in episodes for row in rows]
    x, (n_states, n_actions) = _centred_columns(values, label), table.shape
    n_columns = values.shape[1]
    width = n_states * n_actions + n_actions * n_columns

    def features(row: int, action: int) -> Array:
        phi = np.zeros(width)
        phi[label[row] * n_actions + action] = 1.0
        for k in range(n_columns):
            phi[n_states * n_actions + action * n_columns + k] = x[row, k]
        return phi

    def of_policy(row: int) -> Array:
        found = np.zeros(width)
        for a in range(n_actions):
            found += table[label[row], a] * features(row, a)
        return found

    system, target = np.zeros((width, width)), np.zeros(width)
    n = np.zeros((n_states, n_actions))
    for step in steps:
        phi = features(step.row, step.action)
        after = np.zeros(width) if step.following is None else of_policy(step.following)
        system += np.outer(phi, phi - gamma * after) / len(steps)
        target += phi * step.reward / len(steps)
        n[label[step.row], step.action] += 1
    for j in range(n_states * n_actions, width):
        system[j, j] += ridge
    for s, a in np.ndindex(n_states, n_actions):
        if n[s, a] == 0:
            own = s * n_actions + a
            system[own], target[own] = 0.0, 0.0
            system[own, own] = 1.0
            for b in range(n_actions):
                if n[s].sum() > 0:
                    system[own, s * n_actions + b] -= n[s, b] / n[s].sum()
    theta = np.linalg.solve(system, target)
    return float(np.mean([of_policy(row) @ theta for row in first]))


def _centred_columns(values: Array, label: Sequence[int]) -> Array:
    """Scale columns to unit variance and centre them within labels; missing values are 0."""
    found = np.zeros(values.shape)
    for k in range(values.shape[1]):
        known = [i for i in range(len(values)) if not math.isnan(values[i, k])]
        # Squares of very large or very small values are no numbers.
        size = max((abs(values[i, k]) for i in known), default=0.0) or 1.0
        part = {i: values[i, k] / size for i in known}
        deviation = float(np.std(list(part.values()))) if known else 0.0
        if deviation <= 1e-12:
            continue
        for i in known:
            own = [part[j] for j in known if label[j] == label[i]]
            found[i, k] = (part[i] - sum(own) / len(own)) / deviation
    return found


def cell_of(
    root: int, nodes: Sequence[tuple[int, float, int, int]], values: Sequence[float]
) -> int:
    """Walk a tree from its root; a node is (column, threshold, left, right), column -1 a cell."""
    column, threshold, left, right = nodes[root]
    if column < 0:
        return left
    value = values[column]
    is_left = math.isnan(value) or value <= threshold
    return cell_of(left if is_left else right, nodes, values)


def quarter(values: Sequence[float], row: int) -> int:
    """Return floor(4 rank / n): how many values lie below that of a row; missing ones lowest."""
    low = [-math.inf if math.isnan(one) else one for one in values]
    return 4 * sum(one < low[row] for one in low) // len(low)


def dependence(
    column: Array, stratum: Sequence[int], label: Sequence[int], targets: Array
) -> tuple[float, float, float, float]:
    """Return the share that one column explains, SS_between, its mean and its variance by chance.

    Chance is every order of the column's quarters within each stratum. The variance is NaN where a
    stratum has more rows than can be listed.

    Args:
        column: The column, shape (n,).
        stratum: What is held fixed.
        label: Within what quarters are taken.
        targets: Shape (n, T).
    """
    n = len(column)
    quarters = []
    for i in range(n):
        own = [j for j in range(n) if label[j] == label[i]]
        quarters.append(quarter([float(column[j]) for j in own], own.index(i)))
    between = total = mean = variance = 0.0
    for s in sorted(set(stratum)):
        rows = [i for i in range(n) if stratum[i] == s]
        centred = targets[rows] - targets[rows].mean(axis=0)
        total += float((centred**2).sum())
        own = [quarters[i] for i in rows]
        between += _between(centred, own)
        mean += (len(set(own)) - 1) * float((centred**2).sum()) / max(1, len(rows) - 1)
        if len(rows) > _MOST_LISTED:
            variance = math.nan
        else:
            listed = [_between(centred, list(order)) for order in itertools.permutations(own)]
            variance += float(np.var(listed))
    return ((between - mean) / total if total > 0.0 else 0.0), between, mean, variance


def _between(centred: Array, quarters: list[int]) -> float:
    found = 0.0
    for q in set(quarters):
        own = centred[[i for i in range(len(quarters)) if quarters[i] == q]]
        found += len(own) * float((own.mean(axis=0) ** 2).sum())
    return found


def beyond_other_blocks(values: Array, label: Sequence[int], block: Sequence[int]) -> Array:
    """Return the mean difference to rows of the label in other blocks, in shares of its rows."""
    n, found = len(values), np.zeros(values.shape)
    for i in range(n):
        own = [j for j in range(n) if label[j] == label[i]]
        for j in own:
            if block[j] != block[i]:
                found[i] += (values[i] - values[j]) / len(own)
    return found


def permuted_moments(x: Array, y: Array, label: Sequence[int]) -> tuple[float, float, float]:
    """Return what a regression on x explains of y, its mean and its variance by chance.

    Chance is every order of the rows of x within each label; x and y are centred within labels.
    """
    rows = [[i for i in range(len(x)) if label[i] == s] for s in sorted(set(label))]
    explained = []
    for orders in itertools.product(*(itertools.permutations(own) for own in rows)):
        z = np.empty(x.shape)
        for own, order in zip(rows, orders, strict=True):
            z[own] = x[list(order)]
        fitted = z @ np.linalg.lstsq(z, y, rcond=1e-6)[0]
        explained.append(float((fitted**2).sum()))
    return explained[0], float(np.mean(explained)), float(np.var(explained))


def predicted(
    transition: Array, reward: Array, square: Array, policy: Array, gamma: float, horizon: int
) -> tuple[Array, Array]:
    """Return mean and variance of what a number of steps earn, by listing what can happen.

    Args:
        transition: P(x' | x, a), shape (S, A, S); what is missing to 1 ends the process.
        reward: Mean rewards, shape (S, A).
        square: Their variances, shape (S, A).
        policy: The policy, shape (S, A).
        gamma: The discount.
        horizon: Number of steps.
    """
    n_states, n_actions = policy.shape
    mean, second = np.zeros(n_states), np.zeros(n_states)
    if horizon == 0:
        return mean, second
    later, spread = predicted(transition, reward, square, policy, gamma, horizon - 1)
    for x, a in itertools.product(range(n_states), range(n_actions)):
        ends = 1.0 - float(transition[x, a].sum())
        cases = [(float(transition[x, a, y]), float(later[y]), float(spread[y]))
                 for y in range(n_states)]  # fmt: skip
        for chance, value, variance in [*cases, (ends, 0.0, 0.0)]:
            earned = float(reward[x, a]) + gamma * value
            mean[x] += policy[x, a] * chance * earned
            noise = float(square[x, a]) + gamma**2 * variance
            second[x] += policy[x, a] * chance * (earned**2 + noise)
    return mean, second - mean**2
