r"""What an extreme reward that the log happens not to hold could cost.

A pair i that was tried N_i times may pay an extreme with probability p_i and never have shown it:
all of them stay hidden with probability prod_i (1 - p_i)^N_i <= exp(-sum_i N_i p_i). So unless
sum_i N_i p_i <= log(1 / delta), one would have been seen with probability 1 - delta. With weights
l_i = d(x) |pi - pi_b|(a | x), d the policy's discounted visits, and g_i how far the known range of
rewards reaches beyond what the pair has paid (below where the policy takes it more often, above
where less), the gain that is hidden is at most

    max sum_i l_i p_i g_i  over  sum_i N_i p_i <= log(1 / delta)  =  log(1 / delta) max_i l_i g_i /
    N_i.

Approximate bounds know nothing of this: they take the sample to show what can happen. The visits
are those in the estimated model, so this figure is an estimate, not a bound.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from spibb.data.log import Log
from spibb.mdp.batch import ModelBatch
from spibb.mdp.visits import discounted_visits
from spibb.uncertainty.ranges import ValueRange

Array = NDArray[np.float64]


def hidden_loss(
    log: Log,
    batch: ModelBatch,
    problem: int,
    policy: Array,
    baseline: Array,
    rewards: ValueRange,
    delta: float,
) -> float:
    """Return what hidden extremes could take from the gain of a policy over the baseline.

    Args:
        log: The log.
        batch: Estimated models.
        problem: Which of them belongs to the log.
        policy: Shape (S, A).
        baseline: Shape (S, A).
        rewards: The range of rewards; one that was only observed hides nothing.
        delta: Probability that an extreme stays hidden though it is likelier.
    """
    if rewards.is_observed or (policy == baseline).all():
        return 0.0
    pair = log.state * log.n_actions + log.action
    n = np.bincount(pair, minlength=policy.size).reshape(policy.shape)
    least, most = np.full(policy.size, rewards.high), np.full(policy.size, rewards.low)
    np.minimum.at(least, pair, log.reward)
    np.maximum.at(most, pair, log.reward)
    gap = np.where(
        policy > baseline,
        least.reshape(policy.shape) - rewards.low,
        rewards.high - most.reshape(policy.shape),
    )
    visits = discounted_visits(batch, problem, policy)
    weight = visits[:, None] * np.abs(policy - baseline) * gap
    seen = np.minimum(1.0, -math.log(delta) / np.maximum(n, 1))
    never = float(weight[n == 0].sum())  # nothing is known of these at all
    return never + float(np.where(n > 0, weight * seen, 0.0).max(initial=0.0))
