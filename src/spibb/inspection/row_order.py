"""Are the rows of an episode in any order at all?

Rows of one episode resemble each other more than rows of different ones wherever states last. Then
rows that follow each other resemble each other in a way of their own: a state stays, alternates, or
leads to certain others. If the rows of each episode were shuffled, the resemblance within episodes
is left, and neighbours are like any two rows of the episode.

The check compares the number of changes of state from row to row with what any order of the same
rows would give, and likewise how often each state follows each. Where rows resemble each other
within episodes and both numbers are those of any order, it says so. States that come independently
of each other do not resemble each other within episodes, and are left alone. So are static ones:
rows are compared among states that occur in the same episodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.data.log import Log
from spibb.inspection.check import Check
from spibb.inspection.finding import Finding
from spibb.inspection.permutation import distinct

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

Codes = NDArray[np.int64]

# Rows that are looked at, from whole episodes, and the fewest that say something.
_ROWS, _FEWEST_ROWS = 50_000, 200
_N_ORDERS = 20
# Resemblance within episodes beyond that of any rows: its size, and standard deviations of chance.
_LEAST_RESEMBLANCE, _CLEAR = 0.01, 6.0
# The number of changes lies this near to that of any order, as a share of what orders can make, and
# is known that well; the order of pairs is within so many standard deviations of chance.
_NEAR, _WITHIN = 0.1, 4.0


class RowOrder(Check):
    """Find episodes whose rows are in any order."""

    id = "row-order"
    title = "Rows of an episode that follow each other in no order"
    verdict_effect = "pilot"

    def run(self, evidence: Evidence) -> Iterator[Finding]:
        """Yield that neighbouring rows are like any two rows of their episode."""
        found = _rows(evidence.log)
        if found is None:
            return
        state, episode = found
        # The cheap question first: it settles most sound logs.
        if not _changes_as_often(state, episode):
            return
        if _resemblance(state, episode) < _LEAST_RESEMBLANCE or not _is_any_order(state, episode):
            return
        yield Finding(
            check=self.id,
            severity="biased",
            found="Rows of an episode resemble each other, but those that follow each other are no "
            "more alike than any two of them. The rows of each episode are in any order, or what "
            "they have in common is not in the state.",
            effect="What follows an action is read off the next row. In shuffled rows it has "
            "nothing to do with the action, and neither has the model.",
            advice="Sort the rows of each episode by time. If they are in order, add to the state "
            "what tells episodes apart.",
            share=1.0,
            verdict_effect="pilot",
        )


def _rows(log: Log) -> tuple[Codes, Codes] | None:
    """Return states and episodes of rows of the first episodes of three rows or more."""
    if log.is_first is None:
        return None
    episode = np.cumsum(log.is_first) - 1
    length = np.bincount(episode)
    chosen = (length >= 3)[episode]
    chosen &= np.cumsum(chosen) <= _ROWS
    if chosen.sum() < _FEWEST_ROWS:
        return None
    episode = distinct(episode[chosen])[1]
    return distinct(log.state[chosen])[1], episode


def _resemblance(state: Codes, episode: Codes) -> float:
    """Return how much more often two rows of an episode agree than any two, as a share.

    It is 0 where chance explains it: rows are permuted among the episodes that share their states.
    """
    kind = _components(state, episode)
    order = np.argsort(kind, kind="stable")
    observed = _agreements(state, episode)
    rng, drawn = np.random.default_rng(6), np.empty(_N_ORDERS)
    for k in range(_N_ORDERS):
        shuffled = np.empty_like(state)
        shuffled[order] = state[np.lexsort((rng.random(len(state)), kind))]
        drawn[k] = _agreements(shuffled, episode)
    n = np.bincount(episode)
    excess = observed - drawn.mean()
    if excess <= _CLEAR * drawn.std():
        return 0.0
    return float(excess / max(1.0, (n * (n - 1.0) / 2.0).sum() - drawn.mean()))


def _components(state: Codes, episode: Codes) -> Codes:
    """Return a number for each row that is the same for states of the same episodes."""
    n_states = int(state.max()) + 1
    size = n_states + int(episode.max()) + 1
    pairs = (np.ones(len(state)), (state, n_states + episode))
    label = sp.csgraph.connected_components(sp.csr_array(pairs, shape=(size, size)))[1]
    return np.asarray(label[state], dtype=np.int64)


def _agreements(state: Codes, episode: Codes) -> float:
    """Return how many pairs of rows of one episode have the same state."""
    n = distinct(episode * (int(state.max()) + 1) + state)[2]
    return float((n * (n - 1.0) / 2.0).sum())


def _changes_as_often(state: Codes, episode: Codes) -> bool:
    """Return whether states change about as often as in any order of the rows of an episode."""
    changes, _ = _neighbours(state, episode)
    expected, fewest = _expected_changes(state, episode)
    return abs(changes - expected) <= _NEAR * (expected - fewest)


def _expected_changes(state: Codes, episode: Codes) -> tuple[float, float]:
    """Return how often the state changes in a random order, and at least."""
    n_rows = np.bincount(episode)
    known, _, n = distinct(episode * (int(state.max()) + 1) + state)
    alike = np.bincount(known // (int(state.max()) + 1), n * (n - 1.0), len(n_rows))
    expected = (n_rows - 1.0) - alike / n_rows
    return float(expected.sum()), float(len(known) - len(n_rows))


def _is_any_order(state: Codes, episode: Codes) -> bool:
    """Return whether neighbours are like any two rows of their episode, as far as orders differ."""
    changes, repeats = _neighbours(state, episode)
    rng, drawn = np.random.default_rng(7), np.empty((_N_ORDERS, 2))
    for k in range(_N_ORDERS):
        shuffled = state[np.lexsort((rng.random(len(state)), episode))]
        drawn[k] = _neighbours(shuffled, episode)
    mean, deviation = drawn.mean(axis=0), drawn.std(axis=0, ddof=1)
    expected, fewest = _expected_changes(state, episode)
    if deviation[0] == 0.0 or deviation[0] > _NEAR * (expected - fewest):
        return False  # the rows could hardly tell
    return bool((np.abs([changes, repeats] - mean) <= _WITHIN * deviation).all())


def _neighbours(state: Codes, episode: Codes) -> tuple[float, float]:
    """Return how often the state changes to the next row, and how unequal its changes are."""
    together = np.diff(episode) == 0
    before, after = state[:-1][together], state[1:][together]
    n = distinct(before * (int(state.max()) + 1) + after)[2].astype(np.float64)
    return float((before != after).sum()), float((n**2).sum())
