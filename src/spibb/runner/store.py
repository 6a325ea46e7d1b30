"""A folder of Parquet parts, one for each job, written so that a part is whole or absent.

A part is written under another name and then renamed, which is one step to the file system: a study
killed at any moment leaves whole parts, and perhaps unfinished files that are swept up on resume.
One process at a time works in the folder; its lock ends with it, however it ends.

A large study folds its parts, in the order of the jobs, into tables that stay small:
``compact/NAME`` holds what the jobs before NAME came to, and appears in one step too. Only then are
those parts deleted, and parts of jobs before NAME count for nothing from that step on: no moment is
left at which a job would count twice, or not at all.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spibb.atomic_files import UNFINISHED, replace_whole, sync_folder
from spibb.errors import DataError, OutputError, SettingsError, SpibbError

if TYPE_CHECKING:
    import pyarrow as pa

PLAN_FILE = "plan.toml"
_PIECE = "piece.toml"
_PARTS = "parts"
_COMPACT = "compact"

# The first run of a piece, and the run after its last.
Piece = tuple[int, int]


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

    @property
    def compact(self) -> Path:
        """The folder of what parts were folded into."""
        return self.folder / _COMPACT

    @classmethod
    @contextmanager
    def open(
        cls, folder: Path, plan: str, *, resume: bool, piece: Piece | None = None
    ) -> Iterator[Store]:
        """Open a study's folder, or begin one, and keep others from working in it meanwhile.

        Args:
            folder: Where the study lives.
            plan: The plan as TOML; a study that is resumed must have the same.
            resume: Go on with an earlier run; without it, a folder with a study is refused.
            piece: The runs of the plan that belong here; None for all. It must be the same too.
        """
        store = cls(Path(folder))
        with _output(store.folder):
            is_new = not store.folder.exists()
            store.folder.mkdir(parents=True, exist_ok=True)
        with _locked(store.folder):
            try:
                with _output(store.folder):
                    store._begin(plan, piece, resume=resume)
            except OutputError:
                if is_new:
                    shutil.rmtree(store.folder, ignore_errors=True)
                raise
            try:
                yield store
            except SettingsError:
                # What cannot be done at all, such as to reach a cluster, leaves nothing behind.
                if is_new and not store.files() and store.folded() is None:
                    shutil.rmtree(store.folder, ignore_errors=True)
                raise

    def plan(self) -> str:
        """Return the plan as TOML."""
        file = self.folder / PLAN_FILE
        try:
            return file.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            raise DataError(f"{self.folder} is no study: it has no {PLAN_FILE}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot read {file}: {error}", expected="a plan in TOML") from None

    def piece(self) -> Piece | None:
        """Return the runs of the plan that belong here; None for all."""
        file = self.folder / _PIECE
        try:
            facts = tomllib.loads(file.read_text(encoding="utf-8"))
            return int(facts["first"]), int(facts["last"])
        except FileNotFoundError:
            return None
        except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"cannot read {file}: {error}", expected="two numbers of runs, first and last"
            ) from None

    def folded(self) -> str | None:
        """Return the name up to which jobs are folded away: those before it in order."""
        return max(self._states(), key=_rank, default=None)

    def files(self) -> list[Path]:
        """Return the parts that are not folded away, in the order of the jobs."""
        return sorted(self._parts(self.folded()), key=lambda file: _rank(file.stem))

    def finished(self) -> tuple[set[str], set[str]]:
        """Return the names of the jobs whose parts are whole, and of those whose are damaged.

        Jobs that are folded away have no parts: their names come before ``folded()``.
        """
        files = self.files()
        whole = {file.stem for file in files if _is_whole(file)}
        return whole, {file.stem for file in files} - whole

    def write(self, job: str, table: pa.Table) -> None:
        """Write a job's part, whole or not at all."""
        with _output(self.folder):
            replace_whole(self._file(job), to_bytes(table))

    def read(
        self,
        jobs: Iterable[str] | None = None,
        convert: Callable[[pa.Table, str], pa.Table] = lambda part, where: part,
    ) -> pa.Table:
        """Return the parts of jobs, or all that are not folded away, as one table in their order.

        Args:
            jobs: Names of jobs; None for all.
            convert: Makes of a part, given with its place, what is wanted, or refuses it.
        """
        import pyarrow as pa

        files = self.files() if jobs is None else [self._file(job) for job in jobs]
        if not files:
            what = "has no results yet" if self.folded() is None else "keeps no rows but the worst"
            raise DataError(f"{self.folder} {what}", hint="run the study first")
        tables = [convert(read_checked(file), str(file)) for file in files]
        try:
            return pa.concat_tables(tables)
        except pa.ArrowInvalid:
            odd = next(k for k, table in enumerate(tables) if table.schema != tables[0].schema)
            raise DataError(
                f"{files[odd]} has other columns than {files[0]}",
                expected="parts of one study",
                hint="delete the one that does not belong, then run the study with --resume",
            ) from None

    def fold(self, name: str, files: Mapping[str, Any]) -> None:
        """Put files in the place of all jobs before a name, in one step.

        Args:
            name: The first job, in order, that is not part of them.
            files: What the jobs before it came to, those that were folded earlier included: the
                content of each file by name.
        """
        unfinished = self.compact / f"{name}.{os.getpid()}{UNFINISHED}"
        with _output(self.folder):
            try:
                unfinished.mkdir(parents=True)
                for file, content in files.items():
                    replace_whole(unfinished / file, content)
                sync_folder(unfinished)
                unfinished.rename(self.compact / name)
                # The parts must not be gone from the disk before this is there.
                sync_folder(self.compact)
                sync_folder(self.folder)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
            self._sweep()

    def _begin(self, plan: str, piece: Piece | None, *, resume: bool) -> None:
        """Check that the folder is ours to write in, and make it ready."""
        file = self.folder / PLAN_FILE
        if file.exists():
            self._check_resumable(plan, piece, resume=resume)
        else:
            self._check_empty()
            (self.folder / _PIECE).unlink(missing_ok=True)
            if piece is not None:
                text = f"first = {piece[0]}\nlast = {piece[1]}\n"
                replace_whole(self.folder / _PIECE, text.encode())
            # Last, because a folder with a plan is a study.
            replace_whole(file, plan.encode())
        self.parts.mkdir(exist_ok=True)
        self._sweep()

    def _sweep(self) -> None:
        """Remove what was never finished, and what is folded away."""
        for folder in (self.folder, self.parts, self.compact):
            for entry in _entries(folder):
                if entry.suffix == UNFINISHED:
                    _remove(entry)
        last = self.folded()
        if last is None:
            return
        for name in self._states():
            if name != last:
                _remove(self.compact / name)
        left = set(self._parts(last))
        for file in self._parts(None):
            if file not in left:
                file.unlink()

    def _states(self) -> list[str]:
        """Return the names of what was folded; other entries, such as .DS_Store, are not ours."""
        return [file.name for file in _entries(self.compact) if file.name.isdecimal()]

    def _parts(self, folded: str | None) -> list[Path]:
        """Return the parts of jobs that are not before a name."""
        files = [
            file
            for file in _entries(self.parts)
            if file.suffix == ".parquet" and file.stem.isdecimal()
        ]
        return [file for file in files if folded is None or _rank(file.stem) >= _rank(folded)]

    def _check_empty(self) -> None:
        """Refuse a folder that holds anything but a plan that was never finished."""
        for entry in self.folder.iterdir():
            if entry.suffix != UNFINISHED and entry.name != _PIECE:
                raise OutputError(
                    f"{self.folder} exists and is no study: it holds {entry.name}",
                    hint="choose another folder",
                )

    def _check_resumable(self, plan: str, piece: Piece | None, *, resume: bool) -> None:
        if not resume:
            raise OutputError(
                f"{self.folder} holds a study already",
                hint="add --resume to go on with it, or choose another folder",
            )
        if self.plan() != plan:
            raise OutputError(
                f"{self.folder} was begun with another plan",
                expected="the same plan, settings and number of runs",
                hint="choose another folder",
            )
        if self.piece() != piece:
            raise OutputError(
                f"{self.folder} was begun with {_describe(self.piece())}",
                expected=_describe(piece),
                hint="choose another folder",
            )

    def _file(self, job: str) -> Path:
        return self.parts / f"{job}.parquet"


