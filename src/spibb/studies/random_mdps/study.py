"""The study on random MDPs: draw processes, baselines and logs, train, evaluate in truth.

The randomness of a run comes from SeedSequences of the plan's seed and the run's number, that of a
log also from its place in the plan, so that a log can be drawn again alone, step by step, where an
algorithm wants more than counts. Every problem of a batch is computed on its own: results depend
neither on how runs are grouped into jobs nor on who computes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spibb.data.counts import Counts
from spibb.data.estimate import estimate_model
from spibb.data.log import Log
from spibb.envs.garnet import Garnet
from spibb.mdp.batch import ModelArrays, ModelBatch, Rows
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy
from spibb.mdp.sampling import Sampler
from spibb.problem import Problem, ProblemBatch
from spibb.problem.batch import Device, models_on
from spibb.problem.declarations import Declarations
from spibb.problem.ranges import ValueRange
from spibb.studies.random_mdps.claims import random_mdp_pages
from spibb.studies.random_mdps.figures import draw_random_mdps
from spibb.studies.random_mdps.plans import PLANS, RandomMDPPlan
from spibb.studies.scores import score_policies
from spibb.studies.study import Columns, Study


@dataclass(frozen=True, eq=False)
class Draw:
    """One log, with what it takes to judge the policies that are trained on it.

    Attributes:
        plan: The plan.
        run: The run's number.
        eta: Place of the baseline's strength in the plan.
        size: Place of the log's size in the plan.
        truth: The process.
        best: Performance of its optimum.
        baseline: The policy that made the log.
        n_pairs: Steps from each pair, shape (S * A,).
        n_entries: How often each entry of ``truth.rows`` was drawn.
        starts: First states.
    """

    plan: RandomMDPPlan
    run: int
    eta: int
    size: int
    truth: TabularMDP
    best: float
    baseline: TabularPolicy
    n_pairs: NDArray[np.int64]
    n_entries: NDArray[np.int64]
    starts: NDArray[np.int64]

    @cached_property
    def problem(self) -> Problem:
        """What algorithms may look at: counts, and the log itself."""
        counts = Counts.from_tally(self.truth, self.n_pairs, self.n_entries, self.starts)
        values = ValueRange.of(counts, self.plan.gamma, None)
        # The benchmark's algorithms know the states and where episodes begin.
        declared = Declarations(initial=self.truth.initial, states_complete=True)
        return Problem(counts, self.baseline, values, self.log(), declared, self.plan.unseen)

    def log(self) -> Log:
        """Draw the log again, step by step."""
        size, longest = self.plan.trajectories[self.size], self.plan.max_steps
        rng = _log_rng(self.plan, self.run, self.eta, self.size)
        return Log.sample(self.truth, self.baseline, n_episodes=size, max_steps=longest, rng=rng)


def check_plan(plan: RandomMDPPlan) -> None:
    """Refuse a plan whose jobs could not run, before any of them does."""
    _draw_process(plan, np.random.default_rng(plan.seed))


def _draw_process(plan: RandomMDPPlan, rng: np.random.Generator) -> tuple[Garnet, Garnet]:
    """Draw a process as the baseline's maker knows it, and as it is then."""
    sizes = {name: getattr(plan, name) for name in ("n_states", "n_actions", "n_successors")}
    garnet = Garnet.random(rng, **sizes, gamma=plan.gamma)
    return garnet, garnet.with_second_goal(rng, plan.second_goal) if plan.second_goal else garnet


def draw_run(plan: RandomMDPPlan, run: int) -> list[Draw]:
    """Draw one process, a baseline for each eta, and a log for each size."""
    rng = np.random.default_rng(np.random.SeedSequence([plan.seed, run]))
    garnet, world = _draw_process(plan, rng)
    best = solve(world.mdp).performance
    drawn = []
    for i, eta in enumerate(plan.eta):
        baseline = garnet.baseline(eta, rng)
        sampler = Sampler(world.mdp, baseline)
        for j, size in enumerate(plan.trajectories):
            rng_log = _log_rng(plan, run, i, j)
            tally = sampler.tally(n_episodes=size, max_steps=plan.max_steps, rng=rng_log)
            drawn.append(Draw(plan, run, i, j, world.mdp, best, baseline, *tally))
    return drawn


def _log_rng(plan: RandomMDPPlan, run: int, eta: int, size: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([plan.seed, run, eta, size]))


def estimate(drawn: Sequence[Draw], device: Device = "cpu") -> ProblemBatch:
    """Return the problems of logs, as `spibb.improve_many` would make them."""
    models = models_on(ModelBatch.stack([_model(one) for one in drawn]), device)
    n_sa = np.stack([one.n_pairs for one in drawn]).reshape(models.shape)
    baseline = np.stack([one.baseline.probabilities for one in drawn])
    values = evaluate_batch(models, baseline)
    # Most algorithms need no log: a problem, which draws its log again, is made when asked for.
    return ProblemBatch(n_sa, models, baseline, values, lambda place: drawn[place].problem)


def _model(draw: Draw) -> ModelArrays:
    """Estimate a model from the tally, as `Counts.estimate` does, with no counts between."""
    truth, rows, shape = draw.truth, draw.truth.rows, draw.truth.reward.shape
    paid: NDArray[np.float64] = np.asarray(truth.entry_reward)  # garnets pay on entry
    seen = np.flatnonzero(draw.n_entries)
    indices, n_entries = rows.indices[seen], draw.n_entries[seen].astype(np.float64)
    indptr = np.searchsorted(seen, rows.indptr)
    n_sa = draw.n_pairs.reshape(shape).astype(np.float64)
    pair = np.repeat(np.arange(n_sa.size), np.diff(indptr))
    entered = np.bincount(indices, n_entries, truth.n_states)
    return estimate_model(
        Rows(indptr, indices, n_entries),
        n_sa,
        np.asarray(np.bincount(pair, n_entries * paid[indices], n_sa.size), float).reshape(shape),
        float(entered[truth.terminal].sum() + n_sa.sum() - n_entries.sum()),
        truth.terminal & (entered > 0),
        initial=truth.initial,
        gamma=draw.plan.gamma,
        unseen=draw.plan.unseen,
    )


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
    truth = models_on(ModelBatch.stack([one.truth for one in drawn]), device)
    return score_policies(truth, problems.baseline, policies, best)


RANDOM_MDPS = Study(
    RandomMDPPlan, run, PLANS, draw_random_mdps, random_mdp_pages, check=check_plan, on_gpu=True
)
