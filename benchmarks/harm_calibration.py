"""Is the probability of harm what it says? ``python benchmarks/harm_calibration.py``.

Logs of the problems of the study ``risk`` whose truth is known. Of each log every fourth candidate
of auto-spibb is judged, and the one that it chooses. Of the policies with a predicted harm within a
bin: how many are truly worse than the baseline? The lower limit of that share (95 %, exact for the
number of logs, since the candidates of a log are correlated) is to be at most twice the predicted
harm, by problem and size. Of hundreds of such limits some exceed it by chance: where one does,
``--again`` other logs of that problem and size decide. Coverage is that of the 95 % intervals of
the gain. ``--figure`` draws it.

The study ``generators-development`` has the same statistics of chosen policies alone.
"""

import argparse
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta

from spibb import AutoSPIBB, Problem, evaluate, solve
from spibb.algorithms.auto_spibb import candidates
from spibb.atomic_files import write_whole
from spibb.pictures import own_settings, to_svg
from spibb.posterior.model import PosteriorModel
from spibb.problem import ProblemBatch
from spibb.studies.risk.problems import PROBLEMS

NAMES = ("random-mdps-0.1", "random-mdps-0.5", "random-mdps-0.9", *(
    name for name in PROBLEMS
    if not name.startswith("random-mdps") and name not in ("frozen-lake", "cliff-walking", "sepsis")
))  # fmt: skip
SIZES = (20, 100, 500)
BINS = (0.01, 0.02, 0.05, 0.1, 0.2)
EVERY = 4


class Judged(NamedTuple):
    """One policy: what was predicted of it, and what is true."""

    problem: str
    size: int
    run: int
    is_chosen: bool
    harm: float
    is_worse: bool
    is_covered: bool


def judge(asked: tuple[str, int, int]) -> list[Judged]:
    """Judge what auto-spibb tries on a log: a problem's of a size and a run."""
    return list(_judged(*asked))


def _judged(name: str, size: int, run: int) -> Iterator[Judged]:
    rng = np.random.default_rng([zlib.crc32(name.encode()), size, run])
    cell = PROBLEMS[name]
    truth, baseline = cell.make(rng)
    counts = cell.count((truth, baseline), size, rng)
    problem = Problem.of(counts, baseline=baseline, gamma=truth.gamma)
    model, judging = PosteriorModel.of(problem), AutoSPIBB()
    tried, labels, _ = candidates(ProblemBatch.alone(problem), [model], judging.caution)
    choice = judging.choose(model, tried[:, 0], labels)
    places = set(range(0, len(labels), EVERY)) | ({choice.chosen} - {None})
    old, best = evaluate(truth, baseline).performance, solve(truth).performance
    for place in sorted(places):
        policy, told = tried[place, 0], choice.candidates[place].gain
        if np.allclose(policy, baseline.probabilities):
            continue
        gain = evaluate(truth, policy).performance - old
        low, high = told.interval()
        yield Judged(
            name, size, run, place == choice.chosen, told.probability_of_harm,
            gain < -1e-9 * (best - old), low <= gain <= high,
        )  # fmt: skip


def in_bin(rows: Sequence[Judged], low: float, high: float) -> list[Judged]:
    """Return the policies whose predicted harm lies in (low, high]."""
    return [one for one in rows if low < one.harm <= high]


def observed(rows: Sequence[Judged]) -> tuple[float, float]:
    """Return the share that is worse, and its lower limit at 95 %, as if of one policy a run."""
    n_runs = len({(one.problem, one.size, one.run) for one in rows})
    share = float(np.mean([one.is_worse for one in rows]))
    n_worse = share * n_runs
    return share, float(beta.ppf(0.05, n_worse, n_runs - n_worse + 1)) if n_worse else 0.0


def told(name: str, rows: Sequence[Judged]) -> str:
    """Return a row of the table."""
    cells = []
    for low, high in pairwise(BINS):
        found = in_bin(rows, low, high)
        if not found:
            cells.append("-")
            continue
        share, least = observed(found)
        cells.append(f"{100 * share:.1f} % of {len(found)} (from {100 * least:.1f})")
    covered = np.mean([one.is_covered for one in rows])
    chosen = [one for one in rows if one.is_chosen]
    worse = sum(one.is_worse for one in chosen)
    return f"| {name} | {' | '.join(cells)} | {100 * covered:.0f} % | {worse} of {len(chosen)} |"


class Cell(NamedTuple):
    """Policies of a problem and size whose predicted harm lies in a bin."""

    problem: str
    size: int
    low: float
    high: float


