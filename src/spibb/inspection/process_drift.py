"""Did rewards or next states change while the log was made?

The log is divided into quarters, by the order of its episodes, as in the test of the actions
(:mod:`spibb.inspection.drift`). What is compared is what followed the same state and action: the
next state or end, and the reward. Whole episodes are permuted among the quarters, which is exact if
episodes are exchangeable. Where episodes are few, the visits to a pair take the place of episodes:
what follows its first visit and its last is alike in a Markov process.

For each outcome, an episode has one number: how often it came, less how often its state and action
lead to it in the whole log. The sum of these over the quarters is compared for the outcomes that
occur most. For rewards they are the sum and the sum weighted by what the pair pays on average, so
that a change of all rewards by one factor shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.data.log import Log
from spibb.inspection.check import Check
from spibb.inspection.finding import Finding, TestResult
from spibb.inspection.permutation import rank_p_value

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

_FEW_EPISODES, _QUARTERS = 30, 4
# Outcomes of one action that are compared, the most frequent ones.
_OUTCOMES = 40
# What is permuted: episodes that follow each other are one unit where there are more of them.
_UNITS = 200
_ROWS, _N_SHOWN = 200_000, 5


class ProcessDrift(Check):
    """Find a change of rewards or transitions while the log was made."""

    id = "process-drift"
    title = "Do all parts of the log pay and lead alike after the same state and action?"
    level = 0.0014
    cost = "permutations"
    verdict_effect = "monitor"

    def run(self, evidence: Evidence) -> Iterator[Finding | TestResult]:
        """Test rewards, then next states, at half of the level each."""
        log = evidence.log_without_copies
        if log.is_first is None:
            yield self.not_run("the log has no episodes, and so no order")
            return
        rows = _rows(log)
        unit, n_units = _units(log, rows)
        if n_units < _QUARTERS:
            yield self.not_run("too few visits to the same pairs")
            return
        quarter = _QUARTERS * np.arange(n_units) // n_units
        p_values = {
            what: _p_value(scores, quarter)
            for what, scores in (
                ("rewards", _reward_scores(log, rows, unit, n_units)),
                ("next states", _transition_scores(log, rows, unit, n_units)),
            )
        }
        smallest = min(p_values, key=lambda what: p_values[what])
        p_value = min(1.0, 2.0 * p_values[smallest])
        result = self.result(p_value)
        yield result
        if result.is_significant:
            assert self.level is not None
            changed = [what for what, p in p_values.items() if 2.0 * p <= self.level]
            yield _finding(log, changed, p_value)


def _rows(log: Log) -> Codes:
    """Return the rows of the log, or of a large one some that are chosen at random."""
    if len(log) <= _ROWS:
        return np.arange(len(log))
    chosen = np.random.default_rng(0).choice(len(log), _ROWS, replace=False, shuffle=False)
    return np.sort(chosen)


def _units(log: Log, rows: Codes) -> tuple[Codes, int]:
    """Return the unit of each row, which is permuted as a whole, and how many there are.

    Units are episodes, or as many in a row in each unit. Where episodes are few, units are equal
    parts of the visits to each pair.
    """
    assert log.is_first is not None
    if log.n_episodes >= _FEW_EPISODES:
        n_units = min(_UNITS, log.n_episodes)
        return (np.cumsum(log.is_first)[rows] - 1) * n_units // log.n_episodes, n_units
    pair = log.state[rows] * log.n_actions + log.action[rows]
    order = np.argsort(pair, kind="stable")
    start = np.flatnonzero(np.append(True, np.diff(pair[order]) != 0))
    length = np.diff(np.append(start, len(pair)))
    n_units = int(min(_UNITS, length.max()))
    place = np.empty(len(pair), dtype=np.int64)
    place[order] = np.arange(len(pair)) - np.repeat(start, length)
    n_pair = np.empty(len(pair), dtype=np.int64)
    n_pair[order] = np.repeat(length, length)
    return n_units * place // n_pair, n_units


def _reward_scores(log: Log, rows: Codes, unit: Codes, n_units: int) -> Array:
    """Return sums of what rewards are beyond the mean of their pair, by unit."""
    largest = float(np.abs(log.reward).max()) or 1.0
    reward = log.reward[rows] / largest
    pair = log.state[rows] * log.n_actions + log.action[rows]
    n = np.bincount(pair)
    mean = (np.bincount(pair, reward) / np.maximum(n, 1))[pair]
    residual = reward - mean
    residual[np.abs(residual) < 1e-9] = 0.0
    columns = [residual, residual * mean]
    columns += [residual * (log.action[rows] == a) for a in _most(log.action[rows], _OUTCOMES)]
    return np.column_stack([np.bincount(unit, one, n_units) for one in columns])


def _transition_scores(log: Log, rows: Codes, unit: Codes, n_units: int) -> Array:
    """Return how often actions led to states, beyond what their pairs do, by unit."""
    after = np.where(log.next_state[rows] >= 0, log.next_state[rows], log.n_states)
    after[log.terminated[rows]] = log.n_states + 1
    known = after != log.n_states
    after, unit, rows = after[known], unit[known], rows[known]
    if len(rows) == 0:
        return np.zeros((n_units, 1))
    action = log.action[rows]
    n_after = log.n_states + 2
    pair = log.state[rows] * log.n_actions + action
    outcome = action * n_after + after
    n_pair = np.bincount(pair)
    columns = []
    for one in _most(outcome, _OUTCOMES):
        a, is_it = int(one) // n_after, outcome == one
        share = np.bincount(pair[is_it], minlength=len(n_pair)) / np.maximum(n_pair, 1)
        taken = action == a
        expected = np.bincount(unit[taken], share[pair[taken]], n_units)
        columns.append(np.bincount(unit[is_it], minlength=n_units) - expected)
    return np.column_stack(columns)


def _most(values: Codes, n: int) -> Codes:
    """Return the most frequent values."""
    known, times = np.unique(values, return_counts=True)
    return known[np.argsort(-times, kind="stable")[:n]]


def _p_value(scores: Array, quarter: Codes) -> float:
    """Permute units among quarters; the statistic is the largest change of a score.

    A score is scaled by the deviation of its units, so that none counts for its unit of measure.
    """
    deviation = scores.std(axis=0)
    live = deviation > 1e-12
    if not live.any():
        return 1.0
    scores = (scores[:, live] - scores[:, live].mean(axis=0)) / deviation[live]
    rng = np.random.default_rng(5)
    ends = np.flatnonzero(np.append(np.diff(quarter) != 0, True))
    lengths = np.diff(np.append(-1, ends)).astype(np.float64)

    def statistic(order: Codes | None) -> float:
        sums = np.cumsum(scores if order is None else scores[order], axis=0)[ends]
        sums = np.diff(sums, axis=0, prepend=0.0)
        return float((sums**2 / lengths[:, None]).sum(axis=0).max())

    return rank_p_value(statistic(None), lambda _: statistic(rng.permutation(len(scores))))


def _finding(log: Log, changed: list[str], p_value: float) -> Finding:
    what = " and ".join(changed)
    return Finding(
        check="process-drift",
        severity="biased",
        found=f"What follows the same state and action changed while the log was made: {what} "
        f"differ between its quarters (p = {p_value:.2g}).",
        effect="The model is a mixture of then and now. Gains and returns are those of a process "
        "that is gone.",
        advice="Find out what changed, such as a price, a unit, a device or the meaning of an "
        "action. Use the part of the log since then.",
        share=1.0,
        p_value=p_value,
        places=_changed_pairs(log),
    )


def _changed_pairs(log: Log) -> list[dict[str, Any]]:
    """Return the pairs whose mean reward changed most between the halves, by standard errors."""
    pair = log.state * log.n_actions + log.action
    half = (2 * np.arange(len(log)) // len(log)).astype(np.int64)
    size = log.n_states * log.n_actions
    n, total, square = (
        np.bincount(2 * pair + half, values, 2 * size).reshape(size, 2)
        for values in (None, log.reward, log.reward**2)
    )
    mean = total / np.maximum(n, 1)
    error = np.sqrt(np.maximum(square / np.maximum(n, 1) - mean**2, 0.0) / np.maximum(n, 1))
    both = (n > 1).all(axis=1)
    change = np.where(both, np.abs(mean[:, 0] - mean[:, 1]), 0.0)
    size_of = change / np.maximum(np.hypot(error[:, 0], error[:, 1]), 1e-9 + 1e-6 * change)
    return [
        {
            "state": log.states[int(k) // log.n_actions],
            "action": log.actions[int(k) % log.n_actions],
            "mean_reward_first_half": float(mean[k, 0]),
            "mean_reward_second_half": float(mean[k, 1]),
        }
        for k in np.argsort(-size_of, kind="stable")[:_N_SHOWN]
        if change[k] > 0.0
    ]
