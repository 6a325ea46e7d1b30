"""Everything the package claims on a log, beside the truth.

:func:`statements` lists lower bounds on gains by every kind of certificate, and intervals by every
estimator and bound. One that is called exact and fails more often than its delta is a bug; the
processes of spibb.testing.adversaries are made to find such.

>>> import numpy as np
>>> from spibb.testing.adversaries import ADVERSARIES
>>> trap = ADVERSARIES["truncation"]
>>> found = statements(trap, trap.draw(np.random.default_rng(0)), 0.05)
>>> all(part.holds for part in found if part.is_exact)
True
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from spibb.algorithms.adv_soft_spibb import AdvApproxSoftSPIBB
from spibb.algorithms.base import Algorithm
from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.decision_points import DecisionPoints
from spibb.algorithms.guarantee_planning import plan_promise
from spibb.algorithms.hcpi import HCPI
from spibb.algorithms.mbie import MBIE
from spibb.algorithms.robust_baseline_regret import RobustBaselineRegret
from spibb.algorithms.robust_mdp import RobustMDP
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB
from spibb.algorithms.spibb_family import PiBSPIBB
from spibb.certify.audit import audit
from spibb.certify.certificate import Guarantee
from spibb.certify.robust import obstacle
from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.errors import PolicyError
from spibb.ope.confidence import BOUNDS
from spibb.ope.evaluate import evaluate_policy
from spibb.ope.log_return import LogReturn
from spibb.problem import Problem
from spibb.testing.adversaries import Adversary
from spibb.uncertainty.error_functions import EmpiricalBernstein, HoeffdingP

# Differences below this are rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Statement:
    """One claim about one log.

    Attributes:
        name: What claims it.
        is_exact: Whether it is called exact.
        low: The lower end; -inf where there is none.
        high: The upper end; inf where there is none.
        truth: What it is about.
        scale: The largest value that the truth can have at all, less the smallest.
        gap: How far the ends are from the truth, where it stands for several; None: as they are.
    """

    name: str
    is_exact: bool
    low: float
    high: float
    truth: float
    scale: float
    gap: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the truth lies between the ends."""
        slack = _ROUNDING * max(1.0, abs(self.truth))
        return self.low - slack <= self.truth <= self.high + slack

    @property
    def distance(self) -> float:
        """How far the ends are from the truth on average, as a share of the scale."""
        if self.gap is not None:
            return self.gap
        gaps = [
            min(abs(end - self.truth), self.scale)
            for end in (self.low, self.high)
            if math.isfinite(end)
        ]
        return sum(gaps) / len(gaps) / self.scale if gaps else 1.0

    @property
    def is_vacuous(self) -> bool:
        """Whether it says no more than what is known without a log."""
        return self.distance >= 1.0 - 1e-6


def statements(
    adversary: Adversary, log: Log | Counts, delta: float, *, resampled: bool = False
) -> list[Statement]:
    """Return everything that is claimed of a log, at a level of delta each.

    Args:
        adversary: Where the log is from.
        log: The log, or its counts.
        delta: Level of every claim.
        resampled: Whether bootstrap intervals are made too, which take most of the time.
    """
    if adversary.made_by is not None and _is_refused(adversary, log):
        return []
    found = list(_certificates(adversary, log, delta))
    if isinstance(log, Log) and adversary.is_sampled:
        found += _intervals(adversary, log, delta, resampled)
    return found


def _is_refused(adversary: Adversary, log: Log | Counts) -> bool:
    """Whether the log contradicts its baseline so clearly that no question is answered."""
    try:
        Problem.of(log, baseline=adversary.baseline, gamma=adversary.mdp.gamma)
    except PolicyError:
        return True
    return False


def _algorithms(adversary: Adversary, delta: float) -> Iterator[Algorithm]:
    yield ApproxSoftSPIBB(delta=delta)
    yield ApproxSoftSPIBB(delta=delta, epsilon=0.02, error=HoeffdingP())
    yield PiBSPIBB(delta=delta)
    yield PiBSPIBB(delta=delta, n_wedge=10**8)
    yield BasicRL()
    if adversary.mdp.gamma < 1.0:
        yield from (RobustMDP(delta=delta), RobustBaselineRegret(delta=delta), MBIE(delta=delta))
    if not adversary.is_sampled:
        return
    yield AdvApproxSoftSPIBB(delta=delta)
    yield AdvApproxSoftSPIBB(delta=delta, error=EmpiricalBernstein())
    known: dict[str, Any] = {"return_range": adversary.return_range, "delta": delta}
    yield HCPI(bound="betting", estimator="is", **known)
    if adversary.mdp.gamma < 1.0:
        yield DecisionPoints(least_lead=1.0, **known)
        yield HCPI(bound="betting", **known)
        yield HCPI(bound="betting", n_tests=3, **known)
    yield HCPI(bound="concentration", **known)
    yield HCPI(delta=delta)
    yield HCPI(delta=delta, estimator="is", bound="bca")


