"""Algorithms that iterate policies: they only say which step they take."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import Algorithm, Rng
from spibb.algorithms.constrained import LimitedIteration, checked_operator
from spibb.compiled.threads import over_chunks
from spibb.errors import SettingsError
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import Values, is_large
from spibb.mdp.planning import Improve, SearchResult, policy_iteration
from spibb.operators.custom import loops_around
from spibb.operators.rows import Operator, improve_problems
from spibb.problem import ProblemBatch

# States that one call of a compiled loop improves, where there are many.
_PART = 1_024

# Q, the baseline, errors, the baseline's Q, and the policy to improve; of shape (B, S, A) each.
Tables = tuple[NDArray[np.float64], ...]


@dataclass(frozen=True, eq=False)
class Step:
    """One improvement step on a batch of problems.

    Attributes:
        operator: Which operator, or a compiled row function (q, baseline, errors, epsilon, out).
        errors: Shape (B, S, A); for the bootstrapping operators infinite or zero.
        epsilon: The budget, where the operator has one.
        q_baseline: An estimate of the baseline's Q, shape (B, S, A), where the operator wants one.
    """

    operator: Operator | Callable[..., None]
    errors: NDArray[np.float64]
    epsilon: float
    q_baseline: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        operator = self.operator
        if isinstance(operator, Operator) and operator.needs.q_baseline and self.q_baseline is None:
            raise SettingsError(
                f"a step by {operator.name} without q_baseline",
                expected="an estimate of the baseline's Q, which this operator looks at",
            )


@dataclass(frozen=True, kw_only=True)
class PolicyIterating(Algorithm):
    """Base of the algorithms that improve the baseline step by step in the estimated model."""

    keeps_limits: ClassVar[bool] = True
    keeps_min_gain: ClassVar[bool] = True
    keeps_costs: ClassVar[bool] = True

    @abstractmethod
    def step(self, problems: ProblemBatch) -> Step:
        """Return the improvement step for a batch of problems of one shape."""

    def search(self, problems: ProblemBatch, rng: Rng = None) -> SearchResult:
        """Run policy iteration from the baselines."""
        cap: int | None = getattr(self, "max_iterations", None)
        step = self.step(problems)
        if problems.bounds is not None:
            return iterate_limited(problems, problems.models, problems.start, step, cap)
        return iterate(
            problems.models,
            problems.baseline,
            step,
            first=problems.baseline_values,
            max_iterations=cap,
        )


def iterate(
    batch: ModelBatch,
    baseline: NDArray[np.float64],
    step: Step,
    *,
    first: Values | None = None,
    max_iterations: int | None = None,
) -> SearchResult:
    """Run policy iteration from the baseline with one step, over a batch."""
    improve = (_gpu_improver if batch.is_on_gpu else _improver)(batch, step, baseline)
    return policy_iteration(batch, baseline, improve, first=first, max_iterations=max_iterations)


def iterate_limited(
    problems: ProblemBatch,
    models: ModelBatch,
    first: NDArray[np.float64],
    step: Step,
    max_iterations: int | None = None,
) -> SearchResult:
    """Run policy iteration under the limits of the problems.

    Args:
        problems: The problems, with limits.
        models: Their models, or others to iterate in.
        first: Policies to start from, which keep to the limits, shape (B, S, A).
        step: The step.
        max_iterations: Steps at most.
    """
    assert problems.bounds is not None, "limits are given"
    if models.is_on_gpu:
        raise SettingsError("limits are not kept on a GPU", hint="use device='cpu'")
    return LimitedIteration(
        models=models,
        first=first,
        start=problems.start,
        baseline=problems.baseline,
        bounds=problems.bounds,
        operator=checked_operator(step.operator),
        errors=step.errors,
        epsilon=step.epsilon,
        side=step.errors if step.q_baseline is None else step.q_baseline,
        max_iterations=max_iterations,
    ).search()


def _improver(batch: ModelBatch, step: Step, baseline: NDArray[np.float64]) -> Improve:
    errors, epsilon = np.require(step.errors, np.float64, ["C", "W"]), float(step.epsilon)
    given = errors if step.q_baseline is None else step.q_baseline
    side = np.require(given, np.float64, ["C", "W"])
    number, loops = 0, improve_problems
    if isinstance(step.operator, Operator):
        number = int(step.operator)
    else:
        loops = loops_around(step.operator)

    def run(
        problems: NDArray[np.int64], tables: Tables, *, are_long: bool = False
    ) -> NDArray[np.bool_]:
        q, b, e, extra, policy = tables
        changed = np.empty(len(problems), dtype=np.bool_)
        over_chunks(
            lambda places: loops(places, number, problems, q, b, e, epsilon, extra, policy,
                                 changed), np.arange(len(problems)), are_long=are_long
        )  # fmt: skip
        return changed

    def improve(
        problems: NDArray[np.int64], q: NDArray[np.float64], policy: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        tables = (q, baseline, errors, side, policy)
        if not is_large(batch.shape[1]):
            return run(problems, tables)
        # The states of a large problem are spread over the cores: its parts are a batch.
        changed = np.zeros(len(problems), dtype=np.bool_)
        for place, problem in enumerate(problems):
            for parts in zip(*(_in_parts(table[problem]) for table in tables), strict=True):
                everyone = np.arange(len(parts[0]))
                changed[place] |= run(everyone, parts, are_long=True).any()
        return changed

    return improve


def _in_parts(table: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a table (S, A) as parts of equal length, shape (parts, S', A), and the rest."""
    n_parts, n_actions = len(table) // _PART, table.shape[1]
    whole = table[: n_parts * _PART].reshape(n_parts, _PART, n_actions)
    return whole, table[n_parts * _PART :][None]


def _gpu_improver(batch: ModelBatch, step: Step, baseline: NDArray[np.float64]) -> Improve:
    from spibb.operators.cuda import improve_problems_on_gpu

    operator = step.operator
    if not isinstance(operator, Operator):
        raise SettingsError(
            "a GPU does not carry a row function of one's own",
            expected="a step that names one of spibb.operators.Operator",
            hint="use device='cpu'",
        )
    old, errors = batch.keep(baseline), batch.keep(step.errors)
    side = errors if step.q_baseline is None else batch.keep(step.q_baseline)
    given = (old, errors, float(step.epsilon), side)
    return lambda problems, q, policy: improve_problems_on_gpu(
        operator, problems, q, *given, policy
    )
