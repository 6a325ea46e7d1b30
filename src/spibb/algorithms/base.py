"""What all algorithms share: frozen settings, one verb, and the certificate on its result.

An algorithm says how it searches (`search`, on a batch of problems) and which theorem it was
published with (`claim`); everything else happens here, once. Whatever it returns is held to the
regret test.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.improvement import Improvement
from spibb.certify.audit import certify
from spibb.certify.case import Case
from spibb.certify.certificate import Certificate, Guarantee
from spibb.certify.robust import regret_test
from spibb.errors import SettingsError
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import Evaluation
from spibb.mdp.planning import SearchResult
from spibb.mdp.policy import TabularPolicy
from spibb.posterior.choice import Choice, ModelKind
from spibb.posterior.model import PosteriorModel
from spibb.problem import Problem, ProblemBatch, ProblemOptions
from spibb.problem.problem import Baseline
from spibb.settings import Settings
from spibb.uncertainty.error_functions import ErrorFunction, HoeffdingQ, checked_delta

# Source of randomness; None: always the same numbers.
Rng = np.random.Generator | None
# Level of the regret test, and of theorems for algorithms that have no delta of their own.
DEFAULT_DELTA = 0.05


@dataclass(frozen=True, kw_only=True)
class Algorithm(Settings):
    """Base of the algorithms: immutable settings and `improve`."""

    family: ClassVar[str] = "algorithm"
    # Whether the budget by which the distance to the baseline is judged is for increases only.
    is_one_sided: ClassVar[bool] = False
    # Whether policies keep to the limits of a problem: by a row step that knows them.
    keeps_limits: ClassVar[bool] = False
    # Whether it steps by the Q of the estimated model, which ``min_gain`` is about.
    keeps_min_gain: ClassVar[bool] = False
    # Whether its steps let no cost rise.
    keeps_costs: ClassVar[bool] = False

    @classmethod
    def members(cls) -> Iterator[tuple[str, type[Self]]]:
        """Return the algorithms of the package, and others that have been imported."""
        import spibb.algorithms.registry  # noqa: F401

        yield from super().members()

    @abstractmethod
    def search(self, problems: ProblemBatch, rng: Rng = None) -> SearchResult:
        """Find a policy for each problem; values are those in the estimated models."""

    def claim(self, case: Case, finding: Any = None) -> Guarantee | None:
        """Return the theorem or test that this algorithm was published with, applied to a result.

        Args:
            case: The result, with all that a theorem may look at.
            finding: What `search` left for this problem in its findings, if anything.
        """
        return None

    @property
    def leads_with_claim(self) -> bool:
        """Whether the certificate claims this algorithm's own test instead of the regret test."""
        return False

    @property
    def needs_log(self) -> bool:
        """Whether counts do not suffice."""
        return False

    @property
    def yardstick(self) -> tuple[ErrorFunction, float | None]:
        """The errors and the budget by which the distance to the baseline is judged."""
        return HoeffdingQ(), None

    def improve(
        self,
        log: Any,
        *,
        baseline: Baseline | None = None,
        gamma: float | None = None,
        certificate_delta: float = DEFAULT_DELTA,
        rng: Rng = None,
        **options: Unpack[ProblemOptions],
    ) -> Improvement:
        """Improve the baseline on the evidence of its log.

        Args:
            log: The log that the baseline made: a Log, a pandas, polars or Arrow table, counts
                where they suffice; or a :class:`spibb.Problem`, which has all the rest.
            baseline: The policy that made the log, or "estimate".
            gamma: The discount, in [0, 1]; 1 where every policy in play ends.
            certificate_delta: Allowed probability of error of the certificate's regret test.
            rng: Source of randomness, for algorithms that need one.
            **options: What else is known, as for :meth:`spibb.Problem.of`: reward_range, initial,
                unseen, states_complete, never_ends, successors, accept_baseline, limits,
                improve_on, features, minimize.
        """
        problem = Problem.of(log, baseline=baseline, gamma=gamma, **options)
        self.check(problem)
        level = checked_delta(certificate_delta, "certificate_delta")
        found = self.search(ProblemBatch.alone(problem), rng)
        counts = problem.counts
        policy = TabularPolicy(
            found.policy[0],
            counts.state_labels,
            counts.action_labels,
            log_hash=None if problem.whole is None else problem.whole.content_hash,
            minimize=problem.minimize,
        )
        values = Evaluation.of(problem.model, policy, found.v[0], found.q[0])
        case = Case(problem, values, float(getattr(self, "delta", DEFAULT_DELTA)))
        finding = None if found.findings is None else found.findings[0]
        return Improvement(
            problem=problem,
            values=values,
            status=found.status[0],
            n_iterations=int(found.n_iterations[0]),
            certificate=self._certify(case, finding, level),
            algorithm=self.to_config(),
            choice=finding if isinstance(finding, Choice) else None,
            recipe=self.recipe(finding),
        )

    def check(self, problem: Problem) -> None:
        """Refuse a log that no model of its states fits, and limits that would not be kept."""
        problem.check_state()
        limits = problem.limits
        if limits is None:
            return
        needed = ["keeps_limits"]
        needed += [] if limits.min_gain is None else ["keeps_min_gain"]
        needed += ["keeps_costs"] if limits.cost else []
        if not all(getattr(self, one) for one in needed):
            able = [
                name
                for name, kind in Algorithm.known().items()
                if all(getattr(kind, one) for one in needed)
            ]
            raise SettingsError(
                f"{self.id} does not keep the limit{'s' * (len(limits.given) > 1)} "
                f"{', '.join(limits.given)}",
                expected=f"one of {', '.join(able)}",
                hint="choose one of those, or leave the limits out",
            )

    def recipe(self, finding: Any) -> Callable[[Problem], NDArray[np.float64]]:
        """Return how the policy was made, so that it can be made of another problem.

        Args:
            finding: What `search` left for this problem in its findings, if anything.
        """
        return PolicyRecipe(self)

    def _certify(self, case: Case, finding: Any, level: float) -> Certificate:
        """Claim the regret test at its level, or the algorithm's own test; the other beside it."""
        error, epsilon = self.yardstick
        regret, own = regret_test(replace(case, delta=level)), self.claim(case, finding)
        claims = [regret]
        if own is not None and (own.theorem, own.delta) != (regret.theorem, regret.delta):
            claims = [own, regret] if self.leads_with_claim else [regret, own]
        return certify(case, claims, error, epsilon, is_one_sided=self.is_one_sided)


@dataclass(frozen=True)
class PolicyRecipe:
    """Make a policy of a problem as another policy was made.

    Attributes:
        algorithm: The algorithm.
        model: On which model.
    """

    algorithm: Algorithm
    model: ModelKind = "counts"

    def __call__(self, problem: Problem) -> NDArray[np.float64]:
        """Return the policy's table."""
        batch = ProblemBatch.alone(problem)
        if self.model == "posterior":
            mean = PosteriorModel.of(problem).mean_model
            batch = batch.with_models(ModelBatch.stack([mean]))
        return np.asarray(self.algorithm.search(batch).policy[0])
