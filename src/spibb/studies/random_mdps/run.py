"""What one job of the study does: draw processes, baselines and logs, train, evaluate in truth.

Every problem of a batch is computed on its own, and draws from seeds of its own: results depend
neither on how runs are grouped into jobs nor on who computes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.mdp.evaluation import evaluate_batch
from spibb.problem.batch import Device, models_on
from spibb.studies.metrics import normalised_performance
from spibb.studies.plan import Plan
from spibb.studies.random_mdps.draws import Draw, draw_run, estimate, true_models

if TYPE_CHECKING:
    import pyarrow as pa


def run_job(plan: Plan, first: int, last: int, device: Device = "cpu") -> pa.Table:
    """Run the repetitions from ``first`` to just before ``last``; one row for each result.

    Args:
        plan: What to run.
        first: The first run.
        last: The run after the last.
        device: Where policies are iterated and evaluated.
    """
    drawn = [one for run in range(first, last) for one in draw_run(plan, run)]
    return _table(plan, drawn, score(plan, drawn, device))


def score(plan: Plan, drawn: list[Draw], device: Device = "cpu") -> NDArray[np.float32]:
    """Train every setting on every log.

    Returns:
        (rho - rho_b) / (rho* - rho_b) in the true processes, shape (settings, logs).
    """
    return np.stack(list(_scores(plan, drawn, device)))


def _scores(plan: Plan, drawn: list[Draw], device: Device) -> Iterator[NDArray[np.float32]]:
    problems = estimate(drawn, device)
    truth = models_on(true_models(drawn), device)
    best = np.array([one.best for one in drawn])

    def performance(policy: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((truth.initial * evaluate_batch(truth, policy)[0]).sum(axis=1))

    baseline = performance(problems.baseline)
    for setting in plan.settings:
        found = performance(setting.build().search(problems).policy)
        yield normalised_performance(found, baseline, best).astype(np.float32)


def _table(plan: Plan, drawn: list[Draw], scores: NDArray[np.float32]) -> pa.Table:
    import pyarrow as pa

    n_settings, n_problems = scores.shape
    labels = pa.array([setting.label for setting in plan.settings])
    codes = pa.array(np.tile(np.arange(n_settings, dtype=np.int16), n_problems))
    etas, sizes = np.array(plan.etas), np.array(plan.sizes, dtype=np.int32)
    return pa.table(
        {
            "run": np.repeat([one.run for one in drawn], n_settings).astype(np.int32),
            "eta": np.repeat(etas[[one.eta for one in drawn]], n_settings),
            "size": np.repeat(sizes[[one.size for one in drawn]], n_settings),
            "setting": pa.DictionaryArray.from_arrays(codes, labels),
            "score": scores.T.ravel(),
        }
    )
