"""Did the policy change while the log was made?

The log is divided into quarters, by the order of its episodes. Do they take the same actions in the
same states? Episodes are exchangeable if nothing changed, so whole episodes are permuted: what
happens within one may depend on itself in any way. Where episodes are few, actions are permuted
among the visits to their state.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.data.log import Log
from spibb.inspection.finding import Finding, Tested
from spibb.inspection.permutation import Codes, independence_p_value, rank_p_value

_ROWS, _FEW_EPISODES, _QUARTERS = 200_000, 30, 4
# States with the most rows are looked at, and among them none with fewer rows than this.
_STATES, _FEWEST_ROWS = 300, 20
_N_SHOWN = 5
_QUESTION = "Do all parts of the log take the same actions in the same states?"


def check_drift(log: Log, level: float) -> tuple[Tested, Finding | None]:
    """Test whether actions changed over the episodes of a log."""
    if log.episode is None:
        return Tested("drift", _QUESTION, None, "the log has no episodes, and so no order"), None
    episode = np.cumsum(np.append(False, np.diff(log.episode) != 0))
    n_episodes, remark = int(episode[-1]) + 1, ""
    rows = np.arange(len(log))
    if len(log) > _ROWS:
        # Rows chosen at random leave episodes exchangeable.
        rows = np.sort(np.random.default_rng(0).choice(len(log), _ROWS, replace=False))
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
        return Tested("drift", _QUESTION, None, "no state has rows enough"), None
    if n_episodes < _FEW_EPISODES:
        quarter = _QUARTERS * rows // len(log)
        p_value = independence_p_value(place, [quarter], [action], seed=2)
    else:
        quarter = _QUARTERS * episode[rows] // n_episodes
        counts = sp.csr_array(
            (np.ones(len(rows)), (place * log.n_actions + action, episode[rows])),
            shape=(len(most) * log.n_actions, n_episodes),
        )
        counts.sum_duplicates()
        p_value = _by_episodes(counts, len(most), n_episodes)
    if p_value is None:
        return Tested("drift", _QUESTION, None, "no state has several actions"), None
    tested = Tested("drift", _QUESTION, p_value, remark)
    if p_value > level:
        return tested, None
    return tested, _finding(log, most, place, action, quarter, p_value)


def _by_episodes(counts: sp.csr_array, n_states: int, n_episodes: int) -> float | None:
    """Permute episodes among quarters; the statistic is X^2 summed over states."""
    quarter = _QUARTERS * np.arange(n_episodes) // n_episodes
    n_xa = np.asarray(counts.sum(axis=1)).reshape(n_states, -1)
    n_x = n_xa.sum(axis=1)
    if not ((n_xa > 0).sum(axis=1) > 1).any():
        return None
    share = np.divide(n_xa, n_x[:, None])

    def statistic(places: Codes) -> float:
        chosen = np.zeros((n_episodes, _QUARTERS))
        chosen[np.arange(n_episodes), places] = 1.0
        found = (counts @ chosen).reshape(n_states, -1, _QUARTERS)
        expected = share[:, :, None] * found.sum(axis=1, keepdims=True)
        return float(((found - expected) ** 2 / np.where(expected > 0.0, expected, 1.0)).sum())

    rng = np.random.default_rng(3)
    return rank_p_value(statistic(quarter), lambda _: statistic(rng.permutation(quarter)))


def _finding(
    log: Log, most: Codes, place: Codes, action: Codes, quarter: Codes, p_value: float
) -> Finding:
    """Say where the first half and the second differ most."""
    n: NDArray[np.float64] = np.zeros((2, len(most), log.n_actions))
    np.add.at(n, (quarter // (_QUARTERS // 2), place, action), 1.0)
    halves = n / np.maximum(n.sum(axis=2, keepdims=True), 1.0)
    moved = np.abs(halves[0] - halves[1])
    both = n.sum(axis=2).min(axis=0)
    order = np.argsort(-moved.max(axis=1) * np.sqrt(both), kind="stable")[:_N_SHOWN]
    places = [
        {
            "state": log.states[int(most[x])],
            "action": log.actions[int(moved[x].argmax())],
            "first_half": float(halves[0, x, moved[x].argmax()]),
            "second_half": float(halves[1, x, moved[x].argmax()]),
        }
        for x in order
        if both[x] > 0
    ]
    distance = float(np.average(moved.sum(axis=1) / 2.0, weights=np.maximum(both, 1e-9)))
    return Finding(
        check="drift",
        severity="biased",
        found=f"The actions changed while the log was made (p = {p_value:.2g}): its halves differ "
        f"by a total variation of {distance:.2g} on average.",
        effect="No single policy made this log: weights of off-policy estimates are wrong, and the "
        "return of the log is that of a mixture.",
        advice="Use the part since the last change, with the policy of that time, or estimate the "
        "baseline from it.",
        share=distance,
        p_value=p_value,
        places=places,
    )
