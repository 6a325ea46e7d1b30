"""Do state, action and reward of a row belong together, and is the next row the next one?

What comes later depends on the past through the present alone. So a state is explained by the row
before at least as well as by an earlier one, a reward by its own row at least as well as by the row
before, and an action by the state of its own row. Where it is the other way round, rows or columns
are displaced:

* a state is explained better by the row two, three or four places before: rows of several
  processes take turns in one episode;
* a reward is explained better by the row before: it was written one row late;
* the present state depends on the action of the *next* row, given the next state, while the next
  state does not depend on the present action: time runs backwards, or, where actions are explained
  better by the state of the row before, states were recorded after the action.

What is explained is how much more often two rows of a group agree than any two rows. It needs no
correction for the number of groups. It is compared in 32 parts of the log, and Student's t asks
whether the difference is more than chance between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from spibb.data.log import Log
from spibb.inspection.check import Check
from spibb.inspection.finding import Finding, TestResult
from spibb.inspection.permutation import distinct
from spibb.inspection.windows import windows

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

_PARTS, _FEWEST_ROWS = 32, 320
_LAGS = (2, 3, 4)
# Of what there is to explain, the share that the wrong place must explain more. Effects of actions
# on states are small beside those of states.
_LEAST_SHARE, _LEAST_EFFECT = 0.02, 0.005
# The row before explains this little, beside an earlier one, where processes take turns.
_LITTLE = 0.5
# An effect of actions on the next state this small beside that of the wrong direction is none.
_NO_EFFECT = 0.2
# Rewards are compared in so many classes of about equal size.
_CLASSES = 8


class Alignment(Check):
    """Find columns or rows that are displaced."""

    id = "alignment"
    title = "Are states, actions and rewards explained by their own rows?"
    level = 0.0004
    verdict_effect = "keep"
    finding_ids = ("interleaved", "late-reward", "reversed", "late-state")

    def run(self, evidence: Evidence) -> Iterator[Finding | TestResult]:
        """Test each displacement; the p-value is the smallest, times their number."""
        part, remark = windows(evidence.log_without_copies)
        steps = Neighbours.of(part)
        if steps is None:
            yield self.not_run("too few rows follow each other")
            return
        by_lag = {lag: _test(steps.interleaved(lag)) for lag in _LAGS}
        late_reward, late_state = _test(steps.late_reward), _test(steps.late_state)
        backwards = _test(steps.backwards)
        tested = [*by_lag.values(), late_reward, late_state, backwards]
        p_value = min(1.0, len(tested) * min(one.p_value for one in tested))
        result = self.result(p_value, remark)
        yield result
        assert self.level is not None
        limit = self.level / len(tested)
        lag = max(_LAGS, key=lambda one: by_lag[one].share)
        if by_lag[lag].is_clear(limit) and by_lag[lag].ratio <= _LITTLE:
            yield _interleaved(lag, by_lag[lag])
        if late_reward.is_clear(limit):
            yield _late_reward(late_reward)
        if late_state.is_clear(limit):
            yield _late_state(late_state)
        elif backwards.is_clear(limit, _LEAST_EFFECT) and steps.has_no_effect:
            yield _reversed(backwards)


@dataclass(frozen=True)
class Difference:
    """How much better the wrong place explains something.

    Attributes:
        share: By how much, as a share of what there is to explain.
        p_value: Probability of such a difference if the right place explains at least as much.
        ratio: What the right place explains, as a share of what the wrong one does.
    """

    share: float
    p_value: float
    ratio: float = 1.0

    def is_clear(self, limit: float, least: float = _LEAST_SHARE) -> bool:
        """Whether it is more than chance, at a limit of the p-value, and large enough."""
        return self.p_value <= limit and self.share >= least


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Rows with rows before them in the same episode.

    Attributes:
        log: The log.
        age: How many rows of the same episode, without a gap, are before each row.
        part: The part of the log that each row is in.
    """

    log: Log
    age: Codes
    part: Codes

    @classmethod
    def of(cls, log: Log) -> Neighbours | None:
        """Return them; None where there are too few."""
        if log.is_first is None:
            return None
        is_new = log.is_first.copy()
        is_new[1:] |= log.terminated[:-1] | (log.is_gap[:-1] & (log.next_state[:-1] < 0))
        row = np.arange(len(log))
        age = row - np.maximum.accumulate(np.where(is_new, row, 0))
        if (age > 0).sum() < _FEWEST_ROWS:
            return None
        episode = np.cumsum(log.is_first) - 1
        n_episodes = int(episode[-1]) + 1
        part = row * _PARTS // len(log)
        if n_episodes >= 2 * _PARTS:
            part = episode * _PARTS // n_episodes
        return cls(log, age, part)

    @cached_property
    def pair(self) -> Codes:
        """State and action of each row as one number."""
        return np.asarray(distinct(self.log.state * self.log.n_actions + self.log.action)[1])

    def interleaved(self, lag: int) -> tuple[Array, Array, Array]:
        """Compare what the pair so many rows before explains of a state with the one before.

        Where processes that take turns end at different times, the longest one is alone in the end:
        only the first half of each episode counts.
        """
        is_new = self.age == 0
        length = np.diff(np.append(np.flatnonzero(is_new), len(self.age)))
        is_early = 2 * self.age < np.repeat(length, length) + lag
        row = np.flatnonzero((self.age >= lag) & is_early)
        state, part = self.log.state[row], self.part[row]
        return _explained(state, part, self.pair[row - 1], self.pair[row - lag])

    @property
    def late_reward(self) -> tuple[Array, Array, Array]:
        """Compare what the pair before explains of a reward with what its own explains."""
        row = np.flatnonzero(self.age >= 1)
        reward = _classes(self.log.reward)[row]
        return _explained(reward, self.part[row], self.pair[row], self.pair[row - 1])

    @property
    def late_state(self) -> tuple[Array, Array, Array]:
        """Compare what the state before explains of an action with what its own explains."""
        row = np.flatnonzero(self.age >= 1)
        action, state = self.log.action[row], self.log.state
        return _explained(action, self.part[row], state[row], state[row - 1])

    @cached_property
    def _effects(self) -> tuple[Array, Array, Array]:
        """What actions explain of the state after them, and of the one before, given the other."""
        row = np.flatnonzero(self.age >= 1)
        state, part = self.log.state, self.part[row]
        _, alone, with_action = _explained(state[row], part, state[row - 1], self.pair[row - 1])
        total, alone_back, with_next = _explained(state[row - 1], part, state[row], self.pair[row])
        return total, with_action - alone, with_next - alone_back

    @property
    def backwards(self) -> tuple[Array, Array, Array]:
        """Compare what actions explain of the state before them with the state after them."""
        return self._effects

    @property
    def has_no_effect(self) -> bool:
        """Whether actions explain next to nothing of the state after them."""
        _, after, before = self._effects
        return bool(after.mean() <= _NO_EFFECT * before.mean())


