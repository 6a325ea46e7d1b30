"""Auto-SPIBB: which algorithm, which setting, on which model? The log decides.

Candidates are made by the algorithms of the paper at several settings, on the model of the counts,
on the shrunk one and on the careful one, which knows hazards. Each is judged by what the posterior
of the log says of its gain over the baseline, its mean mu and its deviation sigma, under a neutral
and a careful prior (spibb.posterior.moments). The one with the largest mu - z sigma, under the
prior that is harsher on it, is returned if that is positive, the baseline if not. Nothing is drawn:
the same log gives the same policy.

z is a caution, not a quantile: the log that judges a candidate made it too, and z absorbs that. No
guarantee is claimed beyond the regret test of every algorithm. Deviation: none has published this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import Algorithm, PolicyRecipe, Rng
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB, ExactSoftSPIBB
from spibb.algorithms.spibb_family import PiBSPIBB, PiLeqBSPIBB
from spibb.errors import SettingsError, checked_number
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.planning import SearchResult, Status
from spibb.posterior.choice import Candidate, Choice
from spibb.posterior.posterior import Posterior, check_size
from spibb.posterior.risk import Gain
from spibb.problem import Problem, ProblemBatch
from spibb.problem.batch import Device, models_on
from spibb.problem.problem import ModelKind

Array = NDArray[np.float64]
# Of a candidate: its algorithm, on which model, and how much of it the policy has.
Label = tuple[dict[str, Any], ModelKind, float]

# What is tried on each model. What dares much is tried on models that dare little.
GRID: dict[ModelKind, tuple[Algorithm, ...]] = {
    "counts": (
        *(ApproxSoftSPIBB(epsilon=x, delta=1.0) for x in (0.25, 1.0, 4.0)),
        *(PiLeqBSPIBB(n_wedge=x) for x in (3, 10, 50)),
        PiBSPIBB(n_wedge=10),
    ),
    "shrunk": (
        *(ApproxSoftSPIBB(epsilon=x, delta=1.0) for x in (0.25, 0.5, 1.0, 2.0, 4.0)),
        *(ExactSoftSPIBB(epsilon=x, delta=1.0) for x in (1.0, 4.0)),
        *(PiLeqBSPIBB(n_wedge=x) for x in (1, 3, 5, 10, 20)),
    ),
    "careful": (
        *(ApproxSoftSPIBB(epsilon=x, delta=1.0) for x in (0.25, 0.5, 1.0, 2.0, 4.0)),
        *(ExactSoftSPIBB(epsilon=x, delta=1.0) for x in (1.0, 4.0)),
        *(PiLeqBSPIBB(n_wedge=x) for x in (1, 3, 5, 10)),
    ),
}
# Shares of the boldest candidate that are mixed with the baseline.
MIXTURES = (0.25, 0.5)


@dataclass(frozen=True, kw_only=True)
class AutoSPIBB(Algorithm):
    """The algorithm and the setting that the log itself recommends, or the baseline.

    Args:
        caution: z: the gain must exceed so many standard deviations of the posterior.

    Example:
        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 40, action=[0] * 20 + [1] * 20,
        ...                       reward=[0.0, 1.0] * 10 + [5.0, 6.0] * 10, episode=range(40),
        ...                       terminated=[True] * 40)
        >>> AutoSPIBB().improve(log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9).policy["0"]
        {0: 0.0, 1: 1.0}
    """

    id: ClassVar[str] = "auto-spibb"
    keeps_limits: ClassVar[bool] = True
    keeps_costs: ClassVar[bool] = True
    caution: float = 2.0

    def __post_init__(self) -> None:
        checked_number(self.caution, "caution", "a number of standard deviations >= 0", least=0)

    def search(self, problems: ProblemBatch, rng: Rng = None) -> SearchResult:
        """Try all candidates, and return the best for each problem."""
        check_size(problems[0])
        if problems[0].model_kind != "counts":
            raise SettingsError(
                f"{self.id} on the model {problems[0].model_kind!r} alone",
                expected="no model: it tries candidates on all of them",
                hint="leave the model out, or name the algorithm that is to be made on it",
            )
        tried, labels, searches = candidates(problems)
        ends = ending(problems.models, tried)
        choices, policies = [], problems.start.copy()
        n_iterations = np.zeros(len(problems), dtype=np.int64)
        status = np.full(len(problems), Status.BASELINE_KEPT, dtype=object)
        for place, problem in enumerate(problems):
            choice = self.choose(
                problem, tried[:, place], labels, problems.start[place], ends[:, place]
            )
            choices.append(choice)
            if choice.chosen is not None:
                policies[place] = tried[choice.chosen, place]
                search = searches[choice.chosen]
                n_iterations[place] = search.n_iterations[place]
                ended = search.status[place]
                status[place] = Status.CHOSEN if ended.is_success else ended
        v, q, does_end = evaluate_batch(problems.models, policies)
        found = SearchResult(policies, v, q, n_iterations, status, choices)
        return problems.kept_where_endless(found, does_end)

    def recipe(self, finding: Choice) -> PolicyRecipe:
        """Return how the chosen candidate was made; the choice itself is not repeated."""
        if finding.chosen is None:
            return PolicyRecipe(self, share=0.0)
        taken = finding.candidates[finding.chosen]
        return PolicyRecipe(Algorithm.from_config(taken.algorithm), taken.model, taken.share)

    def choose(
        self,
        problem: Problem,
        policies: Array,
        labels: Sequence[Label],
        start: Array | None = None,
        ends: NDArray[np.bool_] | None = None,
    ) -> Choice:
        """Judge the candidates of one problem, those that are the same policy once.

        Args:
            problem: The log and its baseline.
            policies: The candidates, shape (C, S, A).
            labels: What they are.
            start: What is returned where none is taken; None: the baseline.
            ends: Which of them end in the model of the counts, shape (C,); None: all.
        """
        baseline = problem.baseline.probabilities
        is_other = start is not None and not np.array_equal(start, baseline)
        judged = policies if not is_other else np.concatenate([policies, np.asarray(start)[None]])
        flat = judged.reshape(len(judged), -1)
        _, first, which = np.unique(flat, axis=0, return_index=True, return_inverse=True)
        of_each = Posterior(problem).moments(judged[first])
        gains = [
            {
                name: Gain.normal(float(found.mean[k]), float(found.deviation[k]))
                for name, found in of_each.items()
            }
            for k in which.ravel()
        ]
        does_end = np.ones(len(labels), dtype=bool) if ends is None else ends
        tried = [Candidate(*label, gains[k], bool(does_end[k])) for k, label in enumerate(labels)]
        return Choice.of(tried, self.caution, gains[-1] if is_other else None)


def ending(models: ModelBatch, tried: Array) -> NDArray[np.bool_]:
    """Return which policies end in each model, shape (C, B); with a discount none needs to.

    Args:
        models: The models of the counts.
        tried: Policies, shape (C, B, S, A).
    """
    if models.gamma < 1.0:
        return np.ones(tried.shape[:2], dtype=bool)
    return np.stack([evaluate_batch(models, policy)[2] for policy in tried])


def candidates(problems: ProblemBatch) -> tuple[Array, list[Label], list[SearchResult]]:
    """Return policies (C, B, S, A), what each is, and the search that made it."""
    device: Device = "cuda" if problems.models.is_on_gpu else "cpu"
    searches, policies = [], []
    labels: list[Label] = []
    for model, algorithms in GRID.items():
        if model == "counts":
            batch = problems.counted
        else:
            models = ModelBatch.stack([problem.estimate(model) for problem in problems])
            batch = problems.with_models(models_on(models, device))
        for algorithm in algorithms:
            found = algorithm.search(batch)
            policies.append(found.policy)
            labels.append((algorithm.to_config(), model, 1.0))
            searches.append(found)
    boldest = labels.index((PiLeqBSPIBB(n_wedge=1).to_config(), "shrunk", 1.0))
    for share in MIXTURES:
        policies.append((1.0 - share) * problems.start + share * policies[boldest])
        labels.append((*labels[boldest][:2], share))
        searches.append(searches[boldest])
    return np.stack(policies), labels, searches
