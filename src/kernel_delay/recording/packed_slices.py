"""A sample's timeline as it was read: small, and made Slices when looked at."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from kernel_delay.model import Slice, SliceKind, SliceMode

_NO_CPU = -1

_What = tuple[SliceKind, SliceMode, str | None]


class PackedSlices(Sequence[Slice]):
    """Slices of 28 bytes each. A million of model.Slice would take five times that."""

    def __init__(self) -> None:
        """Have none."""
        self._starts, self._stops = array("q"), array("q")
        self._tids, self._whats, self._cpus = array("I"), array("I"), array("i")
        self._numbers: dict[_What, int] = {}

    def extend(self, slices: Iterable[Slice]) -> None:
        """Append slices; OverflowError for a figure that none has."""
        numbers = self._numbers
        for each in slices:
            if each.cpu is not None and each.cpu < 0:
                raise OverflowError("a CPU's number is below 0")
            what = (each.kind, each.mode, each.name)
            self._starts.append(each.start_ns)
            self._stops.append(each.stop_ns)
            self._tids.append(each.tid)
            self._cpus.append(_NO_CPU if each.cpu is None else each.cpu)
            self._whats.append(numbers.setdefault(what, len(numbers)))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Slice: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Slice, ...]: ...

    def __getitem__(self, index: int | slice) -> Slice | tuple[Slice, ...]:
        """Return a slice, or several."""
        if isinstance(index, slice):
            return tuple(self[at] for at in range(*index.indices(len(self))))
        return next(self._made(iter((range(len(self))[index],))))

    def __iter__(self) -> Iterator[Slice]:
        """Yield all slices."""
        return self._made(iter(range(len(self))))

    def _made(self, places: Iterator[int]) -> Iterator[Slice]:
        whats = tuple(self._numbers)
        for at in places:
            kind, mode, name = whats[self._whats[at]]
            cpu = self._cpus[at]
            yield Slice(
                self._tids[at],
                kind,
                self._starts[at],
                self._stops[at],
                mode,
                name,
                None if cpu == _NO_CPU else cpu,
            )
