"""What the paper says about the helicopter, and what our runs say about that.

A comparison counts as shown where the 95 % bootstrap interval of the difference lies above zero, on
every size ("confirmed") or on some ("in part"). Algorithms stand at their best hyper-parameter, the
largest mean under the long evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from spibb.studies.claims import ByName, Finding, Rule, judged, verdict
from spibb.studies.helicopter.figures import on_axis
from spibb.studies.helicopter.plan import LONG, SHORT
from spibb.studies.helicopter.scores import CVAR, MEAN, HelicopterResults, best_settings
from spibb.studies.metrics import Floats, IntervalEstimate, Measure
from spibb.studies.plan import Setting
from spibb.studies.results.aggregates import NotInPlanError

_BASELINE, _DQN, _RAMDP = "Baseline", "Double-DQN", "RaMDP-DQN"
_PI_B, _PI_LEQ_B = "Pi_b-SPIBB-DQN", "Pi_<=b-SPIBB-DQN"
_APPROX, _EXACT = "Approx-Soft-SPIBB-DQN", "Exact-Soft-SPIBB-DQN"
_OURS = (_PI_B, _PI_LEQ_B, _APPROX, _EXACT)
# Claims that one algorithm is better than another, in mean and CVaR.
_COMPARED = {
    "Approx-Soft-SPIBB-DQN is better than Pi_b-SPIBB-DQN in mean and CVaR": (_APPROX, _PI_B),
    "(ours) Exact-Soft-SPIBB-DQN is better than the approximate one": (_EXACT, _APPROX),
    "(ours) Approx-Soft-SPIBB-DQN is better than Pi_<=b-SPIBB-DQN": (_APPROX, _PI_LEQ_B),
    "Pi_b-SPIBB-DQN outperforms RaMDP-DQN": (_PI_B, _RAMDP),
    "Approx-Soft-SPIBB-DQN outperforms RaMDP-DQN": (_APPROX, _RAMDP),
    "DQN without safety is far below the baseline": (_BASELINE, _DQN),
}
# A hyper-parameter is good where it keeps this part of the best gain over the baseline.
_PART = 0.8
_signed = partial(IntervalEstimate.told, form="+.2f")


class _AtBest:
    """Results, asked by size for algorithms at their best hyper-parameters."""

    def __init__(self, results: HelicopterResults) -> None:
        self.results, self.scores, self.sizes = results, results.rows(), results.plan.transitions
        every = best_settings(results)
        self.best = ByName({(one.setting.name, one.size): one.setting for one in every})

    def cell(self, name: str, size: int, evaluation: str) -> tuple[Any, ...]:
        label = self.best[name, size].label
        return self.results.where(label, evaluation=evaluation, transitions=size)

    def long(self, name: str, size: int) -> Floats:
        """Return the scores under the long evaluation."""
        return self.scores.of(self.cell(name, size, LONG))

    def mean(self, setting: Setting, size: int) -> np.float32:
        found = self.results.of(MEAN, setting.label, evaluation=LONG, transitions=size).value
        return np.float32(found)

    def better(
        self, measure: Measure, name: str, other: str, evaluation: str, than: Measure | None = None
    ) -> dict[int, IntervalEstimate]:
        """Return by size how much one algorithm's best is above another's."""
        pairs = {k: [self.cell(one, k, evaluation) for one in (name, other)] for k in self.sizes}
        return {k: self.scores.difference(measure, a, b, than) for k, (a, b) in pairs.items()}


def findings(results: HelicopterResults, speeds: Mapping[str, float] = {}) -> list[Finding]:
    """Go through the paper's claims as far as the plan has what they speak of.

    Args:
        results: The results over one baseline.
        speeds: Gradient steps a second by the rule's id, where they were measured.
    """
    small = ", ".join(f"{size:,}" for size in results.plan.transitions[:2])
    claims = {claim.format(small=small): rule for claim, rule in _CLAIMS.items()}
    timed = {"Soft-SPIBB-DQN takes about 50 % more time than SPIBB-DQN": _speed}
    return [*judged(claims, _AtBest(results)), *judged(timed, speeds)]


def compared_in_mean(results: HelicopterResults) -> dict[str, str]:
    """Say on how many sizes one algorithm's mean (long) is shown to be above another's, or below.

    Means need no tails: this can be told of few runs too.
    """
    asked, found = _AtBest(results), {}
    for name, other in [*product(_OURS, [_BASELINE]), *_COMPARED.values()]:
        with suppress(NotInPlanError):
            gaps = asked.better(MEAN, name, other, LONG).values()
            above, below = sum(gap.low > 0 for gap in gaps), sum(gap.high < 0 for gap in gaps)
            found[f"{name} - {other}"] = f"{above} above, {below} below"
    return found


def _compared(name: str, other: str, asked: _AtBest) -> tuple[str, str]:
    """Compare mean and CVaR, both evaluations; the long one decides."""
    lines, deciding = [f"{name} - {other}:"], list[IntervalEstimate]()
    for measure, evaluation in product((MEAN, CVAR), (SHORT, LONG)):
        found = asked.better(measure, name, other, evaluation)
        lines.append(f"{measure.name}, {evaluation}: {_by_size(found, _signed)}")
        deciding += found.values() if evaluation == LONG else ()
    return _verdict(deciding), "<br>".join(lines)


def _tail_above_mean(name: str, asked: _AtBest) -> tuple[str, str]:
    lines = [f"{CVAR.name} of {name} - mean of {_BASELINE}:"]
    for evaluation in (SHORT, LONG):
        found = asked.better(CVAR, name, _BASELINE, evaluation, MEAN)
        lines.append(f"{evaluation}: {_by_size(found, _signed)}")
    return _verdict(found.values()), "<br>".join(lines)


def _poor_on_small_data(asked: _AtBest) -> tuple[str, str]:
    found = asked.better(MEAN, _BASELINE, _RAMDP, LONG)
    told = {size: found[size] for size in asked.sizes[:2]}
    numbers = f"{_BASELINE} - {_RAMDP}, mean, long: {_by_size(told, _signed)}"
    return _verdict(told.values()), numbers


def _no_worse_runs(asked: _AtBest) -> tuple[str, str]:
    """Count the runs below anything that the baseline itself scores."""
    n_below: dict[str, dict[int, int]] = {}
    for name in _OURS:
        with suppress(NotInPlanError):
            n_below[name] = {
                size: int((asked.long(name, size) < asked.long(_BASELINE, size).min()).sum())
                for size in asked.sizes
            }
    if not n_below:
        raise NotInPlanError("any of ours")
    holds = verdict(*(n == 0 for found in n_below.values() for n in found.values()))
    return holds, f"runs (long) of {len(asked.scores.runs)} below it: <br>{_by_name(n_below)}"


def _less_sensitive(asked: _AtBest) -> tuple[str, str]:
    widths = {name: _plateaus(asked, name) for name in (_APPROX, _PI_B)}
    ours, theirs = widths.values()
    wider = (ours[k].factor > theirs[k].factor and not theirs[k].is_open for k in asked.sizes)
    told = f"factor on the common abscissa over which the mean (long) keeps {_PART:.0%}"
    return verdict(*wider), f"{told} of the best gain: <br>{_by_name(widths)}"


def _more_stable(asked: _AtBest) -> tuple[str, str]:
    """Compare what the value that is best on the largest size costs in mean on the others."""
    largest, losses = asked.sizes[-1], {}
    for name in (_APPROX, _PI_B):
        fixed = asked.best[name, largest]
        losses[f"{name} ({fixed.value:g})"] = {
            size: float(asked.mean(asked.best[name, size], size) - asked.mean(fixed, size))
            for size in asked.sizes
        }
    ours, theirs = (max(found.values()) for found in losses.values())
    holds = "no difference" if ours == theirs else verdict(ours < theirs)
    told = f"mean (long) of the best value - of the value that is best at {largest:,}: <br>"
    return holds, told + _by_name(losses, "{:.2f}".format)


def _speed(speeds: Mapping[str, float]) -> tuple[str, str]:
    names = {"approx-soft-spibb-dqn": "approximate", "exact-soft-spibb-dqn": "exact"}
    hard = speeds.get("pi-b-spibb-dqn")
    told = {names[rule]: hard / speeds[rule] - 1 for rule in names if hard and rule in speeds}
    if not told:
        raise NotInPlanError("speeds")
    numbers = "; ".join(f"{name}: {100 * more:+.0f} %" for name, more in told.items())
    return verdict(0.25 <= told.get("approximate", 0.0) <= 0.75), numbers


_BEATS = "{} outperforms the baseline in mean and 10 %-CVaR"
_TAIL = "The 10 %-CVaR of {} is above the baseline's mean"
_LESS = "Approx-Soft-SPIBB-DQN is less sensitive to its hyper-parameter than Pi_b-SPIBB-DQN"
# By what is claimed; of "{small}", the smaller sizes.
_CLAIMS: dict[str, Rule] = {
    **{_BEATS.format(x): partial(_compared, x, _BASELINE) for x in (_PI_B, _APPROX, _EXACT)},
    **{_TAIL.format(x): partial(_tail_above_mean, x) for x in (_PI_B, _APPROX)},
    **{claim: partial(_compared, *pair) for claim, pair in _COMPARED.items()},
    "RaMDP-DQN is poor on small data ({small}): below the baseline": _poor_on_small_data,
    "(ours) No training ends below the baseline's worst run": _no_worse_runs,
    _LESS: _less_sensitive,
    "Approx-Soft-SPIBB-DQN is more stable over the sizes than Pi_b-SPIBB-DQN": _more_stable,
}


class Plateau(NamedTuple):
    """Where a hyper-parameter is good, on the common abscissa.

    Attributes:
        low: Where it begins to be good.
        high: Where it ceases.
        is_open: Whether the grid ends before.
    """

    low: float
    high: float
    is_open: bool

    @property
    def factor(self) -> float:
        """From the one end to the other."""
        return self.high / self.low

    def __str__(self) -> str:
        return f"{'at least ' if self.is_open else ''}{self.factor:.1f}"


def find_plateau(x: Sequence[float], gain: Sequence[float], part: float = _PART) -> Plateau:
    """Return the interval around the best place where the gain is at least a part of the best.

    Args:
        x: Places, rising; between them the gain is a straight line over log x.
        gain: Gain over the baseline there.
        part: The part.

    Example:
        >>> print(find_plateau([1.0, 2.0, 4.0], [0.0, 1.0, 0.0], part=0.5))
        2.0
    """
    top, gains, places = int(np.argmax(gain)), np.array(gain, float), np.log(np.array(x, float))
    if gains[top] <= 0:
        return Plateau(float(x[top]), float(x[top]), False)  # nothing is gained anywhere
    wanted, ends, is_open = part * gains[top], [], False
    for side in (-1, 1):
        walk, where = gains[top::side], places[top::side]
        ceased = np.flatnonzero(walk < wanted)
        is_open |= not len(ceased)
        pair = [ceased[0], ceased[0] - 1] if len(ceased) else [-1, -1]
        ends.append(float(np.exp(np.interp(wanted, walk[pair], where[pair]))))
    return Plateau(ends[0], ends[1], is_open)


def _plateaus(asked: _AtBest, name: str) -> dict[int, Plateau]:
    """Return by size where a family is good."""
    found = {}
    for size in asked.sizes:
        asked.best[name, size]  # must be there
        where = sorted(on_axis(asked.results.plan.families[name]), key=lambda one: one[0])
        if not where:
            raise NotInPlanError(f"a value of {name} on the axis")
        baseline = asked.mean(asked.best[_BASELINE, size], size)
        gain = [float(asked.mean(one, size) - baseline) for _, one in where]
        found[size] = find_plateau([x for x, _ in where], gain)
    return found


def _verdict(differences: Iterable[IntervalEstimate]) -> str:
    found = list(differences)
    if any(np.isnan(one.low) for one in found):
        return "too few data sets to tell"
    return verdict(*(one.low > 0 for one in found))


def _by_size(found: Mapping[int, Any], form: Callable[[Any], str] = str) -> str:
    return "; ".join(f"{size:,}: {form(one)}" for size, one in found.items())


def _by_name(found: Mapping[str, Mapping[int, Any]], form: Callable[[Any], str] = str) -> str:
    return "<br>".join(f"{name}: {_by_size(part, form)}" for name, part in found.items())
