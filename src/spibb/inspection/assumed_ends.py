"""Do records stop where others go on, in a log that does not say how they end?

Without a column of ends the last row of each record is taken for the end of the process: nothing is
earned afterwards. Where the process ends, it does so in a few states and actions, and mostly there.
A record that stops in a state and action from which most others go on was probably truncated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from spibb.inspection.check import Check
from spibb.inspection.finding import Finding
from spibb.words import percent

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

# Of the other visits to a state and action, so many at most end where an end is unusual.
_UNUSUAL = 0.2
# Visits to a pair without which nothing is known of how often it ends a record.
_FEWEST_VISITS = 5
# Share of the records, and their number, from which on it matters.
_LEAST_SHARE, _FEWEST_RECORDS = 0.1, 10


class AssumedEnds(Check):
    """Find records that seem to be truncated, where the log has no column of ends."""

    id = "assumed-ends"
    title = "Records that stop without a flag"
    verdict_effect = "monitor"

    def run(self, evidence: Evidence) -> Iterator[Finding]:
        """Yield how many records stop where others go on."""
        log = evidence.log
        if not log.are_ends_assumed or log.is_first is None:
            return
        ends = np.append(log.is_first[1:], True)
        pair = log.state * log.n_actions + log.action
        size = log.n_states * log.n_actions
        n = np.bincount(pair, minlength=size)
        n_ends = np.bincount(pair[ends], minlength=size)
        stop = pair[ends]
        others = n[stop] - 1
        unusual = (others >= _FEWEST_VISITS) & (n_ends[stop] - 1 <= _UNUSUAL * others)
        n_records, n_unusual = len(stop), int(unusual.sum())
        if n_unusual < max(_FEWEST_RECORDS, _LEAST_SHARE * n_records):
            return
        share = n_unusual / n_records
        yield Finding(
            check=self.id,
            severity="biased",
            found=f"{n_unusual:,} of {n_records:,} records ({percent(share)}) stop in a state and "
            "action from which most others go on, and no column says how a record ends.",
            effect="Each record is taken to end with its last row: nothing is earned afterwards. "
            "If records were truncated, returns are too small, and what ends nothing seems to.",
            advice="Add a column 'terminated' that is true on the rows that end the process, or "
            "'truncated' where the record only stops.",
            share=share,
        )
