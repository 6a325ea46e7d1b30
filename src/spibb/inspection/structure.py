"""What is wrong with the rows themselves, where no chance is involved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.data.continuous import are_decimals, hardly_repeat
from spibb.data.log import Log
from spibb.inspection.check import Check
from spibb.inspection.facts import met_values
from spibb.inspection.finding import Finding
from spibb.inspection.permutation import occurrences
from spibb.names import Names
from spibb.words import percent

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

# Steps that do not lead to where the following row is, beyond this share, are no missing steps.
_SHUFFLED = 0.2
# Integers of which fewer than one in so many occur, where there are many.
_SPARSE, _SPARSE_IDS = 10, 1_000
# Agreement of what follows beyond chance; less is as good as none.
_UNRELATED, _UNRELATED_ROWS = 0.02, 1_000_000
# Rows without a next state hold outcomes if they hold this share of all rewards, and so many times
# their share of the rows.
_OUTCOMES, _BEYOND_ROWS = 0.1, 3.0


# What to do about a range that holds the rewards with the other sign, by whether the log was read
# with minimize.
_SIGNS = {
    False: "If they are costs, read the log with --minimize.",
    True: "Turn the range, too: --reward-range is about rewards.",
}
_WORSE = " With costs for rewards everything would be made worse, and called better."


class RewardRange(Check):
    """Find rewards outside of the range that was given."""

    id = "reward-range"
    title = "Rewards outside of the given range"
    verdict_effect = "refused"

    def run(self, evidence: Evidence) -> Iterator[Finding]:
        """Yield how many rewards lie outside, and whether the other sign would fit."""
        if evidence.reward_range is not None:
            yield from _rewards(evidence.log, evidence.reward_range)


class EpisodeOrder(Check):
    """Find rows that do not follow each other as their episode says."""

    id = "episode-order"
    title = "Order of the rows within episodes"
    verdict_effect = "keep"
    finding_ids = ("ends-inside", "shuffled", "gaps")

    def run(self, evidence: Evidence) -> Iterator[Finding]:
        """Yield ends within an episode, shuffled rows and missing steps."""
        if evidence.log.episode is not None:
            yield from _order(evidence.log)


class UnrelatedTransitions(Check):
    """Find logs in which what follows has nothing to do with what was there."""

    id = "unrelated"
    title = "Next states that do not depend on state and action"
    verdict_effect = "monitor"

    def run(self, evidence: Evidence) -> Iterator[Finding]:
        """Yield how often visits to the same pair agree on the next state, beyond chance."""
        yield from _unrelated(evidence.log)


class ColumnValues(Check):
    """Find columns that do not hold what they are called."""

    id = "columns"
    title = "Values of the columns of states and actions"
    verdict_effect = "refused"
    finding_ids = (
        "state-index", "action-index", "continuous-states", "continuous-actions", "one-action",
        "state-gaps", "action-gaps",
    )  # fmt: skip

    def run(self, evidence: Evidence) -> Iterator[Finding]:
        """Yield columns of row numbers or measurements, single actions, and unused numbers."""
        yield from _columns(evidence.log)


class UnknownNextStates(Check):
    """Find rows whose next state is missing."""

    id = "unknown-next-state"
    title = "Rows without a next state"
    verdict_effect = "monitor"

    def run(self, evidence: Evidence) -> Iterator[Finding]:
        """Yield how many rows have no next state, although the process went on."""
        yield from _unknown(evidence.log)


def _rewards(log: Log, reward_range: tuple[float, float]) -> Iterator[Finding]:
    low, high = reward_range
    outside = (log.reward < low) | (log.reward > high)
    if not outside.any():
        return
    fits = bool(((-log.reward >= low) & (-log.reward <= high)).all())
    asked = "they are costs with their sign turned." if log.minimize else "are they costs?"
    sign = f" With the other sign all of them would be inside: {asked}" * fits
    yield Finding(
        check="reward-range",
        severity="refused",
        found=f"{int(outside.sum()):,} rewards lie outside of [{low:g}, {high:g}]: they reach "
        f"from {log.reward.min():g} to {log.reward.max():g}.{sign}",
        effect="Commands refuse the log with this range." + _WORSE * (fits and not log.minimize),
        advice=_SIGNS[log.minimize] if fits else "Correct the rows, or widen the range.",
        share=float(outside.mean()),
    )


def _order(log: Log) -> Iterator[Finding]:
    assert log.episode is not None
    is_followed = np.append(log.episode[1:] == log.episode[:-1], False)
    late = is_followed & log.terminated
    if late.any():
        yield Finding(
            check="ends-inside",
            severity="biased",
            found=f"{int(late.sum()):,} rows end the process, and their episode goes on after "
            "them.",
            effect="Off-policy estimates leave out what follows an end, and models count the rows "
            "all the same.",
            advice="Give what comes after an end an episode of its own; several processes may "
            "share an episode number.",
            share=float(late.sum() / len(log)),
        )
    asked = is_followed & ~log.terminated
    if not asked.any():
        return
    known = asked & (log.next_state >= 0)
    elsewhere = known.copy()
    elsewhere[:-1] &= log.next_state[:-1] != log.state[1:]
    share = float(elsewhere.sum() / max(1, known.sum()))
    if share > _SHUFFLED:
        yield Finding(
            check="shuffled",
            severity="void",
            found=f"In {100 * share:.0f} % of the rows next_state is not the state of the "
            "following row of the episode.",
            effect="These are no episodes: returns, off-policy estimates and what is certified "
            "mean nothing.",
            advice="Check the episode and step columns: shuffled, sorted apart from the others, or "
            "shared by several processes.",
            share=share,
        )
    elif log.n_gaps:
        yield Finding(
            check="gaps",
            severity="weaker",
            found=f"In {log.n_gaps:,} places steps of an episode are missing.",
            effect="Nothing is certified on such a log, and returns through a gap are left out.",
            advice="Complete the records, or leave out the episodes that have gaps.",
            share=log.n_gaps / len(log),
        )


def _unrelated(log: Log) -> Iterator[Finding]:
    rows = slice(0, _UNRELATED_ROWS)
    known = log.next_state[rows] >= 0
    pair = (log.state[rows] * log.n_actions + log.action[rows])[known]
    after = log.next_state[rows][known]
    if len(pair) == 0:
        return
    n_pair = occurrences(pair)
    pair *= log.n_states
    pair += after
    n_same = occurrences(pair)
    n_after = np.bincount(after)
    disjoint = int((n_pair // 2).sum())
    of_pair, n = _pairs(n_pair), len(pair)
    chance = float(_pairs(n_after) / max(1.0, n * (n - 1) / 2.0))
    if disjoint == 0 or chance >= 1.0:
        return
    # As often as two visits to a pair lead to the same state, beyond two rows of any kind: 0 where
    # nothing depends on anything, 1 where everything is determined.
    agreement = (_pairs(n_same) / of_pair - chance) / (1.0 - chance)
    deviation = np.sqrt(chance * (1.0 - chance) / disjoint) / (1.0 - chance)
    if agreement + 2.0 * deviation < _UNRELATED:
        # Steps that are numbered without gaps say which row follows which.
        if log.given_step is not None and log.episode is not None and log.n_gaps == 0:
            return
        yield Finding(
            check="unrelated",
            severity="biased" if log.episode is None else "weaker",
            found="The next state has next to nothing to do with state and action: two visits to "
            f"the same pair agree on it in {100 * (chance + agreement * (1 - chance)):.1f} % of "
            f"the cases, any two rows in {100 * chance:.1f} %.",
            effect="If rows were shuffled, or episodes mixed, the model is one of noise. If states "
            "come independently of each other, all is well.",
            advice="Check that rows are in order and that the episode column belongs to them. "
            "Numbered steps (a column 'step') would show it.",
            share=1.0,
        )


def _pairs(n: NDArray[np.int64]) -> float:
    return float((n * (n - 1.0) / 2.0).sum())


def _columns(log: Log) -> Iterator[Finding]:
    acted = met_values(log.n_states, log.state)
    met = met_values(log.n_states, log.state, log.next_state)
    taken = met_values(log.n_actions, log.action)
    yield from _index_like("state", len(acted), len(log), log.states)
    yield from _index_like("action", len(taken), len(log), log.actions)
    if len(taken) == 1:
        yield Finding(
            check="one-action",
            severity="void",
            found=f"The log holds one action only, {log.actions[int(taken[0])]}.",
            effect="There is nothing to choose between, and nothing to improve.",
            advice="Check that this is the column of the actions.",
            share=1.0,
        )
    for what, ids, labels in (
        ("state", met, log.state_labels),
        ("action", taken, log.action_labels),
    ):
        largest = int(ids[-1]) + 1
        if labels is None and largest >= _SPARSE_IDS and largest > _SPARSE * len(ids):
            yield Finding(
                check=f"{what}-gaps",
                severity="weaker",
                found=f"The {what}s are numbered up to {largest - 1:,}, and {len(ids):,} of them "
                "occur.",
                effect="Numbers that never occur count as places where anything may happen: "
                "guarantees are weaker, and tables larger.",
                advice=f"Number the {what}s from 0 without gaps, or write them as text.",
                share=1.0 - len(ids) / largest,
            )


def _index_like(what: str, n_values: int, n_rows: int, names: Names) -> Iterator[Finding]:
    if not hardly_repeat(n_values, n_rows):
        return
    decimal = are_decimals(names)
    yield Finding(
        check=f"continuous-{what}s" if decimal else f"{what}-index",
        severity="refused" if decimal else "void",
        found=f"There are {n_values:,} different {what}s in {n_rows:,} rows"
        + (f", decimal numbers such as {names[0]}." if decimal else "."),
        effect=f"Hardly any {what} is ever met again: nothing is learnt of it, and nothing can be "
        "certified." + (" Commands refuse it." if decimal else ""),
        advice=f"Group the readings into {what}s (intervals, clusters), or use networks."
        if decimal
        else f"Check that this is the column of the {what}s, and not a number of the row.",
        share=n_values / n_rows,
    )


def _unknown(log: Log) -> Iterator[Finding]:
    dropped = (log.next_state < 0) & ~log.terminated
    if not dropped.any():
        return
    size = np.abs(log.reward)
    share, paid = float(dropped.mean()), float(size[dropped].sum() / max(size.sum(), 1e-300))
    is_outcome = paid >= _OUTCOMES and paid >= _BEYOND_ROWS * share
    effect = "They are left out of the model."
    if is_outcome:
        effect = (
            f"They are left out of the model, and with them {percent(paid)} of all that was paid: "
            "records seem to stop with their outcome, without a flag that says so."
        )
    yield Finding(
        check="unknown-next-state",
        severity="biased" if is_outcome else "weaker",
        found=f"{int(dropped.sum()):,} rows have no next state, although the process went on.",
        effect=effect,
        advice="Mark rows that end the process in a column 'terminated'."
        if is_outcome
        else "Give next_state there, where it is known.",
        share=share,
    )
