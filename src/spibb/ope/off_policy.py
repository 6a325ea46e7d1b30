"""A policy and the episodes of another, by which it is estimated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spibb.data.estimate import Unseen
from spibb.mdp.policy import TabularPolicy
from spibb.ope.estimators import ESTIMATORS
from spibb.ope.statistics import Array, Statistic
from spibb.ope.trajectories import Trajectories
from spibb.ope.weights import Tables, Walk, walk
from spibb.problem import Problem
from spibb.settings import checked_entry


@dataclass(frozen=True, eq=False)
class OffPolicy:
    """One policy to be estimated on the episodes of another.

    Attributes:
        episodes: The episodes of the log.
        policy: Probabilities of the policy, shape (S, A).
        baseline: Probabilities of the policy that made the log, shape (S, A).
        gamma: The discount.
        unseen: What pairs without data do in fitted models.
    """

    episodes: Trajectories
    policy: Array
    baseline: Array
    gamma: float
    unseen: Unseen = "average"

    @classmethod
    def of(cls, problem: Problem, policy: TabularPolicy) -> OffPolicy:
        """Take the episodes of a problem, and a policy in its states and actions."""
        tables = policy.probabilities, problem.baseline.probabilities
        return cls(Trajectories.from_log(problem.log), *tables, problem.gamma, problem.unseen)

    @cached_property
    def plain(self) -> Walk:
        """Weights, returns and per-decision estimates of all episodes."""
        return walk(self.episodes, [(self.episodes.everything, self.tables())], self.gamma)

    def tables(self, q: Array | None = None) -> Tables:
        """Return what a walk looks up, with Q^ of shape (S, A) if given."""
        return Tables.of(self.policy[None], self.baseline, None if q is None else q[None])

    @property
    def unsupported(self) -> Array:
        """Probability that the policy leaves to actions the baseline never takes, in each state."""
        return np.asarray(np.where(self.baseline == 0.0, self.policy, 0.0).sum(axis=1))

    @cached_property
    def largest_weight(self) -> float:
        """The largest weight an episode can have, known before any data.

        Infinite where episodes go on, or where the policy leaves the baseline's support: there
        weights have a mean below 1.
        """
        if not self.episodes.ended.all() or (self.unsupported > 0.0).any():
            return math.inf
        return float(self.tables().ratio.max())

    def weight(self, name: str) -> Array | None:
        """Return the weights whose degeneration spoils an estimator, shape (n,), if it has any."""
        found = checked_entry(name, ESTIMATORS, "estimator")
        return found.weight(self.plain)[:, 0] if found.is_weighted else None

    def statistic(self, name: str, rng: np.random.Generator) -> Statistic:
        """Return the estimate of the policy's value by an estimator's id; ``rng`` makes folds."""
        return checked_entry(name, ESTIMATORS, "estimator").statistic(self, rng)

    def robust_terms(self) -> tuple[Array, Array]:
        """Return the doubly robust terms of the episodes, and their weights.

        The log's own policy needs no estimator: returns, each of which counts alike.
        """
        if (self.policy == self.baseline).all():
            return self.episodes.returns(self.gamma), np.ones(len(self.episodes))
        weight = self.weight("dr")
        assert weight is not None, "doubly robust terms are weighted"
        return self.statistic("dr", np.random.default_rng(0)).terms, weight
