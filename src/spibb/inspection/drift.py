"""Did the policy change while the log was made?

The log is divided into quarters, by the order of its episodes. Do they take the same actions in the
same states? Episodes are exchangeable if nothing changed, so whole episodes are permuted: what
happens within one may depend on itself in any way. Where episodes are few, actions are permuted
among the visits to their state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from spibb.data.log import Log
from spibb.inspection.check import Check
from spibb.inspection.finding import Finding, TestResult
from spibb.inspection.permutation import (
    Codes,
    distinct,
    independence_p_value,
    rank_p_value,
)
from spibb.problem.loggers import names_of

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

_ROWS, _FEW_EPISODES, _QUARTERS = 200_000, 30, 4
# States with the most rows are looked at, and among them none with fewer rows than this.
_STATES, _FEWEST_ROWS = 300, 20
_N_SHOWN = 5


class Drift(Check):
    """Find a change of the policy while the log was made."""

    id = "drift"
    title = "Do all parts of the log take the same actions in the same states?"
    level = 0.0016
    cost = "permutations"
    verdict_effect = "monitor"

    def run(self, evidence: Evidence) -> Iterator[Finding | TestResult]:
        """Test the episodes of one policy: those of several take different actions of course."""
        if evidence.improved is None and len(names_of(evidence.log)) > 1:
            yield self.not_run(
                "several policies acted: improve_on says which of them is asked about"
            )
            return
        log = evidence.own_log_without_copies
        if log.episode is None:
            yield self.not_run("the log has no episodes, and so no order")
            return
        assert log.is_first is not None
        first = np.flatnonzero(log.is_first)
        n_episodes, remark = len(first), ""
        if len(log) <= _ROWS:
            rows = np.arange(len(log))
        else:
            # Rows chosen at random leave episodes exchangeable.
            rng = np.random.default_rng(0)
            rows = np.sort(rng.choice(len(log), _ROWS, replace=False, shuffle=False))
            remark = f"on {_ROWS:,} rows chosen at random"
        state, action = log.state[rows], log.action[rows]
        n_x = np.bincount(state, minlength=log.n_states)
        most = np.argsort(-n_x, kind="stable")[:_STATES]
        most = most[n_x[most] >= _FEWEST_ROWS]
        place = np.full(log.n_states, -1)
        place[most] = np.arange(len(most))
        kept = place[state] >= 0
        place, action, rows = place[state][kept], action[kept], rows[kept]
        if len(rows) == 0:
            yield self.not_run("no state has rows enough")
            return
        if n_episodes < _FEW_EPISODES:
            quarter = _QUARTERS * rows // len(log)
            p_value = independence_p_value(place, [quarter], [action], seed=2)
        else:
            episode = np.searchsorted(first, rows, "right") - 1
            quarter = _QUARTERS * episode // n_episodes
            p_value = _by_episodes(place, action, episode, n_episodes)
        if p_value is None:
            yield self.not_run("no state has several actions")
            return
        result = self.result(p_value, remark)
        yield result
        if result.is_significant:
            yield _finding(log, most, place, action, quarter, p_value)


def _by_episodes(place: Codes, action: Codes, episode: Codes, n_episodes: int) -> float | None:
    """Permute episodes among quarters; the statistic is X^2 summed over states."""
    pair = place * (int(action.max()) + 1) + action
    known, pair, n_pair = distinct(pair)
    state = known // (int(action.max()) + 1)
    if len(known) == len(np.unique(state)):
        return None
    rows = (np.ones(len(pair)), (pair, episode))
    counts = sp.csr_array(rows, shape=(len(known), n_episodes))
    counts.sum_duplicates()
    first = np.flatnonzero(np.append(True, np.diff(state) != 0))
    lengths = np.diff(np.append(first, len(state)))
    share = n_pair / np.repeat(np.add.reduceat(n_pair, first), lengths)
    chosen = np.zeros((n_episodes, _QUARTERS))

    def statistic(places: Codes) -> float:
        chosen[:] = places[:, None] == np.arange(_QUARTERS)
        found = np.asarray(counts @ chosen)
        of_state = np.repeat(np.add.reduceat(found, first, axis=0), lengths, axis=0)
        expected = share[:, None] * of_state
        return float(((found - expected) ** 2 / np.where(expected > 0.0, expected, 1.0)).sum())

    quarter = _QUARTERS * np.arange(n_episodes) // n_episodes
    rng = np.random.default_rng(3)
    return rank_p_value(statistic(quarter), lambda _: statistic(rng.permutation(quarter)))


def _finding(
    log: Log, most: Codes, place: Codes, action: Codes, quarter: Codes, p_value: float
) -> Finding:
    """Say where the first half and the second differ most."""
    half = quarter // (_QUARTERS // 2)
    known, pair = np.unique(place * log.n_actions + action, return_inverse=True)
    state = known // log.n_actions
    n = np.stack([np.bincount(pair[half == k], minlength=len(known)) for k in (0, 1)])
    n_x = np.stack([np.bincount(place[half == k], minlength=len(most)) for k in (0, 1)])
    halves = n / np.maximum(n_x, 1)[:, state]
    moved, both = np.abs(halves[0] - halves[1]), n_x.min(axis=0)
    distance = np.bincount(state, moved, len(most)) / 2.0
    places: dict[int, dict[str, Any]] = {}
    for k in np.argsort(-moved * np.sqrt(both[state]), kind="stable"):
        x = int(state[k])
        if both[x] == 0 or len(places) == _N_SHOWN:
            break
        if x not in places:  # its most changed action
            places[x] = {
                "state": log.states[int(most[x])],
                "action": log.actions[int(known[k] % log.n_actions)],
                "first_half": float(halves[0, k]),
                "second_half": float(halves[1, k]),
            }
    mean = float(np.average(distance, weights=np.maximum(both, 1e-9)))
    return Finding(
        check="drift",
        severity="biased",
        found=f"The actions changed while the log was made (p = {p_value:.2g}): its halves differ "
        f"by a total variation of {mean:.2g} on average.",
        effect="No single policy made this log: weights of off-policy estimates are wrong, and the "
        "return of the log is that of a mixture.",
        advice="Check that each action has the same meaning in all parts. Use the part since the "
        "last change, with the policy of that time, or estimate the baseline from it.",
        share=mean,
        p_value=p_value,
        places=list(places.values()),
    )
