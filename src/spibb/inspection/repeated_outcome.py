"""Is the outcome of an episode written on every row of it?

An outcome that is joined to a log by its episodes is there on each row. A return then counts it as
often as the episode has rows, and a policy that makes episodes long looks good.

Rewards are the same on all rows of an episode, in every episode, although they differ between
episodes in the same state and action. Chance makes an episode of two rows so with a probability of
1/2 at most where two rewards are equally likely. Several such episodes of each of two values are
asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from spibb.data.log import Log
from spibb.inspection.check import Check
from spibb.inspection.finding import Finding

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

# Episodes of several rows that have another reward than the usual one: 2^-12 by chance, or less.
_FEWEST = 12


class RepeatedOutcome(Check):
    """Find rewards that belong to the episode and not to the row."""

    id = "repeated-outcome"
    title = "Outcomes that are repeated on every row"
    verdict_effect = "keep"

    def run(self, evidence: Evidence) -> Iterator[Finding]:
        """Yield that each episode has one reward, which its state and action do not decide."""
        log = evidence.log
        if log.is_first is None:
            return
        first = np.flatnonzero(log.is_first)
        length = np.diff(np.append(first, len(log)))
        least = np.minimum.reduceat(log.reward, first)
        is_long = length > 1
        if (least != np.maximum.reduceat(log.reward, first)).any() or not is_long.any():
            return
        n_of_value = np.unique(least[is_long], return_counts=True)[1]
        if n_of_value.sum() - n_of_value.max() < _FEWEST or _is_decided(log):
            return
        yield Finding(
            check=self.id,
            severity="void",
            found=f"In each of {len(first):,} episodes all rows have the same reward, and episodes "
            "differ in it: an outcome of the episode stands on every row.",
            effect="A return counts the outcome once for each row "
            f"({float(length.mean()):.3g} times on average). Long episodes look better, or worse, "
            "than they are.",
            advice="Leave the outcome on the last row of each episode, and write 0 on the others.",
            share=float(length[is_long].sum() / len(log)),
        )


def _is_decided(log: Log) -> bool:
    """Return whether state and action decide the reward."""
    least, most = log.reward_extremes()
    return not (most > least).any()
