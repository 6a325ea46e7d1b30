"""Do rewards of one state and action differ persistently? Then the state hides what decides them.

The reward's residual e is its deviation from the mean of its state and action. Where the state is
all that matters, residuals of consecutive rows are uncorrelated. The size is the covariance of
consecutive residuals over the variance of rewards: the share of that variance that belongs to
something hidden that lasts for more than a step.

Where the gain of a policy survives in finer states made of raw columns, these have judged the
hidden part more directly, and the verdict follows them (:mod:`spibb.assessment.verdict`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t

from spibb.data.log import Log
from spibb.inspection.check import Check
from spibb.inspection.finding import Finding, TestResult
from spibb.representation.steps import blocks
from spibb.words import percent

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

# The share of the variance of rewards from which on the finding limits the verdict to a pilot. On
# the development half of the study `representations` adequate states are at .14 or below in the
# median, and inadequate ones that no other check finds at .17 or above (docs/representations.md).
LEAST_SHARE = 0.15


class PersistentRewards(Check):
    """Test whether residuals of consecutive rewards are correlated."""

    id = "persistent-rewards"
    title = "Are rewards independent of earlier ones, given state and action?"
    level = 0.0003
    cost = "rows"
    verdict_effect = "pilot"

    def run(self, evidence: Evidence) -> Iterator[Finding | TestResult]:
        """Test the covariance of consecutive residuals by its sum over episodes."""
        log = evidence.log_without_copies
        found = _persistence(log)
        if found is None:
            yield self.not_run(
                "no row is known to follow another one, or state and action decide the reward"
            )
            return
        share, p_value = found
        yield self.result(p_value)
        assert self.level is not None
        if share < LEAST_SHARE or p_value > self.level:
            return
        yield Finding(
            check=self.id,
            severity="biased",
            found=f"Rewards of the same state and action differ persistently: "
            f"{percent(share)} of the variance of rewards belongs to something hidden that lasts "
            "for more than a step.",
            effect="The state does not hold what decides rewards. A new policy may change it in "
            "ways that the log does not show.",
            advice="Add to the state what rewards depend on, or name raw columns (--features) to "
            "see in which finer states the gain survives.",
            share=share,
            p_value=p_value,
            verdict_effect="pilot",
        )


def _persistence(log: Log) -> tuple[float, float] | None:
    """Return the share of the variance, and its p-value; None where there is nothing to test."""
    if log.is_first is None:
        return None
    goes_on = np.append(~log.is_first[1:], False) & ~log.terminated & ~log.is_gap
    row = np.flatnonzero(goes_on)
    largest = float(np.abs(log.reward).max())
    reward = log.reward / (largest or 1.0)  # squares of large rewards are no numbers
    variance = float(reward.var())
    if len(row) < 2 or not variance > 1e-12:
        return None
    pair = log.state * log.n_actions + log.action
    size = log.n_states * log.n_actions
    n = np.bincount(pair, minlength=size)
    residual = reward - (np.bincount(pair, reward, size) / np.maximum(n, 1))[pair]
    if float(residual.std()) <= 1e-9:  # state and action decide the reward, up to rounding
        return None
    product = residual[row] * residual[row + 1]
    sums = np.bincount(blocks(log.is_first, len(log))[row], product)
    n_blocks, total = len(sums), float(sums.sum())
    if n_blocks < 2:
        return None
    error = sqrt(float(((sums - sums.mean()) ** 2).sum()) * n_blocks / (n_blocks - 1))
    # Student's t: blocks may be few. Sums that do not differ say nothing of chance.
    p_value = float(t.sf(total / error, n_blocks - 1)) if error > 1e-12 * abs(total) else 1.0
    return total / len(row) / variance, p_value
