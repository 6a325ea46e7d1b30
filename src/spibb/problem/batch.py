"""Problems of one shape, stacked: what algorithms search in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spibb.errors import DataError, SettingsError
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import Values, evaluate_batch
from spibb.mdp.planning import SearchResult, Status
from spibb.problem.declarations import Declarations
from spibb.problem.limits import Bounds
from spibb.problem.problem import Problem

# Where policies are iterated.
Device = Literal["cpu", "cuda"]
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ProblemBatch:
    """B problems of one shape, with what every algorithm starts from.

    Attributes:
        n_sa: N(x, a) of every problem, shape (B, S, A).
        models: The estimated models.
        baseline: The baselines, shape (B, S, A).
        baseline_values: Values of the baselines in the models, once for all algorithms.
        make: Returns one of the problems, made when it is asked for.
        is_retrained: Whether the models are others than those of the problems.
        bounds: What limits of the problems come to, in their order; None: there are none.
        memory: What error functions have computed: settings often differ in the budget alone.
    """

    n_sa: NDArray[np.int64]
    models: ModelBatch
    baseline: Array
    baseline_values: Values
    make: Callable[[int], Problem]
    is_retrained: bool = False
    bounds: Sequence[Bounds] | None = None
    memory: dict[Any, Array] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, problems: Sequence[Problem], device: Device = "cpu") -> ProblemBatch:
        """Stack problems; those of several shapes, or that declare other things, are refused.

        Args:
            problems: The problems.
            device: "cuda" keeps models on a GPU.
        """
        _check_alike(problems)
        models = models_on(ModelBatch.stack([problem.estimate() for problem in problems]), device)
        n_sa = np.stack([problem.counts.n_sa for problem in problems])
        baseline = np.stack([problem.baseline.probabilities for problem in problems])
        values = evaluate_batch(models, baseline)
        bounds = [one.bounds for one in problems if one.bounds is not None]
        return cls(n_sa, models, baseline, values, problems.__getitem__, bounds=bounds or None)

    @classmethod
    def alone(cls, problem: Problem) -> ProblemBatch:
        """Take one problem, with the model and the values that it has."""
        values = problem.baseline_values
        ends = np.array([np.isfinite(values.v).all()])
        return cls(
            problem.counts.n_sa[None],
            ModelBatch.stack([problem.model]),
            problem.baseline.probabilities[None].copy(),
            (values.v[None], values.q[None], ends),
            [problem].__getitem__,
            bounds=None if problem.bounds is None else [problem.bounds],
        )

    def __len__(self) -> int:
        return len(self.n_sa)

    def __getitem__(self, place: int) -> Problem:
        return self.make(place)

    def __iter__(self) -> Iterator[Problem]:
        return map(self.make, range(len(self)))

    @cached_property
    def terminal(self) -> NDArray[np.bool_]:
        """Which states end the process, shape (B, S)."""
        return np.stack([problem.counts.terminal for problem in self])

    @cached_property
    def counted(self) -> ProblemBatch:
        """The problems with the models of their counts, which is what guarantees are about."""
        return ProblemBatch.of(list(self)) if self.is_retrained else self

    @cached_property
    def start(self) -> Array:
        """Where improvements start: the baselines, without what limits forbid, shape (B, S, A)."""
        if self.bounds is None:
            return self.baseline
        return np.stack([bounds.start for bounds in self.bounds])

    @property
    def start_values(self) -> Values:
        """Values of `start` in the models."""
        if self.start is self.baseline or (self.start == self.baseline).all():
            return self.baseline_values
        return evaluate_batch(self.models, self.start)

    def with_models(self, models: ModelBatch) -> ProblemBatch:
        """Return the same problems with other estimates of their models, to be trained on."""
        values = evaluate_batch(models, self.baseline)
        return replace(self, models=models, baseline_values=values, is_retrained=True)

    @property
    def declared(self) -> Declarations:
        """What is declared of the first problem; the others declare alike, each of its log."""
        return self[0].declared

    @property
    def gamma(self) -> float:
        """The discount, one for all."""
        return self.models.gamma

    def kept_where_endless(self, found: SearchResult, ends: NDArray[np.bool_]) -> SearchResult:
        """Return the baseline for problems whose policy, with gamma = 1, never ends in the model.

        Args:
            found: What a search came to.
            ends: Whether each of its policies ends, shape (B,).
        """
        if ends.all():
            return found
        v_b, q_b, _ = self.start_values
        status = found.status.copy()
        status[~ends] = Status.NOT_TERMINATING
        return replace(
            found,
            policy=np.where(ends[:, None, None], found.policy, self.start),
            v=np.where(ends[:, None], found.v, v_b),
            q=np.where(ends[:, None, None], found.q, q_b),
            status=status,
        )


def _check_alike(problems: Sequence[Problem]) -> None:
    """Refuse problems of other kinds: sets of models are made for all of a batch at once."""
    kinds = [
        (*one.declared.kinds, one.unseen, one.limits is None, _has_costs(one)) for one in problems
    ]
    for place, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise DataError(
                "the problems of a batch declare different things, or estimate models otherwise",
                where=f"problem {place}",
                expected="the same of initial (given or not), states_complete, never_ends, "
                "successors (given, seen or not), unseen, limits, costs (given or not)",
                hint="call improve_many once for each kind",
            )


def _has_costs(problem: Problem) -> bool:
    return problem.limits is not None and bool(problem.limits.cost)


def models_on(models: ModelBatch, device: Device) -> ModelBatch:
    """Return models where policies are to be iterated."""
    if device == "cuda":
        from spibb.mdp.cuda import CudaBatch

        return CudaBatch.of(models)
    if device != "cpu":
        raise SettingsError(f"device is {device!r}", expected="'cpu' or 'cuda'")
    return models
