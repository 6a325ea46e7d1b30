"""What halves of a log say of each other's policies: by the posterior, and by episodes.

A policy that is made of half of a log gains less, but the other half judges it with hardly any
selection bias: only its setting was chosen on the whole log. The posterior assumes that the
recorded state is all that matters. Episodes, weighted by how likely the policy is to act as they
did, do not. Where they contradict an expected gain, the models are not to be trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.errors import SpibbError
from spibb.mdp.policy import TabularPolicy
from spibb.ope.bounds import student_t
from spibb.ope.off_policy import OffPolicy
from spibb.ope.weights import effective_sample_size
from spibb.posterior.gain_moments import GainMoments
from spibb.posterior.model import PosteriorModel
from spibb.problem import Problem

Array = NDArray[np.float64]

# Fewer are not halved.
FEWEST_EPISODES = 8
# Longer logs are not weighted: their model is compared with them anyway.
_MOST_ROWS = 1_000_000


class HeldOut(NamedTuple):
    """What the episodes of each half earn more, weighted, under the policy made of the other half.

    Attributes:
        gain: Mean of the doubly robust terms less the returns.
        interval_95: Where it lies at 95 %, approximately: weights may hide what is rare.
        ess: Effective number of episodes.
    """

    gain: float
    interval_95: tuple[float, float]
    ess: float


class Halves(NamedTuple):
    """What halves of a log say.

    Attributes:
        expected: What each half expects of the policy that the other half makes, on average, apart
            from losses that it has not shown.
        held_out: What the episodes themselves say; None where they are too many, or too few.
    """

    expected: float
    held_out: HeldOut | None


def ask_halves(problem: Problem, made: Callable[[Problem], Array]) -> Halves | None:
    """Let each half of the episodes judge what is made of the other; None where they are too few.

    Args:
        problem: The log and its baseline.
        made: Makes a policy of a problem.
    """
    log = problem.log
    if log is None or log.episode is None or log.n_episodes < FEWEST_EPISODES:
        return None
    first = log.is_in_first_half
    try:
        halves = [problem.part(first), problem.part(~first)]
        policies = [made(half) for half in reversed(halves)]
    except SpibbError:  # a half may be too little for an algorithm, or hold no transition
        return None
    expected, terms, weights = [], [], []
    for half, policy in zip(halves, policies, strict=True):
        if len(log) <= _MOST_ROWS:
            off = OffPolicy.of(half, TabularPolicy(policy))
            found, weight = off.robust_terms()
            terms.append(found - off.episodes.returns(off.gamma))
            weights.append(weight)
        expected.append(GainMoments.of(PosteriorModel.of(half)).gains(policy[None])[0].shown)
    held_out = None if not terms else _held_out(np.concatenate(terms), np.concatenate(weights))
    return Halves(float(np.mean(expected)), held_out)


def _held_out(terms: Array, weights: Array) -> HeldOut | None:
    ends = student_t(terms, 0.025)
    if not np.isfinite([terms.mean(), *ends]).all():
        return None
    return HeldOut(float(terms.mean()), ends, float(effective_sample_size(weights)))
