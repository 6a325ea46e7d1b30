"""From a promise to a threshold: is this log large enough for it, and what size would do?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spibb.data.counts import Counts
from spibb.uncertainty.ranges import ValueRange
from spibb.uncertainty.thresholds import Bound, n_wedge


@dataclass(frozen=True)
class Promise:
    """What it takes to promise that Pi_b-SPIBB loses at most zeta.

    Attributes:
        zeta: The loss that is promised not to be exceeded.
        n_wedge: Observations that make a pair trusted.
        n_trusted: Pairs of the log that have as many.
        largest_count: Observations of the most frequent pair.
        rows_for_one: Rows at which the most frequent pair would be trusted, at the log's
            frequencies.
        rows_for_half: Rows at which the pairs that make up half of the log would be.
        is_trivial: Whether no policy could lose zeta anyway.
    """

    zeta: float
    n_wedge: int
    n_trusted: int
    largest_count: int
    rows_for_one: int
    rows_for_half: int
    is_trivial: bool

    @property
    def is_vacuous(self) -> bool:
        """Whether the log is too small: the only policy with this promise is the baseline."""
        return self.n_trusted == 0

    @property
    def summary(self) -> str:
        """The promise in words."""
        text = f"A loss of at most {self.zeta:g} takes n_wedge = {self.n_wedge:,}. "
        if self.is_trivial:
            return text + "No policy can lose that much anyway: ask for less."
        if not self.is_vacuous:
            return text + f"{self.n_trusted:,} pairs of this log have been seen as often."
        return text + (
            f"No pair of this log has been seen as often (at most {self.largest_count:,} times), "
            f"so the result is the baseline. At this log's frequencies it takes about "
            f"{self.rows_for_one:,} rows until one pair may change, and {self.rows_for_half:,} "
            "until the pairs that make up half of the log may."
        )


def plan_promise(
    counts: Counts, values: ValueRange, *, zeta: float, delta: float, bound: Bound = "two-point"
) -> Promise:
    """Choose the threshold for a promise and judge the log by it."""
    threshold = n_wedge(
        zeta=zeta,
        delta=delta,
        n_states=counts.n_states,
        n_actions=counts.n_actions,
        v_max=values.v_max,
        gamma=values.gamma,
        bound=bound,
    )
    ordered = np.sort(counts.n_sa.ravel())[::-1]
    n_rows = int(ordered.sum())
    # The pair at which the most frequent ones have together made half of the rows.
    halfway = int(ordered[np.searchsorted(np.cumsum(ordered), n_rows / 2)])
    return Promise(
        zeta=zeta,
        n_wedge=threshold,
        n_trusted=int((ordered >= threshold).sum()),
        largest_count=int(ordered[0]),
        rows_for_one=_rows(n_rows, threshold, int(ordered[0])),
        rows_for_half=_rows(n_rows, threshold, halfway),
        is_trivial=zeta >= 2 * values.v_max,
    )


def _rows(n_rows: int, threshold: int, count: int) -> int:
    """Return the rows at which a pair seen ``count`` times would reach the threshold."""
    return -(-n_rows * threshold // count)
