"""What outcomes may cost that the log has not shown yet.

Where a policy takes an action more often than the baseline, it may meet a **loss** that was never
seen: the worst outcome. It is the least reward, followed by the worst state that was seen. Where a
smaller reward is declared than the log holds, something worse than all of the log must exist. Then
it is followed by the worst of all states, also of those that were never entered.

Where a policy takes an action less often, it may give up a **win** that was never seen. Only where
a larger reward is declared than the log holds can there be one: it pays the difference.

The other direction does not count: the returns of the log contain what the baseline suffers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spibb.posterior.model import PosteriorModel
from spibb.posterior.unseen_rates import UnseenRates

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class UnseenLosses:
    """Unseen losses, and unseen wins that are given up.

    Attributes:
        model: The model.
        losses: Rates of losses.
        wins: Rates of wins.
    """

    model: PosteriorModel
    losses: UnseenRates
    wins: UnseenRates

    @classmethod
    def of(cls, model: PosteriorModel) -> UnseenLosses:
        """Prepare the rates of a model."""
        return cls(model, UnseenRates(model, True), UnseenRates(model, False))

    @cached_property
    def worst(self) -> float:
        """What the worst outcome is worth."""
        model = self.model
        v = model.baseline_values.v[0]
        is_hidden = (
            not model.problem.values.is_observed
            and model.least < model.problem.counts.reward_range[0]
        )
        v = v[model.is_seen | model.is_unentered] if is_hidden else v[model.is_seen]
        lowest = float(v.min())
        end = 0.0 if model.rows.ends.any() else lowest
        return model.least + model.gamma * min(lowest, end)

    @cached_property
    def win(self) -> float:
        """How much the largest declared reward exceeds all of the log."""
        values = self.model.problem.values
        if values.is_observed:
            return 0.0
        return max(float(values.high) - self.model.problem.counts.reward_range[1], 0.0)

    def moments(self, more: Array, q: Array) -> tuple[Array, Array]:
        """Return mean and variance of what unseen outcomes cost policies.

        Args:
            more: How often a policy takes a pair more than the baseline, shape (K, S, A).
            q: What a pair is worth, shape (K, S, A).
        """
        mean, variance = self.losses.moments(np.maximum(more, 0.0) * self._loss(q))
        if self.win > 0.0:
            of_wins = self.wins.moments(np.maximum(-more, 0.0) * self._win)
            mean, variance = mean + of_wins[0], variance + of_wins[1]
        return mean, variance

    def by_state(self, more: Array, q: Array) -> tuple[Array, Array]:
        """Return mean and variance of what they cost in each state by its own pairs, shapes (S,).

        Args:
            more: How much more likely a policy takes an action than the baseline, shape (S, A).
            q: What a pair is worth, shape (S, A).
        """
        of_losses = self.losses.by_state(np.maximum(more, 0.0) * self._loss(q))
        of_wins = self.wins.by_state(np.maximum(-more, 0.0) * self._win)
        return of_losses[0] + of_wins[0], of_losses[1] + of_wins[1]

    def prices(self, q: Array, caution: float) -> tuple[Array, Array]:
        """Return what to expect to lose by taking a pair more often, and by taking it less often.

        Args:
            q: What a pair is worth, shape (K, S, A).
            caution: Standard deviations by which rates of actions are raised.
        """
        more, less = self.losses.price(caution), self.wins.price(caution)
        return more * self._loss(q), less * self._win

    def _loss(self, q: Array) -> Array:
        """How much worse the worst outcome is than a pair."""
        return np.asarray(np.maximum(q - self.worst, 0.0) * self.model.is_seen[:, None])

    @property
    def _win(self) -> Array:
        """How much a win pays that was never seen, shape (S, 1)."""
        return np.asarray(self.win * self.model.is_seen[:, None])