def missed(rows: Sequence[Judged]) -> Iterator[Cell]:
    """Find the cells in which harm is observed more than twice as often as was predicted."""
    for name, size in dict.fromkeys((one.problem, one.size) for one in rows):
        for low, high in pairwise(BINS):
            cell = Cell(name, size, low, high)
            if is_missed(cell, rows):
                yield cell


def of_cell(cell: Cell, rows: Sequence[Judged]) -> list[Judged]:
    """Return the policies of a cell."""
    mine = [one for one in rows if (one.problem, one.size) == (cell.problem, cell.size)]
    return in_bin(mine, cell.low, cell.high)


def is_missed(cell: Cell, rows: Sequence[Judged]) -> bool:
    """Return whether the lower limit is above twice what was predicted."""
    found = of_cell(cell, rows)
    if not found:
        return False
    return observed(found)[1] > 2.0 * float(np.mean([one.harm for one in found]))


def told_of_cell(cell: Cell, rows: Sequence[Judged]) -> str:
    """Say what was observed in a cell."""
    found = of_cell(cell, rows)
    if not found:
        return "no policy"
    share, least = observed(found)
    predicted = float(np.mean([one.harm for one in found]))
    return (
        f"predicted {100 * predicted:.1f} %, observed {100 * share:.1f} % of {len(found)} "
        f"(from {100 * least:.1f})"
    )


def figure(rows: Sequence[Judged]) -> Any:
    """Draw observed against predicted harm, a line for each problem."""
    from matplotlib.figure import Figure

    ends = (0.0, 0.005, *BINS, 0.35, 0.5, 0.7, 1.0)
    drawn = Figure(figsize=(6.4, 4.6))
    axes = drawn.add_subplot()
    axes.plot([0, 1], [0, 1], color="#718096", linewidth=1, label="as predicted")
    axes.plot([0, 0.5], [0, 1], color="#a0aec0", linewidth=1, linestyle=":", label="twice as often")
    for name in (*NAMES, None):
        part = [one for one in rows if name in (None, one.problem)]
        points = [
            (np.mean([one.harm for one in found]), np.mean([one.is_worse for one in found]))
            for low, high in pairwise(ends)
            if len(found := in_bin(part, low if low else -1.0, high)) >= 20
        ]
        if points:
            style = {"color": "#2b6cb0", "linewidth": 2.2, "label": "all problems", "marker": "o"}
            thin = {"color": "#63b3ed", "linewidth": 0.8, "alpha": 0.7,
                    "label": "one problem" if name == NAMES[0] else None}  # fmt: skip
            axes.plot(*np.transpose(points), **(style if name is None else thin))
    axes.set_xlabel("predicted probability of harm")
    axes.set_ylabel("share that is worse than the baseline")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    drawn.tight_layout()
    return drawn


def tell_coverage(rows: Sequence[Judged], sizes: Sequence[int]) -> None:
    """Print how many intervals hold the truth."""
    for size in sizes:
        mine = [one for one in rows if one.size == size]
        every, chosen = (
            f"{100 * np.mean(shares):.0f} %" if shares else "-"
            for shares in (
                [one.is_covered for one in mine],
                [one.is_covered for one in mine if one.is_chosen],
            )
        )
        print(f"{size:,} episodes: {every} covered, chosen {chosen}")


def main() -> None:
    """Print a table, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=50_000)
    parser.add_argument("--again", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=NAMES)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    rows: list[Judged] = []
    heads = [f"{100 * a:g} to {100 * b:g} %" for a, b in pairwise(BINS)]
    print(f"| problem | {' | '.join(heads)} | covered | chosen: worse |")
    print("|---" * (len(heads) + 3) + "|")
    runs = range(given.seed, given.seed + given.runs)
    with get_context("spawn").Pool(given.workers) as pool:
        for name in given.problems:
            asked = [(name, size, run) for size in given.sizes for run in runs]
            mine = [one for found in pool.imap(judge, asked) for one in found]
            print(told(PROBLEMS[name].title, mine), flush=True)
            rows += mine
        print(told("**all**", rows))
        tell_coverage(rows, given.sizes)
        others = range(given.seed + given.runs, given.seed + given.runs + given.again)
        for cell in missed(rows):
            asked = [(cell.problem, cell.size, run) for run in others]
            again = [one for found in pool.imap(judge, asked) for one in found]
            verdict = "missed again" if is_missed(cell, again) else "not missed again"
            print(f"{cell.problem}, {cell.size} episodes: {told_of_cell(cell, rows)}")
            print(f"  {given.again} other logs: {told_of_cell(cell, again)}, {verdict}", flush=True)
    if given.figure is not None:
        with own_settings():
            write_whole(given.figure, to_svg(figure(rows)).encode())


if __name__ == "__main__":
    main()
