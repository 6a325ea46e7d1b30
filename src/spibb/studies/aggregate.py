"""From the rows of a study to one set of statistics for each cell: (eta, size, setting).

The statistics are all that the figures need, and a few hundred kilobytes for any number of runs;
``aggregates.parquet`` holds them, one row for each cell. Equal results give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.errors import DataError, OutputError
from spibb.runner.store import Store, as_written, to_bytes
from spibb.studies.compact import UNITS, Compact, shape_of
from spibb.studies.metrics import IntervalEstimate, Measure, cvar_interval, student_interval
from spibb.studies.plan import Plan
from spibb.studies.recording import read_results
from spibb.whole_files import replace_whole

if TYPE_CHECKING:
    import pyarrow as pa

FILE = "aggregates.parquet"
SHARES = (0.001, 0.01, 0.1)
_ANEW = "make it anew from the study's parts"
_FORMAT = 1
_METADATA = b"spibb"
# Sets the resamples of the bootstrap apart from the randomness of the runs.
_BOOTSTRAP = 0xB007
# Cells that are computed together, to bound the memory. The same for any number of runs that are
# kept, and with it the last bits of a CVaR.
_GROUP = 500


@dataclass(frozen=True, eq=False)
class Aggregates:
    """Statistics of every cell, as arrays of shape (etas, sizes, settings) in the plan's order.

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
        return aggregate_compact(read_results(store, plan), plan)

    @classmethod
    def read(cls, file: Path, plan: Plan) -> Aggregates:
        """Read what ``write`` wrote for the same plan."""
        import pyarrow.parquet as pq

        with as_written(file, hint=_ANEW):
            table = pq.read_table(file)
            facts = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
            if facts.get("format") != _FORMAT or facts.get("fingerprint") != plan.fingerprint:
                raise DataError(
                    f"{file} does not belong to the plan beside it",
                    expected=f"aggregates of {plan.name} ({plan.fingerprint}) in format {_FORMAT}",
                    hint=_ANEW,
                )
            # Files from before there was one have none.
            if facts.get("sha256", digest(table)) != digest(table):
                raise DataError(f"{file} is damaged: its numbers are not those written", hint=_ANEW)
            columns: dict[str, Any] = {
                name: table[name].to_numpy().reshape(shape_of(plan))
                for name in table.column_names
                if name not in _KEYS
            }
            odd = [name for name, part in columns.items() if part.dtype.kind not in "iuf"]
            if odd:
                raise DataError(f"{file} is damaged: {odd[0]!r} holds no numbers", hint=_ANEW)
            return cls(
                n=columns["n"],
                mean=_estimate(columns, "mean"),
                cvar={share: _estimate(columns, _name(share)) for share in SHARES},
                worse=columns["worse"],
            )

    def write(self, file: Path, plan: Plan) -> None:
        """Write one row for each cell."""
        try:
            replace_whole(Path(file), to_bytes(self.to_table(plan), write_page_checksum=False))
        except OSError as error:
            raise OutputError(f"cannot write {file}: {error.strerror or error}") from None

    def to_table(self, plan: Plan) -> pa.Table:
        """Return one row for each cell, with the setting's group and value."""
        import pyarrow as pa

        n_cells, n_settings = self.n.size, len(plan.settings)
        etas, sizes, codes = (part.ravel() for part in np.indices(shape_of(plan)))
        labels = pa.array([setting.label for setting in plan.settings])
        groups = np.tile([setting.group for setting in plan.settings], n_cells // n_settings)
        columns: dict[str, Any] = {
            "eta": np.asarray(plan.etas)[etas],
            "size": np.asarray(plan.sizes)[sizes],
            "setting": pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int16)), labels),
            "group": pa.array(groups.tolist()).dictionary_encode(),
            "value": np.array([float(setting.value) for setting in plan.settings])[codes],
            "n": self.n.ravel(),
        }
        for name, estimate in [("mean", self.mean), *((_name(s), self.cvar[s]) for s in SHARES)]:
            for end, part in zip(_ENDS, estimate, strict=True):
                columns[name + end] = pa.array(part.ravel(), from_pandas=True)  # NaN is null
        facts = {"format": _FORMAT, "plan": plan.name, "fingerprint": plan.fingerprint}
        columns["worse"] = pa.array(self.worse.ravel(), from_pandas=True)
        table = pa.table(columns)
        facts["sha256"] = digest(table)
        return table.replace_schema_metadata({_METADATA: json.dumps(facts)})


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


