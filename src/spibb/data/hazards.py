"""What may happen though the log hardly shows it: hazards of states, of actions and of pairs.

With a small probability a step leads to the worst known, a state or (where the process was seen to
end) an end, and pays the least. A *state* has such a hazard whatever is done there, an *action*
wherever it is done, a *pair* for itself, independent of each other, each as if it had happened so
many times more than was seen:

    Beta(1, N_x),   Beta(1 + D_a, N_a - D_a),   Beta(1/4, n + 3/4),

on average 1 / (N_x + 1), (1 + D_a) / (N_a + 1), 1/4 / (n + 1); N_a counts the uses of an action
outside of the worst state, D_a those that led there, less what its states did whatever was done in
them: where only the dying die, care that only the dying are given does not kill. A log that begins
on the safe side of a frontier holds little of the states behind it; an action that ruins now and
then has done so in some of its states and looks harmless in the others. What policy and baseline
share, states and actions, weighs on both; a pair is dreaded less. Where nothing was ever done,
because records stop there, the least is paid for ever.

A report says what is likely, and draws all three. Who *chooses* by the same log must allow for more
where luck is not averaged: states and pairs are many, but whether the one action that a policy is
about ruins is a single draw, and the log that flatters it most is the one that recommends it. So a
choice, and the careful model, take an action's hazard at its *limit*, the most that the log leaves
possible at 99 % (Clopper and Pearson's: the quantile of that beta; about five in N_a where it never
happened), with all that it was seen to lead to, whatever its states explain. Of pairs they expect
half as much, since caution multiplies what is left of their spread.

Besides, what happened in a state under its other actions is not ignored, though a log may be
likelier so (c is at most 2, see spibb.data.prior): where falls were seen, hardly known actions look
harmless by what follows anywhere, and policies go for just those. And what surrounds a pair counts
for a row at least: what happened once may be chance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.special
from numpy.typing import NDArray

from spibb.data.outcomes import Outcomes
from spibb.mdp.batch import ModelArrays, Rows

Array = NDArray[np.float64]

# Times that what was never seen is taken to have happened.
IN_STATE, BY_ACTION, BY_PAIR = 1.0, 1.0, 0.25
_BY_PAIR_CHOOSING = 0.125
# What an action's hazard exceeds with the probability that is left is beyond its limit.
_LEVEL = 0.99
# Rows that what follows anywhere is worth at most beside the other actions of a state.
LARGEST_SHARE = 2.0
# Rows that the surroundings of a pair are worth at least: what happened once may be chance.
LEAST_STRENGTH = 1.0


class Hazards(NamedTuple):
    """What a careful prior expects beside what the log shows.

    Attributes:
        state: Where a step of hazard leads; S: it ends.
        reward: What it pays.
        stay: Probability to stay in a state in which nothing was ever done.
        in_state: The two shapes of its beta by state, shape (2, S).
        by_action: Those by action, shape (2, A).
        unseen: Share of an action's hazard that was never seen, and pays the least, shape (A,).
        by_pair: Shapes by pair, to the second of which n is added.
        n_led: How often each action led to the worst, whatever its states explain, shape (A,).
    """

    state: int
    reward: float
    stay: float
    in_state: Array
    by_action: Array
    unseen: Array
    by_pair: tuple[float, float]
    n_led: Array

    @classmethod
    def of(cls, outcomes: Outcomes, *, worst: int, least: float, stay: float) -> Hazards:
        """Count what each state and action was seen to do.

        Args:
            outcomes: What followed in the log.
            worst: The worst known; S: the end.
            least: The least reward.
            stay: Probability to stay in a state in which nothing was ever done.
        """
        n_sa, n_actions = outcomes.n_sa, outcomes.n_sa.shape[1]
        elsewhere = np.arange(len(n_sa)) != worst
        pair = outcomes.pair
        led = (outcomes.indices == worst) & elsewhere[pair // n_actions]
        by_pair = np.bincount(pair[led], outcomes.counts[led], n_sa.size).reshape(n_sa.shape)
        in_state = by_pair.sum(axis=1) / np.maximum(n_sa.sum(axis=1), 1.0)
        explained = (n_sa * in_state[:, None]).sum(axis=0)
        n_led, n_a = by_pair.sum(axis=0), n_sa[elsewhere].sum(axis=0)
        return cls(
            worst,
            least,
            stay,
            np.array([np.full(len(n_sa), IN_STATE), n_sa.sum(axis=1) + 1.0 - IN_STATE]),
            *_by_action(np.maximum(n_led - explained, 0.0), n_a),
            (BY_PAIR, 1.0 - BY_PAIR),
            n_led,
        )

    @property
    def choosing(self) -> Hazards:
        """What a choice expects; of actions it takes the `limits`."""
        shapes, unseen = _by_action(self.n_led, self.by_action.sum(axis=0) - 1.0)
        by_pair = (_BY_PAIR_CHOOSING, 1.0 - _BY_PAIR_CHOOSING)
        return self._replace(by_action=shapes, unseen=unseen, by_pair=by_pair)

    @property
    def limits(self) -> Array:
        """The most that the log leaves possible of an action's hazard, shape (A,)."""
        happened, spared = self.choosing.by_action
        found = scipy.special.betaincinv(happened, np.maximum(spared, 1e-9), _LEVEL)
        return np.where(spared > 0.0, found, 1.0)


