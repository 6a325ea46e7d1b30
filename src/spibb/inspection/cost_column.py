"""Is the column of rewards called a cost?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from spibb.inspection.check import Check
from spibb.inspection.finding import Finding

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

_COSTS = {
    "cost", "costs", "loss", "losses", "penalty", "penalties", "expense", "expenses", "charge",
    "charges", "fee", "fees", "spending", "damage", "damages", "delay", "delays", "downtime",
    "harm", "regret", "error", "errors",
}  # fmt: skip


class CostColumn(Check):
    """Find costs that are given as rewards, by the name of their column."""

    id = "cost-column"
    title = "A column of costs in the place of rewards"
    verdict_effect = "monitor"

    def run(self, evidence: Evidence) -> Iterator[Finding]:
        """Yield that the column is called a cost, unless it is read as one or has a minus sign."""
        log = evidence.log
        if log.minimize or not is_cost(log.reward_column) or log.reward.max() <= 0.0:
            return
        yield Finding(
            check=self.id,
            severity="biased",
            found=f"Rewards come from the column {log.reward_column!r}, and may be costs.",
            effect="Higher is better here. Of costs everything would be made worse, and called "
            "better.",
            advice="If they are costs, read the log with --minimize.",
            share=1.0,
        )


def is_cost(name: str) -> bool:
    """Return whether a column is called a cost.

    Example:
        >>> is_cost("total_cost"), is_cost("Cost (EUR)"), is_cost("costar"), is_cost("-cost")
        (True, True, False, False)
    """
    if name.lstrip().startswith(("-", "neg")):
        return False
    return not _COSTS.isdisjoint(
        re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    )
