"""The study on random MDPs: draw processes, baselines and logs, train, evaluate in truth.

Every problem of a batch is computed on its own, and draws from seeds of its own: results depend
neither on how runs are grouped into jobs nor on who computes them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spibb.problem.batch import Device, models_on
from spibb.studies.random_mdps.claims import random_mdp_pages
from spibb.studies.random_mdps.draws import Draw, check_plan, draw_run, estimate, true_models
from spibb.studies.random_mdps.figures import draw_random_mdps
from spibb.studies.random_mdps.plans import PLANS, RandomMDPPlan
from spibb.studies.scores import score_policies
from spibb.studies.study import Columns, Study


def run(plan: RandomMDPPlan, runs: Sequence[int], device: Device = "cpu") -> Columns:
    """Score every setting on every log of some runs.

    Args:
        plan: What to run.
        runs: The runs.
        device: Where policies are iterated and evaluated.
    """
    drawn = [one for number in runs for one in draw_run(plan, number)]
    return {"score": score(plan, drawn, device).T.reshape(len(runs), *plan.shape)}


def score(plan: RandomMDPPlan, drawn: list[Draw], device: Device = "cpu") -> NDArray[np.float32]:
    """Train every setting on every log, and score it; shape (settings, logs)."""
    problems = estimate(drawn, device)
    policies = (setting.build().search(problems).policy for setting in plan.settings)
    best = np.array([one.best for one in drawn])
    return score_policies(models_on(true_models(drawn), device), problems.baseline, policies, best)


RANDOM_MDPS = Study(
    RandomMDPPlan,
    run,
    PLANS,
    draw=draw_random_mdps,
    pages=random_mdp_pages,
    check=check_plan,
    on_gpu=True,
)
