"""Rates of rare outcomes that the log has not shown yet.

The rule of three: what never happened in N rows may happen 3 / N of the time. Here an action that
was taken N times may have the outcome with a probability of Beta(c, N), where c is the share of
actions that have rare outcomes of this sign. A pair may have it with a probability of Beta(k, n); k
is the share of pairs. A pair that has shown such outcomes has a rate of events for them, and its
rate of unseen ones is divided by 1 + the number seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spibb.posterior.model import PosteriorModel

Array = NDArray[np.float64]

# Rows from which on a pair counts for half in the number of pairs.
_HALF = 10.0
# An outcome is a pair's own where it is less than this share of its rows.
_RARE = 0.3
# Standard deviations by which such outcomes of a pair exceed what its state and action explain.
_CLEAR = 2.0


@dataclass(frozen=True, eq=False)
class UnseenRates:
    """Rates of unseen losses, or of unseen wins, in a model.

    Attributes:
        model: The model.
        is_loss: Whether the outcomes are losses.
    """

    model: PosteriorModel
    is_loss: bool

    def _share(self, n: Array, events: Array) -> tuple[float, float]:
        """Return how many of some groups of rows have rare outcomes, and of how many.

        Args:
            n: Rows of each group.
            events: Outcomes of each group beyond what the rest of the log explains.
        """
        settings, seen = self.model.settings, n > 0.0
        found = float((events / np.maximum(events, 1.0))[seen].sum()) if events.any() else 0.0
        return settings.prior_losses + found, settings.prior_groups + float((n / (n + _HALF)).sum())

    @cached_property
    def _of_pairs(self) -> tuple[float, float]:
        """Pseudo-counts of pairs with rare outcomes of their own, and of all pairs."""
        n = self.model.rows.n
        own = np.zeros(n.shape)
        for one in self.model.events:
            if one.is_loss == self.is_loss:
                is_rare = one.sums.n < _RARE * n
                expected = n * one.base
                excess = one.sums.n - expected - _CLEAR * np.sqrt(expected)
                own += np.where(is_rare, np.maximum(excess, 0.0), 0.0)
        return self._share(n, own)

    @cached_property
    def _of_actions(self) -> tuple[float, float]:
        """Pseudo-counts of actions with rare outcomes, and of all actions."""
        n = self.model.rows.n.sum(axis=0)
        own = np.zeros(len(n))
        for one in self.model.events:
            if one.is_loss == self.is_loss:
                own += one.of_actions
        return self._share(n, own)

    @cached_property
    def _c(self) -> float:
        return self._of_actions[0] / self._of_actions[1]

    @cached_property
    def of_actions(self) -> Array:
        """Mean rates by action, shape (A,)."""
        return np.asarray(self._c / (self.model.rows.n.sum(axis=0) + self._c + 1e-12))

    @cached_property
    def of_pairs(self) -> Array:
        """Mean rates by pair, shape (S, A)."""
        k = self._of_pairs[0] / self._of_pairs[1]
        return np.asarray(k / (self.model.rows.n + k + 1e-12) / (1.0 + self._seen))

    @cached_property
    def _seen(self) -> Array:
        """Outcomes of this sign that were seen, by pair: those have rates of their own."""
        seen = [one.sums.n for one in self.model.events if one.is_loss == self.is_loss]
        return sum(seen, np.zeros(self.model.rows.n.shape))

    def moments(self, at_stake: Array) -> tuple[Array, Array]:
        """Return mean and variance of what unseen outcomes cost.

        Args:
            at_stake: What one of them costs at a pair, times how often, shape (K, S, A).
        """
        n, by_action = self.model.rows.n, self.of_actions
        k = self._of_pairs[0] / self._of_pairs[1]
        of_action = at_stake.sum(axis=1)
        by_pair = self.of_pairs * at_stake
        total = by_pair.sum(axis=(1, 2))
        variance = (at_stake**2 * self.of_pairs * (1.0 - self.of_pairs) / (n + k + 1.0)).sum(
            axis=(1, 2)
        )
        # All pairs share k, which is hardly known.
        variance += total**2 / max(self._of_pairs[0], 1e-300)
        spread = by_action * (1.0 - by_action) / (n.sum(axis=0) + self._c + 1.0)
        return total + of_action @ by_action, variance + of_action**2 @ spread

    def by_state(self, at_stake: Array) -> tuple[Array, Array]:
        """Return mean and variance of what the pairs of each state cost, shapes (S,).

        Args:
            at_stake: What an unseen outcome costs at a pair, times how often, shape (S, A).
        """
        rate = self.of_pairs
        spread = rate * (1.0 - rate) / (self.model.rows.n + 1.0)
        return (at_stake * rate).sum(axis=1), (at_stake**2 * spread).sum(axis=1)

    def price(self, caution: float) -> Array:
        """Return the rate at which a policy should expect them, by pair, shape (S, A).

        Args:
            caution: Standard deviations by which rates of actions are raised.
        """
        rate = self.of_actions
        rows = self.model.rows.n.sum(axis=0) + self._c + 1.0
        raised = rate + 0.5 * caution * np.sqrt(rate * (1.0 - rate) / rows)
        return np.asarray(raised + self.of_pairs)
