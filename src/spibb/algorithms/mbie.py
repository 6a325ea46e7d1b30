r"""Pessimistic MBIE: model-based interval estimation turned upside down (Scholl et al. 2022).

    pi = argmax_pi min_M rho(pi, M)   over   ||P - P^||_1 <= min(2, r_P(N)) for every pair

with the time-uniform radius r_P of spibb.certify.model_set, 2 where N = 0.

Strehl and Littman (2008) take the best model of these balls to explore; the worst one gives a
cautious plan. Rewards are taken as known: R^ where a pair was seen, the least reward where not.

Guarantee: none over the baseline by itself, since there is no safety test. The certificate states
the bound worst value of the policy minus best value of the baseline, which holds with probability
1 - delta if the rewards are known, and is negative as long as data are few.

Deviations: Scholl et al. take sqrt((2 / N) log(2 |X| |A| (2^|X| - 2) / delta)), for counts fixed in
advance and |X| outcomes; here counts may depend on outcomes, and ending and, unless the states are
declared complete, a state that nobody named are outcomes too. Rewards are R(x, a), not those of the
next state; values are exact; ties keep the baseline's row. RobustMDP treats rewards as uncertain
too, and tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from spibb.algorithms.base import Rng
from spibb.algorithms.robust_mdp import ModelSetAlgorithm, passed_or_kept
from spibb.certify.case import Case
from spibb.certify.certificate import Guarantee
from spibb.certify.model_set import ModelSet
from spibb.certify.robust import robust_test
from spibb.mdp.planning import SearchResult
from spibb.mdp.robust import robust_planning
from spibb.problem import ProblemBatch


@dataclass(frozen=True, kw_only=True)
class MBIE(ModelSetAlgorithm):
    """Plan for the worst transitions that the log cannot rule out, without a safety test.

    Args:
        delta: Allowed probability that the true transitions are not in the set.

    Example:
        Action 1 led to state 1, which pays 10, but it was seen once: it may as well end at once.

        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 99 + [0, 1], action=[0] * 99 + [1, 0],
        ...                       reward=[1.0] * 99 + [0.0, 10.0], next_state=[1] * 101,
        ...                       terminated=[True] * 99 + [False, True])
        >>> baseline = TabularPolicy([[0.9, 0.1], [1.0, 0.0]])
        >>> MBIE(delta=0.05).improve(log, baseline=baseline, gamma=0.9).policy.probabilities
        array([[1., 0.],
               [1., 0.]])
    """

    id: ClassVar[str] = "mbie"

    def search(self, problems: ProblemBatch, rng: Rng = None) -> SearchResult:
        """Plan in the worst models."""
        models = ModelSet.of(problems, self.delta, known_rewards=True)
        baseline = models.policy(problems.baseline)
        start = models.values(problems.baseline_values[0])
        plan = robust_planning(models.low, models.balls, baseline, start)
        policy = models.listed(plan.policy)
        return passed_or_kept(problems, policy, plan.n_iterations, plan.is_settled)

    def claim(self, case: Case, finding: Any = None) -> Guarantee | None:
        """Claim the worst value of the policy minus the best value of the baseline."""
        return robust_test(case, known_rewards=True)
