"""What HCPI learns from the training split: candidate policies, and their values in its model.

Everything is learnt once from each *training set*: the training split without each of its folds in
turn, which serves the choice, and the whole of it, which serves the test. The training sets of many
problems run as one batch. Axes: P problems, L training sets each, F = P L in all, C candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.iterating import Step, iterate
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import update_values
from spibb.mdp.planning import SearchResult
from spibb.ope.fitted import FittedModels, fit_models, residual_scale
from spibb.ope.split import Split, all_but_one
from spibb.ope.weights import ImportanceWeights, Tables, walk
from spibb.operators.rows import Operator
from spibb.problem import Problem, ProblemBatch

if TYPE_CHECKING:
    from spibb.algorithms.hcpi import HCPI

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Critic:
    """Q^ for doubly robust terms: values in models in which the end of a record is an end.

    Doubly robust terms are unbiased for any Q^. One that is fitted to the same rows as a candidate
    overrates it, so that large weights meet negative surprises: a tail on the unsafe side, and a
    test that passes too often. Rewards lowered by standard errors put the tail on the other side.

    Attributes:
        lowered: The models, with rewards lowered by standard errors.
        q_b: Q of the baseline in the models as they are, shape (F, S, A).
    """

    lowered: ModelBatch
    q_b: Array

    @classmethod
    def of(
        cls, fitted: FittedModels, splits: Sequence[Split], baseline: Array, pessimism: float
    ) -> Critic:
        """Evaluate the baseline; its residuals in all that a problem trains on give the spread."""
        models, n_sets = fitted.recorded, len(baseline) // len(splits)
        v_b, q_b = _values(models, baseline)
        last = slice(n_sets - 1, None, n_sets)
        scale = [
            residual_scale(split.episodes, split.train, v, q, models.gamma)
            for split, v, q in zip(splits, v_b[last], q_b[last], strict=True)
        ]
        error = np.repeat(scale, n_sets)[:, None, None] / np.sqrt(np.maximum(fitted.n_sa, 1.0))
        return cls(replace(models, reward=models.reward - pessimism * error), q_b)

    def q(self, policies: Array, places: NDArray[np.int64] | None = None) -> Array:
        """Return Q^ of one policy a training set (F, S, A), or of C of them (F, C, S, A)."""
        if policies.ndim == 3:
            return _values(self.lowered, policies, places)[1]
        return np.stack([self.q(one.copy()) for one in np.moveaxis(policies, 1, 0)], axis=1)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of P problems.

    Attributes:
        policies: Candidates of each training set, then the baseline, shape (F, C + 1, S, A).
        tables: What walks along the folds look up.
        critic: Where the Q^ comes from.
        searches: How candidates were found, set by set: one for each, or one for all.
        splits: The episodes of the problems.
        gamma: The discount.
        n_sets: L.
    """

    policies: Array
    tables: Tables
    critic: Critic | None
    searches: Sequence[SearchResult]
    splits: Sequence[Split]
    gamma: float
    n_sets: int

    def cross_fitted(self, problem: int) -> ImportanceWeights:
        """Walk along the training episodes with all candidates, each fold as the others teach."""
        first, split = problem * self.n_sets, self.splits[problem]
        parts = [(fold, self.tables.at(first + k)) for k, fold in enumerate(split.folds)]
        return walk(split.episodes, parts, self.gamma)

    def result(self, problem: int, choice: int) -> tuple[Array, int, object]:
        """Return a candidate as the whole split taught it, its steps, and how its search ended."""
        last = (problem + 1) * self.n_sets - 1
        search = self.searches[choice if len(self.searches) > 1 else 0]
        return self.policies[last, choice], int(search.n_iterations[last]), search.status[last]

    def held_out(self, choices: Sequence[int]) -> list[ImportanceWeights]:
        """Walk along the held-out episodes with one candidate of each problem."""
        last = np.arange(self.n_sets - 1, len(self.policies), self.n_sets)
        columns = np.stack([choices, np.full(len(choices), -1)], axis=1)
        both, q = self.policies[last[:, None], columns], None
        if self.critic is not None:
            policies = np.zeros(self.critic.q_b.shape)
            policies[last] = both[:, 0]
            q = np.stack([self.critic.q(policies, last), self.critic.q_b], axis=1)[last]
        tables = Tables.of(both, both[:, -1], q)
        return [
            walk(split.episodes, [(split.test, tables.at(k))], self.gamma)
            for k, split in enumerate(self.splits)
        ]


