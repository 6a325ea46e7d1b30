"""Judge one policy on one problem: every question is answered when it is first asked, and once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from spibb.algorithms.improvement import Improvement
from spibb.assessment.findings import describe_values, list_findings
from spibb.assessment.pilot import PilotPlan, plan_pilot
from spibb.assessment.verdict import Verdict, decide
from spibb.certify.audit import audit
from spibb.certify.certificate import Certificate
from spibb.confounding.sensitivity import Sensitivity, find_sensitivity
from spibb.display import Card, Display
from spibb.errors import SettingsError
from spibb.inspection.inspect import Inspection, inspect_problem
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import LARGEST_DENSE, Evaluation, evaluate
from spibb.mdp.planning import Status
from spibb.mdp.policy import TabularPolicy
from spibb.ope.log_return import LogReturn
from spibb.ope.model_fit import ModelFit, find_model_fit
from spibb.ope.support import Visits, too_little_data
from spibb.posterior.choice import Choice
from spibb.posterior.cross_validation import Halves, HeldOut, ask_halves
from spibb.posterior.model import PosteriorModel
from spibb.posterior.risk import Risk, assess_risk
from spibb.posterior.states import StateRisks
from spibb.problem import Problem
from spibb.problem.origin import Origin, policy_origin
from spibb.progress import Progress, tell
from spibb.representation.agreement import Agreement, find_agreement
from spibb.settings import in_words


@dataclass(frozen=True, eq=False, repr=False)
class Assessment(Display):
    """What a log says of one policy: expected gain, risk, inspection, certificate, verdict.

    Make one with `Assessment.of`. Each property is computed when it is first read, and then kept.

    Attributes:
        problem: The log and the baseline, with the estimated model.
        policy: The policy that is judged.
        improvement: The result of the algorithm that made the policy; None for any other policy.

    Example:
        >>> from spibb import Log
        >>> log = Log.from_arrays(state=[0] * 40, action=[0] * 20 + [1] * 20,
        ...                       reward=[0.0, 1.0] * 10 + [5.0, 6.0] * 10, episode=range(40),
        ...                       terminated=[True] * 40)
        >>> problem = Problem.of(log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9)
        >>> found = Assessment.of(problem, TabularPolicy([[0.0, 1.0]]))
        >>> found.verdict.headline, found.risk.probability_of_harm < 0.001
        ('Deploy with monitoring', True)
    """

    problem: Problem
    policy: TabularPolicy
    improvement: Improvement | None = None

    @classmethod
    def of(
        cls,
        judged: Problem | Improvement,
        policy: TabularPolicy | None = None,
    ) -> Assessment:
        """Judge a policy on a problem, or what an algorithm returned.

        Args:
            judged: A problem, with the policy beside it; or the result of an algorithm, which has
                both.
            policy: The policy to judge, where a problem is given.
        """
        if isinstance(judged, Improvement) and policy is None:
            return cls(judged.problem, judged.policy, judged)
        if isinstance(judged, Problem) and isinstance(policy, TabularPolicy):
            return cls(judged, judged.align(policy), None)
        raise SettingsError(
            f"Assessment.of was given {type(judged).__name__} and {type(policy).__name__}",
            expected="a spibb.Problem and a TabularPolicy, or the result of an algorithm alone",
            hint="bring a log and its baseline together with spibb.Problem.of",
        )

    @property
    def baseline(self) -> Evaluation:
        """The baseline, and its values in the estimated model."""
        return self.problem.baseline_values

    @cached_property
    def values(self) -> Evaluation:
        """The policy, and its values in the estimated model."""
        if self.improvement is not None:
            return self.improvement.values
        return evaluate(self.problem.model, self.policy)

    @cached_property
    def certificate(self) -> Certificate:
        """What is guaranteed: as the algorithm claims it, else that of :func:`spibb.audit`."""
        if self.improvement is not None:
            return self.improvement.certificate
        return audit(self.problem, policy=self.policy)

    @property
    def choice(self) -> Choice | None:
        """Every candidate that was tried, where an algorithm chose among several."""
        return None if self.improvement is None else self.improvement.choice

    @property
    def algorithm(self) -> dict[str, Any] | None:
        """The settings of the algorithm, as ``to_config`` gives them; None without one."""
        return None if self.improvement is None else self.improvement.algorithm

    @property
    def status(self) -> Status | None:
        """How the run of the algorithm ended; None without one."""
        return None if self.improvement is None else self.improvement.status

    @cached_property
    def log_return(self) -> LogReturn | None:
        """What the baseline earned in the log itself; None where the log has no episodes."""
        problem = self.problem
        return LogReturn.of(problem.log, problem.gamma, rewards=problem.values)

    @cached_property
    def visits(self) -> Visits:
        """On how much data the estimated values of the policy rest."""
        return self._visits_of(self.values)

    @cached_property
    def baseline_visits(self) -> Visits:
        """On how much data the estimated values of the baseline rest."""
        return self._visits_of(self.baseline)

    def _visits_of(self, values: Evaluation) -> Visits:
        model, n_sa = self.problem.model, self.problem.counts.n_sa
        table = values.policy.probabilities
        return Visits.of(ModelBatch.stack([model]), table, values.v, n_sa, model.terminal)

    @cached_property
    def withheld(self) -> str | None:
        """Why estimates of the model are withheld; None where they may be shown.

        They are withheld in three cases: more than 5 % of the visits of policy or baseline are to
        unobserved pairs; more than half of the policy's are to pairs seen fewer than five times; or
        the model contradicts what the log shows of the baseline, see :mod:`spibb.ope.model_fit`.
        """
        reason = too_little_data(self.visits, self.baseline_visits, "new policy")
        if reason is not None:
            return reason
        table = self.problem.baseline.probabilities
        fit = find_model_fit(self.problem.log, self.problem.estimate(), table)
        worst = None if fit is None else fit.worst()
        return None if fit is None or worst is None else fit.describe(worst)

    @cached_property
    def model_fit(self) -> ModelFit | None:
        """Whether the posterior mean of the model earns what the log shows; None: too few."""
        if self.posterior is None:
            return None
        problem = self.problem
        return find_model_fit(
            problem.log, self.posterior.mean_model, problem.baseline.probabilities
        )

    @property
    def representation(self) -> Agreement | None:
        """The gain in finer states made of raw columns; None where there are none to make."""
        return None if isinstance(self._refined, str) else self._refined

    @property
    def representation_remark(self) -> str:
        """Why there is no gain in finer states; empty where there is one."""
        return self._refined if isinstance(self._refined, str) else ""

    @cached_property
    def _refined(self) -> Agreement | str:
        problem, log = self.problem, self.problem.log
        if log is None:
            return "only counts are known"
        tables = self.policy.probabilities, problem.baseline.probabilities
        if np.array_equal(*tables):
            return "the policy is the baseline"
        tell(Progress("gains in finer states"))
        return find_agreement(log, *tables, problem.gamma)

    @property
    def sensitivity(self) -> Sensitivity | None:
        """How strong an unrecorded cause must be to cancel the gain; None: not computed."""
        return None if isinstance(self._sensitivity, str) else self._sensitivity

    @property
    def sensitivity_remark(self) -> str:
        """Why that was not computed; empty where it was."""
        return self._sensitivity if isinstance(self._sensitivity, str) else ""

    @cached_property
    def _sensitivity(self) -> Sensitivity | str:
        tables = self.policy.probabilities, self.problem.baseline.probabilities
        origin: Origin = "same"
        if self.improvement is None:
            origin = policy_origin(self.problem, self.policy)
        return find_sensitivity(self.problem.log, *tables, self.problem.gamma, origin)

    @property
    def is_changed(self) -> bool:
        """Whether the policy differs from the baseline."""
        return not np.array_equal(self.policy.probabilities, self.baseline.policy.probabilities)

    @cached_property
    def posterior(self) -> PosteriorModel | None:
        """The posterior model of the problem; None where there are too many states."""
        if self._is_too_large:
            return None
        made = self.improvement
        known = None if made is None or made.choice is None else made.choice.model
        return PosteriorModel.of(self.problem) if known is None else known

    @cached_property
    def risk(self) -> Risk | None:
        """The expected gain and the probability of harm, given the log and a prior.

        None where there are too many states. The baseline itself gains 0, and does no harm.
        """
        if self.posterior is None:
            return None
        found = assess_risk(self.posterior, self.policy.probabilities)
        return found.with_halves(self.cross_validation)

    @property
    def state_risks(self) -> StateRisks | None:
        """What each state adds to the gain; None where risk is None."""
        return None if self.risk is None else self.risk.states

    @cached_property
    def cross_validation(self) -> Halves | None:
        """What each half of the episodes says of the policy that is made of the other half.

        None where no algorithm made the policy, where it is the baseline, where a half is too small
        for it, and where there are too many states.
        """
        made = self.improvement
        if made is None or made.recipe is None or self._is_too_large or not self.is_changed:
            return None
        return ask_halves(self.problem, made.recipe)

    @property
    def held_out(self) -> HeldOut | None:
        """What the held-out episodes say of those policies without models; None: not known."""
        return None if self.cross_validation is None else self.cross_validation.held_out

    @property
    def _is_too_large(self) -> bool:
        return self.problem.counts.n_states > LARGEST_DENSE

    @cached_property
    def inspection(self) -> Inspection | None:
        """Whether the log is sound: see :func:`spibb.inspect`; None where only counts are known."""
        return inspect_problem(self.problem)

    @cached_property
    def limit_costs(self) -> dict[str, float]:
        """What each limit costs: estimated gain of a policy made without it, minus this one's.

        Empty without limits, without an algorithm, and where the model's estimates are withheld.
        """
        limits, made = self.problem.limits, self.improvement
        if limits is None or made is None or made.recipe is None or self.withheld is not None:
            return {}
        costs = {}
        for name in limits.given:
            freed = replace(self.problem, limits=limits.without(name))
            values = evaluate(self.problem.model, TabularPolicy(made.recipe(freed)))
            costs[name] = float(values.performance - self.values.performance)
        return costs

    @cached_property
    def verdict(self) -> Verdict:
        """What to do with the policy, and why."""
        return decide(self)

    @cached_property
    def pilot(self) -> PilotPlan | None:
        """How to run a pilot; None where the verdict is another one."""
        return plan_pilot(self)

    @cached_property
    def findings(self) -> tuple[str, ...]:
        """What was found, in sentences: the data, the values, how the search ended."""
        return list_findings(self)

    def _card(self) -> Card:
        # Only what was asked for: drawing models takes longer than showing a line.
        known = vars(self)
        n_changed = int((self.certificate.states.moved > 1e-12).sum())
        facts = {"changed": f"{n_changed:,} of {self.problem.counts.n_states:,} states"}
        facts["values"] = describe_values(self)
        if known.get("risk") is not None:
            facts["risk"] = known["risk"].statement
        facts["guarantee"] = self.certificate.statement
        if "verdict" in known:
            facts["verdict"] = known["verdict"].sentence
        else:
            facts["more"] = "verdict, risk and inspection are computed when they are read"
        facts |= self.problem.objective_facts
        made = "" if self.algorithm is None else f" made by {in_words(self.algorithm)}"
        return Card(f"Assessment of a policy{made}", facts)
