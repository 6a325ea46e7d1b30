"""Statistics of a study, one set for each cell and setting, asked by their names.

They are all that the figures need, and a few hundred kilobytes for any number of runs;
``aggregates.parquet`` holds them, one row for each. Equal results give equal bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from spibb.atomic_files import write_whole
from spibb.errors import DataError
from spibb.runner.store import Store, as_written, to_bytes
from spibb.studies.metrics import IntervalEstimate, Measure, cvar_interval, student_interval
from spibb.studies.plan import Plan
from spibb.studies.results.cell_aggregates import UNITS, Kept
from spibb.studies.results.cells import checked_cells, checked_facts, keys, marked, spread
from spibb.studies.results.recording import read_results

Kind = TypeVar("Kind", bound=Plan)
FILE = "aggregates.parquet"
SHARES = (0.001, 0.01, 0.1)
_ANEW = "make it anew from the study's parts"
_ENDS = ("", "_low", "_high")
# Sets the resamples of the bootstrap apart from the randomness of the runs.
_BOOTSTRAP = 0xB007
# Cells that are computed together, to bound the memory. The same for any number of runs that are
# kept, and with it the last bits of a CVaR.
_GROUP = 500


@dataclass(frozen=True, eq=False)
class Aggregates:
    """Statistics of every cell and setting, as arrays of the plan's shape.

    Attributes:
        n: Runs; statistics of a cell without any are NaN.
        mean: Mean score with its interval by Student's t.
        cvar: X %-CVaR with its bootstrap interval, by share X / 100; the ends are NaN where the
            runs are too few for an interval.
        worse: Share of the runs whose policy is worse than the baseline.
    """

    n: NDArray[np.int64]
    mean: IntervalEstimate
    cvar: dict[float, IntervalEstimate]
    worse: NDArray[np.float32]

    def of(self, measure: Measure) -> IntervalEstimate:
        """Return a statistic of every cell."""
        return self.mean if measure.share is None else self.cvar[measure.share]

    @classmethod
    def of_study(cls, folder: Path, plan: Plan) -> Aggregates:
        """Aggregate the results of a study; without any, read the aggregates that it has."""
        file = Path(folder) / FILE
        store = Store(Path(folder))
        if store.folded() is None and not store.files() and file.exists():
            return cls.read(file, plan)
        return aggregate(read_results(store, plan), plan)

    @classmethod
    def read(cls, file: Path, plan: Plan) -> Aggregates:
        """Read what ``write`` wrote for the same plan."""
        with as_written(file, hint=_ANEW):
            table = pq.read_table(file)
            facts = checked_facts(table, plan, file, what="aggregates", hint=_ANEW)
            # Files from before there was one have none.
            if facts.get("sha256", digest(table)) != digest(table):
                raise DataError(f"{file} is damaged: its numbers are not those written", hint=_ANEW)
            table, cells = checked_cells(table, plan, file, _ANEW)

            def column(name: str) -> NDArray[Any]:
                found = table[name].to_numpy()
                if found.dtype.kind not in "iuf":
                    raise DataError(f"{file} is damaged: {name!r} holds no numbers", hint=_ANEW)
                rest = 0 if name == "n" else np.nan
                return np.asarray(spread(found, cells, plan, rest)).reshape(plan.shape)

            def estimate(name: str) -> IntervalEstimate:
                return IntervalEstimate(*(column(name + end) for end in _ENDS))

            cvar = {share: estimate(_name(share)) for share in SHARES}
            return cls(column("n"), estimate("mean"), cvar, column("worse"))

    def write(self, file: Path, plan: Plan) -> None:
        """Write one row for each cell."""
        write_whole(file, to_bytes(self.to_table(plan), write_page_checksum=False))

    def to_table(self, plan: Plan) -> pa.Table:
        """Return one row for each cell and setting, with the setting's family and value."""
        codes = np.arange(self.n.size) % len(plan.settings)
        columns: dict[str, Any] = keys(plan, np.arange(self.n.size))
        for name in ("family", "parameter"):
            parts = np.array([getattr(setting, name) for setting in plan.settings], dtype=object)
            columns[name] = pa.array(parts[codes], pa.string()).dictionary_encode()
        columns["value"] = np.array([float(setting.value) for setting in plan.settings])[codes]
        columns["n"] = self.n.ravel()
        for name, estimate in [("mean", self.mean), *((_name(s), self.cvar[s]) for s in SHARES)]:
            for end, part in zip(_ENDS, estimate, strict=True):
                columns[name + end] = pa.array(part.ravel(), from_pandas=True)  # NaN is null
        columns["worse"] = pa.array(self.worse.ravel(), from_pandas=True)
        table = pa.table(columns)
        return marked(table, plan, sha256=digest(table))


class NotInPlanError(LookupError):
    """Results are asked for what their plan has not."""


