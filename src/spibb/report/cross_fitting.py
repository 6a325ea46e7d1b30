"""An off-policy estimate of an algorithm: each half of a log judges what is made of the other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import Algorithm
from spibb.algorithms.improvement import Improvement
from spibb.ope import OffPolicy, effective_sample_size, student_t
from spibb.ope.caveats import few_warnings, log_warnings, sample_warnings, weight_warnings
from spibb.ope.return_range import ReturnRange
from spibb.problem import Problem

Array = NDArray[np.float64]

# Below this an interval from halves says nothing.
FEWEST_EPISODES = 8


@dataclass(frozen=True)
class CrossFit:
    """A cross-fitted off-policy estimate with what `spibb evaluate` says of one.

    Attributes:
        estimate: The performance, not finite where there is none.
        interval: Ends by Student's t.
        ess: Effective episodes behind it.
        warnings: What to know before trusting it.
    """

    estimate: float = math.nan
    interval: tuple[float, float] = (math.nan, math.nan)
    ess: float | None = None
    warnings: tuple[str, ...] = ()


def cross_fit(algorithm: Algorithm, result: Improvement, delta: float) -> CrossFit:
    """Let each half of the episodes judge the policy made of the other, by doubly robust terms.

    A policy judged by the log that made it looks better than it is; its own estimate would not help
    to choose.
    """
    problem = result.problem
    log = problem.log
    if log is None or log.episode is None or log.n_episodes < FEWEST_EPISODES:
        return CrossFit()
    first = np.unique(log.episode, return_inverse=True)[1] % 2 == 0
    halves = [
        _judge(problem.part(judges), algorithm.improve(problem.part(~judges)))
        for judges in (first, ~first)
    ]
    terms, weight = (np.concatenate(part) for part in zip(*halves, strict=True))
    warnings = [*_looks(result, delta), *weight_warnings(weight)]
    estimate, ends = float(terms.mean()), student_t(terms, delta / 2)
    if result.problem.gamma < 1.0:
        reach = ReturnRange.of(result.problem.values, None, terms)
        estimate, ends, told = reach.kept_inside(estimate, ends)
        warnings += told
    return CrossFit(estimate, ends, float(effective_sample_size(weight)), tuple(warnings))


def _looks(result: Improvement, delta: float) -> tuple[str, ...]:
    """Say where log and policy look like those on which approximate intervals fail."""
    if not result.certificate.states.moved.any():
        return few_warnings(result.problem.episodes().n_episodes)
    off = OffPolicy.of(result.problem, result.policy)
    return (
        *log_warnings(off, result.problem),
        *sample_warnings(off, result.problem, delta),
    )


def _judge(half: Problem, made: Improvement) -> tuple[Array, Array]:
    """Return doubly robust terms of one half's episodes, and their weights."""
    off = OffPolicy.of(half, made.policy)
    if (off.policy == off.baseline).all():
        # The log's own policy needs no estimator.
        return off.episodes.returns(off.gamma), np.ones(len(off.episodes))
    statistic, weight = off.statistic("dr", np.random.default_rng(0)), off.weight("dr")
    assert statistic.terms is not None, "doubly robust is a mean"
    assert weight is not None, "of weighted terms"
    return statistic.terms, weight
