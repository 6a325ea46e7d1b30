"""A folder of Parquet parts, one for each job, written so that a part is whole or absent.

A part is written under another name and then renamed, which is one step to the file system: a study
killed at any moment leaves whole parts, and perhaps unfinished files that are swept up on resume.
One process at a time works in the folder; its lock ends with it, however it ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spibb.errors import DataError, OutputError

if TYPE_CHECKING:
    import pyarrow as pa

_PLAN = "plan.toml"
_PARTS = "parts"
_UNFINISHED = ".unfinished"


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
        return self.folder / _PARTS

    @classmethod
    @contextmanager
    def open(cls, folder: Path, plan: str, *, resume: bool) -> Iterator[Store]:
        """Open a study's folder, or begin one, and keep others from working in it meanwhile.

        Args:
            folder: Where the study lives.
            plan: The plan as TOML; a study that is resumed must have the same.
            resume: Go on with an earlier run; without it, a folder with a study is refused.
        """
        store = cls(Path(folder))
        with _output(store.folder):
            is_new = not store.folder.exists()
            store.folder.mkdir(parents=True, exist_ok=True)
        with _locked(store.folder):
            try:
                with _output(store.folder):
                    store._begin(plan, resume=resume)
            except OutputError:
                if is_new:
                    with suppress(OSError):
                        store.folder.rmdir()
                raise
            yield store

    def plan(self) -> str:
        """Return the plan as TOML."""
        try:
            return (self.folder / _PLAN).read_text(encoding="utf-8")
        except OSError:
            raise DataError(f"{self.folder} is no study: it has no {_PLAN}") from None

    def finished(self) -> tuple[set[str], set[str]]:
        """Return the names of the jobs whose parts are whole, and of those whose are damaged."""
        files = list(self.parts.glob("*.parquet"))
        whole = {file.stem for file in files if _is_whole(file)}
        return whole, {file.stem for file in files} - whole

    def write(self, job: str, table: pa.Table) -> None:
        """Write a job's part, whole or not at all."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
        with _output(self.folder):
            _write_whole(self._file(job), sink.getvalue())

    def read(self) -> pa.Table:
        """Return all parts as one table, in the order of the jobs."""
        import pyarrow as pa

        files = sorted(self.parts.glob("*.parquet"))
        if not files:
            raise DataError(f"{self.folder} has no results yet", hint="run the study first")
        return pa.concat_tables([_read_checked(file) for file in files])

    def _begin(self, plan: str, *, resume: bool) -> None:
        """Check that the folder is ours to write in, and make it ready."""
        file = self.folder / _PLAN
        if file.exists():
            self._check_resumable(file.read_text(encoding="utf-8"), plan, resume=resume)
        else:
            self._check_empty()
            _write_whole(file, plan.encode())
        self.parts.mkdir(exist_ok=True)
        for leftover in (*self.folder.glob(f"*{_UNFINISHED}"), *self.parts.glob(f"*{_UNFINISHED}")):
            leftover.unlink()

    def _check_empty(self) -> None:
        """Refuse a folder that holds anything but a plan that was never finished."""
        for entry in self.folder.iterdir():
            if entry.suffix != _UNFINISHED:
                raise OutputError(
                    f"{self.folder} exists and is no study: it holds {entry.name}",
                    hint="choose another folder",
                )

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

    def _file(self, job: str) -> Path:
        return self.parts / f"{job}.parquet"


@contextmanager
def _output(folder: Path) -> Iterator[None]:
    """Turn a failure to write into a message."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot write {folder}: {error.strerror or error}",
            hint="check that the disk has room and you may write there; "
            "a study goes on with --resume",
        ) from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, where the system and the file system have one."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with _output(folder):
        handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(
                f"another process is at work in {folder}",
                hint="wait for it, or choose another folder",
            ) from None
        except OSError:
            pass  # some network file systems have no locks for folders
        yield
    finally:
        os.close(handle)


def _write_whole(file: Path, content: bytes) -> None:
    unfinished = file.with_suffix(f".{os.getpid()}{_UNFINISHED}")
    try:
        with unfinished.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _is_whole(file: Path) -> bool:
    """Tell whether a part has its footer, which is written last and holds all the rest together."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return bool(pq.read_metadata(file).num_rows)
    except (OSError, pa.ArrowException):
        return False


def _read_checked(file: Path) -> pa.Table:
    """Read a part and compare its pages with their checksums."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(file, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"the part {file} is damaged: {' '.join(str(error).split())}",
            hint="delete it, then run the study with --resume to compute it again",
        ) from None
