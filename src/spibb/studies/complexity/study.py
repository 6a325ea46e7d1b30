"""The study of run time: draw logs of multiplied gridworlds, train, evaluate in truth.

Rows hold scores and numbers of iterations, which anyone can reproduce byte for byte; how long it
took is measured apart from them: see :mod:`spibb.studies.complexity.timings`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spibb.algorithms.many import improve_many
from spibb.mdp.batch import ModelBatch
from spibb.studies.complexity.claims import complexity_pages
from spibb.studies.complexity.figures import draw_complexity
from spibb.studies.complexity.plan import (
    PLANS,
    ComplexityPlan,
    draw_counts,
    find_world,
    make_baseline,
)
from spibb.studies.complexity.timings import FILE, ensure_timings
from spibb.studies.scores import score_policies
from spibb.studies.study import Columns, Study


def run(plan: ComplexityPlan, runs: Sequence[int]) -> Columns:
    """Score every setting on the logs of some runs, and count its iterations."""
    shape = (len(runs), *plan.shape)
    scores, n_iterations = np.empty(shape, np.float32), np.empty(shape, np.int32)
    algorithms = [setting.build() for setting in plan.settings]
    for i, j in np.ndindex(*plan.shape[:-1]):
        temperature, n_actions = plan.temperature[i], plan.actions[j]
        baseline = make_baseline(plan, temperature, n_actions)
        logs = [draw_counts(plan, run, temperature, n_actions) for run in runs]
        found = improve_many(
            algorithms, logs, baselines=baseline, gamma=plan.gamma, unseen=plan.unseen
        )
        truth, optimum = find_world(n_actions, plan.gamma)
        scores[:, i, j] = score_policies(
            ModelBatch.stack([truth] * len(runs)),
            np.stack([baseline.probabilities] * len(runs)),
            found.probabilities,
            optimum.performance,
        ).T
        n_iterations[:, i, j] = found.n_iterations.T
    return {"score": scores, "n_iterations": n_iterations}


COMPLEXITY = Study(
    ComplexityPlan,
    run,
    PLANS,
    draw=draw_complexity,
    pages=complexity_pages,
    keeps=(FILE,),
    finish=ensure_timings,
)
