r"""The model-based estimate: the policy's value in the maximum-likelihood model of the log.

It needs no weights and has little variance, but a bias that no resample shows: what pairs without
data, and states the baseline seldom visits, are worth. Its jackknife values are infinitesimal
(derivatives with respect to the weight of an episode, Efron 1982): with d(x, a) the policy's
discounted visits in the model, N(x, a) counts, n episodes and rho^ the estimate,

    (n - 1) l_i = V^(x_0) - rho^ + n sum_t d(x_t, a_t) / N(x_t, a_t) delta_t
    delta_t = r_t + g V^(x_{t+1}) - Q^(x_t, a_t)

since R^ and P^ are means over the rows of a pair, and dV^ = (I - g P^_pi)^-1 d(R^ + g P^ V^)_pi.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.data.estimate import Unseen
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.visits import discounted_visits
from spibb.ope.estimators.base import Estimator
from spibb.ope.fitted import Fitted, fit_models
from spibb.ope.log_return import LogReturn, contradiction
from spibb.ope.statistics import Array, Statistic
from spibb.ope.support import Visits, too_little_data
from spibb.ope.trajectories import Trajectories
from spibb.ope.weights import Walk

if TYPE_CHECKING:
    from spibb.ope.off_policy import OffPolicy

# Up to here thousands of models are refitted in seconds; larger ones have no interval.
_LARGEST_RESAMPLED, _CHUNK = 128, 64
# A larger share of visits on pairs without data is worth a warning.
_LARGEST_UNSEEN = 0.01


class ModelBased(Estimator):
    """The value in the model of all episodes."""

    id = "model"
    title = "model-based"
    tests_gains = False

    def weight(self, walk: Walk) -> None:
        """Return nothing: there are no weights."""

    def statistic(self, off: OffPolicy, rng: np.random.Generator) -> ModelValue:
        """Return the estimate."""
        return ModelValue(off.episodes, off.policy, off.gamma, off.unseen)


@dataclass(frozen=True, eq=False)
class ModelValue(Statistic):
    """Performance of a policy in the model fitted to the episodes.

    Attributes:
        episodes: The episodes of the log.
        policy: Probabilities, shape (S, A).
        gamma: The discount.
        unseen: What pairs without data do.
    """

    episodes: Trajectories
    policy: Array
    gamma: float
    unseen: Unseen = "average"

    @property
    def n(self) -> int:
        """Number of episodes."""
        return len(self.episodes)

    @property
    def estimate(self) -> float:
        """V^ averaged over the first states; NaN where the policy does not end and gamma = 1."""
        return float(self._performance(self._model)[0])

    @property
    def unseen_share(self) -> float:
        """Share of the policy's discounted visits in the model that fall on pairs without data."""
        paid = (self._fitted.n_sa == 0.0).astype(np.float64)
        visits = self._performance(replace(self._model, reward=paid))[0]
        everything = self._performance(replace(self._model, reward=np.ones_like(paid)))[0]
        return float(visits / everything)

    @property
    def is_resampled(self) -> bool:
        """Whether the model is small enough."""
        return len(self.policy) <= _LARGEST_RESAMPLED

    @property
    def warnings(self) -> list[str]:
        """On how little data the model rests, and whether it is too large to be refitted."""
        found = []
        if self.unseen_share > _LARGEST_UNSEEN:
            found.append(
                f"{100 * self.unseen_share:.1f} % of the policy's discounted visits in the model "
                "fall on pairs without data, of which it knows nothing."
            )
        if not self.is_resampled:
            found.append(
                f"Models of more than {_LARGEST_RESAMPLED} states are not refitted to resamples."
            )
        return found

    def withheld(self, baseline: Array, found: LogReturn | None) -> str | None:
        """Say why the model is too poor to estimate this policy by, by the rule of `improve`."""
        mine, theirs = (
            Visits.of(self._model, table, v[0], self._fitted.n_sa[0])
            for table in (self.policy, baseline)
            for v, _, _ in [evaluate_batch(self._model, table[None].copy())]
        )
        reason = too_little_data(mine, theirs, "policy")
        return reason or contradiction(found, replace(self, policy=baseline).estimate)

    def resampled(self, indices: NDArray[np.int64]) -> Array:
        """Refit the model to each resample."""
        chunks = np.array_split(indices, max(1, len(indices) // _CHUNK))
        return np.concatenate([self._performance(self._fit(chunk).models) for chunk in chunks])

    def jackknife(self) -> Array:
        """Return the infinitesimal jackknife values."""
        v, q, _ = evaluate_batch(self._model, self.policy[None].copy())
        rows = self.episodes
        known = rows.next_state >= 0
        later = np.where(known & ~rows.ended, v[0][np.where(known, rows.next_state, 0)], 0.0)
        surprise = rows.reward + self.gamma * later - q[0][rows.state, rows.action]
        share = (self._visits / np.maximum(self._fitted.n_sa[0], 1.0))[rows.state, rows.action]
        kept = known | rows.ended
        summed = np.add.reduceat(np.where(kept, share * surprise, 0.0), rows.start[:-1])
        start = v[0][rows.state[rows.start[:-1]]]
        return np.asarray((start - start.mean() + self.n * summed) / max(self.n - 1, 1))

    @cached_property
    def _fitted(self) -> Fitted:
        return self._fit(self.episodes.everything[None])

    def _fit(self, indices: NDArray[np.int64]) -> Fitted:
        choices = [(self.episodes, part) for part in indices]
        return fit_models(choices, self.gamma, unseen=self.unseen)

    @property
    def _model(self) -> ModelBatch:
        return self._fitted.models

    @property
    def _visits(self) -> Array:
        """Discounted visits d(x, a) of the policy in the model."""
        return discounted_visits(self._model, 0, self.policy)[:, None] * self.policy

    def _performance(self, models: ModelBatch) -> Array:
        policies = np.broadcast_to(self.policy, models.shape).copy()
        v, _, _ = evaluate_batch(models, policies)
        return np.asarray((models.initial * v).sum(axis=1))