def learn(
    settings: HCPI, problems: Sequence[Problem], splits: Sequence[Split], rng: np.random.Generator
) -> Candidates:
    """Learn the candidates of P problems.

    Args:
        settings: Whose results they are, or in which proportions they are mixed.
        problems: The problems.
        splits: Their splits, all with the same number of folds.
        rng: For algorithms that need one.
    """
    n_folds, gamma, algorithms = len(splits[0].folds), problems[0].gamma, settings.candidates
    n_sets, needs_q = n_folds + 1, settings.estimator_at(gamma).needs_q
    baselines = np.stack([problem.baseline.probabilities for problem in problems])
    baseline = np.repeat(baselines, n_sets, axis=0)
    share = np.array(settings.mixtures)[None, :, None, None]

    def mixed(greedy: Array, baseline: Array) -> Array:
        """Mix tables (F, S, A) in every proportion, to (F, C, S, A)."""
        return np.asarray((1.0 - share) * greedy[:, None] + share * baseline[:, None])

    critic = q = None
    if needs_q or algorithms is None:
        choices = [(split.episodes, fold) for split in splits for fold in split.folds]
        numbers = np.arange(len(choices)).reshape(-1, n_folds).tolist()
        unions = [part for folds in numbers for part in (*all_but_one(folds), folds)]
        fitted = fit_models(choices, gamma, unseen=problems[0].unseen, unions=unions)
        if needs_q:
            critic = Critic.of(fitted, splits, baseline, settings.pessimism)
    if algorithms is None:
        # Solve the models over the actions that the baseline takes.
        allowed = np.where(baseline > 0.0, 0.0, np.inf)
        searches = [iterate(fitted.models, baseline, Step(Operator.PI_LEQ_B, allowed, 0.0))]
        found = mixed(searches[0].policy, baseline)
    else:
        pairs = zip(problems, splits, strict=True)
        sets = [_part(one, part) for one, split in pairs for part in split.training_sets]
        batch = ProblemBatch.of(sets)
        searches = [algorithm.search(batch, rng) for algorithm in algorithms]
        found = _supported(np.stack([part.policy for part in searches], axis=1), baseline)
    policies = np.concatenate([found, baseline[:, None]], axis=1)
    if critic is not None:
        # The Q^ of a mixture is the mixture of the Q^: near enough for the choice.
        is_mixed = algorithms is None
        q = mixed(critic.q(searches[0].policy), critic.q_b) if is_mixed else critic.q(found)
        q = np.concatenate([q, critic.q_b[:, None]], axis=1)
    tables = Tables.of(policies, baseline, q)
    return Candidates(policies, tables, critic, searches, splits, gamma, n_sets)


def _values(
    models: ModelBatch, policies: Array, places: NDArray[np.int64] | None = None
) -> tuple[Array, Array]:
    """Return V and Q, 0 where gamma = 1 and the policy does not end: any values will do."""
    places = np.arange(len(policies)) if places is None else places
    v, q = np.zeros(policies.shape[:2]), np.zeros(policies.shape)
    update_values(models, policies, places, v, q)
    return v, q


def _supported(policies: Array, baseline: Array) -> Array:
    """Give probability of actions that the baseline never takes back to the baseline.

    Weights cannot see what the baseline never does.
    """
    taken = np.where(baseline[:, None] > 0.0, policies, 0.0)
    lost = (policies - taken).sum(axis=3, keepdims=True)
    return np.where(lost > 0.0, taken + lost * baseline[:, None], policies)


def _part(problem: Problem, chosen: NDArray[np.int64]) -> Problem:
    """Return what some episodes alone would show: the test must stay unseen."""
    log = problem.episodes()
    assert log.is_first is not None  # as it has episodes
    return problem.part(np.isin(np.cumsum(log.is_first) - 1, chosen))
