"""Algorithms that plan in a more pessimistic model: RaMDP and R-MIN.

RaMDP (reward-adjusted MDP; Petrik, Ghavamzadeh, Chow, NeurIPS 2016):

    max_pi rho(pi, M~),  R~(x, a) = R^(x, a) - kappa / sqrt(N(x, a))

An unobserved pair has an infinite penalty: it is not taken, unless nothing was tried in
its state, where the baseline is kept. Nothing is taken in a terminal state, so nothing is penalised
there: the released code penalises them as if seen 1e-5 times, which makes reaching the goal
worthless from kappa = 0.00333 on (the paper's "threshold at 0.0035"). kappa = 0 is Basic RL.
Guarantee: none by itself with a free kappa.

R-MIN (R-MAX turned pessimistic; Scholl et al. 2022): pairs seen less than n_wedge times are worth
the least value there is, R_min / (1 - gamma), also where R_min is positive: ending, worth 0, would
make the unknown depend on a constant added to every reward. A state without any trusted pair keeps
the baseline; terminal states are worth 0. Guarantee: none by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import Algorithm, Rng
from spibb.algorithms.iterating import Step, iterate, iterate_limited
from spibb.errors import LARGEST, SettingsError, checked_number
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.planning import SearchResult
from spibb.operators.rows import Operator
from spibb.problem import ProblemBatch
from spibb.problem.limits import Bounds, fill_row


def plan_and_evaluate(
    problems: ProblemBatch, adjusted: ModelBatch, forbidden: NDArray[np.bool_]
) -> SearchResult:
    """Plan greedily in an adjusted model and return the values in the estimated one.

    Args:
        problems: The problems.
        adjusted: Their adjusted models.
        forbidden: Pairs that must not be taken where another is allowed, shape (B, S, A).
    """
    step = Step(Operator.GREEDY_ALLOWED, np.where(forbidden, np.inf, 0.0), np.inf)
    if problems.bounds is None:
        done = iterate(adjusted, _without(problems.baseline, forbidden), step)
    else:
        start = _without_within(problems.start, forbidden, problems.bounds)
        done = iterate_limited(problems, adjusted, start, step)
    v, q, ends = evaluate_batch(problems.models, done.policy)
    return problems.kept_where_endless(replace(done, v=v, q=q), ends)


def _without(baseline: NDArray[np.float64], forbidden: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Take forbidden actions out of the baseline; uniform over the rest if nothing remains."""
    allowed = np.where(forbidden, 0.0, baseline)
    total = allowed.sum(axis=-1, keepdims=True)
    n_allowed = (~forbidden).sum(axis=-1, keepdims=True)
    spread = np.divide(~forbidden, n_allowed, out=baseline.copy(), where=n_allowed > 0)
    return np.asarray(np.divide(allowed, total, out=spread, where=total > 0))


def _without_within(
    start: NDArray[np.float64], forbidden: NDArray[np.bool_], bounds: Sequence[Bounds]
) -> NDArray[np.float64]:
    """Do as `_without` does as far as bounds let it; what has no place elsewhere stays."""
    made = start.copy()
    for place, limit in enumerate(bounds):
        upper = limit.upper
        for x in np.flatnonzero((forbidden[place] & (start[place] > 0.0)).any(axis=1)):
            out, row = forbidden[place, x], start[place, x]
            weights = np.where(out, 0.0, row)
            if not weights.any():
                weights = (~out & (upper[x] > 0.0)).astype(float)
            filled = fill_row(weights, np.where(out, 0.0, upper[x]))
            kept = np.where(out, row, 0.0)
            made[place, x] = filled + kept * (max(0.0, 1.0 - filled.sum()) / kept.sum())
    return made


@dataclass(frozen=True, kw_only=True)
class RaMDP(Algorithm):
    """Plan with a penalty on rare pairs.

    Args:
        kappa: Penalty of a pair seen once, >= 0; that of N observations is kappa / sqrt(N).

    Example:
        Action 1 pays 2 but was seen once; with kappa = 2 its 0 is less than 1 - 2 / 4 of action 0.

        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 17, action=[0] * 16 + [1], reward=[1.0] * 16 + [2.0],
        ...                       terminated=[True] * 17, episode=list(range(17)))
        >>> RaMDP(kappa=2.0).improve(
        ...     log, baseline=TabularPolicy([[0.9, 0.1]]), gamma=0.9).policy.probabilities
        array([[1., 0.]])
    """

    kappa: float = 0.003
    id: ClassVar[str] = "ramdp"
    keeps_limits: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checked_number(self.kappa, "kappa", "a finite penalty >= 0", least=0, most=LARGEST)

    def search(self, problems: ProblemBatch, rng: Rng = None) -> SearchResult:
        """Plan in the reward-adjusted models."""
        n_sa = problems.n_sa
        unseen = (n_sa == 0) & (self.kappa > 0)
        penalty = self.kappa / np.sqrt(np.maximum(n_sa, 1))
        reward = problems.models.reward - np.where(n_sa > 0, penalty, 0.0)
        return plan_and_evaluate(problems, replace(problems.models, reward=reward), unseen)


@dataclass(frozen=True, kw_only=True)
class RMin(Algorithm):
    """Plan as if rare pairs were worth the least value there is.

    Args:
        n_wedge: How often a pair must have been seen to be trusted.

    Example:
        Action 1 pays more but was seen once only.

        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0, 0, 0], action=[0, 0, 1], reward=[1.0, 1.0, 2.0],
        ...                       terminated=[True] * 3, episode=[0, 1, 2])
        >>> RMin(n_wedge=2).improve(
        ...     log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9).policy.probabilities
        array([[1., 0.]])
    """

    n_wedge: float = 3
    id: ClassVar[str] = "r-min"
    keeps_limits: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checked_number(self.n_wedge, "n_wedge", "a number of observations >= 0", least=0)

    def search(self, problems: ProblemBatch, rng: Rng = None) -> SearchResult:
        """Plan in the models whose rare pairs end with the least value."""
        if problems.models.gamma == 1.0:
            raise SettingsError(
                "r-min with gamma = 1", expected="gamma < 1: the least value is R_min / (1 - gamma)"
            )
        batch = problems.models
        # Nothing is done in a terminal state: an unobserved pair is not rare.
        rare = (problems.n_sa < self.n_wedge) & ~problems.terminal[:, :, None]
        least = np.array([part.values.low / (1 - batch.gamma) for part in problems])
        rows = np.repeat(~rare.ravel(), np.diff(batch.indptr))
        adjusted = replace(
            batch,
            data=batch.data * rows,
            reward=np.where(rare, least[:, None, None], batch.reward),
            ending=np.where(rare, 1.0, batch.ending),
        )
        return plan_and_evaluate(problems, adjusted, rare)
