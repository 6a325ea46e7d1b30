"""The baseline beside its log: estimate it, bring both to one set of names, check that they fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.errors import PolicyError
from spibb.mdp.policy import TabularPolicy
from spibb.tables import Labels


def estimate_baseline(log: Log | Counts) -> TabularPolicy:
    """Estimate the policy that made the log: N(x, a) / N(x), uniform where N(x) = 0.

    Guarantees then rest on the estimate; give the policy itself where it is known.

    Example:
        >>> log = Log.from_arrays(state=[0, 0, 0, 0], action=[0, 1, 1, 1], reward=[0.0] * 4,
        ...                       next_state=[0, 0, 0, 0])
        >>> estimate_baseline(log).probabilities
        array([[0.25, 0.75]])
    """
    counts = log if isinstance(log, Counts) else Counts.from_log(log)
    return TabularPolicy.from_counts(counts.n_sa, counts.state_labels, counts.action_labels)


def align(log: Log, policy: TabularPolicy, *, role: str = "baseline") -> tuple[Log, TabularPolicy]:
    """Bring a log and a policy to the same states and actions, in the same order.

    States that only end the process need no row in the policy. Any other state of the log does.

    Args:
        log: The log.
        policy: A policy, perhaps with more states, or without the terminal ones.
        role: What the policy is to the user, for messages.
    """
    states, n_states = _union(log.state_labels, log.n_states, policy.state_labels, policy.n_states)
    actions, n_actions = _union(
        log.action_labels, log.n_actions, policy.action_labels, policy.n_actions
    )
    if states is None:
        log = _resized(log, n_states, log.n_actions)
    if actions is None:
        log = _resized(log, log.n_states, n_actions)
    log = log.with_labels(states, actions)
    rows = _places(policy.state_labels, policy.n_states, states, n_states)
    columns = _places(policy.action_labels, policy.n_actions, actions, n_actions)
    table = np.zeros((n_states, n_actions))
    table[np.ix_(rows, columns)] = policy.probabilities
    lacking = np.ones(n_states, dtype=np.bool_)
    lacking[rows] = False
    _refuse_lacking(log, lacking, states, role)
    table[lacking] = 1.0 / n_actions
    return log, TabularPolicy(table, states, actions, is_estimated=policy.is_estimated)


def align_to_counts(
    counts: Counts, policy: TabularPolicy, *, role: str = "baseline"
) -> TabularPolicy:
    """Bring a policy to the states and actions of counts, by name.

    Terminal states need no row in the policy. A state or action that only the policy has is
    refused: counts cannot grow, a log can.
    """
    mine, theirs = (counts.state_labels, counts.action_labels), (
        policy.state_labels, policy.action_labels,
    )  # fmt: skip
    if mine == theirs and policy.probabilities.shape == counts.n_sa.shape:
        return policy
    if mine == (None, None) and theirs == (None, None) and policy.n_states > counts.n_states:
        return policy  # refused by check_baseline, which says both shapes
    states = _names(counts.state_labels, counts.n_states)
    actions = _names(counts.action_labels, counts.n_actions)
    table, lacking = np.zeros(counts.n_sa.shape), np.ones(counts.n_states, dtype=np.bool_)
    rows = _known_places(_names(policy.state_labels, policy.n_states), states, "state", role)
    columns = _known_places(_names(policy.action_labels, policy.n_actions), actions, "action", role)
    table[np.ix_(rows, columns)] = policy.probabilities
    lacking[rows] = False
    needed = lacking & ~counts.terminal
    if needed.any():
        raise PolicyError(
            f"the {role} lacks {int(needed.sum())} states of the counts",
            where=f"state {states[int(np.argmax(needed))]!r}",
            expected="a row of probabilities for every state that is not terminal",
        )
    table[lacking] = 1.0 / counts.n_actions
    return TabularPolicy(
        table, counts.state_labels, counts.action_labels, is_estimated=policy.is_estimated
    )


def _known_places(
    names: tuple[str, ...], known: tuple[str, ...], kind: str, role: str
) -> NDArray[np.intp]:
    place = {name: index for index, name in enumerate(known)}
    extra = [name for name in names if name not in place]
    if extra:
        raise PolicyError(
            f"the {role} has a {kind} {extra[0]!r} that the counts do not have",
            expected="the same names in both",
            hint="pass the log instead of its counts, or give it n_states, n_actions or labels",
        )
    return np.array([place[name] for name in names], dtype=np.intp)


def check_baseline(counts: Counts, baseline: TabularPolicy, *, role: str = "baseline") -> None:
    """Refuse a baseline that cannot have made the log."""
    if counts.n_sa.shape != baseline.probabilities.shape:
        raise PolicyError(
            f"a {role} of {baseline.n_states} states and {baseline.n_actions} actions",
            expected=f"{counts.n_states} states and {counts.n_actions} actions, as in the log",
        )
    impossible = (counts.n_sa > 0) & (baseline.probabilities == 0.0)
    if impossible.any():
        state, action = np.argwhere(impossible)[0]
        raise PolicyError(
            f"the {role} gives probability 0 to actions that were taken in "
            f"{int(counts.n_sa[impossible].sum())} rows of the log",
            where=f"state {baseline.state_name(state)}, action {baseline.action_name(action)}, "
            f"{counts.n_sa[state, action]} rows",
            expected="the policy that made the log",
            hint="check that the policy belongs to this log, remove rows it did not make, or "
            "estimate it from the log (--baseline estimate)",
        )


def _union(mine: Labels, n_mine: int, theirs: Labels, n_theirs: int) -> tuple[Labels, int]:
    """Return the names of both, in order; None where they are integers in the log and from 0."""
    if mine is None and theirs is None:
        return None, max(n_mine, n_theirs)
    names = set(_names(mine, n_mine)) | set(_names(theirs, n_theirs))
    if not all(name.isascii() and name.isdigit() for name in names):
        return tuple(sorted(names)), len(names)
    # "7" and "07" are different names of the same size.
    ordered = tuple(sorted(names, key=lambda name: (int(name), name)))
    is_plain = mine is None and ordered == _names(None, len(ordered))
    return (None if is_plain else ordered), len(ordered)


def _names(labels: Labels, size: int) -> tuple[str, ...]:
    return labels if labels is not None else tuple(str(index) for index in range(size))


def _places(labels: Labels, size: int, union: Labels, n_union: int) -> NDArray[np.intp]:
    if labels is None and union is None:
        return np.arange(size)
    place = {name: index for index, name in enumerate(_names(union, n_union))}
    return np.array([place[name] for name in _names(labels, size)], dtype=np.intp)


def _resized(log: Log, n_states: int, n_actions: int) -> Log:
    return replace(log, n_states=n_states, n_actions=n_actions)


def _refuse_lacking(log: Log, lacking: NDArray[np.bool_], labels: Labels, role: str) -> None:
    acted = lacking[log.state]
    entered = (log.next_state >= 0) & ~log.terminated
    entered[entered] = lacking[log.next_state[entered]]
    rows = acted | entered
    if not rows.any():
        return
    row = int(np.argmax(rows))
    state = int(log.state[row] if acted[row] else log.next_state[row])
    name = str(state) if labels is None else repr(labels[state])
    raise PolicyError(
        f"the {role} lacks states of the log, met in {int(rows.sum())} rows",
        where=f"state {name}",
        expected="a row of probabilities for every state in which an action is taken",
        hint="add those states to the policy file, or check that states are named alike in both",
    )