@dataclass(frozen=True, eq=False)
class Results(Generic[Kind]):
    """What a study has found.

    Attributes:
        plan: Its plan.
        aggregates: Its statistics.
        folder: Where it lives, with what else it keeps there.
        fixed: Values of factors, where only results with these are meant.
    """

    plan: Kind
    aggregates: Aggregates
    folder: Path
    fixed: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    @classmethod
    def of_folder(cls, folder: Path, plan: Kind) -> Self:
        """Read the results of a study's folder."""
        return cls(plan, Aggregates.of_study(folder, plan), Path(folder))

    def at(self, **cell: Any) -> Self:
        """Return the results with these values of factors alone."""
        return replace(self, fixed={**self.fixed, **cell})

    def of(self, measure: Measure, label: str, **cell: Any) -> IntervalEstimate:
        """Return a statistic of a setting, over the factors that ``cell`` leaves free.

        Args:
            measure: The statistic.
            label: The setting's label.
            cell: Values of factors.
        """
        where = self.where(label, **cell)
        return IntervalEstimate(*(part[where] for part in self.aggregates.of(measure)))

    def n_runs(self, label: str | None = None, **cell: Any) -> NDArray[np.int64]:
        """Return the runs of a setting, or of all, over the factors that ``cell`` leaves free."""
        return np.asarray(self.aggregates.n[self.where(label, **cell)])

    def where(self, label: str | None = None, **cell: Any) -> tuple[Any, ...]:
        """Return the place of a setting, or of all, in the arrays of statistics."""
        wanted = {**self.fixed, **cell, "setting": label}
        try:
            return tuple(
                slice(None) if wanted.get(name) is None else values.index(wanted[name])
                for name, values in self.plan.axes.items()
            )
        except ValueError as error:
            raise NotInPlanError(str(error)) from None


def digest(table: pa.Table) -> str:
    """Return a hash of the numbers of a table, however they are stored."""
    found = hashlib.sha256()
    for name in table.column_names:
        found.update(f"{name}:{table[name].to_pylist()}".encode())
    return found.hexdigest()


def describe_runs(n: ArrayLike, plan: Plan) -> str:
    """Say how many runs some cells have, and how many were planned if these are fewer."""
    fewest, most = int(np.min(n)), int(np.max(n))
    text = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    return f"{text} runs" if most >= plan.n_runs else f"{text} of {plan.n_runs:,} runs"


def _name(share: float) -> str:
    return f"cvar_{100 * share:g}"


def aggregate(kept: Kept, plan: Plan) -> Aggregates:
    """Return the statistics of every cell from what is kept of the runs.

    They are those of all runs. A CVaR that reaches beyond the worst runs that are kept, as that of
    10 % does in a large study, is NaN.
    """
    # Kept as exact as the scores: the last bits of a long sum are the machine's, not ours.
    tails = np.full((len(SHARES), len(_ENDS), len(kept.n)), np.nan, dtype=np.float32)
    for which in _groups(kept):
        scores, n_runs = kept.worst_scores(which), int(kept.n[which[0]])
        for share, tail in zip(SHARES, tails, strict=True):
            rng = np.random.default_rng([plan.seed, _BOOTSTRAP, round(1 / share)])
            with suppress(DataError):
                tail[:, which] = cvar_interval(scores, share, rng, n_runs=n_runs)
    n = np.where(kept.n > 0, kept.n, np.nan)

    def shaped(parts: Iterable[NDArray[Any]]) -> IntervalEstimate:
        return IntervalEstimate(*(part.astype(np.float32).reshape(plan.shape) for part in parts))

    return Aggregates(
        n=kept.n.reshape(plan.shape),
        mean=shaped(student_interval(*_moments(kept), n)),
        cvar={share: shaped(tail) for share, tail in zip(SHARES, tails, strict=True)},
        worse=(kept.worse / n).astype(np.float32).reshape(plan.shape),
    )


def _moments(kept: Kept) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of every cell, from exact sums."""
    mean, variance = np.full((2, len(kept.n)), np.nan)
    for cell, n in enumerate(kept.n.tolist()):
        total, squares = kept.total[cell], kept.squares[cell]
        if n > 0:
            mean[cell] = total / (n * UNITS)
        if n > 1:
            # Squares are rounded to units: those of equal scores may come out below their mean.
            spread = max(0, n * squares * UNITS - total * total)
            variance[cell] = spread / (n * (n - 1) * UNITS**2)
    return mean, np.sqrt(variance)


def _groups(kept: Kept) -> Iterator[NDArray[np.int64]]:
    """Yield groups of cells with equally many runs, all in all and kept."""
    pairs = np.stack([kept.n, kept.n_kept], axis=1)
    for pair in np.unique(pairs[kept.n > 0], axis=0):
        alike = np.flatnonzero((pairs == pair).all(axis=1))
        yield from np.array_split(alike, range(_GROUP, len(alike), _GROUP))
