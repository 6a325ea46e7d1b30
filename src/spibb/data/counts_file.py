"""Counts in a file: arrays of NumPy, and a description in JSON."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.atomic_files import as_path, write_whole
from spibb.data.counts import Counts
from spibb.data.ends import COLUMNS, Ends
from spibb.data.return_sums import NUMBERS, TABLES, ReturnSums
from spibb.data.reward_moments import RewardMoments
from spibb.errors import DataError, OutputError

SUFFIX = ".npz"
_FORMAT, _VERSION = "spibb-counts", 1
# What readers of damaged files raise; NotImplementedError of ways to compress that are none.
_DAMAGED = (
    ValueError, KeyError, TypeError, EOFError, IndexError, NotImplementedError, RuntimeError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
_FLAGS = ("has_steps", "has_next", "has_terminated")


def is_counts_file(path: Any) -> bool:
    """Whether a path is, by its name, a file of counts."""
    return isinstance(path, str | Path) and Path(path).suffix == SUFFIX


def check_counts_name(path: Any) -> None:
    """Refuse a name that does not say that a file holds counts."""
    file = as_path(path)
    if not is_counts_file(file):
        raise OutputError(
            f"counts shall be written to {path}", expected=f"a name in {SUFFIX}",
            hint=f"say {file.stem}{SUFFIX}",
        )  # fmt: skip


def save_counts(counts: Counts, path: Any) -> None:
    """Write counts to a file, whole or not at all."""
    check_counts_name(path)
    sparse = {"n_sas": counts.n_sas, "n_end": counts.n_end}
    arrays: dict[str, NDArray[Any]] = {
        "n_sa": counts.n_sa, "reward_sum": counts.reward_sum, "n_initial": counts.n_initial,
    }  # fmt: skip
    if counts.paid is not None:
        sparse["by_successor"] = counts.paid.by_successor
        arrays["spread"] = counts.paid.spread
    for name, table in sparse.items():
        arrays |= {f"{name}.{part}": getattr(table, part) for part in ("data", "indices", "indptr")}
    about: dict[str, Any] = {
        "format": _FORMAT, "version": _VERSION, "reward_range": counts.reward_range,
        "n_dropped": counts.n_dropped, "n_gaps": counts.n_gaps,
        "state_labels": counts.state_labels, "action_labels": counts.action_labels,
        "minimize": counts.minimize,
    }  # fmt: skip
    if counts.ends is not None:
        arrays |= {f"ends.{name}": getattr(counts.ends, name) for name in COLUMNS}
        about["ends"] = {name: getattr(counts.ends, name) for name in _FLAGS}
        if counts.ends.episode.dtype.kind not in "iu":
            # As JSON, since arrays of texts cut off zeros.
            del arrays["ends.episode"]
            about["ends"]["episode"] = counts.ends.episode.tolist()
    if counts.returns is not None:
        arrays |= {f"returns.{name}": getattr(counts.returns, name) for name in TABLES}
        about["returns"] = {name: getattr(counts.returns, name) for name in NUMBERS}
    described = json.dumps(about, allow_nan=False).encode()
    arrays["about"] = np.frombuffer(described, dtype=np.uint8)
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    write_whole(path, stream.getbuffer())


def load_counts(path: Any) -> Counts:
    """Read the counts that `save_counts` wrote; refuse a file that is none, or damaged."""
    file = as_path(path, DataError)
    try:
        if file.exists() and not zipfile.is_zipfile(file):  # else NumPy takes it for a pickle
            raise ValueError("it is no archive of arrays")
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        about = json.loads(arrays.pop("about").tobytes())
        if about["format"] != _FORMAT:
            raise ValueError(f"it is {about['format']!r}")
        if about["version"] != _VERSION:
            raise ValueError(f"its version is {about['version']!r}, and {_VERSION} is known")
        counts = _counts(arrays, about)
        _check(counts)
    except OSError as problem:
        raise DataError(f"cannot read the counts {file}: {problem.strerror or problem}") from None
    except _DAMAGED as problem:
        raise DataError(
            f"{file} holds no counts, or is damaged: {(str(problem) or 'cut off').splitlines()[0]}",
            expected="a file that Counts.save or 'spibb count' wrote",
        ) from None
    return counts


def _counts(arrays: dict[str, NDArray[Any]], about: dict[str, Any]) -> Counts:
    shape = arrays["n_sa"].shape

    def sparse(name: str) -> sp.csr_array:
        parts = tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
        table = sp.csr_array(parts, shape=(shape[0] * shape[1], shape[0]))
        table.check_format(full_check=True)
        return table

    labels = [
        about[name] and tuple(map(str, about[name])) for name in ("state_labels", "action_labels")
    ]
    ends = None
    if "ends" in about:
        given = dict(about["ends"])
        columns: dict[str, Any] = {name: arrays.get(f"ends.{name}") for name in COLUMNS}
        if "episode" in given:
            columns["episode"] = np.array(given.pop("episode"), dtype=object).astype(str)
        columns |= {name: bool(given[name]) for name in _FLAGS}
        ends = Ends(**columns)
    has_paid, returns = "spread" in arrays, None
    if "returns" in about:
        tables: dict[str, Any] = {name: arrays[f"returns.{name}"] for name in TABLES}
        returns = ReturnSums(**tables, **{name: about["returns"][name] for name in NUMBERS})
    return Counts(
        n_sa=arrays["n_sa"],
        n_sas=sparse("n_sas"),
        n_end=sparse("n_end"),
        reward_sum=arrays["reward_sum"],
        reward_range=(float(about["reward_range"][0]), float(about["reward_range"][1])),
        n_initial=arrays["n_initial"],
        n_dropped=int(about["n_dropped"]),
        n_gaps=int(about["n_gaps"]),
        paid=RewardMoments(sparse("by_successor"), arrays["spread"]) if has_paid else None,
        state_labels=labels[0],
        action_labels=labels[1],
        ends=ends,
        returns=returns,
        minimize=bool(about.get("minimize", False)),
    )


def _check(counts: Counts) -> None:
    """Refuse tables that do not fit together: of another program, or changed by hand."""
    shape = counts.n_sa.shape
    sizes = {"n_sa": 2, "reward_sum": 2, "n_initial": 1}
    for name, n_axes in sizes.items():
        table = getattr(counts, name)
        wanted = shape[:n_axes]
        if table.shape != wanted or len(shape) != 2:
            raise ValueError(f"{name} has shape {table.shape}")
    for name, values in (
        ("n_sa", counts.n_sa), ("n_sas", counts.n_sas.data), ("n_end", counts.n_end.data),
        ("n_initial", counts.n_initial),
    ):  # fmt: skip
        if values.dtype.kind != "i" or (values < 0).any():
            raise ValueError(f"{name} holds what are no counts")
    if not np.isfinite(counts.reward_sum).all():
        raise ValueError("reward_sum is not finite")
    rows = np.asarray(counts.n_sas.sum(axis=1)).ravel()
    if (rows > counts.n_sa.ravel()).any():
        raise ValueError("more transitions than rows of a pair")
    if counts.returns is not None:
        for name in TABLES:
            if getattr(counts.returns, name).shape != shape:
                raise ValueError(f"returns have tables that are not of shape {shape}")
    for labels, size in zip((counts.state_labels, counts.action_labels), shape, strict=True):
        if labels is not None and (len(labels) != size or len(set(labels)) != size):
            raise ValueError(f"{len(labels)} labels for {size}")
    if counts.ends is not None:
        lengths = {len(getattr(counts.ends, name)) for name in COLUMNS}
        if len(lengths) != 1:
            raise ValueError("ends of different lengths")
