"""The rows of log files, chunk by chunk, as integers and numbers: no file is in memory as a whole.

What needs the whole table (times for steps, columns that are numbers in one file and names in
another) and everything that is wrong raises `NotStreamedError`: spibb.data.readers, which sees all
rows, reads it or says what is wrong with which row.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.data.episodes import is_one_step, with_own_episodes
from spibb.data.label_encoder import NumberCodes, TextCodes, whole_numbers
from spibb.data.log_columns import (
    FALSE,
    OPTIONAL,
    REQUIRED,
    TRUE,
    named_columns,
    says_who_acted,
)
from spibb.data.streaming_counts import CHUNK, RowChunk, row_chunk
from spibb.tables.columns import without_unnamed
from spibb.tables.files import find_files, partition_of
from spibb.tables.free_memory import check_memory
from spibb.tables.reading import naming, united
from spibb.tables.registry import source_of
from spibb.tables.source import NotStreamedError, StreamedSource

if TYPE_CHECKING:
    import pyarrow as pa

_LARGEST_REWARD = 1e100
_TEXTS = ("state", "next_state", "action", "episode", "step", "terminated", "truncated")
_COUNT_IT = (
    "count it while it is read (spibb count, or spibb.count_log) and give the counts in its place, "
    "or use a part of the rows"
)
# Told how many rows were read, and which share of all there are.
Progress = Callable[[int, float], None]


class LogRows:
    """The rows of log files, in order.

    Attributes:
        files: The files.
        states: The names of states and next states, by number of appearance.
        actions: The names of actions.
        episodes: The names of episodes; None where they are integers.
        is_one_step: Whether each row is a decision of its own.
        n_rows: Rows that were read.
        share: How much of everything they are, or so.
        says_who_acted: Whether there are columns of the behaviour policy, which are not read here.
    """

    def __init__(self, path: str | Path, columns: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.files = find_files(path, what="log")
        sources = {source_of(file) for file in self.files}
        source = sources.pop()
        if sources or not isinstance(source, StreamedSource):
            raise NotStreamedError("files that are read as a whole, or of several formats")
        self._source: StreamedSource = source
        # Columns that names of folders make.
        self._in_path: set[str] = set()
        heads = [self._head(file) for file in self.files]
        head = named_columns(united(heads, path, "log", self.files), columns, path)
        self.says_who_acted = says_who_acted(head.column_names)
        self._theirs = _theirs(head, columns)
        self._check_kinds(heads)
        is_csv = self._source.has_texts
        kinds = [self._kind(heads[0], name) for name in ("state", "action", "episode")]

        def codes(kind: str, *may_lack: str) -> NumberCodes | TextCodes:
            return TextCodes(may_lack, is_csv=is_csv) if kind == "text" else NumberCodes(may_lack)

        self.states, self.actions = codes(kinds[0], "next_state"), codes(kinds[1])
        is_named = kinds[2] == "text"
        self.episodes = TextCodes((), is_csv=is_csv) if is_named else None
        self.n_rows, self.share = 0, 0.0
        self.is_one_step = is_one_step(self._theirs)

    def _head(self, file: Path) -> pa.Table:
        """Return the columns of a file as a table without rows."""
        import pyarrow as pa
        import pyarrow.parquet

        with naming(file, "log"):
            if not file.is_file():
                raise NotStreamedError("no file")
            head = self._source.head(file, "log")
        for name in partition_of(file, self.path):
            if name not in head.column_names:
                head = head.append_column(name, pa.nulls(0))
                self._in_path.add(name)
        return without_unnamed(head, file)

    def _kind(self, head: pa.Table, name: str) -> str:
        import pyarrow as pa

        if name not in self._theirs:
            return ""
        kind = head.schema.field(self._theirs[name]).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return "text"
        if pa.types.is_uint64(kind):
            return "other"
        if pa.types.is_integer(kind):
            return "integer"
        if pa.types.is_boolean(kind):
            return "flag"
        return "number" if pa.types.is_floating(kind) else "other"

    def _check_kinds(self, heads: list[pa.Table]) -> None:
        """Refuse what only a whole table can be made of."""
        if self._in_path & set(self._theirs.values()):
            raise NotStreamedError("names of folders are a column")
        if self._source.has_texts:
            return
        numbers = {"integer", "number"}
        able: dict[str, tuple[set[str], ...]] = {
            "state": (numbers, {"text"}), "action": (numbers, {"text"}), "reward": (numbers,),
            "episode": ({"integer"}, {"text"}), "step": ({"integer"},),
            "terminated": ({"flag"},), "truncated": ({"flag"},),
        }  # fmt: skip
        for name, kinds in able.items():
            shared = (name, "next_state") if name == "state" else (name,)
            found = {self._kind(head, column) for head in heads for column in shared} - {""}
            if found and not any(found <= one for one in kinds):
                raise NotStreamedError(f"{name} is {', '.join(sorted(found))}")

    def chunks(self, progress: Progress | None = None) -> Iterator[tuple[RowChunk, int]]:
        """Return the rows, with the number of the file they are in; once.

        Every row that is read or counted goes through here, in the order of the files: what is to
        be known of rows as they are written is to be gathered here, of `table`.
        """
        for table, file, share in _ahead(self._batches()):
            if len(table):
                self.n_rows, self.share = self.n_rows + len(table), share
                yield self._chunk(table, file), file
            if progress is not None:
                progress(self.n_rows, share)

    def gathered(self, progress: Progress | None = None) -> dict[str, NDArray[Any]]:
        """Return all rows, column by column."""
        import pyarrow as pa

        n_rows = self._n_rows()
        if None not in n_rows:
            check_memory(sum(filter(None, n_rows)), f"the log {self.path}", hint=_COUNT_IT)
        found: dict[str, NDArray[Any]] = {}
        owners: list[NDArray[np.int64]] = []
        is_shared = len(self.files) > 1 and "episode" in self._theirs and "step" not in self._theirs
        for chunk, file in self.chunks(progress):
            _fill(
                found,
                {name: getattr(chunk, name) for name in self._theirs},
                self.n_rows,
                self.share,
            )
            if is_shared:
                episodes = np.unique(chunk.episode)
                owners.append(np.column_stack([episodes, np.full(len(episodes), file)]))
        if not self.n_rows:
            raise NotStreamedError("no rows")
        if is_shared:
            owned = np.unique(np.concatenate(owners), axis=0)
            if len(np.unique(owned[:, 0])) < len(owned):
                raise NotStreamedError("files share an episode")
        for values in found.values():
            values.resize(self.n_rows, refcheck=False)
        # What chunks took is kept for the next ones, of which there are none.
        pa.default_memory_pool().release_unused()
        return found

    def _batches(self) -> Iterator[tuple[Any, int, float]]:
        """Yield batches, each with the number of its file and the share of all that is read."""
        ours = {theirs: name for name, theirs in self._theirs.items()}
        texts = [name for name in ours if ours[name] in _TEXTS]
        numbers = [name for name in ours if ours[name] not in _TEXTS]
        sizes = [
            file.stat().st_size if n is None else n
            for file, n in zip(self.files, self._n_rows(), strict=True)
        ]
        for place, file in enumerate(self.files):
            with naming(file, "log"):
                for batch, share in self._source.batches(file, texts, numbers, CHUNK):
                    yield batch, place, (sum(sizes[:place]) + share * sizes[place]) / sum(sizes)

    def _n_rows(self) -> list[int | None]:
        found = []
        for file in self.files:
            with naming(file, "log"):
                found.append(self._source.n_rows(file))
        return found

    def _chunk(self, batch: Any, file: int) -> RowChunk:
        found = {
            name.strip(): column for name, column in zip(batch.schema.names, batch, strict=True)
        }
        columns = {name: found[theirs] for name, theirs in self._theirs.items()}
        values: dict[str, Any] = {}
        for name, column in columns.items():
            if name in ("state", "next_state", "action"):
                codes = self.actions if name == "action" else self.states
                values[name] = _encoded(codes, column, name, file)
            elif name == "episode" and self.episodes is not None:
                values[name] = _encoded(self.episodes, column, name, file)
            else:
                values[name] = _READ[name](column)
        if self.is_one_step:
            values = with_own_episodes(values, first=self.n_rows - len(batch))
        return row_chunk(**values)


def _fill(
    found: dict[str, NDArray[Any]], chunk: dict[str, NDArray[Any]], n_rows: int, share: float
) -> None:
    """Append the rows of a chunk to columns that have room for as many as there may be."""
    for name, values in chunk.items():
        if name not in found:
            found[name] = np.empty(0, values.dtype)
        if n_rows > len(found[name]):
            # Memory that is not written to is not taken; so no rows are copied, but to their place.
            larger = np.empty(int(1.02 * n_rows / share) if share < 1.0 else n_rows, values.dtype)
            larger[: n_rows - len(values)] = found[name][: n_rows - len(values)]
            found[name] = larger
        found[name][n_rows - len(values) : n_rows] = values


def _theirs(head: pa.Table, columns: Mapping[str, str] | None) -> dict[str, str]:
    """Return how the columns that count are called in the files, by their names here."""
    known = [name for name in (*REQUIRED, *OPTIONAL) if name in head.column_names]
    return {name: (columns or {}).get(name, name) for name in known}


def _encoded(
    codes: NumberCodes | TextCodes, column: Any, name: str, file: int
) -> NDArray[np.int64]:
    import pyarrow as pa

    if isinstance(codes, NumberCodes):
        return codes.encode(_plain(column), name)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    return codes.encode(column, name, file)


def _plain(column: Any) -> Any:
    import pyarrow as pa

    is_encoded = pa.types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if is_encoded else column


def _rewards(column: Any) -> NDArray[np.float64]:
    column = _plain(column)
    if column.null_count:
        raise NotStreamedError("a reward is missing")
    values = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    # Not a number is not inside either.
    if not (values.min() >= -_LARGEST_REWARD and values.max() <= _LARGEST_REWARD):
        raise NotStreamedError("a reward is out of range")
    return values


def _integers(column: Any) -> NDArray[np.int64]:
    """Return integers, or texts that are written as such."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return whole_numbers(column)
    if column.null_count:
        raise NotStreamedError("an empty cell")
    texts = pc.utf8_trim_whitespace(column.dictionary)
    if not pc.all(pc.match_substring_regex(texts, r"^-?[0-9]+$")).as_py():
        raise NotStreamedError("steps that are no whole numbers")
    try:
        known = texts.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        raise NotStreamedError("steps of many digits") from None
    return np.asarray(known[column.indices.to_numpy()], dtype=np.int64)


