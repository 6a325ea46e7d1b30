"""Logs that several policies made: which of them runs today, and what its own rows are.

What follows an action does not depend on the behaviour policy, so transitions of all are counted
together. What episodes earn, where they begin and which actions are taken depends on it. Whatever
rests on returns, first states or actions takes the episodes of the policy that runs today alone.
An episode in which several acted serves for its transitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.data.log import Log
from spibb.errors import SettingsError
from spibb.mdp.policy import TabularPolicy
from spibb.names import nearest


@dataclass(frozen=True, eq=False)
class BehaviourPolicies:
    """The policies that made a log.

    Attributes:
        whole: The log of all of them.
        improved: The one that runs today.
        n_rows: Rows of each, by name.
        n_episodes: Episodes in which it acted alone, by name; all 0 without episodes.
        n_mixed: Episodes in which several acted.
        policies: What is known of each, by name, in the states and actions of the problem.
    """

    whole: Log
    improved: str
    n_rows: dict[str, int]
    n_episodes: dict[str, int]
    n_mixed: int
    policies: dict[str, TabularPolicy] = field(default_factory=dict)

    @classmethod
    def of(cls, log: Log, improved: str) -> BehaviourPolicies:
        """Count the rows and episodes of each policy."""
        acted = log.acted
        assert acted is not None
        assert acted.policy is not None, "a log of several policies names them"
        n_rows = np.bincount(acted.policy, minlength=len(acted.names))
        alone, is_first = acts_alone(log), log.is_first
        begins = np.zeros(len(log), np.bool_) if is_first is None else is_first
        n_own = np.bincount(acted.policy[begins & alone], minlength=len(acted.names))
        return cls(
            whole=log,
            improved=improved,
            n_rows=dict(zip(acted.names, n_rows.tolist(), strict=True)),
            n_episodes=dict(zip(acted.names, n_own.tolist(), strict=True)),
            n_mixed=int((begins & ~alone).sum()),
        )

    @property
    def used(self) -> str:
        """Whose episodes stand for what is earned, in a sentence."""
        if not any(self.n_episodes.values()):
            rows = f"{self.n_rows[self.improved]:,} of {sum(self.n_rows.values()):,} rows"
            return f"The log names {_listed(self.n_rows)}; {self.improved!r} acted in {rows}."
        return (
            "Returns, first states and actions are those of the "
            f"{self.n_episodes[self.improved]:,} episodes of {self.improved!r} alone (the log "
            f"holds {self._held})."
        )

    @property
    def mixed(self) -> str:
        """What estimates by the episodes of all rest on, in a sentence."""
        return (
            "Episodes of all policies are used, with weights over their mixture (the log holds "
            f"{self._held}): where an episode begins has nothing to do with who acts, and those in "
            "which several acted are left out."
        )

    @property
    def _held(self) -> str:
        held = [f"{n:,} of {name!r}" for name, n in self.n_episodes.items()]
        return ", ".join(held + ([f"{self.n_mixed:,} of several"] if self.n_mixed else []))

    @property
    def assumption(self) -> str:
        """What pooled transitions rest on."""
        return (
            f"Transitions of {_listed(self.n_rows)} are counted together: each of them acted on "
            "the recorded state alone, and what follows an action does not depend on the policy."
        )


def names_of(log: Any) -> tuple[str, ...]:
    """Return the names of the policies that made a log; none where it does not tell."""
    acted = log.acted if isinstance(log, Log) else None
    return () if acted is None or acted.policy is None else acted.names


def checked_improved(log: Any, improve_on: str | None) -> str | None:
    """Return which policy runs today; None where only one made the log, or none is named."""
    names = names_of(log)
    if improve_on is not None and improve_on not in names:
        near = nearest(str(improve_on), names)
        raise SettingsError(
            f"improve_on is {improve_on!r}, which the log does not name",
            expected=f"one of {_listed(names)}" if names else "a log with the column 'policy'",
            hint=f"write {near!r}" if near else None,
        )
    if len(names) < 2:
        return None
    if improve_on is None:
        raise SettingsError(
            f"{len(names)} policies made the log: {_listed(names)}",
            expected="to be told which of them runs today",
            hint=f"say --improve-on {names[0]} (in Python improve_on={names[0]!r})",
        )
    return improve_on


def own_baseline(log: Any, baseline: Any, improved: str | None) -> tuple[Any, dict[str, Any]]:
    """Return the baseline of the policy that runs today, and those of others, by name.

    Args:
        log: The log.
        baseline: One for that policy, or by name.
        improved: Its name, where there are several.
    """
    if not isinstance(baseline, Mapping):
        return baseline, {}
    names = names_of(log)
    for name in baseline:
        if name not in names:
            near = nearest(str(name), names)
            raise SettingsError(
                f"a baseline is given for {name!r}, which the log does not name",
                expected=f"policies among {_listed(names)}"
                if names
                else "a log with the column 'policy', or one baseline without a name",
                hint=f"write {near!r}" if near else None,
            )
    others = dict(baseline)
    own = others.pop(names[0] if improved is None else improved, None)
    return own, others


def acts_alone(log: Log) -> NDArray[np.bool_]:
    """Mark the rows of episodes in which one policy acted; every row, without episodes."""
    acted = log.acted
    assert acted is not None
    assert acted.policy is not None, "asked of logs that name policies"
    is_first = log.is_first
    if is_first is None:
        return np.ones(len(log), dtype=np.bool_)
    episode = np.cumsum(is_first) - 1
    is_other = acted.policy != acted.policy[np.flatnonzero(is_first)][episode]
    return np.asarray((np.bincount(episode, is_other) == 0)[episode])


def own_rows(log: Log, name: str) -> NDArray[np.bool_]:
    """Mark the rows of the episodes that a policy made alone; its rows, without episodes."""
    acted = log.acted
    assert acted is not None
    assert acted.policy is not None, "asked of logs that name policies"
    mine = (acted.policy == acted.names.index(name)) & acts_alone(log)
    if not mine.any():
        raise SettingsError(
            f"no episode was made by {name!r} alone",
            expected="an episode in which it acts from the first row to the last",
            hint="number the episodes anew where another policy takes over, if the process begins "
            "anew there",
        )
    return np.asarray(mine)


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names))
