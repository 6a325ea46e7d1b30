"""The helicopter study: draw data sets, train a population, let every policy fly.

All randomness comes from seeds of the plan's seed, the data set or run, and the size alone, and
members of a population are trained and flown on their own: rows depend neither on how runs are
grouped into jobs, nor on what else is run (on a GPU up to the rounding of batched products). All
settings of a run share the first weights, the minibatches and the flights' randomness, so that
their differences are less noisy than they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.arrays import import_torch
from spibb.deep.baseline import SoftmaxNetwork
from spibb.deep.policy import PopulationPolicy
from spibb.deep.population import Member
from spibb.deep.pseudo_counts import KernelCounts
from spibb.deep.training import Population, TrainingProgress, train_population
from spibb.deep.training_data import TrainingData
from spibb.envs.flights import FlightReturns
from spibb.errors import SettingsError
from spibb.problem.batch import Device
from spibb.runner.jobs import tell_progress
from spibb.studies.helicopter.figures import draw_helicopter
from spibb.studies.helicopter.page import COSTS, helicopter_pages
from spibb.studies.helicopter.plan import PLANS, HelicopterPlan
from spibb.studies.helicopter.scores import HelicopterResults
from spibb.studies.metrics import Floats
from spibb.studies.study import Columns, Study

# What follows the plan's seed and a number: for data sets, and for trainings with their flights.
_DATA, _TRAINING = 0, 1
_COLUMNS: dict[str, Any] = {"score": np.float32, "n_episodes": np.int32, "diverged": np.bool_}
# About the part of a job that training takes.
_TRAINED = 0.8


def check_plan(plan: HelicopterPlan) -> None:
    """Refuse a plan whose jobs could not run, before any of them does."""
    plan.baselines()  # networks' files, which take a package to read
    training, size = plan.training, min(plan.transitions)
    if any(plan.rules_of_settings) and training.n_steps(size) == 0:
        raise SettingsError(
            f"{plan.n_passes} passes over {size} transitions are less than a minibatch of "
            f"{training.batch_size}",
            expected="at least one step",
            hint="raise n_passes, or the smallest of the sizes",
        )


def run(plan: HelicopterPlan, runs: Sequence[int], device: Device = "cpu") -> Columns:
    """Train and score every setting, on every size and for every baseline.

    Args:
        plan: What to run.
        runs: The runs.
        device: Where networks are trained and flown.
    """
    found = {name: np.empty((len(runs), *plan.shape), kind) for name, kind in _COLUMNS.items()}
    baselines, n_sizes = plan.baselines(), len(plan.transitions)
    groups = [list(group) for _, group in groupby(runs, plan.data_set)]
    for k, some in enumerate(groups):

        def tell(share: float, before: int = k) -> None:
            tell_progress((before + share) / len(groups))

        rows = slice(some[0] - runs[0], some[-1] + 1 - runs[0])
        data = [one for baseline in baselines for one in draw_data(plan, baseline, some[0])]
        population = train(plan, data, some, device, tell)
        for place, one in enumerate(data):
            scored = fly(plan, one, place, some, population, device)
            baseline, size = divmod(place, n_sizes)
            for name, column in found.items():
                by_baseline = column.reshape(len(runs), len(baselines), *plan.shape[-3:])
                by_baseline[rows, baseline, :, size] = scored[name]
            tell(_TRAINED + (1 - _TRAINED) * (place + 1) / len(data))
    return found


def draw_data(plan: HelicopterPlan, baseline: SoftmaxNetwork, run: int) -> list[TrainingData]:
    """Let the baseline fly the data sets of a run, one of each size, and count in them."""
    found = []
    for size in plan.transitions:
        rng = np.random.default_rng(_seed(plan, plan.data_set(run), size, _DATA))
        transitions = plan.helicopter.collect(baseline.action_probabilities, size, rng)
        counts = KernelCounts(plan.width).fit(transitions)
        found.append(TrainingData.from_transitions(transitions, baseline, counts))
    return found


def train(
    plan: HelicopterPlan,
    data: Sequence[TrainingData],
    runs: Sequence[int],
    device: Device = "cpu",
    tell: Callable[[float], None] = tell_progress,
) -> Population | None:
    """Train every rule on every data set in every run, as one population; None without any rule.

    Members are in the order of data sets, runs, rules.

    Args:
        plan: The plan.
        data: Data sets, of all sizes, one baseline after the other.
        runs: The runs.
        device: Where networks are trained.
        tell: Is told which part is done.
    """
    rules = [rule for rule in plan.rules_of_settings if rule is not None]
    members = [
        Member(place, rule, member_seed(plan, run, len(data[place])))
        for place, run, rule in product(range(len(data)), runs, rules)
    ]
    if not members:
        return None

    def watch(progress: TrainingProgress) -> None:
        tell(_TRAINED * progress.step / progress.n_steps)

    return train_population(
        data,
        members,
        plan.training,
        device=device,
        restarts=plan.restarts,
        # No curves: a point costs a look at every member on the CPU.
        record_every=0,
        # Watched, the fused kernel would be launched again and again, with gaps between.
        progress=watch if device == "cpu" else None,
    )


def fly(
    plan: HelicopterPlan,
    data: TrainingData,
    place: int,
    runs: Sequence[int],
    population: Population | None,
    device: Device = "cpu",
) -> dict[str, NDArray[Any]]:
    """Let the policies of one data set fly, and score them by both evaluations.

    A training that diverged has no policy; it scores the least that an episode can return.

    Args:
        plan: The plan.
        data: The data set.
        place: Its place among those that were trained on.
        runs: The runs.
        population: What ``train`` returned for these.
        device: Where they fly.

    Returns:
        The columns of rows, each of shape (runs, evaluations, settings).
    """
    helicopter, is_trained = plan.helicopter, [rule is not None for rule in plan.rules_of_settings]
    shape = (len(runs), len(is_trained))
    diverged, policies = np.zeros(shape, np.bool_), np.full(shape, data.baseline, dtype=object)
    if population is not None:
        n_members = len(runs) * sum(is_trained)
        members = place * n_members + np.arange(n_members).reshape(len(runs), -1)
        diverged[:, is_trained] = population.diverged[members]
        for row, column in np.argwhere(~diverged[:, is_trained]):
            setting = np.flatnonzero(is_trained)[column]
            policies[row, setting] = population.policy(int(members[row, column]))
    seeds = np.array([member_seed(plan, run, len(data)) for run in runs], np.uint64)
    acting = PopulationPolicy(policies.ravel().tolist(), is_over=helicopter.is_over)
    act, on = acting.action_probabilities, None if device == "cpu" else device
    seeds = np.repeat(seeds, len(is_trained))
    returns = helicopter.run_episodes(act, seeds, n_episodes=plan.n_episodes, device=on)
    short, n_short = short_score(returns, plan.n_steps)
    least = min(helicopter.reward_low, helicopter.crash_reward)

    def both(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        return np.stack([first.reshape(shape), second.reshape(shape)], axis=1)

    return {
        "score": np.where(diverged[:, None], least, both(short, returns.mean)),
        "n_episodes": both(n_short, np.full_like(n_short, plan.n_episodes)),
        "diverged": both(diverged, diverged),
    }


def short_score(returns: FlightReturns, n_steps: int) -> tuple[Floats, NDArray[np.int64]]:
    """Return the mean return of the first episodes of each member, and how many these are.

    The paper flies one episode after the other and begins no new one when ``n_steps`` are flown.
    Episodes are independent, so those of the long evaluation in their order are just that, without
    the wait for a thousand steps one after the other.

    Args:
        returns: Single episodes, shape (R, E).
        n_steps: Steps after which no episode begins; each member has flown so many.
    """
    flown = returns.n_steps.cumsum(axis=1)
    n_episodes = (flown < n_steps).sum(axis=1) + 1
    earned = np.take_along_axis(returns.total.cumsum(axis=1), n_episodes[:, None] - 1, axis=1)
    return earned[:, 0] / n_episodes, n_episodes


def member_seed(plan: HelicopterPlan, run: int, size: int) -> int:
    """Return the 64 bits that decide a run's first weights, minibatches and flights."""
    return int(_seed(plan, run, size, _TRAINING).generate_state(1, np.uint64)[0])


def _seed(plan: HelicopterPlan, number: int, size: int, use: int) -> np.random.SeedSequence:
    return np.random.SeedSequence([plan.seed, number], spawn_key=(size, use))


HELICOPTER = Study(
    HelicopterPlan, run, PLANS, draw_helicopter, helicopter_pages, check=check_plan,
    keeps=("parts", "baselines", COSTS), read=HelicopterResults.of_folder,
    on_gpu=True, gpu_workers=1, gpu_needs=import_torch,
)  # fmt: skip
