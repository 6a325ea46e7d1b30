"""Many data sets x many settings in one call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import Algorithm, Rng
from spibb.certify.regret import RegretTest
from spibb.certify.robust import obstacle
from spibb.display import Card, Display
from spibb.errors import DataError
from spibb.mdp.planning import SearchResult
from spibb.mdp.policy import TabularPolicy
from spibb.problem import Problem, ProblemBatch, ProblemOptions
from spibb.problem.batch import Device
from spibb.problem.problem import Baseline
from spibb.uncertainty.error_functions import checked_delta


@dataclass(frozen=True, eq=False, repr=False)
class Improvements(Display):
    """Results of every algorithm on every problem.

    Attributes:
        probabilities: The policies, shape (algorithms, problems, S, A).
        v: Their values in the estimated models, shape (algorithms, problems, S).
        n_iterations: Improvement steps, shape (algorithms, problems).
        status: How each run ended, shape (algorithms, problems).
        baseline_v: Values of the baselines, shape (problems, S).
        bounds: Lower bounds on the true gain by the regret test, shape (algorithms, problems), NaN
            where its conditions fail or the baseline is estimated; None where not asked for.
    """

    probabilities: NDArray[np.float64]
    v: NDArray[np.float64]
    n_iterations: NDArray[np.int64]
    status: NDArray[np.object_]
    baseline_v: NDArray[np.float64]
    bounds: NDArray[np.float64] | None = None

    def _card(self) -> Card:
        n_algorithms, n_problems, n_states, n_actions = self.probabilities.shape
        ends = Counter(status.name.lower().replace("_", "-") for status in self.status.ravel())
        facts = {"ended": ", ".join(f"{name} {n:,}" for name, n in ends.most_common())}
        if self.bounds is not None:
            facts["certified"] = f"{int(np.isfinite(self.bounds).sum()):,} of {self.bounds.size:,}"
        return Card(
            f"Improvements: {n_algorithms} algorithms on {n_problems:,} problems of {n_states:,} "
            f"states and {n_actions:,} actions",
            facts,
        )


def improve_many(
    algorithms: Sequence[Algorithm],
    problems: Sequence[Any],
    *,
    baselines: Baseline | Sequence[Baseline] | None = None,
    gamma: float | None = None,
    certificate_delta: float | None = None,
    rng: Rng = None,
    device: Device = "cpu",
    **options: Unpack[ProblemOptions],
) -> Improvements:
    """Run every algorithm on every problem; all problems have the same states and actions.

    Models are estimated and baselines evaluated once, whatever the number of algorithms. Bounds of
    the regret test are computed on request; ``improve`` makes whole certificates.

    Args:
        algorithms: Settings to run.
        problems: Counts, or logs where an algorithm needs more than counts; or
            :class:`spibb.Problem`, which have all the rest.
        baselines: One policy for all problems, or one for each.
        gamma: The discount.
        certificate_delta: Compute bounds by the regret test at this level; None: do not. Each holds
            for one problem, all algorithms on it together.
        rng: Source of randomness, for algorithms that need one.
        device: "cuda" iterates policies on a GPU (extra ``gpu``; gamma < 1, at most 76 states);
            what an algorithm does besides stays on the CPU. Values agree to rounding.
        **options: As for :meth:`spibb.Problem.of`, the same for all problems.
    """
    if not algorithms or not problems:
        raise DataError(f"{len(algorithms)} algorithms on {len(problems)} problems", expected="any")
    alike = baselines is None or isinstance(baselines, TabularPolicy | str | Mapping)
    listed: Sequence[Any] = [baselines] * len(problems) if alike else baselines  # type: ignore[assignment]
    if len(listed) != len(problems):
        raise DataError(f"{len(listed)} baselines", expected=f"one, or {len(problems)}")
    batch = ProblemBatch.of(
        [
            Problem.of(log, baseline=baseline, gamma=gamma, **options)
            for log, baseline in zip(problems, listed, strict=True)
        ],
        device,
    )
    for problem in batch:
        problem.check_state()
    for algorithm in algorithms if batch.bounds is not None else ():
        algorithm.check(batch[0])
    done = [algorithm.search(batch, rng) for algorithm in algorithms]
    bounds = None
    if certificate_delta is not None:
        level = checked_delta(certificate_delta, "certificate_delta")
        bounds = _certified(batch, done, level)
    return Improvements(
        probabilities=np.stack([part.policy for part in done]),
        v=np.stack([part.v for part in done]),
        n_iterations=np.stack([part.n_iterations for part in done]),
        status=np.stack([part.status for part in done]),
        baseline_v=batch.baseline_values[0],
        bounds=bounds,
    )


def _certified(
    problems: ProblemBatch, done: Sequence[SearchResult], delta: float
) -> NDArray[np.float64]:
    """Return the bounds of the regret test, NaN where a certificate would not claim them."""
    found = np.full((len(done), len(problems)), np.nan)
    claimed = np.array([obstacle(problem) is None for problem in problems])
    if delta < 1.0 and claimed.any():
        test = RegretTest.of(problems, delta)
        for place, part in enumerate(done):
            bounds = test.bounds(test.tested(part.policy, part.v))
            found[place] = np.where(claimed, bounds, np.nan)
    if problems.gamma >= 1.0:  # nothing is said without a discount, of the baseline itself neither
        return found
    is_kept = np.stack([(part.policy == problems.baseline).all(axis=(1, 2)) for part in done])
    return np.where(is_kept, 0.0, found)
