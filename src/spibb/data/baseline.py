"""The baseline beside its log: estimate it, bring it to the log's names, check that both fit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.data.counts import Counts
from spibb.data.dirichlet import fit_dirichlet
from spibb.data.log import Log
from spibb.errors import PolicyError
from spibb.mdp.policy import TabularPolicy

# Among which the strength of habits is found: small where states differ, large where none does.
STRENGTHS = tuple(2.0**k for k in range(-10, 11))


def estimate_baseline(log: Log | Counts, *, shrink: bool = True) -> TabularPolicy:
    """Estimate the policy that made the log: frequencies, drawn towards those of the whole log.

    N(x, a) + m g(a), in proportion, for the actions that were taken in a state; g where none was.
    g is what is done in a state of the log anywhere and m how much alike states are: the likeliest
    for this log, of policies whose rows are drawn from a Dirichlet(m g). An action that was taken
    has a probability above 0; one that was never taken in a state keeps 0 there, since an estimate
    must not prescribe what the log does not show (it may have been ruled out there).

    Guarantees then rest on the estimate; give the policy itself where it is known.

    Args:
        log: The log, or its counts.
        shrink: False: plain frequencies N(x, a) / N(x), uniform where N(x) = 0.

    Example:
        >>> log = Log.from_arrays(state=[0] * 8 + [1] * 3, action=[0, 1] * 4 + [0, 0, 1],
        ...                       reward=[0.0] * 11, next_state=[0] * 11)
        >>> estimate_baseline(log, shrink=False).probabilities.round(2).tolist()
        [[0.5, 0.5], [0.67, 0.33]]
        >>> estimate_baseline(log).probabilities.round(2).tolist()
        [[0.52, 0.48], [0.6, 0.4]]
    """
    counts = log if isinstance(log, Counts) else Counts.from_log(log)
    n = counts.n_sa.astype(np.float64)
    if shrink:
        g, m = fit_dirichlet(n, STRENGTHS)
        is_open = (n > 0.0) | (n.sum(axis=1, keepdims=True) == 0.0)
        n = np.where(is_open, n + m * g, 0.0)
    return TabularPolicy.from_counts(n, counts.state_labels, counts.action_labels)


def align_policy(
    counts: Counts,
    policy: TabularPolicy,
    *,
    role: str,
    log: Log | None = None,
    otherwise: TabularPolicy | None = None,
) -> TabularPolicy:
    """Bring a policy to the states and actions of counts, by name.

    States in which nothing is done need no row in the policy: those that only end the process, and
    those that the log never met. Any other state of the counts does.

    Args:
        counts: The counts.
        policy: A policy with the same names, perhaps without some, in any order.
        role: What the policy is to the user, for messages.
        log: The log, where there is one: counts do not know the rows that they leave out.
        otherwise: What is done in states that need no row, by the names of the counts; None:
            anything, alike.
    """
    if (counts.states, counts.actions) == (policy.states, policy.actions):
        return policy
    rows, columns = policy.states.within(counts.states), policy.actions.within(counts.actions)
    for kind, places, names in (
        ("state", rows, policy.states),
        ("action", columns, policy.actions),
    ):
        if (places < 0).any():
            raise PolicyError(
                f"the {role} has {kind} {names[int(np.argmax(places < 0))]!r}, which neither the "
                "log nor its baseline knows",
                expected=f"their {counts.n_states} states and {counts.n_actions} actions",
                hint="check that names are spelt alike",
            )
    table = np.zeros(counts.n_sa.shape)
    table[np.ix_(rows, columns)] = policy.probabilities
    lacking = np.ones(counts.n_states, dtype=np.bool_)
    lacking[rows] = False
    met = counts.is_met.copy()
    if log is not None:
        met[log.state] = True
    missed = lacking & met
    if missed.any():
        raise PolicyError(
            f"the {role} lacks {int(missed.sum())} states of the log",
            where=f"state {counts.states[int(np.argmax(missed))]!r}",
            expected="a row of probabilities for every state in which an action is taken",
            hint="add those states to the policy file, or check that states are named alike in "
            "both",
        )
    rest = 1.0 / counts.n_actions if otherwise is None else otherwise.probabilities[lacking]
    table[lacking] = rest
    labels = counts.state_labels, counts.action_labels
    made = {name: getattr(policy, name) for name in ("is_estimated", "log_hash", "minimize")}
    return TabularPolicy(table, *labels, **made)


def check_baseline(
    n_sa: NDArray[np.int64], baseline: TabularPolicy, role: str = "baseline"
) -> None:
    """Refuse a baseline that cannot have made a log in which pairs (S, A) were seen so often."""
    impossible = (n_sa > 0) & (baseline.probabilities == 0.0)
    if impossible.any():
        state, action = np.argwhere(impossible)[0]
        place = f"state {baseline.states[state]}, action {baseline.actions[action]}"
        raise PolicyError(
            f"the {role} gives probability 0 to actions that were taken in "
            f"{int(n_sa[impossible].sum())} rows of the log",
            where=f"{place}, {n_sa[state, action]} rows",
            expected="the policy that made the log",
            hint="check that the policy belongs to this log, remove rows it did not make, or "
            "estimate it from the log (--baseline estimate)",
        )