_KEYS = ("eta", "size", "setting", "group", "value")
_ENDS = ("", "_low", "_high")


def aggregate(table: pa.Table, plan: Plan) -> Aggregates:
    """Return the statistics of every cell.

    Args:
        table: Rows with columns ``run, eta, size, setting, score``, in any order; settings may
            have different numbers of runs, and no run may be there twice.
        plan: The plan that the rows are of.
    """
    return aggregate_compact(Compact.of_table(table, plan), plan)


def aggregate_compact(compact: Compact, plan: Plan) -> Aggregates:
    """Return the statistics of every cell from what is kept of the runs.

    They are those of all runs. A CVaR that reaches beyond the worst runs that are kept, as that of
    10 % does in a large study, is NaN.
    """
    names = [_name(share) + end for share in SHARES for end in _ENDS]
    # Kept as exact as the scores: the last bits of a long sum are the machine's, not ours.
    columns = {name: np.full(len(compact.n), np.nan, dtype=np.float32) for name in names}
    for which in _groups(compact):
        scores, n_runs = compact.worst_scores(which), int(compact.n[which[0]])
        for share in SHARES:
            rng = np.random.default_rng([plan.seed, _BOOTSTRAP, round(1 / share)])
            for end, part in zip(_ENDS, _cvar(scores, share, rng, n_runs), strict=True):
                columns[_name(share) + end][which] = part
    columns |= dict(zip(_MEAN, _means(compact), strict=True))
    n = np.where(compact.n > 0, compact.n, np.nan)
    columns["worse"] = (compact.worse / n).astype(np.float32)
    shaped = {name: column.reshape(shape_of(plan)) for name, column in columns.items()}
    return Aggregates(
        n=compact.n.reshape(shape_of(plan)),
        mean=_estimate(shaped, "mean"),
        cvar={share: _estimate(shaped, _name(share)) for share in SHARES},
        worse=shaped["worse"],
    )


_MEAN = tuple("mean" + end for end in _ENDS)


def _means(compact: Compact) -> list[NDArray[np.float32]]:
    """Return the mean of every cell with its interval, from exact sums."""
    mean, variance = np.full((2, len(compact.n)), np.nan)
    for cell, n in enumerate(compact.n.tolist()):
        total, squares = compact.total[cell], compact.squares[cell]
        if n > 0:
            mean[cell] = total / (n * UNITS)
        if n > 1:
            # Squares are rounded to units: those of equal scores may come out below their mean.
            spread = max(0, n * squares * UNITS - total * total)
            variance[cell] = spread / (n * (n - 1) * UNITS**2)
    n_runs = np.where(compact.n > 0, compact.n, np.nan)
    estimate = student_interval(mean, np.sqrt(variance), n_runs)
    return [np.asarray(part, dtype=np.float32) for part in estimate]


def _cvar(
    scores: NDArray[np.float32], share: float, rng: np.random.Generator, n_runs: int
) -> IntervalEstimate:
    """Return the CVaR of cells with equally many runs, or NaN where it reaches too far."""
    try:
        return cvar_interval(scores, share, rng, n_runs=n_runs)
    except DataError:
        return IntervalEstimate(np.nan, np.nan, np.nan)


def _groups(compact: Compact) -> Iterator[NDArray[np.int64]]:
    """Yield groups of cells with equally many runs, all in all and kept."""
    pairs = np.stack([compact.n, compact.n_kept], axis=1)
    for pair in np.unique(pairs[compact.n > 0], axis=0):
        alike = np.flatnonzero((pairs == pair).all(axis=1))
        yield from np.array_split(alike, range(_GROUP, len(alike), _GROUP))


def _name(share: float) -> str:
    return f"cvar_{100 * share:g}"


def _estimate(columns: dict[str, NDArray[Any]], name: str) -> IntervalEstimate:
    return IntervalEstimate(*(columns[name + end] for end in _ENDS))
