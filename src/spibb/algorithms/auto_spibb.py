"""Auto-SPIBB: the policy with the best expected gain for its risk, or the baseline.

Candidates are policies that maximise expected gain minus a penalty on uncertainty
(`spibb.posterior.penalised_search`), and the algorithms of the paper at several settings, on the
model of the counts and on the mean of the posterior. The posterior gives the mean and the standard
deviation of the gain of each (`spibb.posterior.gain_moments`). The candidate with the largest
mean - caution * deviation is returned if that is positive, and the baseline otherwise. Nothing is
drawn at random: the same log gives the same policy.

No guarantee is claimed beyond the regret test of every algorithm. Deviation: nobody has published
this choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import Algorithm, PolicyRecipe, Rng
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB
from spibb.algorithms.spibb_family import PiLeqBSPIBB
from spibb.errors import checked_number
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.planning import SearchResult, Status
from spibb.posterior.choice import Candidate, Choice, ModelKind
from spibb.posterior.gain_moments import GainMoments
from spibb.posterior.model import PosteriorModel, check_size
from spibb.posterior.penalised_search import PENALTIES, search
from spibb.problem import Problem, ProblemBatch
from spibb.problem.batch import Device, models_on

Array = NDArray[np.float64]
# Of a candidate: its algorithm, and on which model it is made.
Label = tuple[dict[str, Any], ModelKind]

# What is tried on each model, beside the penalised policies.
GRID: tuple[Algorithm, ...] = (
    *(PiLeqBSPIBB(n_wedge=x) for x in (1, 3, 10)),
    *(ApproxSoftSPIBB(epsilon=x, delta=1.0) for x in (0.25, 0.5, 1.0, 2.0, 4.0)),
)
PENALISED = "penalised"


@dataclass(frozen=True, kw_only=True)
class AutoSPIBB(Algorithm):
    """The algorithm and the setting that the log itself recommends, or the baseline.

    Args:
        caution: Standard deviations of the posterior by which the expected gain must exceed 0.

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
    caution: float = 1.25

    def __post_init__(self) -> None:
        checked_number(self.caution, "caution", "a number of standard deviations >= 0", least=0)

    def search(self, problems: ProblemBatch, rng: Rng = None) -> SearchResult:
        """Try all candidates, and return the best for each problem."""
        check_size(problems[0])
        models = [PosteriorModel.of(problem) for problem in problems]
        tried, labels, searches = candidates(problems, models, self.caution)
        ends = ending(problems.models, tried)
        choices, policies = [], problems.start.copy()
        n_iterations = np.zeros(len(problems), dtype=np.int64)
        status = np.full(len(problems), Status.BASELINE_KEPT, dtype=object)
        for place, model in enumerate(models):
            start = problems.start[place]
            choice = self.choose(model, tried[:, place], labels, start, ends[:, place])
            choices.append(choice)
            if choice.chosen is None:
                continue
            policies[place] = tried[choice.chosen, place]
            status[place] = Status.CHOSEN
            made = searches[choice.chosen]
            if made is not None:
                n_iterations[place] = made.n_iterations[place]
                ended = made.status[place]
                status[place] = Status.CHOSEN if ended.is_success else ended
        v, q, does_end = evaluate_batch(problems.models, policies)
        found = SearchResult(policies, v, q, n_iterations, status, choices)
        return problems.kept_where_endless(found, does_end)

    def recipe(self, finding: Choice) -> Callable[[Problem], Array]:
        """Return how the chosen candidate was made; the choice itself is not repeated."""
        if finding.chosen is None:
            return _start_of
        taken = finding.candidates[finding.chosen]
        if taken.algorithm["algorithm"] == PENALISED:
            return PenalisedRecipe(float(taken.algorithm["penalty"]), self.caution)
        return PolicyRecipe(Algorithm.from_config(taken.algorithm), taken.model)

    def choose(
        self,
        model: PosteriorModel,
        policies: Array,
        labels: Sequence[Label],
        start: Array | None = None,
        ends: NDArray[np.bool_] | None = None,
    ) -> Choice:
        """Judge the candidates of one problem, those that are the same policy once.

        Args:
            model: The posterior model of the problem.
            policies: The candidates, shape (C, S, A).
            labels: What they are.
            start: What is returned where none is taken; None: the baseline.
            ends: Which of them end in the model of the counts, shape (C,); None: all.
        """
        baseline = model.problem.baseline.probabilities
        is_other = start is not None and not np.array_equal(start, baseline)
        judged = policies if not is_other else np.concatenate([policies, np.asarray(start)[None]])
        _, first, which = np.unique(
            judged.reshape(len(judged), -1), axis=0, return_index=True, return_inverse=True
        )
        found = GainMoments.of(model).gains(judged[first])
        gains = [found[k] for k in which.ravel()]
        does_end = np.ones(len(labels), dtype=bool) if ends is None else ends
        tried = [
            Candidate(*label, gains[k], bool(does_end[k])) for k, label in enumerate(labels)
        ]  # fmt: skip
        choice = Choice.of(tried, self.caution, gains[-1] if is_other else None)
        return replace(choice, model=model)


