"""The posterior of a problem: what its log and two priors leave possible.

*Neutral*: a pair is expected to do what surrounds it does (spibb.data.prior). *Careful*: besides,
it may lead to the worst known, a state or an end, and pay the least, for as much as a step seen,
and where nothing was ever done the least is paid for ever; the least is the smallest reward the
user says is possible, where a range was given. In a process that goes on, a constant added to all
rewards changes neither. Both take the states of the log for all there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spibb.errors import SettingsError
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import LARGEST_DENSE, evaluate_batch
from spibb.posterior.draws import NO_DREAD, Draws, Dread, Surroundings, draw_models, draw_starts
from spibb.posterior.performance import gains_by_state, performances, rounding
from spibb.problem import Problem

Array = NDArray[np.float64]

# Steps a pair that a careful prior gives to the worst: with n seen and nothing bad among them, it
# is as likely as 1 / (n + 1).
DREAD = 1.0
# Draws that are held at once.
_CHUNK = 50


def check_size(problem: Problem) -> None:
    """Refuse problems whose models are too large to be drawn in numbers."""
    if problem.counts.n_states > LARGEST_DENSE:
        raise SettingsError(
            f"risk of {problem.counts.n_states:,} states",
            expected=f"at most {LARGEST_DENSE:,}: each draw is a linear system of as many",
            hint="group states, or use an algorithm with a setting of your own",
        )


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of a problem.

    Attributes:
        problem: The problem.
    """

    problem: Problem

    @cached_property
    def model(self) -> ModelBatch:
        """The mean of the neutral posterior: the shrunk model, as a batch of one."""
        return ModelBatch.stack([self.problem.estimate("shrunk")])

    @cached_property
    def v(self) -> Array:
        """Values of the baseline in that model, shape (S,)."""
        v, _, _ = evaluate_batch(self.model, self.problem.baseline.probabilities[None].copy())
        return np.asarray(np.nan_to_num(v[0]))

    @cached_property
    def dread(self) -> Dread:
        """What the careful prior adds."""
        counts = self.problem.counts
        v = np.where(counts.n_sa.sum(axis=1) > 0, self.v, np.inf)
        # Where the process was seen to end, an end, worth nothing more, may be the worst of all.
        v = np.append(v, 0.0 if counts.n_ended else np.inf)
        # Without a discount nothing could be paid for ever: as long as the log's steps go on.
        ending = counts.n_ended / counts.n_sa.sum() if self.problem.gamma == 1.0 else 0.0
        return Dread(DREAD, int(v.argmin()), self.problem.values.low, 1.0 - ending)

    @cached_property
    def surroundings(self) -> Surroundings:
        """What is expected of pairs, from bad to good."""
        outcomes = self.problem.outcomes
        worth = outcomes.by_entry + self.problem.gamma * np.append(self.v, 0.0)
        return Surroundings.of(outcomes, self.problem.prior, worth)

    @property
    def priors(self) -> dict[str, Dread]:
        """What each of the priors adds to what the log shows."""
        return {"neutral": NO_DREAD, "careful": self.dread}

    def gains(self, policies: Array, n_draws: int, seed: int = 0) -> dict[str, Array]:
        """Return gains of C policies over the baseline in draws, (C, n_draws) by prior."""
        check_size(self.problem)
        both = np.concatenate([self.problem.baseline.probabilities[None], policies])
        found = {}
        for name, dread in self.priors.items():
            parts = [
                self._performances(both, range(first, min(first + _CHUNK, n_draws)), seed, dread)
                for first in range(0, n_draws, _CHUNK)
            ]
            drawn = np.concatenate(parts, axis=1)
            gain = drawn[1:] - drawn[0]
            # What rounding makes of a difference is neither gain nor harm.
            least = rounding(policies.shape[1]) * np.abs(drawn[0])
            found[name] = np.where(np.abs(gain) <= least, 0.0, gain)
        return found

    def gains_by_state(
        self, policy: Array, prior: str, numbered: Sequence[int], seed: int = 0
    ) -> Array:
        """Return what each state adds to the gain of a policy in each of K draws, (K, S)."""
        draws = self._draws(numbered, seed, self.priors[prior])
        starts = self._starts(numbered, seed)
        baseline, gamma = self.problem.baseline.probabilities, self.problem.gamma
        parts = [
            gains_by_state(draws, place, policy, baseline, starts[place], gamma)
            for place in range(len(numbered))
        ]
        return np.asarray(parts)

    def _draws(self, numbered: Sequence[int], seed: int, dread: Dread) -> Draws:
        outcomes, around = self.problem.outcomes, self.surroundings
        return draw_models(outcomes, around, numbered=numbered, seed=seed, dread=dread)

    def _performances(
        self, policies: Array, numbered: Sequence[int], seed: int, dread: Dread
    ) -> Array:
        draws = self._draws(numbered, seed, dread)
        return performances(draws, policies, self._starts(numbered, seed), self.problem.gamma)

    def _starts(self, numbered: Sequence[int], seed: int) -> Array:
        """Draw distributions of the first state, one for each model; what is declared is known."""
        n_initial = self.problem.counts.n_initial
        if self.problem.declared.initial is not None or not n_initial.any():
            return np.repeat(self.model.initial, len(numbered), axis=0)
        return draw_starts(n_initial, numbered, seed)
