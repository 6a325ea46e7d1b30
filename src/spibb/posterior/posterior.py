"""The posterior of a problem: what its log and two priors leave possible.

*Neutral*: a pair is expected to do what surrounds it does (spibb.data.prior). *Careful*: besides,
states, actions and pairs have hazards (spibb.data.hazards): steps that lead to the worst known and
pay the least; the least is the smallest reward the user says is possible, where a range was given.
In a process that goes on, a constant added to all rewards changes neither. Both take the states of
the log for all there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spibb.data.hazards import Hazards
from spibb.errors import SettingsError
from spibb.mdp.evaluation import LARGEST_DENSE
from spibb.posterior.draws import Draws, Surroundings, draw_baseline, draw_models, draw_starts
from spibb.posterior.moments import Moments, luck, moments
from spibb.posterior.performance import gains_by_state, performances, rounding
from spibb.posterior.together import solve_expected, widened, widening_where_solved
from spibb.problem import Problem
from spibb.progress import Progress, tell

Array = NDArray[np.float64]

# Draws that are held at once.
_CHUNK = 50
# Of an estimated baseline so many are drawn, each for some of the models.
_BASELINES = 50


def check_size(problem: Problem) -> None:
    """Refuse problems whose models are too large to be drawn in numbers."""
    if problem.counts.n_states > LARGEST_DENSE:
        raise SettingsError(
            f"risk of {problem.counts.n_states:,} states",
            expected=f"at most {LARGEST_DENSE:,}: each policy and draw is a linear system",
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
    def surroundings(self) -> Surroundings:
        """What is expected of pairs, from bad to good."""
        outcomes = self.problem.outcomes
        worth = outcomes.by_entry + self.problem.gamma * np.append(
            self.problem.expected_values, 0.0
        )
        return Surroundings.of(outcomes, self.problem.prior, worth)

    @property
    def priors(self) -> dict[str, Hazards | None]:
        """What each of the priors adds to what the log shows."""
        return {"neutral": None, "careful": self.problem.hazards}

    def gains(self, policies: Array, n_draws: int, seed: int = 0) -> dict[str, Array]:
        """Return gains of C policies over the baseline in draws, (C, n_draws) by prior.

        They are wider about their mean than the draws themselves, where pairs of an action may err
        alike (spibb.posterior.together), and by the luck of what a log chose
        (spibb.posterior.selection), which does not cancel.

        Args:
            policies: Shape (C, S, A).
            n_draws: Models drawn under each prior.
            seed: Source of randomness.
        """
        return self.gains_and_parts(policies, n_draws, 0, seed)[0]

    def gains_and_parts(
        self, policies: Array, n_draws: int, n_parts: int, seed: int = 0
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return gains as `gains` does, and what each state adds to that of the first policy.

        Each model is drawn once. The parts, shape (K, S) by prior, are those of the first K draws,
        of the known baseline or its estimate; they are not widened.

        Args:
            policies: Shape (C, S, A).
            n_draws: Models drawn under each prior.
            n_parts: K.
            seed: Source of randomness.
        """
        check_size(self.problem)
        found, added = {}, {}
        at_once = _CHUNK if self._habits is None else -(-n_draws // _BASELINES)
        for place, (name, hazards) in enumerate(self.priors.items()):
            earnings, parts = [], [np.empty((0, policies.shape[1]))]
            for first in range(0, n_draws, at_once):
                share = (place + first / n_draws) / len(self.priors)
                tell(Progress("policies in drawn models", share=share))
                numbered = range(first, min(first + at_once, n_draws))
                both = np.concatenate([self._baseline(first // at_once, seed)[None], policies])
                drawn = self._draws(numbered, seed, hazards)
                starts = self._starts(numbered, seed)
                earnings.append(performances(drawn, both, starts, self.problem.gamma))
                parts.append(self._parts(policies[0], drawn, starts, n_parts - first))
            earned = np.concatenate(earnings, axis=1)
            gain = earned[1:] - earned[0]
            # What rounding makes of a difference is neither gain nor harm.
            least = rounding(policies.shape[1]) * np.abs(earned[0])
            found[name] = np.where(np.abs(gain) <= least, 0.0, gain)
            added[name] = np.concatenate(parts)
        return widened(found, *self._wider(policies)), added

    def _parts(self, policy: Array, draws: Draws, starts: Array, most: int) -> Array:
        """Return what each state adds to the gain of a policy in the first draws, (K, S)."""
        baseline, gamma = self.problem.baseline.probabilities, self.problem.gamma
        places = range(min(max(most, 0), len(starts)))
        found = [gains_by_state(draws, k, policy, baseline, starts[k], gamma) for k in places]
        return np.asarray(found).reshape(len(places), len(policy))

    def _wider(self, policies: Array) -> tuple[Array, Array]:
        """Return how many times as wide gains are as drawn, and what luck they have besides."""
        problem = self.problem
        tried = np.concatenate([problem.baseline.probabilities[None], policies])
        solved = solve_expected(problem, tried)
        return widening_where_solved(problem, tried, *solved), luck(problem, tried, *solved)

    def moments(self, policies: Array) -> dict[str, Moments]:
        """Return mean and deviation of the gains of C policies, by prior, as a choice has them.

        Args:
            policies: Shape (C, S, A).
        """
        check_size(self.problem)
        return moments(self.problem, policies, self._habits)

    @cached_property
    def _habits(self) -> Array | None:
        """Shapes of the Dirichlet distribution of each row of an estimate; None: it is known.

        Their mean is the estimate, and their weight the state's own rows and one: what other states
        lent to the estimate makes it no surer.
        """
        problem = self.problem
        if not problem.baseline.is_estimated:
            return None
        n_x = problem.counts.n_sa.sum(axis=1)
        if problem.loggers is not None and problem.log is not None:
            n_x = np.bincount(problem.log.state, minlength=len(n_x))
        return np.asarray(problem.baseline.probabilities * (n_x + 1.0)[:, None])

    def _baseline(self, number: int, seed: int) -> Array:
        """Return the baseline, or a draw of what the log leaves possible of it."""
        if self._habits is None:
            return self.problem.baseline.probabilities
        return draw_baseline(self._habits, number, seed)

    def _draws(self, numbered: Sequence[int], seed: int, hazards: Hazards | None) -> Draws:
        outcomes, around = self.problem.outcomes, self.surroundings
        return draw_models(outcomes, around, numbered=numbered, seed=seed, hazards=hazards)

    def _starts(self, numbered: Sequence[int], seed: int) -> Array:
        """Draw distributions of the first state, one for each model; what is declared is known."""
        n_initial = self.problem.counts.n_initial
        if self.problem.declared.initial is not None or not n_initial.any():
            return np.tile(self.problem.expected.initial, (len(numbered), 1))
        return draw_starts(n_initial, numbered, seed)
