"""What a kind of table file is: how it is told by its name, read, and streamed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa


class NotStreamedError(Exception):
    """A log that has to be read as a whole."""


class Wanted(NamedTuple):
    """What is wanted of a file.

    Attributes:
        what: What the file is to the user, for messages: "log", "policy".
        names: Columns of integers or labels.
        numbers: Columns of numbers.
        hidden: Column whose values no message shows.
    """

    what: str
    names: Collection[str] = ()
    numbers: Collection[str] = ()
    hidden: str | None = None

    @property
    def columns(self) -> set[str]:
        """All columns that are wanted."""
        return {*self.names, *self.numbers}


class Source(ABC):
    """A kind of table file. A new one is a module with such a class, and a line in `registry`.

    Attributes:
        title: What it is called in messages.
        suffixes: Endings of names, the usual one first.
        may_be_packed: Whether .gz or .zst may follow.
        advice: What to do about a file that cannot be read.
    """

    title: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    may_be_packed: ClassVar[bool] = False
    advice: ClassVar[str] = "check that the file is complete, and is what its name says"

    @abstractmethod
    def read(self, file: Path, wanted: Wanted) -> pa.Table:
        """Read the columns that are wanted; the others are there by name, but empty.

        Args:
            file: The file.
            wanted: What is wanted.
        """


class StreamedSource(Source):
    """A kind of file that can be read in batches of rows.

    Attributes:
        has_texts: Whether all cells are texts, so that all of them decide what is a number.
    """

    has_texts: ClassVar[bool] = False

    @abstractmethod
    def head(self, file: Path, what: str) -> pa.Table:
        """Return the columns of a file as a table without rows.

        Args:
            file: The file.
            what: What it is to the user.

        Raises:
            NotStreamedError: It can only be read as a whole.
        """

    @abstractmethod
    def batches(
        self, file: Path, texts: Collection[str], numbers: Collection[str], n_rows: int
    ) -> Iterator[tuple[Any, float]]:
        """Yield batches of rows, each with the share of the file that is read by then.

        Args:
            file: The file.
            texts: Columns of labels, names of episodes, steps and flags.
            numbers: Columns of numbers.
            n_rows: Largest number of rows of a batch.
        """

    def n_rows(self, file: Path) -> int | None:
        """Return the number of rows; None where only reading the file tells.

        Args:
            file: The file.
        """
        return None
