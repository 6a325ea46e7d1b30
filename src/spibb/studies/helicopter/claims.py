"""What the paper says about the helicopter, and what our runs say about that.

A comparison counts as shown where the 95 % bootstrap interval of the difference lies above zero, on
every size ("confirmed") or on some ("in part"). Algorithms stand at their best hyper-parameter, the
largest mean under the long evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spibb.errors import DataError
from spibb.studies.claims import Finding, verdict
from spibb.studies.helicopter.figures import on_axis
from spibb.studies.helicopter.plan import LONG, HelicopterPlan
from spibb.studies.helicopter.scores import Cell, HelicopterResults, Scores
from spibb.studies.helicopter.tables import CVAR, MEAN, SCORES, Best, best_settings, families
from spibb.studies.metrics import IntervalEstimate, Measure

_BASELINE, _DQN, _RAMDP = "Baseline", "Double-DQN", "RaMDP-DQN"
_PI_B, _PI_LEQ_B = "Pi_b-SPIBB-DQN", "Pi_<=b-SPIBB-DQN"
_APPROX, _EXACT = "Approx-Soft-SPIBB-DQN", "Exact-Soft-SPIBB-DQN"
_COMPARED = (
    (_APPROX, _PI_B, "Approx-Soft-SPIBB-DQN is better than Pi_b-SPIBB-DQN in mean and CVaR"),
    (_EXACT, _APPROX, "(ours) Exact-Soft-SPIBB-DQN is better than the approximate one"),
    (_APPROX, _PI_LEQ_B, "(ours) Approx-Soft-SPIBB-DQN is better than Pi_<=b-SPIBB-DQN"),
    (_PI_B, _RAMDP, "Pi_b-SPIBB-DQN outperforms RaMDP-DQN"),
    (_APPROX, _RAMDP, "Approx-Soft-SPIBB-DQN outperforms RaMDP-DQN"),
    (_BASELINE, _DQN, "DQN without safety is far below the baseline"),
)
# A hyper-parameter is good where it keeps this part of the best gain over the baseline.
_PART = 0.8


@dataclass(frozen=True, eq=False)
class _Results:
    all: HelicopterResults
    best: dict[tuple[str, int], Best]

    @property
    def plan(self) -> HelicopterPlan:
        return self.all.plan

    @property
    def scores(self) -> Scores:
        if self.all.scores is None:
            raise DataError(
                f"{self.all.folder} has statistics only",
                expected="rows, which claims are judged by",
            )
        return self.all.scores

    def has(self, *names: str) -> bool:
        return all((name, size) in self.best for name in names for size in self.plan.transitions)

    def cell(self, name: str, size: int, evaluation: str) -> Cell:
        place = self.best[name, size].place
        return self.all.where(place, evaluation=evaluation, transitions=size)

    def better(
        self, measure: Measure, name: str, other: str, evaluation: str, than: Measure | None = None
    ) -> dict[int, IntervalEstimate]:
        """Return by size how much one algorithm's best is above another's."""
        return {
            size: self.scores.difference(
                measure, self.cell(name, size, evaluation), self.cell(other, size, evaluation), than
            )
            for size in self.plan.transitions
        }


def findings(
    results: HelicopterResults, speeds: Mapping[str, float] | None = None
) -> list[Finding]:
    """Go through the paper's claims as far as the plan has what they speak of.

    Args:
        results: The results over one baseline.
        speeds: Gradient steps a second by the rule's id, where they were measured.
    """
    best = {(one.name, one.size): one for one in best_settings(results)}
    asked = _Results(results, best)
    return [
        *_on_performance(asked),
        *_on_worst_runs(asked),
        *_on_robustness(asked),
        *_on_speed(speeds or {}),
    ]


def compared_in_mean(results: HelicopterResults) -> dict[str, str]:
    """Say on how many sizes one algorithm's mean (long) is shown to be above another's, or below.

    Means need no tails: this can be told of few runs too.
    """
    asked = _Results(results, {(one.name, one.size): one for one in best_settings(results)})
    ours = [(name, _BASELINE) for name in (_PI_B, _PI_LEQ_B, _APPROX, _EXACT)]
    found = {}
    for name, other in [*ours, *((name, other) for name, other, _ in _COMPARED)]:
        if asked.has(name, other):
            gaps = asked.better(MEAN, name, other, LONG).values()
            above, below = sum(gap.low > 0 for gap in gaps), sum(gap.high < 0 for gap in gaps)
            found[f"{name} - {other}"] = f"{above} above, {below} below"
    return found


def _on_performance(results: _Results) -> Iterator[Finding]:
    for name in (_PI_B, _APPROX, _EXACT):
        if results.has(name, _BASELINE):
            text = f"{name} outperforms the baseline in mean and 10 %-CVaR"
            yield _compared(results, text, name, _BASELINE)
    for name in (_PI_B, _APPROX):
        if results.has(name, _BASELINE):
            yield _tail_above_mean(results, name)
    for name, other, text in _COMPARED:
        if results.has(name, other):
            yield _compared(results, text, name, other)
    small = results.plan.transitions[:2]
    if results.has(_RAMDP, _BASELINE):
        found = results.better(MEAN, _BASELINE, _RAMDP, LONG)
        told = {size: found[size] for size in small}
        text = f"RaMDP-DQN is poor on small data ({_sizes(small)}): below the baseline"
        numbers = f"{_BASELINE} - {_RAMDP}, mean, long: {_told(told)}"
        yield Finding(text, _verdict(told.values()), numbers)


def _on_worst_runs(results: _Results) -> Iterator[Finding]:
    """Count the runs below anything that the baseline itself scores."""
    names = [name for name in (_PI_B, _PI_LEQ_B, _APPROX, _EXACT) if results.has(name, _BASELINE)]
    if not names:
        return
    n_below = {}
    for name in names:
        for size in results.plan.transitions:
            worst = results.scores.of(results.cell(_BASELINE, size, LONG)).min()
            n_below[name, size] = int(
                (results.scores.of(results.cell(name, size, LONG)) < worst).sum()
            )
    yield Finding(
        "(ours) No training ends below the baseline's worst run",
        verdict(*(n == 0 for n in n_below.values())),
        f"runs (long) of {len(results.scores.runs)} below it: <br>"
        + "<br>".join(
            f"{name}: "
            + "; ".join(f"{size:,}: {n_below[name, size]}" for size in results.plan.transitions)
            for name in names
        ),
    )


def _compared(results: _Results, text: str, name: str, other: str) -> Finding:
    """Compare mean and CVaR, both evaluations; the long one decides."""
    lines, deciding = [f"{name} - {other}:"], []
    for measure in (MEAN, CVAR):
        for evaluation in SCORES:
            found = results.better(measure, name, other, evaluation)
            lines.append(f"{measure.name}, {evaluation}: {_told(found)}")
            deciding += list(found.values()) if evaluation == LONG else []
    return Finding(text, _verdict(deciding), "<br>".join(lines))


def _tail_above_mean(results: _Results, name: str) -> Finding:
    found = [results.better(CVAR, name, _BASELINE, evaluation, MEAN) for evaluation in SCORES]
    lines = [f"{CVAR.name} of {name} - mean of {_BASELINE}:"]
    lines += [f"{title}: {_told(one)}" for title, one in zip(SCORES, found, strict=True)]
    return Finding(
        f"The 10 %-CVaR of {name} is above the baseline's mean",
        _verdict(found[1].values()),
        "<br>".join(lines),
    )


def _on_robustness(results: _Results) -> Iterator[Finding]:
    if not results.has(_PI_B, _APPROX, _BASELINE):
        return
    widths = {name: _plateaus(results, name) for name in (_APPROX, _PI_B)}
    if not all(widths.values()):
        return
    wider = [
        widths[_APPROX][size].factor > widths[_PI_B][size].factor
        and not widths[_PI_B][size].is_open
        for size in results.plan.transitions
    ]
    evidence = "<br>".join(
        f"{name}: " + "; ".join(f"{size:,}: {one}" for size, one in found.items())
        for name, found in widths.items()
    )
    yield Finding(
        "Approx-Soft-SPIBB-DQN is less sensitive to its hyper-parameter than Pi_b-SPIBB-DQN",
        verdict(*wider),
        "factor on the common abscissa over which the mean (long) keeps "
        f"{_PART:.0%} of the best gain: <br>{evidence}",
    )
    losses = {name: _losses(results, name) for name in (_APPROX, _PI_B)}
    text = "Approx-Soft-SPIBB-DQN is more stable over the sizes than Pi_b-SPIBB-DQN"
    largest = results.plan.transitions[-1]
    ours, theirs = (max(losses[name].values()) for name in (_APPROX, _PI_B))
    yield Finding(
        text,
        "no difference" if ours == theirs else verdict(ours < theirs),
        f"mean (long) of the best value - of the value that is best at {largest:,}: <br>"
        + "<br>".join(
            f"{name} ({results.best[name, largest].value:g}): "
            + "; ".join(f"{size:,}: {loss:.2f}" for size, loss in found.items())
            for name, found in losses.items()
        ),
    )


@dataclass(frozen=True)
class Plateau:
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
    places, wanted = np.log(np.asarray(x, dtype=np.float64)), part * max(gain)
    top = int(np.argmax(gain))
    if gain[top] <= 0:
        return Plateau(float(x[top]), float(x[top]), False)  # nothing is gained anywhere
    ends = []
    for side in (-1, 1):
        k = top
        while 0 <= k + side < len(gain) and gain[k + side] >= wanted:
            k += side
        if not 0 <= k + side < len(gain):
            ends.append((float(x[k]), True))
            continue
        share = (gain[k] - wanted) / (gain[k] - gain[k + side])
        ends.append((float(np.exp(places[k] + share * (places[k + side] - places[k]))), False))
    (low, is_low_open), (high, is_high_open) = ends
    return Plateau(low, high, is_low_open or is_high_open)


def _plateaus(results: _Results, name: str) -> dict[int, Plateau]:
    """Return by size where a family is good; nothing where none of it is on the axis."""
    where = on_axis(results.plan, families(results.plan)[name])
    order = sorted(where, key=where.__getitem__)
    found = {}
    for row, size in enumerate(results.plan.transitions if order else ()):
        means = results.all.aggregates.mean.value[1, row]
        gain = means[order] - means[results.best[_BASELINE, size].place]
        found[size] = find_plateau([where[k] for k in order], gain.tolist())
    return found


def _losses(results: _Results, name: str) -> dict[int, float]:
    """Return by size what the value that is best on the largest size costs in mean."""
    fixed = results.best[name, results.plan.transitions[-1]].place
    means = results.all.aggregates.mean.value[1]
    return {
        size: float(means[row, results.best[name, size].place] - means[row, fixed])
        for row, size in enumerate(results.plan.transitions)
    }


def _on_speed(speeds: Mapping[str, float]) -> Iterator[Finding]:
    names = {"approx-soft-spibb-dqn": "approximate", "exact-soft-spibb-dqn": "exact"}
    told = {
        title: speeds["pi-b-spibb-dqn"] / speeds[name] - 1
        for name, title in names.items()
        if name in speeds and "pi-b-spibb-dqn" in speeds
    }
    if told:
        near = 0.25 <= told.get("approximate", 0.0) <= 0.75
        yield Finding(
            "Soft-SPIBB-DQN takes about 50 % more time than SPIBB-DQN",
            verdict(near),
            "; ".join(f"{name}: {100 * more:+.0f} %" for name, more in told.items()),
        )


def _verdict(differences: Iterable[IntervalEstimate]) -> str:
    found = list(differences)
    if any(np.isnan(one.low) for one in found):
        return "too few data sets to tell"
    return verdict(*(one.low > 0 for one in found))


def _told(found: Mapping[int, IntervalEstimate]) -> str:
    return "; ".join(f"{size:,}: {_number(one)}" for size, one in found.items())


def _number(one: IntervalEstimate) -> str:
    if np.isnan(one.low):
        return f"{one.value:+.2f}"
    return f"{one.value:+.2f} ({one.low:+.2f} to {one.high:+.2f})"


def _sizes(sizes: Sequence[int]) -> str:
    return ", ".join(f"{size:,}" for size in sizes)
