"""Decision points: change only where observed returns prove that a change loses nothing.

One half of the episodes picks K pairs (x, a*) that look better than the other actions of x; on the
other half x is changed to a* only if

    LCB(Q_b(x, a*)) >= UCB(Q_b(x, others)),   each at delta / 2K, by betting on first-visit returns

where `others` are the baseline's other actions in x as it takes them, one return an episode. Then
a* is worth at least what the baseline does in x, and by the performance-difference lemma V^pi >=
V^pi_b in *every* state with probability 1 - delta, however many states change: no model, no
horizon, no number of states.

After Sharma et al. 2025 (DPRL), repaired: there the number of frequent pairs is random, and their
union bound over it is not valid; here K is fixed by the first half. Comparing a* with the other
actions rather than with V_b, of which it is a part, changes more states at the same level.

That the baseline made the log is assumed, and named: a test of the actions can refuse it, but not
prove it. Whoever made the log, what they did, b', loses nothing by the same changes: V^pi' >=
V^b'. Without the assumption this is not about the baseline that was given.

Records that stop early are completed on the safe side: by the least return that is possible from a
pair that shall rise, and the largest from those that shall fall.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import DEFAULT_DELTA, Algorithm, Rng
from spibb.certify import checks
from spibb.certify.case import Case
from spibb.certify.certificate import Condition, Guarantee
from spibb.certify.theorems import MADE_BY_BASELINE, MARKOV
from spibb.data.returns import FirstVisits, first_visits
from spibb.errors import checked_number
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.planning import SearchResult, Status
from spibb.ope.betting import betting
from spibb.ope.return_range import ReturnRange, checked_range
from spibb.problem import Problem, ProblemBatch
from spibb.uncertainty.error_functions import checked_delta

Array = NDArray[np.float64]

# Returns that a mean and its spread are taken from, on either side, before a pair is picked.
_FEWEST = 5


class Points(NamedTuple):
    """What was found on one log.

    Attributes:
        states: The states that were picked.
        actions: The actions that looked best in them.
        is_changed: Which of them the other half confirmed.
        known: The range of returns.
    """

    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    is_changed: NDArray[np.bool_]
    known: ReturnRange


@dataclass(frozen=True, kw_only=True)
class DecisionPoints(Algorithm):
    """Change the baseline only where returns prove, state by state, that nothing is lost.

    Args:
        delta: Allowed probability that any state loses.
        least_lead: By how many standard errors a pair must lead in the first half to be tested: the
            more are tested, the harder is each test.
        return_range: Smallest and largest return possible from any step on; None: what the range of
            rewards implies, which is far wider where rewards are rare.

    Example:
        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 400, action=[0, 0, 1, 1] * 100, episode=range(400),
        ...                       reward=[0.1, 0.2, 0.8, 0.9] * 100, terminated=[True] * 400)
        >>> DecisionPoints(return_range=(0, 1)).improve(
        ...     log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9).policy.probabilities
        array([[0., 1.]])
    """

    id: ClassVar[str] = "decision-points"
    delta: float = DEFAULT_DELTA
    least_lead: float = 2.0
    return_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        checked_delta(self.delta)
        checked_number(self.least_lead, "least_lead", "standard errors >= 0", least=0)
        if self.return_range is not None:
            object.__setattr__(self, "return_range", checked_range(self.return_range))

    def search(self, problems: ProblemBatch, rng: Rng = None) -> SearchResult:
        """Pick and test points, for each problem of the batch."""
        policies, found = problems.baseline.copy(), []
        for place, problem in enumerate(problems):
            points = self._points(problem)
            states, actions = points.states[points.is_changed], points.actions[points.is_changed]
            policies[place, states] = 0.0
            policies[place, states, actions] = 1.0
            found.append(points)
        status = [
            Status.ONE_STEP if one.is_changed.any() else Status.BASELINE_KEPT for one in found
        ]
        v, q, ends = evaluate_batch(problems.models, policies)
        steps = np.array([one.is_changed.any() for one in found], dtype=np.int64)
        result = SearchResult(policies, v, q, steps, np.array(status, dtype=object), found)
        return problems.kept_where_endless(result, ends)

    def claim(self, case: Case, finding: Any = None) -> Guarantee | None:
        """Claim that nothing is lost, in any state."""
        return _guarantee(case, finding)

    @property
    def needs_log(self) -> bool:
        """Yes: returns are observed along episodes."""
        return True

    @property
    def leads_with_claim(self) -> bool:
        """Its test is exact."""
        return True

    def _points(self, problem: Problem) -> Points:
        visits = first_visits(problem.episodes(), problem.gamma)
        known = _range(problem, self.return_range, visits)
        picks = visits.episode % 2 == 0
        states, actions = _picked(problem, _part(visits, picks), self.least_lead, known)
        tested, changed = _part(visits, ~picks), np.zeros(len(states), dtype=np.bool_)
        n_actions, level = problem.counts.n_actions, self.delta / max(2 * len(states), 1)
        state, action = np.divmod(tested.pair, n_actions)
        for k, (x, a) in enumerate(zip(states, actions, strict=True)):
            rises = np.flatnonzero((state == x) & (action == a))
            falls = np.flatnonzero((state == x) & (action != a))
            # One return of an episode: the first by any of them, chosen as the baseline chooses.
            falls = falls[np.unique(tested.episode[falls], return_index=True)[1]]
            least = tested.gain[rises] + tested.cut[rises] * known.low
            most = tested.gain[falls] + tested.cut[falls] * known.high
            changed[k] = _lower(least - known.low, level) + known.low >= known.high - _lower(
                known.high - most, level
            )
        return Points(states, actions, changed, known)


def _range(problem: Problem, given: tuple[float, float] | None, visits: FirstVisits) -> ReturnRange:
    """Return the range of returns, held to those that are complete."""
    complete = visits.gain[visits.cut == 0.0]
    if given is not None and not len(complete):
        return ReturnRange(*given, problem.values, is_given=True)
    return ReturnRange.of(problem.values, given, complete)


def _lower(terms: Array, delta: float) -> float:
    """Return a lower bound on the mean of terms >= 0: nothing is known of none.

    A return that was cut off may be completed to less than the least there is; it is then that.
    """
    return betting(np.maximum(terms, 0.0), delta) if len(terms) else 0.0


def _part(visits: FirstVisits, chosen: NDArray[np.bool_]) -> FirstVisits:
    """Return the visits of some episodes, in the order of the log."""
    kept = np.flatnonzero(chosen)
    kept = kept[np.argsort(visits.row[kept])]
    columns: list[Any] = [column[kept] for column in visits]
    return FirstVisits(*columns)


def _picked(
    problem: Problem, visits: FirstVisits, least_lead: float, known: ReturnRange
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the states in which an action leads the others, and that action."""
    shape = problem.counts.n_sa.shape
    gain = visits.gain + visits.cut * (known.low + known.high) / 2.0
    gain = gain - gain.mean() if len(gain) else gain
    n, total, square = (
        np.bincount(visits.pair, values, shape[0] * shape[1]).reshape(shape)
        for values in (np.ones(len(gain)), gain, gain**2)
    )
    others = [column.sum(axis=1, keepdims=True) - column for column in (n, total, square)]

    def moments(n: Any, total: Any, square: Any) -> tuple[Array, Array]:
        mean = total / np.maximum(n, 1.0)
        variance = np.maximum(square / np.maximum(n, 1.0) - mean**2, 0.0)
        return mean, variance / np.maximum(n, 1.0)

    mean, error = moments(n, total, square)
    mean_others, error_others = moments(*others)
    # Returns that never varied say nothing of how far the mean may be off.
    spread = np.sqrt(error + error_others) + 1e-12 * (known.high - known.low)
    lead = np.where((n >= _FEWEST) & (others[0] >= _FEWEST), (mean - mean_others) / spread, -np.inf)
    # What the baseline does anyway changes nothing.
    lead = np.where(problem.baseline.probabilities < 1.0, lead, -np.inf)
    best = lead.argmax(axis=1)
    states = np.flatnonzero(lead[np.arange(shape[0]), best] >= max(least_lead, 1e-9))
    return states, best[states]