def _explained(target: Codes, part: Codes, one: Codes, other: Codes) -> tuple[Array, Array, Array]:
    """Return what there is to explain, and what one and another column explain, by part.

    Args:
        target: What is explained.
        part: The part of the log.
        one: A column.
        other: Another one.
    """
    kept = np.ones(len(target), dtype=np.bool_)
    for column in (one, other):
        kept &= (np.bincount(column) > 1)[column]
    target, part = target[kept], part[kept]
    agreements = [_agreement(target, column[kept]) for column in (np.zeros_like(one), one, other)]
    n_part = np.maximum(np.bincount(part, minlength=_PARTS), 1)
    any_two, *found = (np.bincount(part, one, _PARTS) / n_part for one in agreements)
    return 1.0 - any_two, found[0] - any_two, found[1] - any_two


def _agreement(target: Codes, group: Codes) -> Array:
    """Return how often each row has the value of another row of its group."""
    if len(target) == 0:
        return np.zeros(0)
    _, cell, n_cell = distinct(group * (int(target.max()) + 1) + target)
    return np.asarray((n_cell[cell] - 1.0) / np.maximum(np.bincount(group)[group] - 1.0, 1.0))


def _test(found: tuple[Array, Array, Array]) -> Difference:
    """Test whether the second of two places explains more than the first.

    Each agreement of two rows is in the mean twice, in the part of either row, so that parts show
    half of the deviation of the mean.
    """
    total, right, wrong = found
    difference = wrong - right
    mean, deviation = float(difference.mean()), 2.0 * float(difference.std(ddof=1))
    explains = float(wrong.mean())
    # A place that explains no more than any two rows do is none to move a column to.
    if mean <= 0.0 or deviation <= 0.0 or explains <= 0.0:
        return Difference(0.0, 1.0)
    statistic = mean / deviation * np.sqrt(_PARTS)
    return Difference(
        mean / max(float(total.mean()), 1e-12),
        float(student.sf(statistic, _PARTS - 1)),
        float(right.mean()) / explains,
    )


