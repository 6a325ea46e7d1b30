r"""What it costs to have estimated the baseline from the log it made.

With pi^ = N(x, a) / N(x) from n independent episodes of at most H steps, with probability 1 - delta

    rho(pi_b) - rho(pi^) <= 2 V_max [H sqrt((2 / n)(|X| |A| log 2 + log(H (H + 1) / delta)))
                                     + gamma^H / (1 - gamma)].

Derivation (docs/guarantees.md). By Proposition 1 the difference is sum_x d(x) f(x) with d the
discounted visits of pi_b and f(x) = sum_a Q(x, a) (pi_b - pi^)(a | x), Q of pi^. Visits after step
H weigh at most gamma^H / (1 - gamma). For the others d is at most the expected number u of visits,
and sum_x u |f| = sum_{x, a} s(x) (Q - V)(x, a) (U - W)(x, a), where s is the sign of f, W the mean
counts of an episode and U their expectation, because sum_a Q pi^ = V. Hence at most 2 V_max ||U -
W||_1, and Hoeffding over the 2^(|X| |A|) sign vectors bounds the L1 norm of a mean of n vectors of
norm at most H. It holds for all H at once, each with its share delta / (H (H + 1)): the length of
the longest episode is seen in the log, not fixed in advance.

(Simao, Laroche and Tachet des Combes, AAMAS 2020, treat the same question.)
"""

from __future__ import annotations

import math

import numpy as np

from spibb.certify.certificate import Condition
from spibb.certify.checks import none_of
from spibb.data.log import Log
from spibb.problem.ranges import ValueRange


def estimation_loss(
    values: ValueRange, n_pairs: int, n_episodes: int, longest: int, delta: float
) -> float:
    """Return how much better than its estimate the true baseline may be."""
    log_term = n_pairs * math.log(2) + math.log(longest * (longest + 1)) - math.log(delta)
    spread = longest * math.sqrt(2 / n_episodes * log_term)
    return 2 * values.v_max * (spread + values.gamma**longest / (1 - values.gamma))


def recorded_in_full(log: Log) -> tuple[Condition, int, int]:
    """Check that every episode is recorded to its end, or to the longest length H.

    Returns:
        The condition, the number of episodes and H.
    """
    statement = "every episode is recorded to its end, or to the length of the longest"
    if log.episode is None or log.is_first is None:
        return Condition("full-record", statement, is_checked=False), 0, 0
    first = np.flatnonzero(log.is_first)
    lengths = np.diff(np.append(first, len(log)))
    longest = int(lengths.max())
    last = np.append(first[1:], len(log)) - 1
    short = ~log.terminated[last] & (lengths < longest)
    where = f"episode {log.episode[first][np.argmax(short)]}" if short.any() else None
    condition = none_of("full-record", statement, int(short.sum()), where)
    return condition, len(first), longest
