r"""Off-policy estimators of rho(pi) from episodes that the baseline made.

With g the discount, r_t rewards, w_t weights (spibb.ope.weights), T the last step, i the episode:

* ``is``      importance sampling: mean of w_T sum_t g^t r_t
* ``pdis``    per-decision (Precup, Sutton, Singh 2000): mean of sum_t g^t w_t r_t
* ``wis``     weighted: sum_i w_T^i G^i / sum_i w_T^i, G the return
* ``cwpdis``  consistent weighted per-decision (Thomas 2015):
              sum_t g^t (sum_i w_t^i r_t^i) / (sum_i w_t^i)
* ``dr``      doubly robust (Jiang and Li 2016): mean of v_0, where
              v_t = V^(x_t) + rho_t (r_t + g v_{t+1} - Q^(x_t, a_t)), and Q^, V^ are the policy's
              values in the model of the *other* folds, so that they do not know the episode, and
              in which the end of a record counts as an end
* ``model``   the value in the maximum-likelihood model

``is``, ``pdis`` and ``dr`` are means of one term for each episode, and unbiased for the return as
far as episodes are recorded; ``wis`` and ``cwpdis`` are consistent; ``model`` is neither, unless
the model is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spibb.data.estimate import Unseen
from spibb.errors import SettingsError
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.policy import TabularPolicy
from spibb.names import nearest
from spibb.ope.fitted import fit_models
from spibb.ope.model_value import ModelValue
from spibb.ope.statistics import Array, Mean, Statistic, StepwiseMean, WeightedMean
from spibb.ope.trajectories import Trajectories
from spibb.ope.weights import Tables, Walk, running_weights, walk
from spibb.problem import Problem

ESTIMATORS = {
    "is": "importance sampling",
    "pdis": "per-decision importance sampling",
    "wis": "weighted importance sampling",
    "cwpdis": "consistent weighted per-decision importance sampling",
    "dr": "doubly robust",
    "model": "model-based",
}
# Means of one term for each episode: bounds on means apply to them.
MEANS = ("is", "pdis", "dr")
# Their terms hold every step's weight, so the spread weight is what degenerates.
_PER_STEP = ("pdis", "cwpdis", "dr")
DEFAULT_FOLDS = 5


def checked_name(name: str, known: Sequence[str], what: str) -> str:
    """Return a name of a list, or refuse it and suggest the nearest."""
    if name in known:
        return name
    near = nearest(str(name), known)
    raise SettingsError(
        f"no {what} is called {name!r}",
        expected=f"one of {', '.join(known)}",
        hint=f"use {near!r}" if near else None,
    )


@dataclass(frozen=True, eq=False)
class OffPolicy:
    """One policy to be estimated on the episodes of another.

    Attributes:
        episodes: The episodes of the log.
        policy: Probabilities of the policy, shape (S, A).
        baseline: Probabilities of the policy that made the log, shape (S, A).
        gamma: The discount.
        unseen: What pairs without data do in fitted models.
    """

    episodes: Trajectories
    policy: Array
    baseline: Array
    gamma: float
    unseen: Unseen = "average"

    @classmethod
    def of(cls, problem: Problem, policy: TabularPolicy) -> OffPolicy:
        """Take the episodes of a problem, and a policy in its states and actions."""
        tables = policy.probabilities, problem.baseline.probabilities
        return cls(Trajectories.from_log(problem.log), *tables, problem.gamma, problem.unseen)

    @cached_property
    def plain(self) -> Walk:
        """Weights, returns and per-decision estimates of all episodes."""
        return walk(self.episodes, self.episodes.everything, self.tables(), self.gamma)

    def tables(self, q: Array | None = None) -> Tables:
        """Return what a walk looks up, with Q^ of shape (S, A) if given."""
        return Tables.of(self.policy[None], self.baseline, None if q is None else q[None])

    @property
    def unsupported(self) -> Array:
        """Probability that the policy leaves to actions the baseline never takes, in each state."""
        return np.asarray(np.where(self.baseline == 0.0, self.policy, 0.0).sum(axis=1))

    def weight(self, name: str) -> Array | None:
        """Return the weights whose degeneration spoils an estimator, shape (n,)."""
        if name == "model":
            return None
        return (self.plain.spread if name in _PER_STEP else self.plain.weight)[:, 0]

    def statistic(
        self, name: str, rng: np.random.Generator, n_folds: int = DEFAULT_FOLDS
    ) -> Statistic:
        """Return an estimator of the policy's value.

        Args:
            name: Which, by id.
            rng: Divides the episodes into folds, for the doubly robust one.
            n_folds: Number of folds.
        """
        checked_name(name, tuple(ESTIMATORS), "estimator")
        found = self.plain
        if name == "is":
            return Mean(found.weight[:, 0] * found.gain)
        if name == "pdis":
            return Mean(found.value[:, 0])
        if name == "wis":
            return WeightedMean(found.weight[:, 0], found.gain)
        if name == "cwpdis":
            weight = running_weights(self.episodes, self.tables().ratio[:, :, 0])
            return StepwiseMean(self.episodes, weight, self.gamma)
        if name == "dr":
            return Mean(self._doubly_robust(rng, n_folds))
        return ModelValue(self.episodes, self.policy, self.gamma, self.unseen)

    def _doubly_robust(self, rng: np.random.Generator, n_folds: int) -> Array:
        folds = make_folds(self.episodes.everything, n_folds, rng)
        others = [np.concatenate(folds[:k] + folds[k + 1 :]) for k in range(len(folds))]
        choices = [(self.episodes, part) for part in others]
        models = fit_models(choices, self.gamma, unseen=self.unseen).as_recorded(choices)
        _, q, ends = evaluate_batch(models, np.broadcast_to(self.policy, models.shape).copy())
        # Any Q^ will do; where gamma = 1 and the policy does not end in the model, there is none.
        q[~ends] = 0.0
        terms = np.empty(len(self.episodes))
        for k, fold in enumerate(folds):
            terms[fold] = walk(self.episodes, fold, self.tables(q[k]), self.gamma).value[:, 0]
        return terms


def make_folds(
    episodes: NDArray[np.int64], n_folds: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Divide episodes at random into folds of nearly equal size, as many as there can be."""
    shuffled = rng.permutation(episodes)
    return np.array_split(shuffled, min(n_folds, len(episodes)))