def _classes(reward: Array) -> Codes:
    """Return rewards as classes: the values themselves, where they are few, or equal parts."""
    values, place = np.unique(reward, return_inverse=True)
    if len(values) <= _CLASSES:
        return np.asarray(place.reshape(-1), dtype=np.int64)
    ends = np.unique(np.quantile(reward, np.arange(1, _CLASSES) / _CLASSES))
    return np.asarray(np.searchsorted(ends, reward, "right"), dtype=np.int64)


def _interleaved(lag: int, found: Difference) -> Finding:
    return Finding(
        check="interleaved",
        severity="biased",
        found=f"A state follows from the row {lag} places before, and less from the row before it "
        f"(p = {found.p_value:.2g}): rows of {lag} processes take turns in one episode, or the "
        f"state changes every {lag} rows by a clock.",
        effect="Where processes take turns, the next row belongs to another one: models, returns "
        "and gains mean nothing. A clock that the state does not hold is missing in the model.",
        advice="Give each process episodes of its own, such as a number for each patient or "
        "machine; or add to the state what counts the rows.",
        share=found.share,
        p_value=found.p_value,
        verdict_effect="pilot",
    )


def _late_reward(found: Difference) -> Finding:
    return Finding(
        check="late-reward",
        severity="void",
        found="A reward follows from the state and action of the row before, and less from those "
        f"of its own row (p = {found.p_value:.2g}): rewards stand one row late.",
        effect="Each action is given the reward of the one before it, and the last reward of each "
        "episode is lost.",
        advice="Move the column of rewards up by one row within each episode: a row holds what its "
        "own action earned.",
        share=found.share,
        p_value=found.p_value,
    )


def _late_state(found: Difference) -> Finding:
    return Finding(
        check="late-state",
        severity="void",
        found="An action follows from the state of the row before, and less from that of its own "
        f"row (p = {found.p_value:.2g}): states were recorded after the action, or rows run from "
        "late to early.",
        effect="States are taken for what the action was chosen in, and are what came of it.",
        advice="Let each row hold the state in which its action was chosen, and sort the rows of "
        "each episode by time, the earliest first.",
        share=found.share,
        p_value=found.p_value,
    )


def _reversed(found: Difference) -> Finding:
    return Finding(
        check="reversed",
        severity="void",
        found="An action explains the state of the row before it, and not that of the row after it "
        f"(p = {found.p_value:.2g}): rows run from late to early, or states were recorded after "
        "the action.",
        effect="Causes are taken for effects: models, returns and gains mean nothing.",
        advice="Sort the rows of each episode by time, the earliest first, and let each row hold "
        "the state in which its action was chosen.",
        share=found.share,
        p_value=found.p_value,
    )