@dataclass(frozen=True)
class PenalisedRecipe:
    """Make a penalised policy of a problem.

    Attributes:
        penalty: The penalty, one of `spibb.posterior.penalised_search.PENALTIES`.
        caution: Standard deviations by which unseen losses are raised.
    """

    penalty: float
    caution: float

    def __call__(self, problem: Problem) -> Array:
        """Return the policy's table."""
        found = _penalised(PosteriorModel.of(problem), self.caution)
        return np.asarray(found[PENALTIES.tolist().index(self.penalty)])


def _start_of(problem: Problem) -> Array:
    """Return the baseline, without what limits forbid."""
    return problem.start


def _penalised(model: PosteriorModel, caution: float) -> Array:
    """Return the penalised policies of a problem, shape (K, S, A)."""
    problem = model.problem
    most = None if problem.bounds is None else problem.bounds.upper
    return search(GainMoments.of(model), problem.start, most, caution)


def _takes_penalised(problem: Problem) -> bool:
    """Return whether bounds on actions are all the limits there are."""
    bounds = problem.bounds
    if bounds is None:
        return True
    may_change_all = bounds.max_states is None or bounds.max_states >= problem.counts.n_states
    return may_change_all and bounds.min_gain is None and bounds.costs is None


def ending(models: ModelBatch, tried: Array) -> NDArray[np.bool_]:
    """Return which policies end in each model, shape (C, B); with a discount none needs to.

    Args:
        models: The models of the counts.
        tried: Policies, shape (C, B, S, A).
    """
    if models.gamma < 1.0:
        return np.ones(tried.shape[:2], dtype=bool)
    return np.stack([evaluate_batch(models, policy)[2] for policy in tried])


def candidates(
    problems: ProblemBatch, models: Sequence[PosteriorModel], caution: float
) -> tuple[Array, list[Label], list[SearchResult | None]]:
    """Return policies (C, B, S, A), what each is, and the search that made it, if any.

    Args:
        problems: The problems.
        models: Their posterior models.
        caution: Standard deviations by which unseen losses are raised.
    """
    device: Device = "cuda" if problems.models.is_on_gpu else "cpu"
    policies: list[Array] = []
    labels: list[Label] = []
    searches: list[SearchResult | None] = []
    if _takes_penalised(problems[0]):
        policies += list(np.stack([_penalised(model, caution) for model in models], axis=1))
        labels += [({"algorithm": PENALISED, "penalty": float(x)}, "posterior") for x in PENALTIES]
        searches += [None] * len(PENALTIES)
    means = ModelBatch.stack([model.mean_model for model in models])
    batches: dict[ModelKind, ProblemBatch] = {
        "posterior": problems.with_models(models_on(means, device)),
        "counts": problems.counted,
    }
    for kind, batch in batches.items():
        for algorithm in GRID:
            made = algorithm.search(batch)
            policies.append(made.policy)
            labels.append((algorithm.to_config(), kind))
            searches.append(made)
    return np.stack(policies), labels, searches
