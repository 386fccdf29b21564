"""What a measure is, and what it is given."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from bench import tables
from bench.figures import Absence, Figure, Measured


class Setting(Struct, frozen=True):
    """`rounds`: how often each thing is measured; `folder`: for files, gone afterwards.

    `peers`: the names of those that packets are measured with, all if there are none. `beside`:
    kernel-delay's programs of other builds, which calls and switches are measured with too.
    `kernels`: the names of those that the verifier is measured on, all if there are none.
    """

    rounds: int
    folder: Path
    peers: tuple[str, ...] = ()
    beside: tuple[Path, ...] = ()
    kernels: tuple[str, ...] = ()


class Measure(ABC):
    """One table of the page."""

    name: str
    title: str
    method: str
    """How it is measured, for the page; a paragraph of Markdown."""

    @abstractmethod
    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Measure; return the figures, and the peers that could not be measured."""

    def tables(self, measured: Measured) -> Iterator[str]:
        """Yield the lines of the tables, and who is absent."""
        yield from tables.of(measured)

    def remarks(self, measured: Measured) -> Iterator[str]:
        """Yield what is to be said below the table of the figures in it, if anything is."""
        yield from ()
