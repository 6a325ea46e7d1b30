"""The problems of the study on risk: processes of many shapes, each with a heuristic baseline.

Flags say on which of them settings were decided; see docs/risk-study.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.envs.cliff import Cliff
from spibb.envs.garnet import Garnet
from spibb.envs.icu_sepsis import ICUSepsis
from spibb.envs.inventory import Inventory
from spibb.envs.maintenance import Maintenance
from spibb.envs.queue import Queue
from spibb.envs.rare_action import RareAction
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.settings import checked_entry
from spibb.studies.finite.processes import PROCESSES

Array = NDArray[np.float64]
Made = tuple[TabularMDP, TabularPolicy]


@dataclass(frozen=True)
class RiskProblem:
    """A process and its baseline.

    Attributes:
        title: What tables call it.
        make: Draws the process and makes the baseline.
        max_steps: Longest episode.
        has_decided: Whether anything was decided on it.
        is_fixed: Whether it is the same for every run.
        noise: What chance makes of rewards; None: nothing.
    """

    title: str
    make: Callable[[np.random.Generator], Made]
    max_steps: int = 50
    has_decided: bool = False
    is_fixed: bool = True
    noise: Callable[[Array, np.random.Generator], Array] | None = None

    def sample(self, made: Made, n_episodes: int, rng: np.random.Generator) -> Log:
        """Draw a log of the baseline."""
        log = Log.sample(*made, n_episodes=n_episodes, max_steps=self.max_steps, rng=rng)
        return log if self.noise is None else replace(log, reward=self.noise(log.reward, rng))

    def count(self, made: Made, n_episodes: int, rng: np.random.Generator) -> Counts:
        """Draw a log of the baseline, and count it."""
        if self.noise is not None:
            return Counts.from_log(self.sample(made, n_episodes, rng))
        return Counts.sample(*made, n_episodes=n_episodes, max_steps=self.max_steps, rng=rng)


def find_problem(name: str) -> RiskProblem:
    """Return a problem by its name."""
    return checked_entry(name, PROBLEMS, "problem")


def _garnet(eta: float, rng: np.random.Generator) -> Made:
    """Return a random MDP as the paper has it: its second goal came after the baseline."""
    garnet = Garnet.random(rng)
    return garnet.with_second_goal(rng, 1.0).mdp, garnet.baseline(eta, rng)


def _random_mdps(eta: float) -> RiskProblem:
    return RiskProblem(
        f"random MDPs, eta {eta:g}", partial(_garnet, eta), has_decided=eta in (0.1, 0.5, 0.9),
        is_fixed=False,
    )  # fmt: skip


def _of(env: Any, gamma: float, share: float) -> Callable[[np.random.Generator], Made]:
    return lambda rng: (env.to_mdp(gamma), env.baseline(share))


def _process(name: str, gamma: float, strength: float) -> Callable[[np.random.Generator], Made]:
    def make(rng: np.random.Generator) -> Made:
        process = PROCESSES[name]
        truth = process.make(gamma)
        return truth, process.soften(truth, strength)

    return make


def _coin(reward: Array, rng: np.random.Generator) -> Array:
    """Return 1 with the probability that is expected, else 0."""
    return (rng.random(len(reward)) < reward).astype(np.float64)


def _blurred(reward: Array, rng: np.random.Generator) -> Array:
    """Return rewards with a deviation of 0.3 around what is expected."""
    return reward + 0.3 * rng.normal(size=len(reward))


def _jackpots(reward: Array, rng: np.random.Generator) -> Array:
    """Return rewards of which one in a hundred is 3 more, and all are as expected on average."""
    return reward + 3.0 * (rng.random(len(reward)) < 0.01) - 0.03


_N_DRUGS = 6
# Of the usual drug, and of those that are rarely given.
_GIVEN = np.array([0.7, *[0.06] * (_N_DRUGS - 1)])


def _cures(n_wards: int, by_drug: float, by_ward: float, rng: np.random.Generator) -> Array:
    """Draw how often drugs cure: the usual one half of the time, the others .05 less, but ...

    ... each by chance more or less by ward, and wards too.
    """
    cures = np.full((n_wards, _N_DRUGS), 0.45) + by_ward * rng.normal(size=(n_wards, 1))
    cures[:, 0] += 0.05
    cures[:, 1:] += by_drug * rng.normal(size=(n_wards, _N_DRUGS - 1))
    return np.clip(cures, 0.02, 0.98)


def _wards(by_drug: float, rng: np.random.Generator) -> Made:
    """Return wards to which patients come whatever is done; a cure pays 1."""
    n_wards = 10
    cures = _cures(n_wards, by_drug, 0.1, rng)
    next_ward = np.full((n_wards, _N_DRUGS, n_wards), 1.0 / n_wards)
    return TabularMDP(next_ward, cures, 0.9), TabularPolicy(np.tile(_GIVEN, (n_wards, 1)))


def _shops(rng: np.random.Generator) -> Made:
    """Return visitors who come to one of 20 pages whatever is shown; one in fifty buys."""
    n_pages, n_banners = 20, 5
    buys = 0.02 * np.exp(0.3 * rng.normal(size=(n_pages, n_banners)))
    anywhere = np.full((n_pages, n_banners, n_pages), 1.0 / n_pages)
    shown = np.array([0.6, *[0.1] * (n_banners - 1)])
    return TabularMDP(anywhere, buys, 0.9), TabularPolicy(np.tile(shown, (n_pages, 1)))


def corridors(by_drug: float, rng: np.random.Generator, slips: float = 0.0) -> Made:
    """Return corridors whose doors lead to others and to wards; who is cured there pays 1.

    Args:
        by_drug: By how much drugs, and wards, differ in how often they cure.
        rng: Source of randomness.
        slips: How often a door leads anywhere.
    """
    n_corridors, n_wards = 40, 20
    cured, lost = n_corridors + n_wards, n_corridors + n_wards + 1
    where_to = np.zeros((lost + 1, _N_DRUGS, lost + 1))
    door = rng.integers(cured, size=(n_corridors, _N_DRUGS))
    np.put_along_axis(where_to[:n_corridors], door[..., None], 1.0, axis=2)
    where_to[:n_corridors] *= 1.0 - slips
    where_to[:n_corridors, :, :cured] += slips / cured
    cures = _cures(n_wards, by_drug, by_drug, rng)
    where_to[n_corridors:cured, :, cured], where_to[n_corridors:cured, :, lost] = cures, 1.0 - cures
    entry = np.zeros(lost + 1)
    entry[cured] = 1.0
    is_end = np.arange(lost + 1) >= cured
    baseline = np.tile(_GIVEN, (lost + 1, 1))
    baseline[:n_corridors] = 1.0 / _N_DRUGS
    first = np.where(np.arange(lost + 1) < n_corridors, 1.0 / n_corridors, 0.0)
    return (
        TabularMDP(where_to, None, 0.99, first, is_end, entry_reward=entry),
        TabularPolicy(baseline),
    )


def _sepsis(rng: np.random.Generator) -> Made:
    return ICUSepsis().to_mdp(), ICUSepsis().baseline()


ETAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PROBLEMS: dict[str, RiskProblem] = {
    **{f"random-mdps-{eta:g}": _random_mdps(eta) for eta in ETAS},
    "queue": RiskProblem("queue", _of(Queue(), 0.95, 0.1), has_decided=True),
    "inventory": RiskProblem("inventory", _of(Inventory(), 0.95, 0.1), has_decided=True),
    "maintenance": RiskProblem("maintenance", _of(Maintenance(), 0.95, 0.1), has_decided=True),
    "rare-best": RiskProblem(
        "a rare drug that is best", _of(RareAction(), 0.9, 0.3), 40, has_decided=True
    ),
    "rare-ruinous": RiskProblem(
        "a rare drug that ruins", _of(RareAction(is_ruinous=True), 0.9, 0.3), 40, has_decided=True
    ),
    "cliff": RiskProblem("cliff", _of(Cliff(), 0.99, 0.3), 200, has_decided=True),
    "wet-chicken": RiskProblem("Wet Chicken", _process("wet-chicken", 0.95, 0.1), has_decided=True),
    "gridworld": RiskProblem("gridworld", _process("gridworld", 0.95, 0.1)),
    "queue-short": RiskProblem("queue, gamma .8", _of(Queue(), 0.8, 0.3)),
    "inventory-long": RiskProblem("inventory, gamma .99", _of(Inventory(), 0.99, 0.3)),
    "maintenance-long": RiskProblem("maintenance, gamma .99", _of(Maintenance(), 0.99, 0.3)),
    "rare-ruinous-long": RiskProblem(
        "a rarer drug that ruins, gamma .97", _of(RareAction(is_ruinous=True), 0.97, 0.15), 40
    ),
    "wet-chicken-bold": RiskProblem("Wet Chicken, half random", _process("wet-chicken", 0.95, 0.5)),
    "wards": RiskProblem(
        "drugs that cure by chance", partial(_wards, 0.1), 20, is_fixed=False, noise=_coin
    ),
    "wards-alike": RiskProblem(
        "rare drugs that cure less", partial(_wards, 0.0), 20, is_fixed=False, noise=_coin
    ),
    "corridors": RiskProblem("corridors and wards", partial(corridors, 0.1), is_fixed=False),
    "corridors-alike": RiskProblem(
        "corridors and wards that are alike", partial(corridors, 0.03), is_fixed=False
    ),
    "noisy-random-mdps": RiskProblem(
        "random MDPs, eta 0.9, rewards blurred",
        partial(_garnet, 0.9),
        is_fixed=False,
        noise=_blurred,
    ),
    "jackpots": RiskProblem(
        "random MDPs, eta 0.9, with jackpots",
        partial(_garnet, 0.9),
        is_fixed=False,
        noise=_jackpots,
    ),
    "purchases": RiskProblem("rare purchases", _shops, 20, is_fixed=False, noise=_coin),
    "frozen-lake": RiskProblem("FrozenLake", _process("frozen-lake", 0.95, 0.5), 200),
    "cliff-walking": RiskProblem("CliffWalking", _process("cliff-walking", 0.95, 0.5), 200),
    "sepsis": RiskProblem("ICU-Sepsis", _sepsis, 1_000),
}
