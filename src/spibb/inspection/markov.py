"""Does the previous state or action still predict what follows, given the state and action?

Compared are visits to the same state and action that are independent of each other: of every
episode the first one that has a step before it. All visits would not do: a state that leads back to
itself is its own predecessor exactly as often as it was its own successor, and a permutation would
find in that what every chain has. Where episodes are few, their records are cut at each visit to
the most frequent state, where a Markov process begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.data.log import Log
from spibb.inspection.check import Check
from spibb.inspection.finding import Finding, TestResult
from spibb.inspection.permutation import Codes, independence_p_value
from spibb.inspection.windows import windows

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

# Fewer episodes are cut into pieces.
_FEW_EPISODES = 30
_QUANTILES = 4


class Markov(Check):
    """Test whether the recorded state is all that decides what follows."""

    id = "markov"
    title = "Is what follows independent of what came before, given state and action?"
    level = 0.0015
    cost = "permutations"
    verdict_effect = "monitor"

    def run(self, evidence: Evidence) -> Iterator[Finding | TestResult]:
        """Test the previous state and action against the next state and the reward."""
        part, remark = windows(evidence.log_without_copies)
        rows = _independent_visits(part)
        if len(rows) == 0:
            yield self.not_run("no visits that could be compared")
            return
        before = rows - 1
        pair = part.state[rows] * part.n_actions + part.action[rows]
        after = np.where(part.next_state[rows] >= 0, part.next_state[rows], part.n_states)
        p_value = independence_p_value(
            pair,
            [part.state[before], part.action[before]],
            [after, _quantiles(pair, part.reward[rows])],
            seed=1,
        )
        if p_value is None:
            yield self.not_run("too few visits to the same pairs")
            return
        result = self.result(p_value, remark)
        yield result
        if result.is_significant:
            yield Finding(
                check="markov",
                severity="biased",
                found="The previous state or action still predicts the next state or reward, given "
                f"the state and action (p = {p_value:.2g}).",
                effect="Models, gains and guarantees take the recorded state for all that matters; "
                "here it is not.",
                advice="Add to the state what the process remembers: the last action, how long it "
                "has been there, or what was left out of it.",
                share=1.0,
                p_value=p_value,
            )


def _independent_visits(log: Log) -> Codes:
    """Return one row for each pair and piece of the record, with a row before it."""
    if log.episode is None:
        return np.zeros(0, dtype=np.int64)
    goes_on = (log.episode[1:] == log.episode[:-1]) & ~log.terminated[:-1] & ~log.is_gap[:-1]
    is_known = (log.next_state >= 0) | log.terminated
    rows = np.flatnonzero(np.append(False, goes_on) & is_known)
    piece = log.episode
    if log.n_episodes < _FEW_EPISODES:
        home = int(np.argmax(np.bincount(log.state)))
        cut = np.append(True, ~goes_on) | (log.state == home)
        piece = np.cumsum(cut)
        # What came before home depends on how home was left the last time.
        rows = rows[log.state[rows] != home]
    pair = log.state[rows] * log.n_actions + log.action[rows]
    order = np.lexsort((rows, pair, piece[rows]))
    rows, pair = rows[order], pair[order]
    is_new = (np.diff(piece[rows]) != 0) | (np.diff(pair) != 0)
    return rows[np.append(True, is_new)] if len(rows) else rows


def _quantiles(group: Codes, reward: NDArray[np.float64]) -> Codes:
    """Return in which quarter of its group's rewards each one lies; equal ones in the same."""
    order = np.lexsort((reward, group))
    first = np.append(True, np.diff(group[order]) != 0)
    start = np.flatnonzero(first)
    lengths = np.diff(np.append(start, len(group)))
    is_new = first | np.append(True, np.diff(reward[order]) != 0)
    place = np.arange(len(group)) - np.repeat(start, lengths)
    rank = place[np.maximum.accumulate(np.where(is_new, np.arange(len(group)), 0))]
    found = np.empty(len(group), dtype=np.int64)
    found[order] = _QUANTILES * rank // np.repeat(lengths, lengths)
    return found
