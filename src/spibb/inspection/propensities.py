"""What the probabilities that a log records say against it, and against its baseline."""

from __future__ import annotations

from collections.abc import Iterator

from spibb.data.acted import check_propensities, varies
from spibb.data.log import Log
from spibb.errors import DataError
from spibb.inspection.finding import Finding
from spibb.mdp.policy import TabularPolicy


def check_recorded(log: Log, own: Log, baseline: TabularPolicy | None) -> Iterator[Finding]:
    """Yield where propensities vary, and whether the baseline says something else.

    Args:
        log: The log.
        own: The rows of the policy that runs today.
        baseline: That policy, in the states and actions of the log; None: not known.
    """
    where = varies(log)
    if where is not None:
        yield Finding(
            check="hidden-state",
            severity="refused",
            found=f"The propensities of one action vary ({where}): who acted looked at more than "
            "the state.",
            effect="What followed is not the action's alone: commands refuse the log, all but "
            "evaluate, which takes propensities row by row.",
            advice="Record in the state what the policy looked at.",
            share=1.0,
        )
    elif baseline is not None and not baseline.is_estimated:
        try:
            check_propensities(own, baseline)
        except DataError as problem:
            yield Finding(
                check="propensity",
                severity="refused",
                found=f"{str(problem).split(';')[0].capitalize()}.",
                effect="Commands refuse this baseline.",
                advice="Check that it belongs to this log, or leave it out.",
                share=1.0,
            )