def to_bytes(table: pa.Table, **options: Any) -> Any:
    """Return a table as a Parquet file with checksums.

    Args:
        table: The table.
        options: How to encode it, as pyarrow calls it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    settings = {"compression": "zstd", "write_page_checksum": True} | options
    pq.write_table(table, sink, **settings)
    return sink.getvalue()


_AGAIN = "delete it, then run the study with --resume to compute it again"


def read_checked(file: Path, *, hint: str = _AGAIN) -> pa.Table:
    """Read a table that ``to_bytes`` wrote and compare its pages with their checksums.

    Args:
        file: The file.
        hint: What to do where it is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"the part {file} is damaged: {' '.join(str(error).split())}", hint=hint
        ) from None
    if not table.num_rows:
        raise DataError(f"the part {file} is damaged: it has no rows", hint=hint)
    return table


@contextmanager
def as_written(file: Path, *, hint: str = _AGAIN) -> Iterator[None]:
    """Turn whatever goes wrong with the content of a file into a message: it is not what we wrote.

    Args:
        file: The file that is read.
        hint: What to do about it.
    """
    import pyarrow as pa

    try:
        yield
    except SpibbError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"cannot read {file}: {' '.join(str(error).split())}", hint=hint) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataError(
            f"{file} is damaged, or not of this study: {type(error).__name__}: {error}", hint=hint
        ) from None


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


def _is_whole(file: Path) -> bool:
    """Tell whether a part has its footer, which is written last and holds all the rest together."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return bool(pq.read_metadata(file).num_rows)
    except (OSError, pa.ArrowException):
        return False


def _rank(name: str) -> tuple[int, str]:
    """Return what sorts names of jobs: numbers with leading zeros, until they outgrow these."""
    return len(name), name


def _describe(piece: Piece | None) -> str:
    return "all runs" if piece is None else f"the runs {piece[0]} to {piece[1] - 1}"


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise DataError(
            f"cannot read {folder}: {error.strerror or error}", hint="check that you may read it"
        ) from None


def _remove(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry)
    else:
        entry.unlink()
