"""What all algorithms share: frozen settings, one verb, and the certificate on its result.

An algorithm says how it searches (`search`, on a batch of problems) and which theorem it was
published with (`claim`); everything else happens here, once. Whatever it returns is held to the
regret test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.improvement import Improvement
from spibb.certify.audit import certify
from spibb.certify.case import Case
from spibb.certify.certificate import Certificate, Guarantee
from spibb.certify.robust import regret_test
from spibb.data.counts import Counts
from spibb.data.estimate import Unseen
from spibb.data.log import Log
from spibb.errors import SettingsError
from spibb.mdp.batch import Model, ModelBatch
from spibb.mdp.evaluation import Evaluation, Values, evaluate_batch
from spibb.mdp.planning import Iterated, Status
from spibb.mdp.policy import TabularPolicy
from spibb.plain import strict_json
from spibb.problem import Problem
from spibb.uncertainty.declared import Start, Successors
from spibb.uncertainty.error_functions import (
    ERROR_FUNCTIONS,
    ErrorFunction,
    Evidence,
    EvidenceBatch,
    GivenErrors,
    HoeffdingQ,
    checked_delta,
)

# Where policies are iterated.
Device = Literal["cpu", "cuda"]
# Level of the regret test, and of theorems for algorithms that have no delta of their own.
DEFAULT_DELTA = 0.05


@dataclass(frozen=True, eq=False)
class Problems:
    """A batch of problems of one shape, with what every algorithm starts from.

    Attributes:
        evidence: Counts, range of returns and perhaps the log, one for each problem.
        batch: The estimated models.
        baseline: The baselines, shape (B, S, A).
        first: Their values in the models, computed once for all algorithms.
        unseen: What pairs without data do in the models, for algorithms that estimate some more.
    """

    evidence: EvidenceBatch
    batch: ModelBatch
    baseline: NDArray[np.float64]
    first: Values
    unseen: Unseen = "average"

    @classmethod
    def of(
        cls,
        evidence: Sequence[Evidence],
        models: Sequence[Model],
        baselines: Sequence[TabularPolicy],
        device: Device = "cpu",
        *,
        unseen: Unseen = "average",
    ) -> Problems:
        """Stack the models and evaluate the baselines."""
        batch = ModelBatch.stack(models)  # refuses models of several shapes
        start = np.stack([baseline.probabilities for baseline in baselines])
        return cls.stacked(EvidenceBatch.of(evidence), batch, start, device, unseen=unseen)

    @classmethod
    def stacked(
        cls,
        evidence: EvidenceBatch,
        batch: ModelBatch,
        baseline: NDArray[np.float64],
        device: Device = "cpu",
        *,
        unseen: Unseen = "average",
    ) -> Problems:
        """Take stacked arrays, to a GPU if asked for, and evaluate the baselines."""
        if device == "cuda":
            from spibb.mdp.cuda import CudaBatch

            batch = CudaBatch.of(batch)
        elif device != "cpu":
            raise SettingsError(f"device is {device!r}", expected="'cpu' or 'cuda'")
        return cls(evidence, batch, baseline, evaluate_batch(batch, baseline), unseen)


def kept_where_endless(problems: Problems, found: Iterated, ends: NDArray[np.bool_]) -> Iterated:
    """Return the baseline for problems whose policy, with gamma = 1, never ends in the model.

    Args:
        problems: The problems.
        found: What a search came to.
        ends: Whether each of its policies ends, shape (B,).
    """
    if ends.all():
        return found

    def chosen(theirs: NDArray[np.float64], ours: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(ends.reshape(-1, *[1] * (ours.ndim - 1)), theirs, ours)

    status = found.status.copy()
    status[~ends] = Status.NOT_TERMINATING
    v_b, q_b, _ = problems.first
    return replace(
        found,
        policy=chosen(found.policy, problems.baseline),
        v=chosen(found.v, v_b),
        q=chosen(found.q, q_b),
        status=status,
    )


@dataclass(frozen=True, kw_only=True)
class Algorithm(ABC):
    """Base of the algorithms: immutable settings and `improve`."""

    id: ClassVar[str]
    # Whether the budget by which the distance to the baseline is judged is for increases only.
    is_one_sided: ClassVar[bool] = False

    @abstractmethod
    def search(self, problems: Problems, rng: np.random.Generator | None = None) -> Iterated:
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

    def yardstick(self) -> tuple[ErrorFunction, float | None]:
        """Return the errors and the budget by which the distance to the baseline is judged."""
        return HoeffdingQ(), None

    @property
    def confidence(self) -> float:
        """The delta of the algorithm's own theorem."""
        return float(getattr(self, "delta", DEFAULT_DELTA))

    def improve(
        self,
        log: Log | Counts,
        *,
        baseline: TabularPolicy,
        gamma: float,
        reward_range: tuple[float, float] | None = None,
        initial: Start | None = None,
        unseen: Unseen = "average",
        states_complete: bool = False,
        never_ends: bool = False,
        successors: Successors | None = None,
        certificate_delta: float = DEFAULT_DELTA,
        rng: np.random.Generator | None = None,
    ) -> Improvement:
        """Improve the baseline on the evidence of its log.

        Args:
            log: The log that the baseline made, or its counts where counts suffice.
            baseline: The policy that made the log.
            gamma: The discount, in [0, 1]; 1 where every policy in play ends.
            reward_range: Smallest and largest possible reward; None: those in the log.
            initial: Distribution of the first state; None: as the episodes of the log begin.
            unseen: What pairs without data do in the estimated model: "average", as their state
                does, or "terminal", "uniform", "self-loop".
            states_complete: Declares that the process has no states but those of log and baseline.
            never_ends: Declares that the process never ends.
            successors: Declares what may follow: rows (state, next_state) or (state, action,
                next_state), or "seen" for what followed in the log.
            certificate_delta: Allowed probability of error of the certificate's regret test.
            rng: Source of randomness, for algorithms that need one.
        """
        problem = Problem.of(
            log,
            baseline=baseline,
            gamma=gamma,
            reward_range=reward_range,
            initial=initial,
            unseen=unseen,
            states_complete=states_complete,
            never_ends=never_ends,
            successors=successors,
        )
        level = checked_delta(certificate_delta, "certificate_delta")
        model = problem.model()
        problems = Problems.of([problem.evidence], [model], [problem.baseline], unseen=unseen)
        done = self.search(problems, rng)
        labels = problem.baseline.state_labels, problem.baseline.action_labels
        policy = TabularPolicy(done.policy[0], *labels)
        v_b, q_b, _ = problems.first
        case = Case(
            evidence=problem.evidence,
            model=model,
            baseline=Evaluation(problem.baseline, v_b[0], q_b[0], float(model.initial @ v_b[0])),
            policy=Evaluation(policy, done.v[0], done.q[0], float(model.initial @ done.v[0])),
            delta=self.confidence,
        )
        finding = None if done.findings is None else done.findings[0]
        return Improvement(
            policy=policy,
            q=done.q[0],
            v=done.v[0],
            status=done.status[0],
            n_iterations=int(done.n_iterations[0]),
            certificate=self._certify(case, finding, level),
            baseline=case.baseline,
            model=model,
            problem=problem,
            algorithm=self.to_config(),
        )

    def _certify(self, case: Case, finding: Any, level: float) -> Certificate:
        """Claim the regret test at its level, or the algorithm's own test; the other beside it."""
        error, epsilon = self.yardstick()
        regret, own = regret_test(replace(case, delta=level)), self.claim(case, finding)
        if own is not None and (own.theorem, own.delta) == (regret.theorem, regret.delta):
            own = None
        first, *others = [regret] if own is None else [regret, own]
        if own is not None and self.leads_with_claim:
            first, others = own, [regret]
        return certify(
            case,
            errors=error.errors(case.evidence, case.delta),
            epsilon=epsilon,
            guarantee=first,
            is_one_sided=self.is_one_sided,
            others=tuple(others),
        )

    def to_config(self) -> dict[str, Any]:
        """Return the id and the settings as plain JSON values."""
        return {"algorithm": self.id} | {
            item.name: _to_plain(getattr(self, item.name)) for item in fields(self)
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Build the algorithm from what :meth:`to_config` returned."""
        settings = {name: _from_plain(value) for name, value in config.items()}
        found = settings.pop("algorithm", cls.id)
        if found != cls.id:
            raise SettingsError(f"a configuration of {found!r}", expected=f"one of {cls.id!r}")
        return cls(**settings)


def in_words(value: Any) -> str:
    """Return a plain value of a configuration, or a whole one, as people write it.

    Example:
        >>> in_words({"algorithm": "pi-b-spibb", "n_wedge": 10, "bound": None})
        'pi-b-spibb (n_wedge 10)'
        >>> in_words({"error": "hoeffding-q"}), in_words([0.0, 0.5])
        ('hoeffding-q', '0.0, 0.5')
    """
    if isinstance(value, list):
        return ", ".join(map(in_words, value))
    if not isinstance(value, dict):
        return str(value)
    if "algorithm" not in value:
        return str(value.get("error", value))
    settings = {name: part for name, part in value.items() if part is not None}
    kind = settings.pop("algorithm")
    told = ", ".join(f"{name} {in_words(part)}" for name, part in settings.items())
    return f"{kind} ({told})" if told else str(kind)


def _to_plain(value: Any) -> Any:
    """Turn a setting into strict JSON."""
    if isinstance(value, GivenErrors):
        return {"error": value.id, "values": strict_json(value.values.tolist())}
    kind = getattr(value, "id", None)
    return {"error": kind} if kind in ERROR_FUNCTIONS else strict_json(value)


def _from_plain(value: Any) -> Any:
    if value == "inf":
        return float("inf")
    if isinstance(value, list):
        return [_from_plain(part) for part in value]
    if isinstance(value, dict) and "error" in value:
        rest = {name: _from_plain(part) for name, part in value.items() if name != "error"}
        return ERROR_FUNCTIONS[value["error"]](**rest)
    return value
