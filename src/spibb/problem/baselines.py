"""A log and what is given as its baseline, brought to the same states and actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.data.baseline import align_policy, check_baseline, estimate_baseline
from spibb.data.baseline_fit import check_fit
from spibb.data.behaviour_policy import check_propensities, recorded_policy
from spibb.data.continuous import refuse_continuous
from spibb.data.count_tables import PLANNING_TABLES, check_pairs
from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.errors import SettingsError
from spibb.mdp.policy import TabularPolicy
from spibb.problem.loggers import BehaviourPolicies, checked_improved, own_baseline, own_rows

# The policy that made a log: itself, or its estimate from the log; or one for each that did.
One = TabularPolicy | Literal["estimate"]
Baseline = One | Mapping[str, One]


class Together(NamedTuple):
    """A log and its baseline, in the same states and actions.

    Attributes:
        counts: Counts of the log; first states are those of the baseline's episodes.
        baseline: The policy that runs today.
        log: Its episodes, where a log was given.
        loggers: All policies that made the log, where it names several.
    """

    counts: Counts
    baseline: TabularPolicy
    log: Log | None
    loggers: BehaviourPolicies | None


def bring_together(
    data: Log | Counts, baseline: Any, improve_on: str | None, *, is_accepted: bool
) -> Together:
    """Align a log and its baseline, and refuse a baseline that the log contradicts.

    Args:
        data: The log, or its counts.
        baseline: The policy, "estimate", None where the log records it, or one by name.
        improve_on: Which policy runs today.
        is_accepted: Whether a baseline is taken that could not have made the log but by a chance
            too small to be one.
    """
    improved = checked_improved(data, improve_on)
    baseline, others = own_baseline(data, baseline, improved)
    policy = _checked_baseline(_own(data, improved), baseline)
    for one in (policy, *others.values()):
        if isinstance(one, TabularPolicy):
            states, actions = data.states.union(one.states), data.actions.union(one.actions)
            check_pairs((states.size, actions.size), PLANNING_TABLES)
            data = data.renamed(states, actions)
    log, loggers = (data if isinstance(data, Log) else None), None
    counts = data if isinstance(data, Counts) else Counts.from_log(data)
    refuse_continuous(counts)
    if baseline is None:
        _check_recorded(counts, policy, improved)
    policy = align_policy(counts, policy, role="baseline", log=log)
    # Rows that count no transition still show what was done. An estimate does not rest on them.
    n_sa = counts.n_sa if log is None or policy.is_estimated else pair_counts(log)
    if log is not None and improved is not None:
        known = {
            name: _checked_other(counts, log, name, other, is_accepted=is_accepted)
            for name, other in others.items()
        }
        loggers = replace(BehaviourPolicies.of(log, improved), policies={improved: policy, **known})
        log = log.take(own_rows(log, improved))
        n_sa, counts = pair_counts(log), replace(counts, n_initial=_starts(log))
    check_baseline(n_sa, policy)
    if not is_accepted and not policy.is_estimated:
        if log is not None:
            check_propensities(log, policy)
        check_fit(n_sa, policy)
    return Together(counts, policy, log, loggers)


def _check_recorded(counts: Counts, policy: TabularPolicy, improved: str | None) -> None:
    """Refuse a log that does not record what the policy that runs would do where others have been.

    Args:
        counts: Of the log.
        policy: What the log records.
        improved: Who runs today, where several acted.
    """
    known = set(policy.states)
    lacking = [x for x in np.flatnonzero(counts.is_met) if counts.states[int(x)] not in known]
    if lacking:
        who = "the policy that acted" if improved is None else repr(improved)
        raise SettingsError(
            f"the log does not record what {who} does in {len(lacking)} states",
            where=counts.place(int(lacking[0])),
            expected="its probabilities in every state that somebody has been in",
            hint="give them (--baseline FILE)",
        )


def _own(data: Log | Counts, improved: str | None) -> Log | Counts:
    """Return what the policy that runs today has made."""
    if improved is None or not isinstance(data, Log):
        return data
    return data.take(own_rows(data, improved))


def pair_counts(log: Log) -> NDArray[np.int64]:
    """Return how often every pair was taken in a log, shape (S, A)."""
    shape = (log.n_states, log.n_actions)
    taken = np.bincount(log.state * log.n_actions + log.action, minlength=shape[0] * shape[1])
    return taken.reshape(shape)


def _starts(log: Log) -> NDArray[np.int64]:
    first = log.state[:0] if log.is_first is None else log.state[log.is_first]
    return np.bincount(first, minlength=log.n_states)


def _checked_other(
    counts: Counts, log: Log, name: str, policy: Any, *, is_accepted: bool
) -> TabularPolicy:
    """Hold the policy of another logger to its rows, or estimate it from them."""
    rows, role = log.take(own_rows(log, name)), f"baseline of {name!r}"
    aligned = align_policy(counts, _checked_baseline(rows, policy), role=role, log=rows)
    check_baseline(pair_counts(rows), aligned, role)
    if not is_accepted and not aligned.is_estimated:
        check_propensities(rows, aligned)
        check_fit(pair_counts(rows), aligned, role)
    return aligned


def _recorded_baseline(data: Log | Counts) -> TabularPolicy:
    """Return the policy that the log itself records, or refuse a log that does not."""
    acted = data.acted if isinstance(data, Log) else None
    if acted is not None and acted.propensities is not None:
        assert isinstance(data, Log)
        return recorded_policy(acted, data.state, data)
    logged = acted is not None and acted.propensity is not None
    raise SettingsError(
        "baseline is not given"
        + (", and the log has the probabilities of logged actions alone" if logged else ""),
        expected="the policy that made the log, 'estimate', or a log with the probabilities of "
        "every action (propensity_ACTION)",
        hint="give it (--baseline FILE)",
    )


def _checked_baseline(data: Log | Counts, baseline: Any) -> TabularPolicy:
    if isinstance(baseline, TabularPolicy):
        return baseline
    if isinstance(baseline, str) and baseline == "estimate":
        return estimate_baseline(data)
    if baseline is None:
        return _recorded_baseline(data)
    raise SettingsError(
        f"baseline is {baseline!r}",
        expected="a TabularPolicy, or 'estimate'",
        hint="read a file by TabularPolicy.read, or make one of an array by TabularPolicy",
    )