def _by_action(happened: Array, n_a: Array) -> tuple[Array, Array]:
    """Return shapes of the beta of actions, and which share of it was never seen."""
    shapes = np.array([BY_ACTION + happened, n_a - happened + 1.0 - BY_ACTION])
    return shapes, np.asarray(BY_ACTION / (BY_ACTION + happened), dtype=np.float64)


def careful_model(model: ModelArrays, outcomes: Outcomes, hazards: Hazards) -> ModelArrays:
    """Return the mean of what a choice allows for: the shrunk model, with hazards.

    Args:
        model: The shrunk model.
        outcomes: What followed in the log.
        hazards: What may happen besides.
    """
    n_states, n_actions = outcomes.n_sa.shape
    of_state, of_action = hazards.in_state[0] / hazards.in_state.sum(axis=0), hazards.limits
    choosing = hazards.choosing
    first, second = choosing.by_pair
    # Neither that of the state nor that of the pair.
    spared = (1.0 - of_state[:, None]) * (1.0 - first / (outcomes.n_sa + first + second))
    # The worst is no worse for a hazard, and a terminal state has none.
    hit = (outcomes.live & (np.arange(n_states) != hazards.state))[:, None]
    unknown = outcomes.live & (outcomes.n_sa.sum(axis=1) == 0.0)
    hazard = np.where(hit, 1.0 - spared * (1.0 - of_action), 0.0)
    least = np.where(hit, 1.0 - spared * (1.0 - choosing.unseen * of_action), 0.0)
    hazard[unknown], least[unknown] = 1.0, 1.0
    pairs = np.arange(outcomes.n_sa.size)
    target = np.where(unknown, np.arange(n_states), hazards.state).repeat(n_actions)
    led = (hazard * np.where(unknown, hazards.stay, 1.0)[:, None]).ravel()
    led[target == n_states] = 0.0
    shape = len(pairs), n_states
    kept = np.repeat(1.0 - hazard.ravel(), np.diff(model.rows.indptr)) * model.rows.data
    seen = sp.csr_array((kept, model.rows.indices, model.rows.indptr), shape=shape)
    added = led, np.minimum(target, n_states - 1), np.append(pairs, len(pairs))
    rows = sp.csr_array(seen + sp.csr_array(added, shape))
    rows.eliminate_zeros()
    ending = (1.0 - hazard) * model.ending + hazard - led.reshape(hazard.shape)
    ending[~outcomes.live] = model.ending[~outcomes.live]
    return ModelArrays(
        Rows(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data),
        model.reward + least * (hazards.reward - model.reward),
        ending,
        model.initial,
        model.gamma,
    )
