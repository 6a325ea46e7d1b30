"""What one job of the study does: draw data sets, train a population, let every policy fly.

All randomness comes from seeds of the plan's seed, the data set or run, and the size alone, and
members of a population are trained and flown on their own: rows depend neither on how runs are
grouped into jobs, nor on what else is run (on a GPU up to the rounding of batched products). All
settings of a run share the first weights, the minibatches and the flights' randomness, so that
their differences are less noisy than they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.deep.network import Network
from spibb.deep.policy import NetworkPolicy, PopulationPolicy
from spibb.deep.population import Member
from spibb.deep.pseudo_counts import FittedCounts, KernelCounts
from spibb.deep.training import Population, train_population
from spibb.deep.training_data import TrainingData
from spibb.envs.flights import FlightReturns
from spibb.errors import SettingsError
from spibb.problem.batch import Device
from spibb.studies.helicopter.plan import LONG, SHORT, HelicopterPlan

if TYPE_CHECKING:
    import pyarrow as pa

# What follows the plan's seed and a number: for data sets, and for trainings with their flights.
_DATA, _TRAINING = 0, 1


@dataclass(frozen=True, eq=False)
class DrawnData:
    """A data set of one size.

    Attributes:
        number: Its number.
        size: Its number of transitions.
        counts: Its pseudo-counts.
        training: What trainings read.
    """

    number: int
    size: int
    counts: FittedCounts
    training: TrainingData


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of some runs on one data set, each of shape (runs, settings).

    Attributes:
        size: Number of transitions.
        short: Mean return of the short evaluation.
        long: Mean return of the long one.
        n_short: Episodes of the short evaluation.
        diverged: Whether the training diverged.
    """

    size: int
    short: NDArray[np.float32]
    long: NDArray[np.float32]
    n_short: NDArray[np.int32]
    diverged: NDArray[np.bool_]


def check_plan(plan: HelicopterPlan) -> None:
    """Refuse a plan whose jobs could not run, before any of them does."""
    plan.helicopter.baseline()  # a network's file, which takes a package to read
    training, size = plan.training, min(plan.sizes)
    is_trained = any(setting.rule() is not None for setting in plan.settings)
    if is_trained and training.n_steps(size) == 0:
        raise SettingsError(
            f"{plan.n_passes} passes over {size} transitions are less than a minibatch of "
            f"{training.batch_size}",
            expected="at least one step",
            hint="raise n_passes, or the smallest of the sizes",
        )


def run_job(plan: HelicopterPlan, first: int, last: int, device: Device = "cpu") -> pa.Table:
    """Run the trainings from ``first`` to just before ``last``; one row for each result.

    Args:
        plan: What to run.
        first: The first run.
        last: The run after the last.
        device: Where networks are trained and flown.
    """
    import pyarrow as pa

    tables = []
    for number, group in groupby(range(first, last), plan.data_set):
        runs = list(group)
        data = draw_data(plan, number)
        population = train(plan, data, runs, device)
        for scored in fly_all(plan, data, runs, population, device):
            tables += [_table(plan, columns) for columns in _columns(plan, runs, scored)]
    return pa.concat_tables(tables).combine_chunks()


def _table(plan: HelicopterPlan, columns: Mapping[str, NDArray[Any]]) -> pa.Table:
    """Return columns as a table, settings by their labels."""
    import pyarrow as pa

    labels = pa.array([setting.label for setting in plan.settings])
    codes = pa.array(columns["setting"])
    return pa.table({**columns, "setting": pa.DictionaryArray.from_arrays(codes, labels)})


def draw_data(plan: HelicopterPlan, number: int) -> list[DrawnData]:
    """Let the baseline fly the data sets of one number, one of each size, and count in them."""
    helicopter, baseline = plan.helicopter, plan.helicopter.baseline()
    found = []
    for size in plan.sizes:
        rng = np.random.default_rng(_seed(plan, number, size, _DATA))
        transitions = helicopter.collect(baseline.action_probabilities, size, rng)
        counts = KernelCounts(plan.width).fit(transitions)
        training = TrainingData.from_transitions(transitions, baseline, counts)
        found.append(DrawnData(number, size, counts, training))
    return found


