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

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.threads import over_chunks
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.visits import discounted_visits
from spibb.ope.estimators.base import Estimator
from spibb.ope.fitted import FittedModels, fit_models, residuals
from spibb.ope.log_return import LogReturn, contradiction
from spibb.ope.statistics import Array, Statistic
from spibb.ope.support import Visits, too_little_data

if TYPE_CHECKING:
    from spibb.ope.off_policy import OffPolicy

# Up to here thousands of models are refitted in seconds; larger ones have no interval.
_LARGEST_RESAMPLED, _CHUNK = 128, 64
# A larger share of visits on pairs without data is worth a warning.
_LARGEST_UNSEEN = 0.01


class ModelBasedEstimator(Estimator):
    """The value in the model of all episodes."""

    id = "model"
    title = "model-based"
    needs_table = True

    def statistic(self, off: OffPolicy, rng: np.random.Generator) -> ModelValue:
        """Return the estimate."""
        return ModelValue(off)


@dataclass(frozen=True, eq=False)
class ModelValue(Statistic):
    """Performance of a policy in the model fitted to the episodes.

    Attributes:
        off: The policy, and the episodes.
    """

    off: OffPolicy

    def __len__(self) -> int:
        return len(self.off.episodes)

    @property
    def estimate(self) -> float:
        """V^ averaged over the first states; NaN where the policy does not end and gamma = 1."""
        return float(self._performance(self._fitted.models, self.off.table)[0])

    @property
    def is_resampled(self) -> bool:
        """Whether the model is small enough."""
        return len(self.off.table) <= _LARGEST_RESAMPLED

    @property
    def warnings(self) -> list[str]:
        """On how little data the model rests, and whether it is too large to be refitted."""
        found, unseen = [], self._visits(self.off.table).unobserved
        if unseen > _LARGEST_UNSEEN:
            found.append(
                f"{100 * unseen:.1f} % of the policy's discounted visits in the model fall on "
                "pairs without data, of which it knows nothing."
            )
        if not self.is_resampled:
            found.append(
                f"Models of more than {_LARGEST_RESAMPLED} states are not refitted to resamples."
            )
        return found

    def withheld(self, found: LogReturn | None) -> str | None:
        """Say why the model is too poor to estimate this policy by, by the rule of `improve`."""
        policy, baseline = self.off.table, self.off.baseline
        reason = too_little_data(self._visits(policy), self._visits(baseline), "policy")
        value = float(self._performance(self._fitted.models, baseline)[0])
        return reason or contradiction(found, value)

    def resampled(self, indices: NDArray[np.int64]) -> Array:
        """Refit the model to each resample."""
        found = np.empty(len(indices))

        def part(places: NDArray[np.int64]) -> None:
            for chunk in np.array_split(places, max(1, len(places) // _CHUNK)):
                found[chunk] = self._performance(self._fit(indices[chunk]).models, self.off.table)

        over_chunks(part, np.arange(len(indices)))
        return found

    def jackknife(self) -> Array:
        """Return the infinitesimal jackknife values."""
        rows, policy, models = self.off.episodes, self.off.table, self._fitted.models
        v, q, _ = evaluate_batch(models, policy[None].copy())
        visits = discounted_visits(models, 0, policy)[:, None] * policy
        share = (visits / np.maximum(self._fitted.n_sa[0], 1.0))[rows.state, rows.action]
        surprise, _ = residuals(rows, v[0], q[0], self.off.gamma)
        summed = np.add.reduceat(share * surprise, rows.start[:-1])
        start = v[0][rows.state[rows.start[:-1]]]
        return np.asarray((start - start.mean() + len(self) * summed) / max(len(self) - 1, 1))

    @cached_property
    def _fitted(self) -> FittedModels:
        return self._fit(self.off.episodes.everything[None])

    def _fit(self, indices: NDArray[np.int64]) -> FittedModels:
        choices = [(self.off.episodes, part) for part in indices]
        return fit_models(choices, self.off.gamma, unseen=self.off.unseen)

    def _visits(self, policy: Array) -> Visits:
        v, _, _ = evaluate_batch(self._fitted.models, policy[None].copy())
        return Visits.of(self._fitted.models, policy, v[0], self._fitted.n_sa[0])

    def _performance(self, models: ModelBatch, policy: Array) -> Array:
        v, _, _ = evaluate_batch(models, np.broadcast_to(policy, models.shape).copy())
        return np.asarray((models.initial * v).sum(axis=1))
