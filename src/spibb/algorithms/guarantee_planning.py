"""From a promise to a threshold: how bold may Pi_b-SPIBB be, if at most zeta may be lost?

The regret test holds for all policies at once, so that its bounds may be looked at for many
thresholds and the boldest one kept that is certified to lose at most zeta. With n_wedge = inf the
baseline itself is left, which loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import DEFAULT_DELTA
from spibb.algorithms.spibb_family import PiBSPIBB
from spibb.certify.regret import RegretTest
from spibb.certify.robust import obstacle
from spibb.data.counts import Counts
from spibb.errors import SMALLEST, SettingsError, checked_number
from spibb.problem import Problem, ProblemBatch, ProblemOptions
from spibb.problem.problem import Baseline

# Thresholds that are tried, evenly in the logarithm of the count.
_N_THRESHOLDS = 12
# The log is imagined twice as long so many times, up to a size that means "never".
_N_DOUBLINGS = 40
# Beyond so many pairs, imagining longer logs takes too long.
_LARGEST_IMAGINED = 4_000

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Promise:
    """What it takes to promise that Pi_b-SPIBB loses at most zeta.

    Attributes:
        zeta: The loss that is promised not to be exceeded.
        n_wedge: Observations that make a pair trusted; infinite where only the baseline will do.
        bound: What the regret test certifies of the policy with this threshold.
        n_trusted: Pairs of the log that have as many.
        rows_for_change: Rows at which a change would be certified, at the log's frequencies; None
            where one is already, or where that was not computed.
        is_trivial: Whether no policy could lose zeta anyway.
        proviso: What was read off the log and may be otherwise; None: nothing.
    """

    zeta: float
    n_wedge: float
    bound: float
    n_trusted: int
    rows_for_change: float | None
    is_trivial: bool
    proviso: str | None = None

    @property
    def algorithm(self) -> PiBSPIBB:
        """The algorithm that keeps it."""
        return PiBSPIBB(n_wedge=self.n_wedge)

    @property
    def is_vacuous(self) -> bool:
        """Whether the log is too small: the only policy with this promise is the baseline."""
        return math.isinf(self.n_wedge)

    @property
    def summary(self) -> str:
        """The promise in words."""
        proviso = "" if self.proviso is None else f", {self.proviso}"
        if self.is_trivial:
            return f"No policy can lose {self.zeta:g} anyway{proviso}: ask for less."
        if not self.is_vacuous:
            return (
                f"With n_wedge = {self.n_wedge:g} a loss of at most {max(0.0, -self.bound):.4g} is "
                f"certified{proviso}; {self.n_trusted:,} pairs of this log have been seen as "
                "often."
            )
        text = (
            f"No change of the baseline is certified to lose at most {self.zeta:g} on this log, so "
            "the result is the baseline."
        )
        if self.rows_for_change is None:
            return text
        if math.isinf(self.rows_for_change):
            return text + " No imaginable number of rows like these would change that."
        return text + f" At its frequencies it would take about {self.rows_for_change:.1g} rows."


def plan_promise(
    log: Any,
    *,
    zeta: float,
    delta: float = DEFAULT_DELTA,
    baseline: Baseline | None = None,
    gamma: float | None = None,
    **options: Unpack[ProblemOptions],
) -> Promise:
    """Choose the boldest threshold of Pi_b-SPIBB that is certified to lose at most zeta.

    Args:
        log: The log that the baseline made, or a problem; see :meth:`spibb.Problem.of`.
        zeta: The largest loss, > 0.
        delta: Level of the regret test, the ``certificate_delta`` of ``improve``.
        baseline: The policy that made the log, or "estimate".
        gamma: The discount.
        **options: As for :meth:`spibb.Problem.of`.

    Returns:
        The promise; ``promise.algorithm.improve(...)`` keeps it.
    """
    problem = Problem.of(log, baseline=baseline, gamma=gamma, **options)
    checked_number(zeta, "zeta", "a loss > 0", least=SMALLEST)
    if not 0.0 < delta < 1.0:
        raise SettingsError(f"delta is {delta}", expected="a probability in (0, 1)")
    if problem.limits is not None:
        raise SettingsError(
            "a threshold is chosen for policies without limits",
            hint="leave the limits out, or choose n_wedge of pi-b-spibb yourself: every result is "
            "certified",
        )
    reason = obstacle(problem)
    if reason is not None:
        raise SettingsError(
            f"nothing can be promised on this log: {reason}",
            expected="a log on which the regret test holds",
            hint="see docs/guarantees.md for its conditions",
        )
    batch = ProblemBatch.of([problem])
    policies = _candidates(batch)
    values = problem.values
    is_trivial = zeta >= 2 * values.v_max
    for threshold, bound in zip(policies, _bounds(batch, policies.values(), delta), strict=True):
        if bound >= -zeta:
            n_trusted = int((batch.n_sa >= threshold).sum())
            return Promise(zeta, threshold, bound, n_trusted, None, is_trivial, problem.proviso)
    rows = _rows_for_change(problem, batch, policies.values(), zeta, delta)
    return Promise(zeta, math.inf, 0.0, 0, rows, is_trivial, problem.proviso)


def _candidates(batch: ProblemBatch) -> dict[float, Array]:
    """Return the policies that differ from the baseline by their thresholds, boldest first."""
    grid = np.unique(np.geomspace(1, int(batch.n_sa.max()), _N_THRESHOLDS).round()).tolist()
    found = {n: PiBSPIBB(n_wedge=n).search(batch).policy for n in grid}
    return {n: policy for n, policy in found.items() if (policy != batch.baseline).any()}


def _bounds(batch: ProblemBatch, policies: Collection[Array], delta: float) -> list[float]:
    """Return the regret test's bound for each policy."""
    test = RegretTest.of(batch, delta)
    return [float(test.bounds(test.tested(policy))[0]) for policy in policies]


def _rows_for_change(
    problem: Problem, batch: ProblemBatch, policies: Collection[Array], zeta: float, delta: float
) -> float | None:
    """Return the rows at which one of the policies would be certified; see Promise."""
    counts = problem.counts
    if counts.n_sa.size > _LARGEST_IMAGINED:
        return None
    for power in range(1, _N_DOUBLINGS + 1) if policies else ():
        longer = replace(problem, counts=_longer(counts, 2**power))
        imagined = replace(batch, n_sa=longer.counts.n_sa[None], make=[longer].__getitem__)
        if max(_bounds(imagined, policies, delta)) >= -zeta:
            return math.ldexp(float(counts.n_sa.sum()), power)
    return math.inf


def _longer(counts: Counts, times: int) -> Counts:
    """Return the counts of a log that is longer, at the same frequencies."""
    names = ["n_sa", "n_sas", "n_end", "reward_sum", "n_initial"]
    names += [] if counts.paid is None else ["paid"]
    return replace(counts, **{name: getattr(counts, name) * times for name in names})
