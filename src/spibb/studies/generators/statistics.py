"""Statistics of the study on generators: harm, gains, calibration and coverage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from spibb.algorithms.auto_spibb import AutoSPIBB
from spibb.studies.generators.plan import GeneratorsPlan
from spibb.studies.metrics import cvar
from spibb.studies.proportions import excess_p, holm, lower_limit
from spibb.studies.results.logs import LogResults

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# The largest share of logs of a cell in which the policy may be worse, and the level of its test.
MOST_WORSE, LEVEL = 0.02, 0.05
TAIL = 0.05
# Predicted harm in bins; those of fewer logs are joined with the next.
BINS = (0.0, 0.001, 0.003, 0.01, 0.02, 0.03, 0.05, 0.1, 1.0)
LEAST_LOGS = 100


class Cell(NamedTuple):
    """A generator and size, and how often the chosen policy is worse there.

    Attributes:
        generator: Name of the generator.
        episodes: Episodes of a log.
        n_worse: Logs in which the policy is worse than the baseline.
        n: Logs.
    """

    generator: str
    episodes: int
    n_worse: int
    n: int


class Fall(NamedTuple):
    """A generator whose mean gain is less in larger logs.

    Attributes:
        generator: Name of the generator.
        fewer: Episodes of the smaller logs.
        more: Episodes of the larger logs.
        fall: By how much the mean gain is less.
        p: Probability of such a fall by chance.
    """

    generator: str
    fewer: int
    more: int
    fall: float
    p: float


@dataclass(frozen=True)
class Bin:
    """Logs with similar predicted harm.

    Attributes:
        least: Smallest predicted harm.
        most: Largest predicted harm.
        predicted: Its mean.
        n_worse: Logs in which the policy is worse than the baseline.
        n: Logs.
    """

    least: float
    most: float
    predicted: float
    n_worse: int
    n: int

    @property
    def observed(self) -> float:
        """Share of the logs in which the policy is worse."""
        return self.n_worse / self.n

    @property
    def is_exceeded(self) -> bool:
        """Whether harm is more than twice as frequent as predicted, by its lower 95 % limit."""
        return lower_limit(self.n_worse, self.n) > 2.0 * self.predicted


class Logs:
    """The results as arrays of shape (runs, generators, sizes, settings).

    Args:
        results: What the study has found.
    """

    def __init__(self, results: LogResults[GeneratorsPlan]) -> None:
        self.plan, self.columns = results.plan, results.columns
        self.score: Floats = results.columns["score"].astype(np.float64)
        built = [setting.build() for setting in self.plan.settings]
        self.default = built.index(AutoSPIBB())
        self.fixed = [k for k, one in enumerate(built) if not isinstance(one, AutoSPIBB)]

    @property
    def n_runs(self) -> int:
        """Number of logs of each cell."""
        return len(self.score)

    @cached_property
    def worse(self) -> Flags:
        """Where a policy is worse than the baseline."""
        return np.asarray(self.score < 0.0)

    @cached_property
    def is_visible(self) -> Flags:
        """Where a log or a declared range can show the damage, shape (runs, generators, sizes)."""
        return np.asarray(self.columns["is_visible"][..., 0])

    @cached_property
    def chosen(self) -> Flags:
        """Where the default algorithm took a candidate, shape (runs, generators, sizes)."""
        return np.isfinite(self.of_default("harm"))

    def of_default(self, name: str) -> Floats:
        """Return a column of the default algorithm, shape (runs, generators, sizes)."""
        return np.asarray(self.columns[name][..., self.default])

    @cached_property
    def means(self) -> Floats:
        """Mean gain, shape (generators, sizes, settings)."""
        return np.asarray(self.score.mean(axis=0))

    @cached_property
    def rates(self) -> Floats:
        """Share of the logs that are worse, shape (generators, sizes, settings)."""
        return np.asarray(self.worse.mean(axis=0))

    @cached_property
    def tails(self) -> Floats:
        """Lower-tail mean (5 %) of the gain, shape (generators, sizes, settings)."""
        flat = self.score.reshape(self.n_runs, -1)
        return cvar(flat.T, TAIL).reshape(self.score.shape[1:])

    def cells(self, where: Flags) -> list[Cell]:
        """Return the cells of the default algorithm that have such logs.

        Args:
            where: Which logs count, shape (runs, generators, sizes).
        """
        worse, found = self.worse[..., self.default] & where, []
        for g, name in enumerate(self.plan.generator):
            for e, episodes in enumerate(self.plan.episodes):
                n = int(where[:, g, e].sum())
                if n > 0:
                    found.append(Cell(name, episodes, int(worse[:, g, e].sum()), n))
        return found

    def bins(self, generator: int | None = None) -> list[Bin]:
        """Return the bins of predicted harm of chosen policies, of one generator or of all.

        Each has 100 logs or more, unless there are fewer in all.
        """
        where = self.chosen.copy()
        if generator is not None:
            where[:, np.arange(where.shape[1]) != generator] = False
        harm, worse = self.of_default("harm")[where], self.worse[..., self.default][where]
        return list(_bins(harm, worse))

    def covered(self, generator: int | None = None) -> tuple[int, int]:
        """Return how many 95 % intervals of chosen policies hold the true gain, and their number.

        Args:
            generator: Place of a generator; None: all.
        """
        score = self.score[..., self.default]
        holds = (self.of_default("low") <= score) & (score <= self.of_default("high"))
        of = slice(None) if generator is None else generator
        return int((holds & self.chosen)[:, of].sum()), int(self.chosen[:, of].sum())

    def falls(self) -> list[Fall]:
        """Return where the mean gain falls from one size to the next, by paired t-tests (Holm).

        A run has the same problem at all sizes. Without differences there is no fall.
        """
        score, found = self.score[..., self.default], []
        for g, name in enumerate(self.plan.generator):
            for e, pair in enumerate(pairwise(self.plan.episodes)):
                change = score[:, g, e + 1] - score[:, g, e]
                error = float(change.std(ddof=1)) / self.n_runs**0.5 if self.n_runs > 1 else 0.0
                mean = float(change.mean())
                p = float(stdtr(self.n_runs - 1, mean / error)) if error > 0.0 else 1.0
                found.append(Fall(name, *pair, -mean, p))
        adjusted = holm([one.p for one in found])
        tested = [one._replace(p=float(p)) for one, p in zip(found, adjusted, strict=True)]
        return [one for one in tested if one.p <= LEVEL]

    def best_of_cells(self) -> Floats:
        """Return the mean gain of the best fixed setting of each cell under the same harm.

        Settings that are worse in more of the cell's logs than the default algorithm do not count;
        the baseline does.
        """
        limit = self.rates[..., self.default, None]
        fixed = np.where(self.rates[..., self.fixed] <= limit, self.means[..., self.fixed], 0.0)
        return np.asarray(np.maximum(fixed.max(axis=2), 0.0))

    def best_setting(self) -> int | None:
        """Return the fixed setting with the largest mean gain, under the same harm in all logs."""
        share = self.worse.mean(axis=(0, 1, 2))
        safe = [k for k in self.fixed if share[k] <= share[self.default]]
        gain = self.means.mean(axis=(0, 1))
        return max(safe, key=lambda k: gain[k], default=None)


def _bins(harm: Floats, worse: Flags) -> Iterator[Bin]:
    order = np.argsort(harm, kind="stable")
    harm, worse = harm[order], worse[order]
    ends = [int(x) for x in np.searchsorted(harm, BINS[1:-1], side="right")]
    cuts = [0]
    for end in ends:
        if end - cuts[-1] >= LEAST_LOGS and len(harm) - end >= LEAST_LOGS:
            cuts.append(end)
    if len(harm):
        for first, last in zip(cuts, [*cuts[1:], len(harm)], strict=True):
            part = harm[first:last]
            yield Bin(float(part[0]), float(part[-1]), float(part.mean()),
                      int(worse[first:last].sum()), len(part))  # fmt: skip


def rejected(cells: list[Cell]) -> list[tuple[Cell, float]]:
    """Return the cells in which an exact test rejects 2 %, with p-values after Holm's method."""
    adjusted = holm([excess_p(cell.n_worse, cell.n, MOST_WORSE) for cell in cells])
    return [(cell, float(p)) for cell, p in zip(cells, adjusted, strict=True) if p <= LEVEL]
