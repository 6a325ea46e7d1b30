r"""The worst distribution of an L1 ball, compiled: for one row, for a policy, for a whole model.

    min P.v  over  ||P - P^||_1 <= r,  P a distribution over the states and ending (v = 0)

Half of the radius, r / 2, is mass that may be moved. It goes to the worst outcome of all, which may
be a state the row never reaches, and is taken from the row's best outcomes first. A heap of the
row's k outcomes hands them out in order: O(k + m log k) for m outcomes that lose mass. Where ending
is no outcome, or only some states can follow a pair, the worst outcome is the worst of those.

Kernels take the arrays out of a tuple before they loop: each time they are taken out they are
counted. Letters: p and data transition probabilities, v values, w weights of actions. Place
b * S + x is state x of problem b; `scratch` is what :func:`make_scratch` returns.
"""

from typing import Any, NamedTuple

import numpy as np

from spibb.compiled.jit import jit

# Rows of fewer successors are searched again for each outcome that loses mass.
_SHORT = 12


class BallArrays(NamedTuple):
    """What the kernels take of a spibb.mdp.batch.ModelBatch and the Balls around its rows."""

    indptr: Any
    indices: Any
    data: Any
    reward: Any
    ending: Any
    gamma: float
    radius: Any
    may_end: bool
    reach_indptr: Any
    reach_indices: Any


@jit
def make_scratch(indptr):  # type: ignore[no-untyped-def]
    """Return room for the masses, values and order of one row."""
    longest = 0
    for pair in range(len(indptr) - 1):
        longest = max(longest, indptr[pair + 1] - indptr[pair])
    return np.empty(longest + 1), np.empty(longest + 1), np.empty(longest + 1, np.int64)


@jit
def worst_outcome(v, may_end):  # type: ignore[no-untyped-def]
    """Return the state of least value and that value, or -1 and 0 if ending is no better."""
    state = -1
    least = 0.0 if may_end else np.inf
    for x in range(len(v)):
        if v[x] < least:
            least = v[x]
            state = x
    return state, least


@jit
def worst_reached(pair, model, v, state, least):  # type: ignore[no-untyped-def]
    """Return the worst outcome of one pair; ``state`` and ``least`` are the worst of all."""
    reach_indptr, reach_indices = model.reach_indptr, model.reach_indices
    if reach_indptr[pair] == reach_indptr[pair + 1]:
        return state, least
    found = -1
    worst = 0.0 if model.may_end else np.inf
    for k in range(reach_indptr[pair], reach_indptr[pair + 1]):
        x = reach_indices[k]
        if v[x] < worst:
            worst = v[x]
            found = x
    return found, worst