def _certificates(adversary: Adversary, log: Log | Counts, delta: float) -> Iterator[Statement]:
    """Yield the bounds on gains; those of the regret test hold for all policies together."""
    asked: dict[str, Any] = {
        "baseline": adversary.given_baseline(log), "gamma": adversary.mdp.gamma,
        "reward_range": adversary.reward_range, **adversary.declared,
        # Where the logger adapts to what it sees, it is no baseline at all.
        "accept_baseline": not adversary.is_sampled,
    }  # fmt: skip
    regret: list[Statement] = []
    for algorithm in _algorithms(adversary, delta):
        if isinstance(algorithm, HCPI) and _n_episodes(log) < algorithm.min_episodes:
            continue
        result = algorithm.improve(log, **asked, certificate_delta=delta)
        if not result.certificate.states.moved.any():
            continue  # that the baseline loses nothing to itself is no news
        truth = adversary.gain(result.policy)
        for claim in (result.certificate.guarantee, *result.certificate.others):
            if claim.bound is None or not _is_meant(adversary, log, claim):
                continue
            found = _lower(_name(algorithm, claim), claim, truth)
            if claim.theorem == "Regret test":
                regret.append(found)
            else:
                yield found
    if isinstance(log, Log) and adversary.is_sampled:
        yield from _over_an_estimate(adversary, log, asked, delta)
        regret += _promised(log, asked, adversary, delta)
    seen = audit(log, policy=adversary.given_policy(log), delta=delta, **asked)
    if seen.bound is not None:
        truth = adversary.gain(adversary.policy)
        regret.append(_lower("Regret test", seen.guarantee, truth))
    if regret:
        # One event carries them all: the nearest to failing speaks for the log.
        nearest = min(regret, key=lambda part: part.truth - part.low)
        yield replace(nearest, gap=median(part.distance for part in regret))


def _lower(name: str, claim: Guarantee, truth: float) -> Statement:
    assert claim.bound is not None
    return Statement(name, claim.is_exact, claim.bound, math.inf, truth, claim.worst_loss)


def _name(algorithm: Algorithm, claim: Guarantee) -> str:
    is_several = isinstance(algorithm, HCPI) and algorithm.n_tests > 1
    return claim.theorem + (", several" if is_several and claim.theorem != "Regret test" else "")


def _over_an_estimate(
    adversary: Adversary, log: Log, asked: dict[str, Any], delta: float
) -> Iterator[Statement]:
    """Yield what is claimed of the gain over the true baseline where only an estimate is known."""
    # Where the log draws up the list of states, the user has none to declare complete.
    known = asked | {"baseline": "estimate", "states_complete": not adversary.is_listed_by_log}
    result = ApproxSoftSPIBB(delta=delta).improve(log, **known, certificate_delta=delta / 2)
    claim = result.certificate.guarantee
    if claim.bound is not None and result.certificate.states.moved.any():
        acted = adversary.made_by or adversary.baseline
        truth = adversary.value(result.policy) - adversary.value(acted)
        yield _lower(claim.theorem, claim, truth)


def _promised(
    log: Log, asked: dict[str, Any], adversary: Adversary, delta: float
) -> Iterator[Statement]:
    """Yield the certificate of the policy that was chosen for a promise, as --guarantee does."""
    problem = Problem.of(log, **asked)
    if obstacle(problem) is not None:
        return
    zeta = problem.values.v_max / 4.0
    promise = plan_promise(problem, zeta=zeta, delta=delta)
    if not promise.is_vacuous:
        policy = PiBSPIBB(n_wedge=promise.n_wedge).improve(log, **asked).policy
        scale = 2.0 * problem.values.v_max
        yield Statement("Regret test", True, promise.bound, math.inf, adversary.gain(policy), scale)


def _n_episodes(log: Log | Counts) -> int:
    return log.n_episodes if isinstance(log, Log) else 0


def _is_meant(adversary: Adversary, log: Log | Counts, claim: Guarantee) -> bool:
    """Whether the assumptions of a claim hold here, and it is about the whole return."""
    if claim.theorem.startswith("Theorem 1"):
        return adversary.is_sampled  # not where the logger adapts to what it sees
    # Approximate tests are about the return as far as it is recorded, and say so.
    return claim.is_exact or (isinstance(log, Log) and not log.truncated.any())


def _intervals(
    adversary: Adversary, log: Log, delta: float, resampled: bool
) -> Iterator[Statement]:
    """Yield the off-policy intervals."""
    truth, gamma = adversary.value(adversary.policy), adversary.mdp.gamma
    asked: dict[str, Any] = {
        "baseline": adversary.given_baseline(log), "gamma": gamma,
        "reward_range": adversary.reward_range,
        "improve_on": adversary.declared.get("improve_on"),
    }  # fmt: skip
    own = LogReturn.of(Problem.of(log, **asked).log, gamma, 1.0 - delta)
    if own is not None and not own.n_truncated:
        yield Statement(
            "mean return by student-t", False, *own.interval,
            adversary.value(adversary.made_by or adversary.baseline), _scale(adversary),
        )  # fmt: skip
    for bound in ("betting", "concentration", "student-t", *(("bca",) if resampled else ())):
        if BOUNDS[bound].is_exact and gamma >= 1.0 and adversary.return_range is None:
            continue
        found = evaluate_policy(
            log, policy=adversary.given_policy(log), bound=bound, delta=delta, **asked,
            return_range=adversary.return_range if BOUNDS[bound].is_exact else None,
        )  # fmt: skip
        scale = _scale(adversary)
        # Where a record stops, approximate intervals are about the return up to there, and say so.
        if found.n_truncated and not found.is_exact:
            continue
        for part in found.estimates:
            name = f"{part.estimator} by {bound}"
            yield Statement(name, found.is_exact, *part.interval, truth, scale)


def _scale(adversary: Adversary) -> float:
    if adversary.return_range is not None:
        return adversary.return_range[1] - adversary.return_range[0]
    low, high = min(0.0, adversary.reward_range[0]), max(0.0, adversary.reward_range[1])
    return (high - low) / (1.0 - adversary.mdp.gamma)
