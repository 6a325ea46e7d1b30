"""From the rows of a study to one set of statistics for each cell: (eta, size, setting).

The statistics are all that the figures need, and a few hundred kilobytes for any number of runs;
``aggregates.parquet`` holds them, one row for each cell. Equal results give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.errors import DataError, OutputError
from spibb.runner.store import Store
from spibb.studies.metrics import (
    Estimate,
    Measure,
    cvar_interval,
    mean_interval,
    probability_worse,
)
from spibb.studies.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

FILE = "aggregates.parquet"
SHARES = (0.001, 0.01, 0.1)
_FORMAT = 1
_METADATA = b"spibb"
# Sets the resamples of the bootstrap apart from the randomness of the runs.
_BOOTSTRAP = 0xB007
# Cells are computed in groups of about this many scores, to bound the memory.
_GROUP = 5_000_000


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
    mean: Estimate
    cvar: dict[float, Estimate]
    worse: NDArray[np.float32]

    def of(self, measure: Measure) -> Estimate:
        """Return a statistic of every cell."""
        return self.mean if measure.share is None else self.cvar[measure.share]

    @classmethod
    def of_study(cls, folder: Path, plan: Plan) -> Aggregates:
        """Aggregate the parts of a study; without parts, read the aggregates that it has."""
        file = Path(folder) / FILE
        store = Store(Path(folder))
        if not any(store.parts.glob("*.parquet")) and file.exists():
            return cls.read(file, plan)
        return aggregate(store.read(), plan)

    @classmethod
    def read(cls, file: Path, plan: Plan) -> Aggregates:
        """Read what ``write`` wrote for the same plan."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(file)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"cannot read {file}: {str(error).splitlines()[0]}") from None
        facts = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
        if facts.get("format") != _FORMAT or facts.get("fingerprint") != plan.fingerprint:
            raise DataError(
                f"{file} does not belong to the plan beside it",
                expected=f"aggregates of {plan.name} ({plan.fingerprint}) in format {_FORMAT}",
                hint="make it anew from the study's parts",
            )
        columns = {
            name: table[name].to_numpy().reshape(_shape(plan))
            for name in table.column_names
            if name not in _KEYS
        }
        return cls(
            n=columns["n"],
            mean=_estimate(columns, "mean"),
            cvar={share: _estimate(columns, _name(share)) for share in SHARES},
            worse=columns["worse"],
        )

    def write(self, file: Path, plan: Plan) -> None:
        """Write one row for each cell."""
        import pyarrow.parquet as pq

        unfinished = Path(file).with_suffix(".unfinished")
        try:
            pq.write_table(self.to_table(plan), unfinished, compression="zstd")
            unfinished.replace(file)
        except OSError as error:
            raise OutputError(f"cannot write {file}: {error.strerror or error}") from None

    def to_table(self, plan: Plan) -> pa.Table:
        """Return one row for each cell, with the setting's group and value."""
        import pyarrow as pa

        n_cells, n_settings = self.n.size, len(plan.settings)
        etas, sizes, codes = (part.ravel() for part in np.indices(_shape(plan)))
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
        return table.replace_schema_metadata({_METADATA: json.dumps(facts)})


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
    scores = table["score"].to_numpy()
    if np.isnan(scores).any():
        row = int(np.flatnonzero(np.isnan(scores))[0])
        raise DataError("a score is not a number", where=f"row {row}")
    cells = _cells(table, plan)
    n = np.bincount(cells, minlength=int(np.prod(_shape(plan))))
    _refuse_twice(cells, table["run"].to_numpy(), plan)
    names = [name + end for name in ("mean", *map(_name, SHARES)) for end in _ENDS]
    # Kept as exact as the scores: the last bits of a long sum are the machine's, not ours.
    columns = {name: np.full(len(n), np.nan, dtype=np.float32) for name in [*names, "worse"]}
    for which, block in _blocks(scores, cells, n):
        for name, found in _statistics(block, plan).items():
            columns[name][which] = found
    shaped = {name: column.reshape(_shape(plan)) for name, column in columns.items()}
    return Aggregates(
        n=n.reshape(_shape(plan)),
        mean=_estimate(shaped, "mean"),
        cvar={share: _estimate(shaped, _name(share)) for share in SHARES},
        worse=shaped["worse"],
    )


def _statistics(block: NDArray[Any], plan: Plan) -> dict[str, NDArray[np.float64]]:
    """Return the statistics of cells with equally many runs, scores of shape (cells, runs)."""
    found = dict(zip(("mean", "mean_low", "mean_high"), mean_interval(block), strict=True))
    for share in SHARES:
        rng = np.random.default_rng([plan.seed, _BOOTSTRAP, round(1 / share)])
        estimate = cvar_interval(block, share, rng)
        found |= {_name(share) + end: part for end, part in zip(_ENDS, estimate, strict=True)}
    return found | {"worse": probability_worse(block)}


def _blocks(
    scores: NDArray[Any], cells: NDArray[np.int64], n: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Yield (cells, their scores in rising order) in groups of cells with equally many runs."""
    ordered = scores[np.lexsort((scores, cells))]
    first = np.cumsum(n) - n
    for n_runs in np.unique(n[n > 0]).tolist():
        alike = np.flatnonzero(n == n_runs)
        for which in np.array_split(alike, -(-len(alike) * n_runs // _GROUP)):
            if len(which):
                yield which, ordered[first[which][:, None] + np.arange(n_runs)]


def _cells(table: pa.Table, plan: Plan) -> NDArray[np.int64]:
    """Return the number of each row's cell."""
    labels = table["setting"].combine_chunks().dictionary_encode()
    known = [setting.label for setting in plan.settings]
    settings = _places(labels.dictionary.to_pylist(), known, "setting")[labels.indices.to_numpy()]
    place = []
    for name, wanted in (("eta", plan.etas), ("size", plan.sizes)):
        values, codes = np.unique(table[name].to_numpy(), return_inverse=True)
        place.append(_places(values.tolist(), list(wanted), name)[codes])
    return np.asarray((place[0] * len(plan.sizes) + place[1]) * len(known) + settings)


def _places(found: Sequence[Any], known: list[Any], name: str) -> NDArray[np.int64]:
    unknown = [value for value in found if value not in known]
    if unknown:
        raise DataError(
            f"the results hold the {name} {unknown[0]!r}, which the plan has not",
            hint="put plan and results of the same study into the folder",
        )
    return np.array([known.index(value) for value in found], dtype=np.int64)


def _refuse_twice(cells: NDArray[np.int64], runs: NDArray[np.int32], plan: Plan) -> None:
    order = np.lexsort((runs, cells))
    twice = (np.diff(cells[order]) == 0) & (np.diff(runs[order]) == 0)
    if twice.any():
        row = order[int(np.flatnonzero(twice)[0])]
        label = plan.settings[int(cells[row]) % len(plan.settings)].label
        raise DataError(
            f"a run is there twice: run {int(runs[row])} of {label}",
            hint="keep one of the parts that hold it",
        )


def _shape(plan: Plan) -> tuple[int, int, int]:
    return len(plan.etas), len(plan.sizes), len(plan.settings)


def _name(share: float) -> str:
    return f"cvar_{100 * share:g}"


def _estimate(columns: dict[str, NDArray[Any]], name: str) -> Estimate:
    return Estimate(*(columns[name + end] for end in _ENDS))
