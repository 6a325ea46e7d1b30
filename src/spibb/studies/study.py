"""What the package knows of a study: a function from cells and seeds to scores, figures, pages.

Everything else is the same for all: jobs and processes, tables of rows, folding, resuming, merging,
statistics, the gallery of figures and the filling of pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.studies.drawing import Drawing
from spibb.studies.plan import Plan
from spibb.studies.results.aggregates import Results

# Of each run, cell and setting, shape (runs, *plan.shape): "score", and what else rows hold.
Columns = Mapping[str, NDArray[Any]]
# The scores of one cell: (plan, cell, seed) -> one for each setting.
Score = Callable[[Any, dict[str, Any], np.random.SeedSequence], NDArray[Any]]
# Text by its place in a page, by the page's file.
Pages = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Study:
    """A study.

    Attributes:
        kind: Its plans, whose ``study`` is its id.
        run: Computes runs: (plan, range of runs) -> columns. Importable, so that other processes
            and machines can be told by name.
        plans: The plans that ship with it.
        draw: Draws its figures from its results.
        pages: What results of its plans say in pages of the docs.
        keeps: Files and folders beside a study's plan that its figures and pages need.
        check: Refuses a plan whose jobs could not run though its settings can be built, before a
            folder is made.
        finish: What is done when all jobs are, with the plan and the folder; safe to repeat.
        read: Makes results of a folder, where that takes more than the statistics of all studies.
        on_gpu: Whether ``run`` takes ``device="cuda"``.
        gpu_workers: Jobs at a time with the engine "cuda" where nobody says; None: one for each
            core, where what surrounds the GPU's work needs them.
        gpu_needs: Imports what ``device="cuda"`` needs beyond the engine, or says what it is.
    """

    kind: type[Plan]
    run: Callable[..., Columns]
    plans: Sequence[Plan]
    draw: Callable[[Any], Iterable[Drawing]]
    pages: Callable[[Sequence[Any]], Pages] = lambda results: {}
    keeps: Sequence[str] = ()
    check: Callable[[Any], None] = lambda plan: None
    finish: Callable[[Any, Path], None] = lambda plan, folder: None
    read: Callable[[Path, Any], Results[Any]] = Results.of_folder
    on_gpu: bool = False
    gpu_workers: int | None = None
    gpu_needs: Callable[[], Any] = lambda: None


def by_cell(score: Score) -> Callable[..., Columns]:
    """Make a study's ``run`` of a function of one cell: (plan, cell, seed) -> scores by setting.

    The seed comes of the plan's seed, the run and the cell's place: scores depend neither on how
    runs are grouped into jobs nor on what else is run.
    """

    @wraps(score)
    def run(plan: Plan, runs: Sequence[int]) -> Columns:
        found = np.empty((len(runs), *plan.shape), dtype=np.float32)
        for row, number in enumerate(runs):
            for place in np.ndindex(*plan.shape[:-1]):
                pairs = zip(plan.factors.items(), place, strict=True)
                cell = {name: values[k] for (name, values), k in pairs}
                seed = np.random.SeedSequence([plan.seed, number], spawn_key=place)
                found[row][place] = score(plan, cell, seed)
        return {"score": found}

    return run
