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

from spibb.mdp.batch import ModelBatch
from spibb.mdp.visits import discounted_visits
from spibb.problem import Problem

Array = NDArray[np.float64]


def hidden_loss(
    problem: Problem, models: ModelBatch, place: int, policy: Array, delta: float
) -> float:
    """Return what hidden extremes could take from the gain of a policy over the baseline.

    Args:
        problem: The problem, with its log; a range of rewards that was only observed hides nothing.
        models: Estimated models.
        place: Which of them belongs to the problem.
        policy: Shape (S, A).
        delta: Probability that an extreme stays hidden though it is likelier.
    """
    rewards, baseline = problem.values, problem.baseline.probabilities
    if rewards.is_observed or (policy == baseline).all():
        return 0.0
    log = problem.episodes()
    n = np.bincount(log.state * log.n_actions + log.action, minlength=policy.size)
    n = n.reshape(policy.shape)
    least, most = log.reward_extremes()
    below, above = (
        np.minimum(least, rewards.high) - rewards.low,
        rewards.high - np.maximum(most, rewards.low),
    )
    gap = np.where(policy > baseline, below, above)
    visits = discounted_visits(models, place, policy)
    weight = visits[:, None] * np.abs(policy - baseline) * gap
    seen = np.minimum(1.0, -math.log(delta) / np.maximum(n, 1))
    never = float(weight[n == 0].sum())  # nothing is known of these at all
    return never + float(np.where(n > 0, weight * seen, 0.0).max(initial=0.0))
