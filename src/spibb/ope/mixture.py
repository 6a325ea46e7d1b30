r"""Episodes of several policies as those of one: their mixture, episode by episode.

If n_k of n episodes were made by policy pi_k, an episode of the log is as likely as one of a
mixture that draws a policy with probability n_k / n and keeps to it. Weights are ratios to that:

    w_t = prod_{s <= t} pi(a_s | x_s) / sum_k (n_k / n) prod_{s <= t} pi_k(a_s | x_s),

which is what probabilities of the logged action given all that came before multiply to:

    b_t = sum_k (n_k / n) prod_{s <= t} pi_k  /  sum_k (n_k / n) prod_{s < t} pi_k.

So b_t stands for the propensity of each row, and every estimator stays what it is; means of terms
are unbiased though n_k are fixed, since the mean of all episodes is that of their policies,
weighted by n_k / n. The product of mixtures step by step, sum_k (n_k / n) pi_k(a | x), is another
process, and weights by it are biased. Bounds by betting hold at the end of the log: a product of
terms of different means is largest where the means are the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from spibb.errors import SettingsError
from spibb.ope.trajectories import Trajectories
from spibb.problem import Problem
from spibb.problem.loggers import BehaviourPolicies, acts_alone

Array = NDArray[np.float64]


def all_episodes(problem: Problem) -> Trajectories:
    """Return the episodes of all policies of a problem, with their propensities in the mixture.

    Episodes in which several acted are left out.
    """
    loggers = problem.loggers
    if loggers is None:
        raise SettingsError(
            "all_episodes, but one policy made the log",
            expected="a log that names several policies (column 'policy')",
        )
    problem.check_state()
    names = _acting(loggers)
    lacking = [name for name in names if name not in loggers.policies]
    if lacking:
        raise SettingsError(
            f"all_episodes, but the baseline of {lacking[0]!r} is not given",
            expected="one for each policy: weights need what each of them would have done",
            hint=f"give it (--baseline {lacking[0]}=FILE)",
        )
    episodes = Trajectories.from_log(loggers.whole.take(acts_alone(loggers.whole)))
    tables = [loggers.policies[name].probabilities for name in names]
    shares = np.array([loggers.n_episodes[name] for name in names], dtype=np.float64)
    return replace(episodes, logged=mixed_propensities(episodes, tables, shares / shares.sum()))


def mixed_support(problem: Problem) -> NDArray[np.bool_] | None:
    """Return what any of the policies may do, (S, A); None where a table of theirs is estimated."""
    loggers = problem.loggers
    assert loggers is not None, "asked of mixtures"
    policies = [loggers.policies[name] for name in _acting(loggers)]
    if any(one.is_estimated for one in policies):
        return None
    return np.asarray(np.any([one.probabilities > 0.0 for one in policies], axis=0))


def _acting(loggers: BehaviourPolicies) -> list[str]:
    """Return the policies that made episodes alone."""
    return [name for name, n in loggers.n_episodes.items() if n]


def mixed_propensities(episodes: Trajectories, tables: list[Array], shares: Array) -> Array:
    """Return b_t of every row.

    Args:
        episodes: The episodes.
        tables: Probabilities of each policy, shape (S, A).
        shares: n_k / n.
    """
    taken = np.stack([table[episodes.state, episodes.action] for table in tables])
    # Products are sums of logarithms; what one policy cannot have done it does not do later on.
    summed = _running(episodes, np.log(np.where(taken > 0.0, taken, 1.0)))
    ruled_out = _running(episodes, (taken == 0.0).astype(np.float64)) > 0.0
    mixed = logsumexp(np.where(ruled_out, -np.inf, summed), axis=0, b=shares[:, None])
    before = np.append(0.0, mixed[:-1])
    before[episodes.start[:-1]] = 0.0
    return np.asarray(np.minimum(np.exp(mixed - before), 1.0))


def _running(episodes: Trajectories, values: Array) -> Array:
    """Return sums along each episode, shape (K, rows)."""
    total = values.cumsum(axis=1)
    first = episodes.start[:-1]
    return np.asarray(total - np.repeat(total[:, first] - values[:, first], episodes.lengths, 1))
