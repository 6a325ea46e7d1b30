"""Many data sets x many settings in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import Algorithm, Device, Problems
from spibb.data.baseline import align_to_counts, check_baseline
from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.errors import DataError
from spibb.mdp.model import checked_gamma
from spibb.mdp.policy import TabularPolicy
from spibb.uncertainty.error_functions import Evidence
from spibb.uncertainty.ranges import ValueRange


@dataclass(frozen=True, eq=False)
class Improvements:
    """Results of every algorithm on every problem.

    Attributes:
        probabilities: The policies, shape (algorithms, problems, S, A).
        v: Their values in the estimated models, shape (algorithms, problems, S).
        n_iterations: Improvement steps, shape (algorithms, problems).
        status: How each run ended, shape (algorithms, problems).
        baseline_v: Values of the baselines, shape (problems, S).
    """

    probabilities: NDArray[np.float64]
    v: NDArray[np.float64]
    n_iterations: NDArray[np.int64]
    status: NDArray[np.object_]
    baseline_v: NDArray[np.float64]


def improve_many(
    algorithms: Sequence[Algorithm],
    problems: Sequence[Counts | Log],
    *,
    baselines: TabularPolicy | Sequence[TabularPolicy],
    gamma: float,
    reward_range: tuple[float, float] | None = None,
    rng: np.random.Generator | None = None,
    device: Device = "cpu",
) -> Improvements:
    """Run every algorithm on every problem; all problems have the same states and actions.

    Models are estimated and baselines evaluated once, whatever the number of algorithms. No
    certificates are made: call ``improve`` for those.

    Args:
        algorithms: Settings to run.
        problems: Counts, or logs where an algorithm needs more than counts.
        baselines: One policy for all problems, or one for each.
        gamma: The discount.
        reward_range: Smallest and largest possible reward; None: those of each log.
        rng: Source of randomness, for algorithms that need one.
        device: "cuda" iterates policies on a GPU (extra ``gpu``; gamma < 1, at most 76 states);
            what an algorithm does besides stays on the CPU. Values agree to rounding.
    """
    gamma = checked_gamma(gamma)
    if not algorithms or not problems:
        raise DataError(f"{len(algorithms)} algorithms on {len(problems)} problems", expected="any")
    counts = [part if isinstance(part, Counts) else Counts.from_log(part) for part in problems]
    if isinstance(baselines, TabularPolicy):
        baselines = [baselines] * len(counts)
    if len(baselines) != len(counts):
        raise DataError(f"{len(baselines)} baselines", expected=f"one, or {len(counts)}")
    baselines = [
        align_to_counts(part, baseline) for part, baseline in zip(counts, baselines, strict=True)
    ]
    for part, baseline in zip(counts, baselines, strict=True):
        check_baseline(part, baseline)
    evidence = [
        Evidence(
            part, ValueRange.of(part, gamma, reward_range), log if isinstance(log, Log) else None
        )
        for part, log in zip(counts, problems, strict=True)
    ]
    batch = Problems.of(evidence, [part.estimate(gamma) for part in counts], baselines, device)
    done = [algorithm.search(batch, rng) for algorithm in algorithms]
    return Improvements(
        probabilities=np.stack([part.policy for part in done]),
        v=np.stack([part.v for part in done]),
        n_iterations=np.stack([part.n_iterations for part in done]),
        status=np.stack([part.status for part in done]),
        baseline_v=batch.first[0],
    )