def _flags(column: Any) -> NDArray[np.bool_]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(column.type):
        return np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)
    texts = pc.utf8_lower(column.dictionary)
    is_true = np.array([text in TRUE for text in texts.to_pylist()] + [False], np.bool_)
    is_false = np.array([text in FALSE for text in texts.to_pylist()] + [True], np.bool_)
    places = column.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    if not (is_true | is_false)[places].all():
        raise NotStreamedError("a flag that is none")
    return np.asarray(is_true[places])


_READ: dict[str, Callable[[Any], Any]] = {
    "reward": _rewards, "episode": _integers, "step": _integers, "terminated": _flags,
    "truncated": _flags,
}  # fmt: skip
_END = object()


def _ahead(items: Iterator[Any], n_ahead: int = 2) -> Iterator[Any]:
    """Return items that another thread makes meanwhile."""
    made: queue.Queue[Any] = queue.Queue(n_ahead)
    is_over = threading.Event()

    def make() -> None:
        try:
            for item in items:
                _put(made, item, is_over)
                if is_over.is_set():
                    return
            _put(made, _END, is_over)
        except BaseException as error:
            _put(made, error, is_over)

    threading.Thread(target=make, daemon=True).start()
    try:
        while (item := made.get()) is not _END:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        is_over.set()


def _put(made: queue.Queue[Any], item: Any, is_over: threading.Event) -> None:
    while not is_over.is_set():
        try:
            made.put(item, timeout=0.2)
        except queue.Full:
            continue
        return
