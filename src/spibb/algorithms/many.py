"""Many data sets x many settings in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import Algorithm, Device, Problems
from spibb.certify.model_set import ModelSet
from spibb.certify.regret import RegretTest
from spibb.certify.robust import obstacle
from spibb.data.counts import Counts
from spibb.data.estimate import Unseen
from spibb.data.log import Log
from spibb.errors import DataError
from spibb.mdp.planning import Iterated
from spibb.mdp.policy import TabularPolicy
from spibb.problem import Problem
from spibb.uncertainty.declared import Start, Successors
from spibb.uncertainty.error_functions import checked_delta


@dataclass(frozen=True, eq=False)
class Improvements:
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


def improve_many(
    algorithms: Sequence[Algorithm],
    problems: Sequence[Counts | Log],
    *,
    baselines: TabularPolicy | Sequence[TabularPolicy],
    gamma: float,
    reward_range: tuple[float, float] | None = None,
    initial: Start | None = None,
    unseen: Unseen = "average",
    states_complete: bool = False,
    never_ends: bool = False,
    successors: Successors | None = None,
    certificate_delta: float | None = None,
    rng: np.random.Generator | None = None,
    device: Device = "cpu",
) -> Improvements:
    """Run every algorithm on every problem; all problems have the same states and actions.

    Models are estimated and baselines evaluated once, whatever the number of algorithms. Bounds of
    the regret test are computed on request; ``improve`` makes whole certificates.

    Args:
        algorithms: Settings to run.
        problems: Counts, or logs where an algorithm needs more than counts.
        baselines: One policy for all problems, or one for each.
        gamma: The discount.
        reward_range: Smallest and largest possible reward; None: those of each log.
        initial: Distribution of the first state; see :class:`spibb.Problem`, as for the others.
        unseen: What pairs without data do in the estimated models.
        states_complete: Declares that there are no other states.
        never_ends: Declares that the processes never end.
        successors: Declares what may follow.
        certificate_delta: Compute bounds by the regret test at this level; None: do not. Each holds
            for one problem, all algorithms on it together.
        rng: Source of randomness, for algorithms that need one.
        device: "cuda" iterates policies on a GPU (extra ``gpu``; gamma < 1, at most 76 states);
            what an algorithm does besides stays on the CPU. Values agree to rounding.
    """
    if not algorithms or not problems:
        raise DataError(f"{len(algorithms)} algorithms on {len(problems)} problems", expected="any")
    if isinstance(baselines, TabularPolicy):
        baselines = [baselines] * len(problems)
    if len(baselines) != len(problems):
        raise DataError(f"{len(baselines)} baselines", expected=f"one, or {len(problems)}")
    made = [
        Problem.of(
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
        for log, baseline in zip(problems, baselines, strict=True)
    ]
    batch = Problems.of(
        [problem.evidence for problem in made],
        [problem.estimate() for problem in made],
        [problem.baseline for problem in made],
        device,
        unseen=unseen,
    )
    done = [algorithm.search(batch, rng) for algorithm in algorithms]
    bounds = None
    if certificate_delta is not None:
        level = checked_delta(certificate_delta, "certificate_delta")
        bounds = _certified(made, batch, done, level)
    return Improvements(
        probabilities=np.stack([part.policy for part in done]),
        v=np.stack([part.v for part in done]),
        n_iterations=np.stack([part.n_iterations for part in done]),
        status=np.stack([part.status for part in done]),
        baseline_v=batch.first[0],
        bounds=bounds,
    )


def _certified(
    made: Sequence[Problem], problems: Problems, done: Sequence[Iterated], delta: float
) -> NDArray[np.float64]:
    """Return the bounds of the regret test, NaN where a certificate would not claim them."""
    found = np.full((len(done), len(made)), np.nan)
    batch, baseline = problems.batch, problems.baseline
    claimed = np.array(
        [
            obstacle(problem.evidence, is_estimated=problem.baseline.is_estimated) is None
            for problem in made
        ]
    )
    if delta < 1.0 and claimed.any():
        models = ModelSet.of([problem.evidence for problem in made], batch, delta)
        test = RegretTest.against(models, baseline, problems.first[0])
        for place, part in enumerate(done):
            policy = models.policy(part.policy)
            floor = models.worst(policy, models.values(part.v))
            bounds = test.bounds(test.differences(policy, floor))
            found[place] = np.where(claimed, bounds, np.nan)
    if batch.gamma >= 1.0:  # nothing is said without a discount, of the baseline itself neither
        return found
    is_kept = np.stack([(part.policy == baseline).all(axis=(1, 2)) for part in done])
    return np.where(is_kept, 0.0, found)