def train(
    plan: HelicopterPlan, data: Sequence[DrawnData], runs: Sequence[int], device: Device = "cpu"
) -> Population | None:
    """Train every rule on every size in every run, as one population; None without any rule.

    Members are in the order of sizes, runs, rules.
    """
    rules = [rule for rule in (setting.rule() for setting in plan.settings) if rule is not None]
    if not rules:
        return None
    members = [
        Member(place, rule, member_seed(plan, run, one.size))
        for place, one in enumerate(data)
        for run in runs
        for rule in rules
    ]
    training = [one.training for one in data]
    # No curves: a point costs a look at every member on the CPU.
    return train_population(training, members, plan.training, device=device, record_every=0)


def fly_all(
    plan: HelicopterPlan,
    data: Sequence[DrawnData],
    runs: Sequence[int],
    population: Population | None,
    device: Device = "cpu",
) -> Iterator[Scored]:
    """Score the members of a population, and the baseline, size by size."""
    n_rules = sum(setting.rule() is not None for setting in plan.settings)
    for place, one in enumerate(data):
        first = place * len(runs) * n_rules
        yield fly(plan, one, runs, population, slice(first, first + len(runs) * n_rules), device)


def fly(
    plan: HelicopterPlan,
    data: DrawnData,
    runs: Sequence[int],
    population: Population | None,
    members: slice,
    device: Device = "cpu",
) -> Scored:
    """Let the policies of one data set fly, and score them by both evaluations.

    A training that diverged has no policy; it scores the least that an episode can return.
    """
    helicopter, n_settings = plan.helicopter, len(plan.settings)
    place = None if device == "cpu" else device
    policies, diverged = _policies(plan, data, len(runs), population, members)
    seeds = [member_seed(plan, run, data.size) for run in runs]
    returns = helicopter.run_episodes(
        PopulationPolicy(policies, is_over=helicopter.is_over).action_probabilities,
        np.repeat(np.array(seeds, np.uint64), n_settings),
        n_episodes=plan.n_episodes,
        device=place,
    )
    short, n_short = short_score(returns, plan.n_steps)
    least = min(helicopter.reward_low, helicopter.crash_reward)
    shape = (len(runs), n_settings)
    return Scored(
        data.size,
        np.where(diverged, least, short.reshape(shape)).astype(np.float32),
        np.where(diverged, least, returns.mean.reshape(shape)).astype(np.float32),
        n_short.reshape(shape).astype(np.int32),
        diverged,
    )


def short_score(
    returns: FlightReturns, n_steps: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
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


def _policies(
    plan: HelicopterPlan,
    data: DrawnData,
    n_runs: int,
    population: Population | None,
    members: slice,
) -> tuple[list[Any], NDArray[np.bool_]]:
    """Return the policies, runs after each other, and which settings of which run diverged.

    Who diverged flies with a Q of 0, so that there is something to count.
    """
    baseline = plan.helicopter.baseline()
    rules = [setting.rule() for setting in plan.settings] * n_runs
    policies: list[Any] = [baseline] * len(rules)
    diverged = np.zeros(len(rules), np.bool_)
    if population is not None:
        places = [(k, rule) for k, rule in enumerate(rules) if rule is not None]
        trained = zip(population.params[members], population.diverged[members], strict=True)
        for (place, rule), (flat, is_lost) in zip(places, trained, strict=True):
            kept = np.zeros_like(flat) if is_lost else flat
            network = Network.from_flat(kept, population.sizes)
            policies[place] = NetworkPolicy(network, rule, baseline, data.counts)
            diverged[place] = is_lost
    return policies, diverged.reshape(n_runs, -1)


def _columns(
    plan: HelicopterPlan, runs: Sequence[int], scored: Scored
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the rows of both evaluations."""
    n_settings, n_rows = len(plan.settings), scored.short.size
    n_long = np.full_like(scored.n_short, plan.n_episodes)
    for kind, score, n_episodes in (
        (SHORT, scored.short, scored.n_short), (LONG, scored.long, n_long),
    ):  # fmt: skip
        yield {
            "run": np.repeat(np.array(runs, np.int32), n_settings),
            "eta": np.full(n_rows, kind),
            "size": np.full(n_rows, scored.size, np.int32),
            "setting": np.tile(np.arange(n_settings, dtype=np.int16), len(runs)),
            "score": score.ravel(),
            "n_episodes": n_episodes.ravel(),
            "diverged": scored.diverged.ravel(),
        }
