"""One random problem: a process with known truth, its baseline, and what a user would declare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.mdp.evaluation import evaluate
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy

Array = NDArray[np.float64]
Noise = Callable[[Array, np.random.Generator], Array]

MODERATE_EPISODES = 300  # a log of moderate size
# So many rows that show a damage are expected where 95 % of the logs hold one: exp(-3) = .05.
_ROWS_THAT_SHOW = 3.0
_SPREAD_EPISODES = 1_000
_SPREAD_SEED = 0


@dataclass(frozen=True, eq=False)
class Instance:
    """A process, its baseline, and what is known of both.

    Attributes:
        process: The true process; its rewards are the true means.
        baseline: The policy that makes the logs.
        max_steps: Longest episode of a log; longer ones are truncated. Values are not truncated.
        reward_range: Smallest and largest possible reward, as declared by the user; None: nothing
            is declared.
        noise: Turns mean rewards into observed rewards with these means; None: means are observed.
        damage_rate: Expected number of rows of an episode of the baseline that show a rare damage,
            such as a rare loss or a rare win that is given up; None: there is no rare damage.
        has_gain: Whether any policy is better than the baseline.
    """

    process: TabularMDP
    baseline: TabularPolicy
    max_steps: int
    reward_range: tuple[float, float] | None = None
    noise: Noise | None = None
    damage_rate: float | None = None
    has_gain: bool = True

    def shows_damage(self, n_episodes: int) -> bool:
        """Return whether a log of some size, or a declared range, can show the damage.

        It can where such a log holds at least three rows that show it, on average: then 95 % of the
        logs hold one (the rule of three). Elsewhere, and without a declared range, the log cannot
        decide.

        Args:
            n_episodes: Number of episodes.
        """
        if self.damage_rate is None or self.reward_range is not None:
            return True
        return self.damage_rate * n_episodes >= _ROWS_THAT_SHOW

    def log(self, n_episodes: int, rng: np.random.Generator) -> Log:
        """Draw a log of the baseline.

        Args:
            n_episodes: Number of episodes.
            rng: Source of randomness.
        """
        log = Log.sample(
            self.process, self.baseline, n_episodes=n_episodes, max_steps=self.max_steps, rng=rng
        )
        return log if self.noise is None else replace(log, reward=self.noise(log.reward, rng))

    def counts(self, n_episodes: int, rng: np.random.Generator) -> Counts:
        """Draw the counts of a log of the baseline, those of `log` with the same generator.

        Args:
            n_episodes: Number of episodes.
            rng: Source of randomness.
        """
        if self.noise is not None:
            return Counts.from_log(self.log(n_episodes, rng))
        return Counts.sample(
            self.process, self.baseline, n_episodes=n_episodes, max_steps=self.max_steps, rng=rng
        )

    def range_of_gain(self) -> float:
        """Return the largest possible gain: performance of the optimum less the baseline's."""
        best = solve(self.process).performance
        return best - evaluate(self.process, self.baseline).performance

    def range_of_loss(self) -> float:
        """Return the largest possible loss: the baseline's performance less the worst policy's."""
        opposite = self.process.with_reward(-self.process.reward)
        return evaluate(self.process, self.baseline).performance + solve(opposite).performance

    def spread_of_returns(self) -> float:
        """Return the standard deviation of observed discounted returns of the baseline.

        It is estimated on 1,000 episodes that are drawn with a fixed seed.
        """
        log = self.log(_SPREAD_EPISODES, np.random.default_rng(_SPREAD_SEED))
        assert log.step is not None
        assert log.is_first is not None
        weighted = log.reward * self.process.gamma ** log.step.astype(np.float64)
        return float(np.add.reduceat(weighted, np.flatnonzero(log.is_first)).std())

    def scale(self) -> float:
        """Return the unit in which a study tells gains.

        It is the largest possible gain. Where no gain is possible, it is the standard deviation of
        returns of the baseline.
        """
        return self.range_of_gain() if self.has_gain else self.spread_of_returns()
