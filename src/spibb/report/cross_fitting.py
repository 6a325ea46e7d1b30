"""An off-policy estimate of an algorithm: each half of a log judges what is made of the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.mdp.policy import TabularPolicy
from spibb.ope import OffPolicy, effective_sample_size, student_t
from spibb.ope.caveats import log_warnings, sample_warnings, spread_warnings, weight_warnings
from spibb.ope.evaluate import known_range
from spibb.posterior.cross_validation import FEWEST_EPISODES
from spibb.problem import Problem

Array = NDArray[np.float64]


def cross_fit(
    problem: Problem, policy: TabularPolicy, made: Callable[[Problem], TabularPolicy], delta: float
) -> dict[str, Any]:
    """Let each half of the episodes judge the policy made of the other, by doubly robust terms.

    A policy judged by the log that made it looks better than it is; its own estimate would not help
    to choose.

    Args:
        problem: The log and its baseline.
        policy: What is made of the whole log.
        made: Makes a policy of a problem.
        delta: Level of the interval.

    Returns:
        Columns of a comparison, as far as there are numbers, with the warnings of `spibb evaluate`.
    """
    log = problem.log
    if log is None or log.episode is None or log.n_episodes < FEWEST_EPISODES:
        return {}
    first = log.is_in_first_half
    halves = [
        OffPolicy.of(problem.part(judges), made(problem.part(~judges))).robust_terms()
        for judges in (first, ~first)
    ]
    terms, weight = (np.concatenate(part) for part in zip(*halves, strict=True))
    off = OffPolicy.of(problem, policy)
    if (off.table == off.baseline).all():
        warnings: tuple[str, ...] = ()
    else:
        warnings = (*log_warnings(off, problem), *sample_warnings(off, problem, delta))
    warnings += (*spread_warnings(terms), *weight_warnings(weight))
    estimate, ends = float(terms.mean()), student_t(terms, delta / 2)
    reach = known_range(problem, None, off, needs_one=False)
    if reach is not None:
        estimate, ends, told = reach.kept_inside(estimate, ends)
        warnings += told
    numbers = {"off_policy": estimate, "off_policy_low": ends[0], "off_policy_high": ends[1]}
    found = {name: number for name, number in numbers.items() if math.isfinite(number)}
    return {**found, "ess": float(effective_sample_size(weight)), "warnings": warnings}
