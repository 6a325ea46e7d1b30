"""The record that every algorithm returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.certify.certificate import Certificate
from spibb.display import Card, Display
from spibb.mdp.evaluation import Evaluation
from spibb.mdp.planning import Status
from spibb.mdp.policy import TabularPolicy
from spibb.posterior.choice import Choice
from spibb.problem import Problem
from spibb.settings import in_words


@dataclass(frozen=True, eq=False, repr=False)
class Improvement(Display):
    """A policy, its values in the estimated model, how it was found, and what is guaranteed.

    A record: it computes nothing. :class:`spibb.Assessment` judges it.

    Attributes:
        problem: The log and the baseline, with the estimated model.
        values: The improved policy, and its values in the model.
        status: How the run ended; its value is advice.
        n_iterations: Improvement steps that were made.
        certificate: What is guaranteed and what was checked.
        algorithm: The settings, as ``to_config`` gives them.
        choice: Every candidate that was tried, where the algorithm chose among several.
        recipe: Makes a policy of another problem in the same way.
    """

    problem: Problem
    values: Evaluation
    status: Status
    n_iterations: int
    certificate: Certificate
    algorithm: dict[str, Any]
    choice: Choice | None = None
    recipe: Callable[[Problem], NDArray[np.float64]] | None = None

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
    def baseline(self) -> Evaluation:
        """The baseline, and its values in the estimated model."""
        return self.problem.baseline_values

    @property
    def performance(self) -> float:
        """Estimated performance of the policy: V averaged over the first state."""
        return self.values.performance

    @property
    def estimated_gain(self) -> float:
        """Estimated performance minus the baseline's: optimistic, as the log chose the policy."""
        return self.performance - self.baseline.performance

    def write(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write a folder with the policy, the certificate, a summary and a report, or nothing.

        Args:
            folder: Where it shall appear, when it is complete.
            overwrite: Replace an earlier result.
        """
        # The one import of a higher layer: pyproject.toml names it as an exception.
        from spibb.report.folder import write_result

        write_result(self, folder, overwrite=overwrite)

    def _card(self) -> Card:
        n_changed = int((self.certificate.states.moved > 1e-12).sum())
        facts = {
            "status": self.status.value,
            "changed": f"{n_changed:,} of {self.problem.counts.n_states:,} states",
            "guarantee": self.certificate.statement,
            "more": "spibb.Assessment.of(result) says what it would gain, and whether to deploy it",
            "files": "write(folder) writes policy, certificate, summary and report",
        }
        return Card(f"Improvement by {in_words(self.algorithm)}", facts)
