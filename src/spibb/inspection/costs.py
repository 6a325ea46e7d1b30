"""Are these costs, coded as rewards of the other sign?

A policy that somebody runs prefers good actions to bad ones. In each state the probabilities that
it gives to actions are compared with what they earn: the reward, and the discounted value of the
state that follows. A policy that knows nothing of rewards could have any order of its actions, so
what they earn is permuted among the actions of each state: is what it prefers worse than that, over
all states?

A prudent policy gives up some of what is earned for fear of what may be lost, which values alone do
not show. Where the actions that the baseline avoids are followed by larger losses, beyond two
standard errors, its preferences have a reason, and nothing is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.data.log import Log
from spibb.inspection.check import Check
from spibb.inspection.finding import Finding, TestResult
from spibb.inspection.permutation import rank_p_value
from spibb.inspection.windows import windows
from spibb.representation.refined_gain import label_values
from spibb.representation.steps import Steps

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

# Actions that were taken less often in a state are not compared.
_FEWEST_ROWS = 5
_N_SHOWN = 5
# Losses are looked for so many steps ahead, at most; the discount may look less far.
_FURTHEST, _LARGEST_DISCOUNT = 50, 0.98
# Values of so many states are solved for, which takes the memory of their square.
_MOST_SOLVED = 2_000
# What is asked, and what to do, by whether the log was read with minimize.
_ASKED = {False: "costs, coded as rewards of the other sign", True: "rewards, read as costs"}
_ADVICE = {
    False: "If they are costs, read the log with --minimize; a range of rewards (--reward-range) "
    "would show it.",
    True: "If they are rewards, leave out --minimize.",
}


class Costs(Check):
    """Test whether the actions that the baseline prefers are the worst ones.

    The test is run on few states, and what it finds is a question to the user. Its level is
    therefore the largest.
    """

    id = "costs"
    title = "Do the actions that the baseline prefers pay no less than the others?"
    level = 0.0023
    cost = "permutations"
    verdict_effect = "monitor"

    def run(self, evidence: Evidence) -> Iterator[Finding | TestResult]:
        """Permute the rewards among the actions of each state."""
        log, remark = windows(evidence.log_without_copies)
        preferences = evidence.preferences
        n, mean, error = _pays(log, preferences.shape, evidence.gamma)
        several = np.flatnonzero((n >= _FEWEST_ROWS).sum(axis=1) > 1)
        n, mean, error, preferences = (
            n[several],
            mean[several],
            error[several],
            preferences[several],
        )
        known = n >= _FEWEST_ROWS
        leaning, pays = _centred(preferences, known), _centred(mean, known)
        # What differs between actions counts as far as noise alone does not explain it.
        signal, noise = (pays**2).sum(axis=1), np.where(known, error**2, 0.0).sum(axis=1)
        scale = np.sqrt(signal * (leaning**2).sum(axis=1))
        judged = (scale > 1e-12) & (signal > noise)
        if not judged.any():
            yield self.not_run("no state has several actions to compare")
            return
        weight = (1.0 - noise[judged] / signal[judged]) / scale[judged]
        several, n, preferences, mean = (x[judged] for x in (several, n, preferences, mean))
        leaning, pays, known = leaning[judged], pays[judged], known[judged]
        observed = (weight[:, None] * leaning * pays).sum()
        rng = np.random.default_rng(4)
        width = int(known.sum(axis=1).max())
        order = np.argsort(~known, axis=1, kind="stable")[:, :width]
        leaning, pays, known = (
            np.take_along_axis(x, order, axis=1) for x in (leaning, pays, known)
        )
        weighted = weight[:, None] * leaning

        def drawn(_: int) -> float:
            keys = np.where(known, rng.random(known.shape), 2.0)
            return float(-(weighted * np.take_along_axis(pays, keys.argsort(axis=1), axis=1)).sum())

        p_value = rank_p_value(float(-observed), drawn)
        result = self.result(p_value, remark)
        yield result
        if result.is_significant and not _is_prudent(log, evidence.preferences, evidence.gamma):
            yield _finding(evidence.log, several, preferences, n, mean, p_value)


def _finding(
    log: Log, states: Codes, preferences: Array, n: Codes, mean: Array, p_value: float
) -> Finding:
    known, here = n >= _FEWEST_ROWS, np.arange(len(n))
    preferred = np.where(known, preferences, -1.0).argmax(axis=1)
    own = mean[here, preferred]
    others = np.where(known, mean, np.inf)
    others[here, preferred] = np.inf
    is_worst = own < others.min(axis=1)
    order = np.flatnonzero(is_worst)
    order = order[np.argsort(-n[order].sum(axis=1), kind="stable")]
    return Finding(
        check="costs",
        severity="biased",
        found="The more the baseline prefers an action, the less it earns "
        f"(p = {p_value:.2g}); in {int(is_worst.sum())} of {len(states)} "
        "states the action that it prefers is the worst one.",
        effect=f"Are these {_ASKED[log.minimize]}? Then everything would be made worse, and called "
        "better.",
        advice=_ADVICE[log.minimize],
        share=float(n[is_worst].sum() / n.sum()),
        p_value=p_value,
        places=[
            {
                "state": log.states[int(states[x])],
                "preferred": log.actions[int(preferred[x])],
                "pays": float(own[x]),
                "others_pay_at_least": float(others[x].min()),
            }
            for x in order[:_N_SHOWN]
        ],
    )


def _centred(values: Array, known: NDArray[np.bool_]) -> Array:
    """Return values minus the mean of those that are known in their state, 0 for the others."""
    n = np.maximum(known.sum(axis=1, keepdims=True), 1)
    mean = np.where(known, values, 0.0).sum(axis=1, keepdims=True) / n
    return np.where(known, values - mean, 0.0)


def _pays(log: Log, shape: tuple[int, ...], gamma: float) -> tuple[Codes, Array, Array]:
    """Return rows of each pair, the mean of what they earn, and its standard error.

    What a row earns is its reward and the discounted value of the state that follows, under the
    policy that made the log. All are of shape (S, A).
    """
    steps = Steps.of(log)
    if steps is None:  # a row without an episode is followed by nothing
        pair, earned = log.state * shape[1] + log.action, log.reward
    else:
        v = np.append(_behaviour_values(steps, (shape[0], shape[1]), gamma), 0.0)
        after = np.where(steps.following >= 0, log.state[steps.following], shape[0])
        pair, earned = steps.state * shape[1] + steps.action, steps.reward + gamma * v[after]
    size = shape[0] * shape[1]
    n = np.bincount(pair, minlength=size)
    mean = np.bincount(pair, earned, size) / np.maximum(n, 1)
    spread = np.bincount(pair, (earned - mean[pair]) ** 2, size)
    error = np.sqrt(spread / np.maximum(n - 1, 1) / np.maximum(n, 1))
    return n.reshape(shape), mean.reshape(shape), error.reshape(shape)


def _behaviour_values(steps: Steps, shape: tuple[int, int], gamma: float) -> Array:
    """Return what each state earns; of many states in the next steps alone."""
    if shape[0] <= _MOST_SOLVED:
        return label_values(steps, None, shape, gamma)
    v, n = np.zeros(shape[0] + 1), np.maximum(np.bincount(steps.state, minlength=shape[0]), 1)
    after = np.where(steps.following >= 0, steps.label_of[steps.following], shape[0])
    for _ in range(_FURTHEST):
        v[:-1] = np.bincount(steps.state, steps.reward + gamma * v[after], shape[0]) / n
    return v[:-1]


def _is_prudent(log: Log, preferences: Array, gamma: float) -> bool:
    """Return whether larger losses follow the actions that the baseline does not prefer.

    What is compared is the least reward of the steps that the discount looks ahead.
    """
    if log.is_first is None:
        return False
    least, episode = log.reward.copy(), np.cumsum(log.is_first)
    for ahead in range(1, min(_FURTHEST, round(1.0 / (1.0 - min(gamma, _LARGEST_DISCOUNT))))):
        together = episode[ahead:] == episode[:-ahead]
        later = np.where(together, log.reward[ahead:], np.inf)
        np.minimum(least[:-ahead], later, out=least[:-ahead])
    is_preferred = preferences.argmax(axis=1)[log.state] == log.action
    group = 2 * log.state + is_preferred
    n, total, square = (
        np.bincount(group, values, 2 * log.n_states).reshape(-1, 2)
        for values in (np.ones(len(log)), least, least**2)
    )
    both = (n >= _FEWEST_ROWS).all(axis=1)
    n, mean = n[both], total[both] / n[both]
    variance = np.maximum(square[both] / n - mean**2, 0.0) / n
    saved = float((n[:, 0] * (mean[:, 1] - mean[:, 0])).sum())
    return saved > 2.0 * float(np.sqrt((n[:, :1] ** 2 * variance).sum())) and saved > 0.0
