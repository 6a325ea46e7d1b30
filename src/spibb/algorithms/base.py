"""What all algorithms share: frozen settings, one verb, and the certificate on its result.

An algorithm says how it searches (`search`, on a batch of problems) and which theorem its results
rest on (`claim`); everything else happens here, once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.improvement import Improvement
from spibb.certify.audit import certify
from spibb.certify.case import Case
from spibb.certify.certificate import Guarantee
from spibb.data.baseline import align, align_to_counts, check_baseline
from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.errors import SettingsError
from spibb.mdp.batch import Model, ModelBatch
from spibb.mdp.evaluation import Evaluation, Values, evaluate_batch
from spibb.mdp.model import checked_gamma
from spibb.mdp.planning import Iterated
from spibb.mdp.policy import TabularPolicy
from spibb.plain import strict_json
from spibb.uncertainty.error_functions import (
    ERROR_FUNCTIONS,
    ErrorFunction,
    Evidence,
    EvidenceBatch,
    GivenErrors,
    HoeffdingQ,
)
from spibb.uncertainty.ranges import ValueRange

# Where policies are iterated.
Device = Literal["cpu", "cuda"]
# Level at which theorems are checked for algorithms that have no delta of their own.
DEFAULT_DELTA = 0.05


@dataclass(frozen=True, eq=False)
class Problems:
    """A batch of problems of one shape, with what every algorithm starts from.

    Attributes:
        evidence: Counts, range of returns and perhaps the log, one for each problem.
        batch: The estimated models.
        baseline: The baselines, shape (B, S, A).
        first: Their values in the models, computed once for all algorithms.
    """

    evidence: EvidenceBatch
    batch: ModelBatch
    baseline: NDArray[np.float64]
    first: Values

    @classmethod
    def of(
        cls,
        evidence: Sequence[Evidence],
        models: Sequence[Model],
        baselines: Sequence[TabularPolicy],
        device: Device = "cpu",
    ) -> Problems:
        """Stack the models and evaluate the baselines."""
        batch = ModelBatch.stack(models)  # refuses models of several shapes
        start = np.stack([baseline.probabilities for baseline in baselines])
        return cls.stacked(EvidenceBatch.of(evidence), batch, start, device)

    @classmethod
    def stacked(
        cls,
        evidence: EvidenceBatch,
        batch: ModelBatch,
        baseline: NDArray[np.float64],
        device: Device = "cpu",
    ) -> Problems:
        """Take stacked arrays, to a GPU if asked for, and evaluate the baselines."""
        if device == "cuda":
            from spibb.mdp.cuda import CudaBatch

            batch = CudaBatch.of(batch)
        elif device != "cpu":
            raise SettingsError(f"device is {device!r}", expected="'cpu' or 'cuda'")
        return cls(evidence, batch, baseline, evaluate_batch(batch, baseline))


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
        """Return the theorem that results of this algorithm rest on, applied to one of them.

        Args:
            case: The result, with all that a theorem may look at.
            finding: What `search` left for this problem in its findings, if anything.
        """
        return None

    def yardstick(self) -> tuple[ErrorFunction, float | None]:
        """Return the errors and the budget by which the distance to the baseline is judged."""
        return HoeffdingQ(), None

    @property
    def confidence(self) -> float:
        """The delta at which the certificate is made."""
        return float(getattr(self, "delta", DEFAULT_DELTA))

    def improve(
        self,
        log: Log | Counts,
        *,
        baseline: TabularPolicy,
        gamma: float,
        reward_range: tuple[float, float] | None = None,
        rng: np.random.Generator | None = None,
    ) -> Improvement:
        """Improve the baseline on the evidence of its log.

        Args:
            log: The log that the baseline made, or its counts where counts suffice.
            baseline: The policy that made the log.
            gamma: The discount, in [0, 1]; 1 where every policy in play ends.
            reward_range: Smallest and largest possible reward; None: those in the log.
            rng: Source of randomness, for algorithms that need one.
        """
        gamma = checked_gamma(gamma)
        if isinstance(log, Log):
            log, baseline = align(log, baseline)
        counts = log if isinstance(log, Counts) else Counts.from_log(log)
        baseline = align_to_counts(counts, baseline)
        check_baseline(counts, baseline)
        values = ValueRange.of(counts, gamma, reward_range)
        evidence = Evidence(counts, values, log if isinstance(log, Log) else None)
        model = counts.to_mdp(gamma)
        problems = Problems.of([evidence], [model], [baseline])
        done = self.search(problems, rng)
        policy = TabularPolicy(done.policy[0], counts.state_labels, counts.action_labels)
        v_b, q_b, _ = problems.first
        case = Case(
            evidence=evidence,
            model=model,
            baseline=Evaluation(baseline, v_b[0], q_b[0], float(model.initial @ v_b[0])),
            policy=Evaluation(policy, done.v[0], done.q[0], float(model.initial @ done.v[0])),
            delta=self.confidence,
        )
        error, epsilon = self.yardstick()
        finding = None if done.findings is None else done.findings[0]
        return Improvement(
            policy=policy,
            q=done.q[0],
            v=done.v[0],
            status=done.status[0],
            n_iterations=int(done.n_iterations[0]),
            certificate=certify(
                case,
                errors=error.errors(evidence, case.delta),
                epsilon=epsilon,
                is_one_sided=self.is_one_sided,
                guarantee=self.claim(case, finding),
            ),
            baseline=case.baseline,
            model=model,
            counts=counts,
            algorithm=self.to_config(),
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
