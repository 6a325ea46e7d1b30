"""A folder of Parquet parts, one for each job, written so that a part is whole or absent.

A part is written under another name and then renamed, which is one step to the file system: a study
killed at any moment leaves whole parts, and perhaps unfinished files that are swept up on resume.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spibb.errors import DataError, OutputError

if TYPE_CHECKING:
    import pyarrow as pa

_PLAN = "plan.toml"


@dataclass(frozen=True)
class Store:
    """Where a study keeps its plan and the parts of its result.

    Attributes:
        folder: The study's folder.
    """

    folder: Path

    @property
    def parts(self) -> Path:
        """The folder of parts."""
        return self.folder / "parts"

    @classmethod
    def create(cls, folder: Path, plan: str, *, resume: bool) -> Store:
        """Open a study's folder, or begin one.

        Args:
            folder: Where the study lives.
            plan: The plan as TOML; a study that is resumed must have the same.
            resume: Go on with an earlier run; without it, a folder that exists is refused.
        """
        store = cls(Path(folder))
        file = store.folder / _PLAN
        try:
            if file.exists():
                store._check_resumable(file.read_text(encoding="utf-8"), plan, resume=resume)
            elif store.folder.exists() and any(store.folder.iterdir()):
                raise OutputError(f"{folder} exists and is no study", hint="choose another folder")
            store.parts.mkdir(parents=True, exist_ok=True)
            _write_whole(file, plan.encode())
            for leftover in store.parts.glob("*.unfinished"):
                leftover.unlink()
        except OSError as error:
            raise OutputError(f"cannot write {folder}: {error.strerror or error}") from None
        return store

    def _check_resumable(self, earlier: str, plan: str, *, resume: bool) -> None:
        if not resume:
            raise OutputError(
                f"{self.folder} holds a study already",
                hint="add --resume to go on with it, or choose another folder",
            )
        if earlier != plan:
            raise OutputError(
                f"{self.folder} was begun with another plan",
                expected="the same plan, settings and number of runs",
                hint="choose another folder",
            )

    def plan(self) -> str:
        """Return the plan as TOML."""
        try:
            return (self.folder / _PLAN).read_text(encoding="utf-8")
        except OSError:
            raise DataError(f"{self.folder} is no study: it has no {_PLAN}") from None

    def has(self, job: str) -> bool:
        """Tell whether a job's part is there."""
        return self._file(job).exists()

    def write(self, job: str, table: pa.Table) -> None:
        """Write a job's part, whole or not at all."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        _write_whole(self._file(job), sink.getvalue())

    def read(self) -> pa.Table:
        """Return all parts as one table, in the order of the jobs."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        files = sorted(self.parts.glob("*.parquet"))
        if not files:
            raise DataError(f"{self.folder} has no results yet", hint="run the study first")
        return pa.concat_tables([pq.read_table(file) for file in files])

    def _file(self, job: str) -> Path:
        return self.parts / f"{job}.parquet"


def _write_whole(file: Path, content: bytes) -> None:
    unfinished = file.with_suffix(f".{os.getpid()}.unfinished")
    with unfinished.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.replace(file)