@jit
def worst_row(first, n, indices, data, end, radius, v, least, mass, value, heap):  # type: ignore[no-untyped-def]
    """Write what each outcome of a row keeps into ``mass`` (ending in place n).

    Returns:
        The mass that moves to the worst outcome, and the expectation of v after the move.
    """
    left = 0.5 * radius
    if left >= 1.0:
        for j in range(n + 1):
            mass[j] = 0.0
        return 1.0, least
    total = 0.0
    for j in range(n):
        mass[j] = data[first + j]
        value[j] = v[indices[first + j]]
        total += mass[j] * value[j]
    mass[n] = end
    value[n] = 0.0
    if left <= 0.0:
        return 0.0, total
    moved = 0.0
    if n < _SHORT:
        while left > 0.0:
            best = n
            for j in range(n):
                if mass[j] > 0.0 and (value[j] > value[best] or mass[best] <= 0.0):
                    best = j
            if mass[best] <= 0.0 or value[best] <= least:
                break
            given = min(mass[best], left)
            mass[best] -= given
            left -= given
            moved += given
            total -= given * (value[best] - least)
        return moved, total
    size = 0
    for j in range(n + 1):
        if mass[j] > 0.0 and value[j] > least:
            heap[size] = j
            size += 1
    for root in range(size // 2 - 1, -1, -1):
        _sift(heap, value, root, size)
    while size > 0 and left > 0.0:
        best = heap[0]
        given = min(mass[best], left)
        mass[best] -= given
        left -= given
        moved += given
        total -= given * (value[best] - least)
        size -= 1
        heap[0] = heap[size]
        _sift(heap, value, 0, size)
    return moved, total


@jit
def _sift(heap, value, root, size):  # type: ignore[no-untyped-def]
    """Let the entry at ``root`` sink to its place in a heap whose top has the largest value."""
    entry = heap[root]
    while True:
        child = 2 * root + 1
        if child >= size:
            break
        if child + 1 < size and value[heap[child + 1]] > value[heap[child]]:
            child += 1
        if value[heap[child]] <= value[entry]:
            break
        heap[root] = heap[child]
        root = child
    heap[root] = entry


@jit
def fill_worst(problem, states, model, weights, v, scratch, matrix, rhs):  # type: ignore[no-untyped-def]
    """Write some rows of the linear system of the worst answer to ``v``.

    ``matrix`` becomes I - gamma P_w and ``rhs`` r_w.

    Returns:
        The residual max |T v - v| over those states.
    """
    indptr, indices, data, reward, ending, gamma, radius, may_end, reach, _ = model
    mass, value, heap = scratch
    n_states, n_actions = weights.shape
    everywhere = worst_outcome(v, may_end)
    is_free = len(reach) == 1  # every state may follow every pair
    residual = 0.0
    for x in states:
        row = matrix[x]
        row[:] = 0.0
        paid = 0.0
        later = 0.0
        for a in range(n_actions):
            w = weights[x, a]
            if w <= 0.0:
                continue
            pair = (problem * n_states + x) * n_actions + a
            first = indptr[pair]
            n = indptr[pair + 1] - first
            state, least = everywhere
            if not is_free:
                state, least = worst_reached(pair, model, v, state, least)
            moved, total = worst_row(
                first, n, indices, data, ending[problem, x, a], radius[problem, x, a], v, least,
                mass, value, heap,
            )  # fmt: skip
            paid += w * reward[problem, x, a]
            later += w * total
            scale = gamma * w
            for j in range(n):
                row[indices[first + j]] -= scale * mass[j]
            if state >= 0:
                row[state] -= scale * moved
        residual = max(residual, abs(paid + gamma * later - v[x]))
        row[x] += 1.0
        rhs[x] = paid
    return residual


@jit
def back_up(places, model, v, scratch, q):  # type: ignore[no-untyped-def]
    """Write q = R + gamma min P.v for every pair of some states; v is (B, S)."""
    indptr, indices, data, reward, ending, gamma, radius, may_end, reach, _ = model
    mass, value, heap = scratch
    n_states, n_actions = v.shape[1], q.shape[2]
    last, everywhere = -1, (-1, 0.0)
    is_free = len(reach) == 1  # every state may follow every pair
    for at in places:
        problem, x = at // n_states, at % n_states
        here = v[problem]
        if problem != last:
            last, everywhere = problem, worst_outcome(here, may_end)
        for a in range(n_actions):
            pair = at * n_actions + a
            first = indptr[pair]
            n = indptr[pair + 1] - first
            state, least = everywhere
            if not is_free:
                state, least = worst_reached(pair, model, here, state, least)
            _, total = worst_row(first, n, indices, data, ending[problem, x, a],
                                 radius[problem, x, a], here, least, mass, value, heap)  # fmt: skip
            q[problem, x, a] = reward[problem, x, a] + gamma * total


@jit
def write_worst(places, model, weights, v, scratch, to):  # type: ignore[no-untyped-def]
    """Write rows of the worst answer to ``v``; each has one more place, for the worst state.

    ``to`` is (indptr, indices, data, ending).
    """
    indptr, indices, data, _, ending, _, radius, may_end, reach, _ = model
    mass, value, heap = scratch
    to_indptr, to_indices, to_data, to_ending = to
    n_states, n_actions = v.shape[1], weights.shape[2]
    last, everywhere = -1, (-1, 0.0)
    is_free = len(reach) == 1  # every state may follow every pair
    for at in places:
        problem, x = at // n_states, at % n_states
        here = v[problem]
        if problem != last:
            last, everywhere = problem, worst_outcome(here, may_end)
        for a in range(n_actions):
            if weights[problem, x, a] <= 0.0:
                continue
            pair = at * n_actions + a
            first = indptr[pair]
            n = indptr[pair + 1] - first
            state, least = everywhere
            if not is_free:
                state, least = worst_reached(pair, model, here, state, least)
            moved, _ = worst_row(first, n, indices, data, ending[problem, x, a],
                                 radius[problem, x, a], here, least, mass, value, heap)  # fmt: skip
            place = to_indptr[pair]
            for j in range(n):
                to_indices[place + j] = indices[first + j]
                to_data[place + j] = mass[j]
            to_ending[problem, x, a] = mass[n] if state >= 0 else mass[n] + moved
            if state >= 0:
                to_indices[place + n] = state
                to_data[place + n] = moved
