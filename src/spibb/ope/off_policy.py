"""A policy and the episodes of another, by which it is estimated.

Weights are looked up in tables by state and action, or by row: where the log records how likely
each logged action was (propensity), or what the policy to be estimated gives it
(target_probability). Rows are then looked up as if each were a state of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spibb.data.estimate import Unseen
from spibb.errors import SettingsError
from spibb.mdp.policy import TabularPolicy
from spibb.ope.estimators import ESTIMATORS
from spibb.ope.estimators.base import WeightedEstimator
from spibb.ope.rare_rewards import CAPPED_SHARE
from spibb.ope.statistics import Array, Statistic
from spibb.ope.trajectories import Trajectories
from spibb.ope.weights import ImportanceWeights, Tables, walk
from spibb.problem import Problem
from spibb.settings import checked_entry

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class OffPolicy:
    """One policy to be estimated on the episodes of another.

    Attributes:
        episodes: The episodes of the log.
        policy: Probabilities of the policy, shape (S, A); None: the log's target_probability.
        baseline: Probabilities of the policy that made the log, shape (S, A).
        gamma: The discount.
        unseen: What pairs without data do in fitted models.
        is_mixed: Whether the episodes are those of several policies (spibb.ope.mixture).
        support: What behaviour policies may do, as far as given tables tell, flags of shape (S, A);
            None: no table does.
    """

    episodes: Trajectories
    policy: Array | None
    baseline: Array
    gamma: float
    unseen: Unseen = "average"
    is_mixed: bool = False
    support: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, problem: Problem, policy: TabularPolicy | None) -> OffPolicy:
        """Take the episodes of a problem, and a policy in its states and actions.

        None for a policy that the log alone knows, by target_probability.
        """
        baseline = problem.baseline
        tables = None if policy is None else policy.probabilities, baseline.probabilities
        return cls(
            Trajectories.from_log(problem.log),
            *tables,
            problem.gamma,
            problem.unseen,
            support=None if baseline.is_estimated else baseline.probabilities > 0.0,
        )

    @property
    def is_by_row(self) -> bool:
        """Whether weights are those of rows, not of states and actions."""
        return self.policy is None or self.episodes.logged is not None

    @property
    def table(self) -> Array:
        """Probabilities of the policy, for estimators that need all of them."""
        assert self.policy is not None, "estimators that need it are refused without it"
        return self.policy

    @cached_property
    def logged(self) -> Array:
        """Probability of the action of each row under the policy that acted."""
        rows = self.episodes
        return self.baseline[rows.state, rows.action] if rows.logged is None else rows.logged

    @property
    def wanted(self) -> Array:
        """Probability of the action of each row under the policy to be estimated."""
        rows = self.episodes
        if self.policy is not None:
            return np.asarray(self.policy[rows.state, rows.action])
        assert rows.target is not None, "evaluations without a policy are of the log's target"
        return rows.target

    @cached_property
    def walked(self) -> Trajectories:
        """The episodes as walks go along them, by the tables of :meth:`tables`."""
        return self.episodes.by_row() if self.is_by_row else self.episodes

    @property
    def of_baseline(self) -> OffPolicy:
        """The policy that acted, on its own episodes: every weight is 1."""
        if self.is_by_row:
            return replace(self, policy=None, episodes=replace(self.episodes, target=self.logged))
        return replace(self, policy=self.baseline)

    @cached_property
    def plain(self) -> ImportanceWeights:
        """Weights, returns and per-decision estimates of all episodes."""
        return walk(self.walked, [(self.episodes.everything, self.tables())], self.gamma)

    def tables(self, q: Array | None = None) -> Tables:
        """Return what a walk looks up, with Q^ of shape (S, A) if given."""
        if not self.is_by_row:
            return Tables.of(self.table[None], self.baseline, None if q is None else q[None])
        rows, ratio = self.episodes, self.wanted / self.logged
        offset = np.zeros_like(ratio)
        if q is not None:
            v = (self.table * q).sum(axis=1)
            offset = v[rows.state] - ratio * q[rows.state, rows.action]
        return Tables(ratio[:, None, None], offset[:, None, None])

    @property
    def unsupported(self) -> Array:
        """Probability that the policy leaves to actions the baseline never takes, in each state."""
        if self.policy is None:
            return np.zeros(len(self.baseline))
        return np.asarray(np.where(self.baseline == 0.0, self.policy, 0.0).sum(axis=1))

    @property
    def leaves_support(self) -> bool:
        """Whether the policy takes actions that, by given tables, no behaviour policy takes."""
        if self.policy is None or self.support is None:
            return False
        return bool((self.policy[~self.support] > 0.0).any())

    @cached_property
    def largest_weight(self) -> float:
        """The largest weight an episode can have, known before any data.

        Infinite where episodes go on, where the policy leaves the baseline's support, so that
        weights have a mean below 1, and where weights are those of rows: others may be larger.
        """
        return self._largest_ratio if self.episodes.ended.all() else math.inf

    @cached_property
    def _largest_ratio(self) -> float:
        """The largest weight that one step can have, by tables; infinite where they do not tell."""
        if self.is_by_row or (self.unsupported > 0.0).any():
            return math.inf
        return float(self.tables().ratio.max())

    def largest_for(self, given: float | None, *, is_exact: bool) -> float:
        """Return the largest weight that a bound may rest on; infinite where there is none.

        An approximate bound takes the log to show what weights there are, where they are those of
        rows; an exact one needs it to be known beforehand. Where a given table shows that the
        policy does what no behaviour policy does, weights have a mean below 1, and there is none.

        Whether episodes go on is seen in the log, and ends that are chosen by it fail more often
        than each of them. So an exact bound uses the largest weight where the user says that
        nothing follows a row, by gamma = 0 or by giving it. See `share_of_plain`.

        Args:
            given: What the user knows it to be.
            is_exact: Whether the bound is exact.
        """
        is_one_step, seen = bool(self.episodes.ended.all()), float(self.plain.weight.max())
        if given is not None:
            if not is_one_step:
                raise SettingsError(
                    "largest_weight is given, and not every row of the log ends its process",
                    expected="a one-step log: weights of longer episodes are products",
                )
            if given < seen * (1.0 - _ROUNDING):
                raise SettingsError(
                    f"largest_weight is {given:g}, and the log has a weight of {seen:g}",
                    expected="the largest that an action may have: probability under the policy "
                    "over probability when it was logged",
                )
            least = self.largest_weight * (1.0 - _ROUNDING)
            if not self.is_by_row and given < least < math.inf:
                raise SettingsError(
                    f"largest_weight is {given:g}, and by the tables of policy and baseline a "
                    f"weight may be {self.largest_weight:g}",
                    expected="no largest_weight beside tables, which say what it is",
                )
        if self.leaves_support:
            return math.inf
        if not self.is_by_row:
            is_told = not is_exact or given is not None or self.gamma == 0.0
            return self.largest_weight if is_told else math.inf
        if given is not None:
            return given
        return seen if is_one_step and not is_exact else math.inf

    def share_of_plain(self, given: float | None) -> float:
        """Return what plain terms have of the level of exact ends where no others are used.

        With gamma = 0 and tables, others would be used if every episode of the log had ended: their
        share is theirs whatever the log shows. A largest weight that is given is refused if not.
        """
        is_kept = self.gamma == 0.0 and given is None and 1.0 < self._largest_ratio < math.inf
        return 1.0 - CAPPED_SHARE if is_kept and not self.episodes.ended.all() else 1.0

    def weight(self, name: str) -> Array | None:
        """Return the weights whose degeneration spoils an estimator, shape (n,), if it has any."""
        found = checked_entry(name, ESTIMATORS, "estimator")
        return found.weight(self.plain)[:, 0] if isinstance(found, WeightedEstimator) else None

    def statistic(self, name: str, rng: np.random.Generator) -> Statistic:
        """Return the estimate of the policy's value by an estimator's id; ``rng`` makes folds."""
        return checked_entry(name, ESTIMATORS, "estimator").statistic(self, rng)

    def robust_terms(self) -> tuple[Array, Array]:
        """Return the doubly robust terms of the episodes, and their weights.

        The log's own policy needs no estimator: returns, each of which counts alike.
        """
        if (self.table == self.baseline).all():
            return self.episodes.returns(self.gamma), np.ones(len(self.episodes))
        weight = self.weight("dr")
        assert weight is not None, "doubly robust terms are weighted"
        return self.statistic("dr", np.random.default_rng(0)).terms, weight
