r"""What it costs to have estimated the baseline from the log it made.

With pi^ made of n independent episodes of at most H steps, in any way, W(x, a) the mean counts of
an episode and W(x) their sums over actions, with probability 1 - delta

    rho(pi_b) - rho(pi^) <= 2 V_max [H sqrt((2 / n)(|X| |A| log 2 + log(H (H + 1) / delta)))
                                     + gamma^H / (1 - gamma)]
                            + V_max sum_{x, a} |W(x, a) - W(x) pi^(a | x)|.

The last term is 0 for frequencies; it is what an estimate that is drawn towards others costs.

Derivation (docs/guarantees.md). By Proposition 1 the difference is sum_x d(x) f(x) with d the
discounted visits of pi_b and f(x) = sum_a Q(x, a) (pi_b - pi^)(a | x), Q of pi^. Visits after step
H weigh at most gamma^H / (1 - gamma). For the others d is at most the expected number u of visits,
and sum_x u |f| = sum_{x, a} s(x) (Q - V)(x, a) U(x, a), where s is the sign of f and U the
expectation of W, because sum_a Q pi^ = V. For the same reason W(x) pi^(a | x) may be subtracted
from U, which leaves two sums: with U - W, at most 2 V_max ||U - W||_1, and with W - W(x) pi^, whose
sum over actions is 0, at most V_max times its L1 norm, as Q spans 2 V_max. Hoeffding over the
2^(|X| |A|) sign vectors bounds the first norm, of a mean of n vectors of norm at most H. It holds
for all H at once, each with its share delta / (H (H + 1)): the length of the longest episode is
seen in the log, not fixed in advance.

(Simao, Laroche and Tachet des Combes, AAMAS 2020, treat the same question.)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from spibb.certify.certificate import Condition
from spibb.certify.checks import none_of
from spibb.data.log import Log
from spibb.problem.ranges import ValueRange


def estimation_loss(
    values: ValueRange,
    n_pairs: int,
    n_episodes: int,
    longest: int,
    delta: float,
    shift: float = 0.0,
) -> float:
    """Return how much better than its estimate the true baseline may be.

    Args:
        values: Range of rewards and values.
        n_pairs: |X| |A|.
        n_episodes: n.
        longest: H.
        delta: Allowed probability of error.
        shift: How far the estimate is from frequencies, by `shift_of`.
    """
    log_term = n_pairs * math.log(2) + math.log(longest * (longest + 1)) - math.log(delta)
    spread = longest * math.sqrt(2 / n_episodes * log_term)
    tail = values.gamma**longest / (1 - values.gamma)
    return values.v_max * (2 * (spread + tail) + shift)


def shift_of(log: Log, estimate: NDArray[np.float64]) -> float:
    """Return sum |W(x, a) - W(x) pi^(a | x)| of a log with episodes."""
    n = np.bincount(log.state * log.n_actions + log.action, minlength=estimate.size)
    n_sa = n.reshape(estimate.shape).astype(np.float64)
    off = np.abs(n_sa - n_sa.sum(axis=1, keepdims=True) * estimate).sum()
    return float(off) / max(1, log.n_episodes)


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
    k = int(np.argmax(short))
    rows = f"row {last[k] + 1}" if first[k] == last[k] else f"rows {first[k] + 1} to {last[k] + 1}"
    where = f"{rows} of the log, sorted by episode and step" if short.any() else None
    condition = none_of("full-record", statement, int(short.sum()), where)
    return condition, len(first), longest
