"""Are these costs, coded as rewards of the other sign?

A policy that somebody runs prefers good actions to bad ones. In each state the probabilities that
it gives to actions are compared with what the next steps paid after them. A policy that knows
nothing of rewards could have any order of its actions, so what they paid is permuted among the
actions of each state: is what it prefers worse than that, over all states?
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.data.log import Log
from spibb.inspection.check import Check
from spibb.inspection.finding import Finding, TestResult
from spibb.inspection.permutation import rank_p_value

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

# What an action pays is judged by the rewards of so many steps.
_STEPS = 10
# Actions that were taken less often in a state are not compared.
_FEWEST_ROWS = 5
_ROWS, _N_SHOWN = 2_000_000, 5
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
    level = 0.0037
    cost = "permutations"
    verdict_effect = "monitor"

    def run(self, evidence: Evidence) -> Iterator[Finding | TestResult]:
        """Permute the rewards among the actions of each state."""
        log, preferences = evidence.log_without_copies, evidence.preferences
        n, mean, error = _paid(log, preferences.shape)
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
        result = self.result(p_value)
        yield result
        if result.is_significant:
            yield _finding(log, several, preferences, n, mean, p_value)


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
        found="The more the baseline prefers an action, the less the next "
        f"{_STEPS} steps paid (p = {p_value:.2g}); in {int(is_worst.sum())} of {len(states)} "
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


def _paid(log: Log, shape: tuple[int, ...]) -> tuple[Codes, Array, Array]:
    """Return rows of each pair whose next steps are recorded, or end, their mean pay, its error.

    All of shape (S, A).
    """
    n = min(len(log), _ROWS)
    ends = np.ones(n, np.bool_)
    if log.episode is not None:
        np.not_equal(log.episode[1:n], log.episode[: n - 1], out=ends[:-1])
        ends |= log.terminated[:n]
        ends |= log.is_gap[:n]
    # A row without an episode is followed by nothing.
    terminated = ends if log.episode is None else log.terminated[:n]
    rows = log.state[:n], log.action[:n], log.reward[:n], ends, terminated
    n_pair, paid, spread, none = np.zeros(shape, np.int64), *np.zeros((3, *shape))
    _add_up(*rows, none, False, n_pair, paid)
    mean = paid / np.maximum(n_pair, 1)
    _add_up(*rows, mean, True, np.zeros_like(n_pair), spread)
    return n_pair, mean, np.sqrt(spread / np.maximum(n_pair - 1, 1) / np.maximum(n_pair, 1))


@jit
def _add_up(state, action, reward, ends, terminated, mean, is_squared, n, found):  # type: ignore[no-untyped-def]
    """Count the rows of each pair, and add up what they paid, or its square, beyond the mean.

    What the next steps paid is the difference of two sums of rewards from the first row on.
    """
    first, before, behind, stop = 0, 0.0, 0.0, 0
    while first < len(state):
        last = first
        while not ends[last]:
            last += 1
        for row in range(first, last + 1):
            if terminated[last] or row + (_STEPS - 1) <= last:
                while stop <= min(last, row + (_STEPS - 1)):
                    behind += reward[stop]
                    stop += 1
                x, a = state[row], action[row]
                off = behind - before - mean[x, a]
                n[x, a] += 1
                found[x, a] += off * off if is_squared else off
            before += reward[row]
        first = last + 1
