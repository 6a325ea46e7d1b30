r"""The doubly robust estimator (Jiang and Li 2016): the mean of v_0.

    v_t = V^(x_t) + rho_t (r_t + g v_{t+1} - Q^(x_t, a_t))

Q^, V^ are the policy's values in the model of the *other* folds, so that they do not know the
episode, and in which the end of a record counts as an end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spibb.mdp.evaluation import evaluate_batch
from spibb.ope.estimators.base import MeanEstimator
from spibb.ope.fitted import fit_models
from spibb.ope.split import all_but_one
from spibb.ope.statistics import Array, Mean
from spibb.ope.weights import ImportanceWeights, walk

if TYPE_CHECKING:
    from spibb.ope.off_policy import OffPolicy

N_FOLDS = 5


class DoublyRobustEstimator(MeanEstimator):
    """The mean of values that weights correct."""

    id = "dr"
    title = "doubly robust"
    is_per_step = True
    needs_q = True
    needs_table = True

    def about(self, walk: ImportanceWeights, end: float = 0.0) -> Array:
        """Return v_0: about any end, the tails of what Q^ did not foresee lie on both sides."""
        return walk.value

    def statistic(self, off: OffPolicy, rng: np.random.Generator) -> Mean:
        """Return the estimate, with the Q^ of each fold from the others."""
        shuffled = rng.permutation(off.episodes.everything)
        folds = np.array_split(shuffled, min(N_FOLDS, len(shuffled)))
        choices, unions = [(off.episodes, fold) for fold in folds], all_but_one(range(len(folds)))
        models = fit_models(choices, off.gamma, unseen=off.unseen, unions=unions).recorded
        _, q, ends = evaluate_batch(models, np.broadcast_to(off.table, models.shape).copy())
        # Any Q^ will do; where gamma = 1 and the policy does not end in the model, there is none.
        q[~ends] = 0.0
        parts = [(fold, off.tables(q[k])) for k, fold in enumerate(folds)]
        found, terms = walk(off.walked, parts, off.gamma), np.empty(len(off.episodes))
        terms[found.chosen] = found.value[:, 0]
        return Mean(terms)
