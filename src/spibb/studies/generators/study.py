"""The study on generators: what is gained and lost on random problems with known truth.

A run draws one problem of each generator, and a log of each size of it. Candidates of auto-spibb
are made once for a log, at the default caution, and judged once; each caution then chooses among
them. Fixed settings improve the baseline on the model of the counts.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.auto_spibb import AutoSPIBB, candidates, ending
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate_batch
from spibb.posterior.choice import Choice
from spibb.posterior.gain import Gain
from spibb.posterior.model import PosteriorModel
from spibb.problem import Problem, ProblemBatch
from spibb.studies.generators.figure import draw_generators
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.page import generators_pages
from spibb.studies.generators.plan import PLANS, PREDICTED, GeneratorsPlan, check_plan
from spibb.studies.generators.registry import GENERATORS
from spibb.studies.plan import Setting
from spibb.studies.results.logs import FILE, LogResults, write_logs
from spibb.studies.study import Columns, Study

Array = NDArray[np.float64]

# Smaller differences, in units of the scale, are rounding.
_ROUNDING = 1e-7
_N_DIGITS = 4


@dataclass(frozen=True)
class Drawn:
    """A problem of a generator.

    Attributes:
        instance: The problem.
        scale: The unit of its gains.
    """

    instance: Instance
    scale: float

    @classmethod
    def of(cls, name: str, seed: int, run: int) -> Drawn:
        """Draw the problem of a run."""
        instance = GENERATORS[name].draw(np.random.default_rng(_seed(name, seed, run)))
        return cls(instance, instance.scale())

    def problem(self, n_episodes: int, rng: np.random.Generator) -> Problem:
        """Draw a log, and return the problem as a user would declare it."""
        instance = self.instance
        given: dict[str, Any] = {"baseline": instance.baseline, "gamma": instance.process.gamma}
        if instance.reward_range is not None:
            given["reward_range"] = instance.reward_range
        return Problem.of(instance.log(n_episodes, rng), **given)

    def gains(self, policies: Array) -> Array:
        """Return true gains of policies, shape (K, S, A), in units of the scale."""
        instance = self.instance
        every = np.concatenate([instance.baseline.probabilities[None], policies])
        truth = ModelBatch.stack([instance.process] * len(every))
        values = (truth.initial * evaluate_batch(truth, every)[0]).sum(axis=1)
        gain = (values[1:] - values[0]) / self.scale
        return np.where(np.abs(gain) < _ROUNDING, 0.0, gain)


def _seed(name: str, *numbers: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(numbers, spawn_key=(zlib.crc32(name.encode()),))


def run(plan: GeneratorsPlan, runs: Sequence[int]) -> Columns:
    """Improve the baselines of the logs of some runs, and measure the true gains."""
    shape = (len(runs), *plan.shape)
    found: dict[str, NDArray[Any]] = {
        name: np.zeros(shape, np.bool_ if kind == "flags" else np.float32)
        for name, kind in (("score", "numbers"), *plan.columns.items())
    }
    for row, number in enumerate(runs):
        for place, name in enumerate(plan.generator):
            drawn = Drawn.of(name, plan.seed, number)
            found["is_declared"][row, place] = drawn.instance.reward_range is not None
            for size, n_episodes in enumerate(plan.episodes):
                began, where = time.process_time(), (row, place, size)
                found["is_visible"][where] = drawn.instance.shows_damage(n_episodes)
                rng = np.random.default_rng(_seed(name, plan.seed, number, n_episodes))
                made = Made.of(plan.settings, drawn.problem(n_episodes, rng))
                found["score"][where] = drawn.gains(made.policies)
                for k, column in enumerate(made.predicted(drawn.scale).T):
                    found[PREDICTED[k]][where] = column
                found["seconds"][where] = round(time.process_time() - began, _N_DIGITS)
    return found


@dataclass(frozen=True)
class Made:
    """What each setting makes of a log.

    Attributes:
        policies: Shape (settings, S, A).
        gains: What is predicted of each; None: nothing.
    """

    policies: Array
    gains: tuple[Gain | None, ...]

    @classmethod
    def of(cls, settings: Sequence[Setting], problem: Problem) -> Made:
        """Improve the baseline of a log by every setting."""
        batch, judge = ProblemBatch.alone(problem), AutoSPIBB()
        model = PosteriorModel.of(problem)
        tried, labels, _ = candidates(batch, [model], judge.caution)
        ends = ending(batch.models, tried)
        choice = judge.choose(model, tried[:, 0], labels, ends=ends[:, 0])
        made = {repr(config): k for k, (config, kind) in enumerate(labels) if kind == "counts"}
        policies, gains = [], []
        for setting in settings:
            algorithm, gain = setting.build(), None
            policy = problem.baseline.probabilities
            if isinstance(algorithm, AutoSPIBB):
                taken = Choice.of(choice.candidates, algorithm.caution).chosen
                if taken is not None:
                    policy, gain = tried[taken, 0], choice.candidates[taken].gain
            elif (place := made.get(repr(algorithm.to_config()))) is not None:
                policy = tried[place, 0]
            else:
                policy = algorithm.search(batch.counted).policy[0]
            policies.append(policy)
            gains.append(gain)
        return cls(np.stack(policies), tuple(gains))

    def predicted(self, scale: float) -> Array:
        """Return what is predicted of each policy, in units of a scale, shape (settings, 5)."""
        return np.array([tuple(_predicted(gain, scale)) for gain in self.gains])


def _predicted(gain: Gain | None, scale: float) -> Iterator[float]:
    """Yield mean, deviation, ends of the 95 % interval and probability of harm."""
    if gain is None:
        yield from [np.nan] * len(PREDICTED)
        return
    for x in (gain.mean, gain.deviation, *gain.interval()):
        yield x / scale
    yield gain.probability_of_harm


GENERATORS_STUDY = Study(
    GeneratorsPlan, run, PLANS, draw_generators, generators_pages, keeps=(FILE,),
    check=check_plan, finish=write_logs, read=LogResults.of_folder,
)  # fmt: skip
