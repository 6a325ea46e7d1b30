"""The study of run time: draw logs of multiplied gridworlds, train, evaluate in truth.

Rows hold scores and numbers of iterations, which anyone can reproduce byte for byte; how long it
took is measured apart from them: see :mod:`spibb.studies.complexity.timings`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spibb.algorithms.many import improve_many
from spibb.mdp.batch import ModelBatch
from spibb.studies.complexity.page import complexity_pages, draw_complexity
from spibb.studies.complexity.plan import PLANS, ComplexityPlan, draw_counts, find_world
from spibb.studies.complexity.timings import FILE, ensure_timings
from spibb.studies.scores import score_policies
from spibb.studies.study import Columns, Study


def run(plan: ComplexityPlan, runs: Sequence[int]) -> Columns:
    """Score every setting on the logs of some runs, and count its iterations."""
    shape = (len(runs), *plan.shape)
    scores, n_iterations = np.empty(shape, np.float32), np.empty(shape, np.int32)
    algorithms = [setting.build() for setting in plan.settings]
    for i, j in np.ndindex(*plan.shape[:-1]):
        cell = plan.temperature[i], plan.actions[j]
        truth, best, baseline = find_world(plan.gamma, *cell)
        logs = [draw_counts(plan, run, *cell) for run in runs]
        found = improve_many(
            algorithms, logs, baselines=baseline, gamma=plan.gamma, unseen=plan.unseen
        )
        truths = ModelBatch.stack([truth] * len(runs))
        baselines = np.stack([baseline.probabilities] * len(runs))
        scores[:, i, j] = score_policies(truths, baselines, found.probabilities, best).T
        n_iterations[:, i, j] = found.n_iterations.T
    return {"score": scores, "n_iterations": n_iterations}


_PAGE = (draw_complexity, complexity_pages)
COMPLEXITY = Study(ComplexityPlan, run, PLANS, *_PAGE, keeps=(FILE,), finish=ensure_timings)
