"""What every algorithm returns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.certify.certificate import Certificate
from spibb.data.counts import Counts
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import Evaluation
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import Status
from spibb.mdp.policy import TabularPolicy
from spibb.ope.log_return import LogReturn, contradiction
from spibb.ope.support import Visits, too_little_data
from spibb.problem import Problem


@dataclass(frozen=True, eq=False)
class Improvement:
    """A policy, its values in the estimated model, how it was found, and what is guaranteed.

    Attributes:
        problem: The log and the baseline, with the estimated model.
        values: The improved policy, and its values in the model.
        status: How the run ended; its value is advice.
        n_iterations: Improvement steps that were made.
        certificate: What is guaranteed and what was checked.
        algorithm: The settings, as ``to_config`` gives them.
    """

    problem: Problem
    values: Evaluation
    status: Status
    n_iterations: int
    certificate: Certificate
    algorithm: dict[str, Any]

    @property
    def policy(self) -> TabularPolicy:
        """The improved policy."""
        return self.values.policy

    @property
    def q(self) -> NDArray[np.float64]:
        """Q of that policy in the estimated model, shape (S, A)."""
        return self.values.q

    @property
    def v(self) -> NDArray[np.float64]:
        """V of that policy in the estimated model, shape (S,)."""
        return self.values.v

    @property
    def model(self) -> TabularMDP:
        """The estimated model."""
        return self.problem.model

    @property
    def baseline(self) -> Evaluation:
        """The baseline, and its values in the estimated model."""
        return self.problem.baseline_values

    @property
    def counts(self) -> Counts:
        """The counts that the model was estimated from."""
        return self.problem.counts

    @property
    def performance(self) -> float:
        """Estimated performance of the policy: V averaged over the first state."""
        return self.values.performance

    @property
    def estimated_gain(self) -> float:
        """Estimated performance minus the baseline's: flattering, as the log chose the policy."""
        return self.performance - self.baseline.performance

    @cached_property
    def log_return(self) -> LogReturn | None:
        """What the baseline earned in the log itself; None where the log has no episodes."""
        problem = self.problem
        return LogReturn.of(problem.log, problem.gamma, rewards=problem.values)

    @cached_property
    def visits(self) -> Visits:
        """On how much data the estimated values of the policy rest."""
        return self._visits(self.policy, self.v)

    @cached_property
    def baseline_visits(self) -> Visits:
        """On how much data the estimated values of the baseline rest."""
        return self._visits(self.baseline.policy, self.baseline.v)

    def _visits(self, policy: TabularPolicy, v: NDArray[np.float64]) -> Visits:
        models = ModelBatch.stack([self.model])
        table = policy.probabilities
        return Visits.of(models, table, v, self.counts.n_sa, self.model.terminal)

    @cached_property
    def withheld(self) -> str | None:
        """Why estimates of the model mean nothing here; None where they may be shown.

        More than 5 % of the visits of policy or baseline rest on pairs never seen, or more than
        half of the policy's on pairs seen fewer than five times; or the model's value of the
        baseline is more than four standard errors from the mean return of twenty complete episodes
        or more.
        """
        reason = too_little_data(self.visits, self.baseline_visits, "new policy")
        if reason is not None or self.problem.declared.initial is not None:
            return reason
        return contradiction(self.log_return, self.baseline.performance)