def _guarantee(case: Case, points: Points) -> Guarantee:
    """State what the tests guarantee."""
    baseline, n_changed = case.problem.baseline, int(points.is_changed.sum())
    known = "the baseline's probabilities are known, not estimated from the log"
    discount, is_below = "gamma < 1", case.problem.gamma < 1.0
    conditions = (
        Condition("discount", discount, True, is_below, case.problem.gamma, 1.0),
        Condition("propensities", known, is_satisfied=not baseline.is_estimated),
        checks.made_by_baseline(case),
        checks.no_gaps(case),
    )
    is_read_off = case.problem.values.is_observed and not points.known.is_given
    proviso = case.problem.values.proviso if n_changed and is_read_off else None
    holds = all(condition.is_satisfied for condition in conditions) or not n_changed
    span = f"[{points.known.low:g}, {points.known.high:g}]"
    return Guarantee(
        theorem="Decision points",
        statement="In no state is the policy worth less than the baseline: returns of the second "
        f"half of the episodes confirmed {n_changed} of {len(points.states)} changes that the "
        "first half picked.",
        conditions=conditions,
        assumptions=(
            MADE_BY_BASELINE,
            MARKOV,
            "Episodes are independent of each other, and where records stop has nothing to do with "
            "what would have followed.",
            f"Returns, from any step on, lie in {span}.",
        ),
        delta=case.delta,
        bound=0.0 if holds else None,
        details={"n_points": float(len(points.states)), "n_changed": float(n_changed)},
        worst_loss=2.0 * case.problem.values.v_max,
        is_exact=proviso is None,
        proviso=proviso,
    )
