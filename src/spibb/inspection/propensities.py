"""What the probabilities that a log records say against it, and against its baseline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from spibb.data.behaviour_policy import check_propensities, varies
from spibb.errors import DataError
from spibb.inspection.check import Check
from spibb.inspection.finding import Finding

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence


class Propensities(Check):
    """Compare recorded propensities with each other, and with the baseline."""

    id = "propensity"
    title = "Recorded propensities"
    verdict_effect = "refused"
    finding_ids = ("hidden-state", "propensity")

    def run(self, evidence: Evidence) -> Iterator[Finding]:
        """Yield where propensities vary, or that the baseline gives other probabilities."""
        baseline = evidence.baseline
        where = varies(evidence.log)
        if where is not None:
            yield Finding(
                check="hidden-state",
                severity="refused",
                found=f"The propensities of one action vary ({where}): the policy used more "
                "than the state.",
                effect="What followed is not the action's alone: commands refuse the log, all but "
                "evaluate, which takes propensities row by row.",
                advice="Record in the state what the policy looked at.",
                share=1.0,
            )
        elif baseline is not None and not baseline.is_estimated:
            try:
                check_propensities(evidence.own_log, baseline)
            except DataError as problem:
                yield Finding(
                    check="propensity",
                    severity="refused",
                    found=f"{str(problem).split(';')[0].capitalize()}.",
                    effect="Commands refuse this baseline.",
                    advice="Check that it belongs to this log, or leave it out.",
                    share=1.0,
                )
