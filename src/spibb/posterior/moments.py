"""Mean and deviation of many gains at once, without a draw: what a choice among policies is by.

A gain, J(pi) - J(b), is a smooth function of what is unknown, which varies about the mean model. To
first order its mean is the gain in that model, and its variance a sum over what varies by itself:
with w and w_b the discounted visits of a pair by policy and baseline, V and V_b their values,

    sum_xa Var_q(f) / (n + k + 1),
    f(y) = w (u + h(y) + gamma V(y)) - w_b (u + h(y) + gamma V_b(y))

for what follows the pairs, and as much for the noise of rewards, for hazards of states and of pairs
(spibb.data.hazards; an action's stands at its limit, and does not vary), for the first state, and
for a baseline that was estimated. With q = p and k = m that is what drawn models say, within the
error of a hundred draws. Who chooses by the log that flatters must allow for more, four times:

*The spread is pooled.* A pair that was lucky both times that it was seen does not know what else
may follow it: q has what followed the pair's surroundings for `POOLED` rows, where the mean has it
for m. What a pair is expected to do is its own, how much that may vary is not.

*A prior makes nothing surer.* Its strength m was found on the same log. It moves what is expected
of a pair; where it is asked how well the pair is known it counts for a row at most, k = min(m, 1).

*What was chosen because it looked good errs on one side* (spibb.posterior.selection), under the
neutral prior: of what that makes all counts as a deviation of its own where a pair was seen once,
and about half where it was seen often; all where each row is believed, m at its least, and only
what pairs pay where m is as large as spreads are pooled. What a gain owes to rewards that were paid
once (spibb.data.once) counts whole.

*Pairs of an action may err alike*, where the log finds actions of a state alike (see
spibb.posterior.together): the whole deviation is as many times wider as a report's is, whose ratio
is of what pairs err by without either of these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.data.prior import STRENGTHS, Prior
from spibb.mdp.batch import ModelArrays
from spibb.posterior.draws import Draws
from spibb.posterior.performance import LARGEST_DISCOUNT, rounding, values_and_visits
from spibb.posterior.selection import errors_of_advantages, following, one_sided, owed_to_once
from spibb.posterior.together import widening_where_solved
from spibb.problem import Problem
from spibb.progress import Progress, tell

Array = NDArray[np.float64]

# Rows of its surroundings by which the spread of what follows a pair is told, at least.
POOLED = 32.0
# Rows that a prior is worth at most where it is asked how well a pair is known.
SURER = 1.0
# Share of what gains err by if all errors of what was chosen are of one sign, of pairs that were
# seen often; all of it of a pair seen once.
SELECTED = 0.45
# The same where what follows pairs is not their own, and rewards vary by chance.
SELECTED_FOR_PAY = 0.2
# Actions of a state are alike where what follows anywhere is worth no more rows beside them.
_ALIKE = 8.0


class Moments(NamedTuple):
    """Gains of C policies under one prior.

    Attributes:
        mean: Shape (C,).
        deviation: Shape (C,).
    """

    mean: Array
    deviation: Array


class Feared(NamedTuple):
    """Hazards as they are expected, and how much they vary.

    Attributes:
        in_state: Mean and variance by state, shape (2, S).
        by_pair: Mean and variance by pair, shape (2, S, A).
        by_action: Shape (A,).
        unseen: Share of an action's hazard that pays the least, shape (A,).
        is_hit: Which states have hazards, shape (S,).
        varies: In which states what follows is not certain, shape (S,).
        state: Where a hazard leads; S: it ends.
        reward: What it pays.
    """

    in_state: Array
    by_pair: Array
    by_action: Array
    unseen: Array
    is_hit: NDArray[np.bool_]
    varies: NDArray[np.bool_]
    state: int
    reward: float

    @classmethod
    def nothing(cls, problem: Problem) -> Feared:
        """Return what a neutral prior fears."""
        live, (n_states, n_actions) = problem.outcomes.live, problem.outcomes.n_sa.shape
        none = np.zeros(n_actions)
        shapes = np.zeros((2, n_states)), np.zeros((2, n_states, n_actions))
        return cls(*shapes, none, none, np.zeros(n_states, dtype=bool), live, 0, 0.0)

    @classmethod
    def of(cls, problem: Problem) -> Feared:
        """Return what a choice allows for."""
        outcomes, hazards = problem.outcomes, problem.hazards
        n_sa, choosing = outcomes.n_sa, hazards.choosing
        varies = outcomes.live & (n_sa.sum(axis=1) > 0.0)
        happens, spares = choosing.by_pair
        return cls(
            _of_beta(*hazards.in_state),
            _of_beta(np.full(n_sa.shape, happens), n_sa + spares),
            hazards.limits,
            choosing.unseen,
            varies & (np.arange(len(n_sa)) != hazards.state),
            varies,
            int(hazards.state),
            float(hazards.reward),
        )


def _of_beta(happens: Array, spares: Array) -> Array:
    """Return mean and variance of beta distributions."""
    total = happens + spares
    mean = happens / total
    return np.asarray([mean, mean * (1.0 - mean) / (total + 1.0)])


def moments(problem: Problem, policies: Array, habits: Array | None) -> dict[str, Moments]:
    """Return mean and deviation of the gains of C policies over the baseline, by prior.

    Args:
        problem: The log and its baseline.
        policies: Shape (C, S, A).
        habits: Shapes of the Dirichlet distributions of a baseline that was estimated, (S, A).
    """
    tried = np.concatenate([problem.baseline.probabilities[None], policies])
    prior, known = problem.prior, problem.careful_prior
    tell(Progress("candidates under two priors", share=0.0))
    neutral, solved = _moments(
        problem, tried, problem.expected, problem.expected, prior, Feared.nothing(problem), habits
    )
    tell(Progress("candidates under two priors", share=0.5))
    careful, _ = _moments(
        problem, tried, problem.careful, problem.shrunk(known), known, Feared.of(problem), habits
    )
    wider = widening_where_solved(problem, tried, *solved, _ALIKE)
    lucky = luck(problem, tried, *solved)
    return {
        "neutral": Moments(neutral.mean, np.hypot(wider * neutral.deviation, lucky)),
        "careful": Moments(careful.mean, wider * careful.deviation),
    }


def luck(problem: Problem, tried: Array, values: Array, visits: Array) -> Array:
    """Return what gains of C policies err by because these were made of the log, shape (C,).

    Args:
        problem: The log and its baseline.
        tried: The baseline, then the policies, shape (1 + C, S, A).
        values: Their values in the shrunk model, shape (1 + C, S).
        visits: Their discounted visits there, shape (1 + C, S).
    """
    n, strength = problem.outcomes.n_sa, problem.prior.strength
    of_baseline = problem, values[0], min(problem.gamma, LARGEST_DISCOUNT), POOLED, SURER
    counted = SELECTED + (1.0 - SELECTED) / np.maximum(n, 1.0)
    # What surrounds a pair counts for as little as it can, and each of its rows is believed; or for
    # as many rows as spreads are pooled by, and what follows it is hardly its own.
    counted[strength <= STRENGTHS[0]] = 1.0
    is_strong = strength >= POOLED
    counted[is_strong] = 0.0
    found = owed_to_once(problem.paid_once, tried, visits)
    if not is_strong.all():
        found += one_sided(counted * errors_of_advantages(*of_baseline), tried, visits)
    if problem.outcomes.is_noisy and is_strong.any():
        of_pay = is_strong[:, None] * errors_of_advantages(*of_baseline, paid_alone=True)
        found += SELECTED_FOR_PAY * one_sided(of_pay, tried, visits)
    return found


def _moments(
    problem: Problem,
    tried: Array,
    mean: ModelArrays,
    spared: ModelArrays,
    prior: Prior,
    feared: Feared,
    habits: Array | None,
) -> tuple[Moments, tuple[Array, Array]]:
    """Return moments under one prior, and values and visits in its mean model.

    Args:
        problem: The log and its baseline.
        tried: The baseline, then the policies.
        mean: The mean model.
        spared: What it would be without hazards.
        prior: What is expected of pairs.
        feared: The hazards.
        habits: What is known of an estimated baseline.
    """
    gamma = min(problem.gamma, LARGEST_DISCOUNT)
    values, visits = values_and_visits(Draws.single(mean), tried, mean.initial, gamma)
    pooled = problem.shrunk(prior._replace(strength=np.maximum(prior.strength, POOLED)))
    ahead = gamma * following(spared) @ values.T
    surer, told = np.minimum(prior.strength, SURER), np.maximum(prior.strength, POOLED)
    variance = _variances(
        Draws.single(pooled), pooled.ending, problem.outcomes, surer, told, spared.reward, ahead,
        feared, tried, values, visits, gamma,
    )  # fmt: skip
    variance += _of_entries(problem, spared, feared, tried, visits)
    variance += _of_start(problem, mean.initial, values)
    if habits is not None:
        q = mean.reward + (gamma * following(mean) @ values[0]).reshape(mean.reward.shape)
        variance += _of_habits(habits, q, visits[0])
    earned = values @ mean.initial
    gain = earned[1:] - earned[0]
    # What rounding makes of a difference is neither gain nor harm.
    gain[np.abs(gain) <= rounding(tried.shape[1]) * abs(earned[0])] = 0.0
    return Moments(gain, np.sqrt(variance)), (values, visits)


def _of_entries(
    problem: Problem, spared: ModelArrays, feared: Feared, tried: Array, visits: Array
) -> Array:
    """Return how much gains vary by what outcomes add to rewards."""
    variance = problem.outcomes.entry_variance
    if not variance.any():
        return np.zeros(len(tried) - 1)
    paid = np.where(feared.varies, 1.0, 0.0)[:, None] * np.where(
        feared.is_hit[:, None],
        (1.0 - feared.in_state[0])[:, None]
        * (1.0 - feared.by_pair[0])
        * (1.0 - feared.unseen * feared.by_action),
        1.0,
    )
    w = visits[:, :, None] * tried
    more = (paid * (w[1:] - w[0])).reshape(len(tried) - 1, -1)
    into = np.asarray(following(spared).T @ more.T).T
    ended = more @ spared.ending.ravel()
    return np.asarray(into**2 @ variance[:-1] + ended**2 * variance[-1])


def _of_start(problem: Problem, initial: Array, values: Array) -> Array:
    """Return how much gains vary by where episodes begin; what is declared is known."""
    n_initial = problem.counts.n_initial
    if problem.declared.initial is not None or not n_initial.any():
        return np.zeros(len(values) - 1)
    gains = values[1:] - values[0]
    spread = (gains**2) @ initial - (gains @ initial) ** 2
    return np.asarray(np.maximum(spread, 0.0) / (n_initial.sum() + 1.0))


def _of_habits(habits: Array, q: Array, visits: Array) -> float:
    """Return how much gains vary by what an estimated baseline may be."""
    total = habits.sum(axis=1)
    p = habits / total[:, None]
    spread = (p * q**2).sum(axis=1) - (p * q).sum(axis=1) ** 2
    return float((visits**2 * np.maximum(spread, 0.0) / (total + 1.0)).sum())


@jit
def _variances(  # type: ignore[no-untyped-def]
    pooled, ending, outcomes, surer, rows, paid, ahead, feared, tried, values, visits, gamma
):
    """Return the variances of gains by what follows pairs, and by hazards, shape (C,)."""
    n_tried, n_states, n_actions = tried.shape
    found = np.zeros(n_tried - 1)
    for c in range(1, n_tried):
        for x in range(n_states):
            if not feared.varies[x]:
                continue
            by_state = 0.0
            for a in range(n_actions):
                w, w_b = visits[c, x] * tried[c, x, a], visits[0, x] * tried[0, x, a]
                if w == 0.0 and w_b == 0.0:
                    continue
                pair, n = x * n_actions + a, outcomes.n_sa[x, a]
                keeps, goes_on = 1.0, 1.0
                if feared.is_hit[x]:
                    in_state, by_pair = feared.in_state[0, x], feared.by_pair[0, x, a]
                    hazard, unseen = feared.by_action[a], feared.unseen[a] * feared.by_action[a]
                    happens = (1.0 - unseen) * (w - w_b) * (feared.reward - paid[x, a])
                    happens -= (1.0 - hazard) * (w * ahead[pair, c] - w_b * ahead[pair, 0])
                    if feared.state < n_states:
                        worst = w * values[c, feared.state] - w_b * values[0, feared.state]
                        happens += (1.0 - hazard) * gamma * worst
                    by_state += (1.0 - by_pair) * happens
                    found[c - 1] += feared.by_pair[1, x, a] * ((1.0 - in_state) * happens) ** 2
                    spared = (1.0 - in_state) * (1.0 - by_pair)
                    keeps, goes_on = spared * (1.0 - unseen), spared * (1.0 - hazard)
                # What follows, as the surroundings have it; then what the pair itself pays more.
                more, own = keeps * (w - w_b), outcomes.by_pair[x, a] - outcomes.by_state[x]
                first = ending[x, a] * more * outcomes.by_entry[n_states]
                second = ending[x, a] * (more * outcomes.by_entry[n_states]) ** 2
                for k in range(pooled.indptr[pair], pooled.indptr[pair + 1]):
                    y, p = pooled.indices[0, k], pooled.weights[0, k]
                    f = goes_on * gamma * (w * values[c, y] - w_b * values[0, y])
                    f += more * outcomes.by_entry[y]
                    first += p * f
                    second += p * f * f
                for k in range(outcomes.indptr[pair], outcomes.indptr[pair + 1]):
                    y, p = outcomes.indices[k], outcomes.counts[k] / (n + rows[x])
                    f = more * outcomes.by_entry[y]
                    if y < n_states:
                        f += goes_on * gamma * (w * values[c, y] - w_b * values[0, y])
                    first += p * more * own
                    second += p * (2.0 * f + more * own) * more * own
                found[c - 1] += max(second - first * first, 0.0) / (n + surer[x] + 1.0)
                found[c - 1] += more * more * outcomes.variance[x, a] / (n + surer[x])
            found[c - 1] += feared.in_state[1, x] * by_state * by_state
    return found
