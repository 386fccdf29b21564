"""When a window opens and closes, and what is read then, and compared."""

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from kernel_delay.loader._records import lib

Reading = TypeVar("Reading")

# Counters of the kernel's are in ticks of up to 10 ms: of a shorter window they say nothing,
# and to read them for half a millisecond would keep the next from being opened in time.
SHORTEST_NS = 100_000_000

# How far from a window's boundaries, as a share of it, counters may be read and still be its own.
TOLERANCE = 0.05


class Readings(Struct, Generic[Reading], frozen=True):
    """What was read at a window's boundaries.

    `is_late`: not there, but a while before or after. What was counted from one to the other is
    not the window's then.
    """

    before: Reading
    after: Reading
    is_late: bool


class Boundaries(Generic[Reading]):
    """Reads at both boundaries of windows."""

    def __init__(self, read: Callable[[], Reading]) -> None:
        """Read by calling `read`, from now on."""
        self._read = read
        self._opened: dict[int, tuple[int, Reading]] = {}
        self._newest: tuple[int, Reading] | None = None

    def open(self, epoch: int, duration_ns: int) -> None:
        """Read as the epoch's window opens, which is to last so long."""
        if duration_ns >= SHORTEST_NS:
            self._newest = self._opened[epoch] = lib.monotonic_ns(), self._read()

    def close(self, epoch: int, start_ns: int, stop_ns: int) -> Readings[Reading] | None:
        """Read as the epoch's window is over; return what was read then and now.

        What was read as the next window opened is nearer to the end of this one.

        None if the window was not seen to open, or that is further from it than it was long.
        """
        opened = self._opened.pop(epoch, None)
        if opened is None:
            return None
        read_ns, before = opened
        if self._newest is not None and self._newest[0] >= stop_ns:
            now_ns, after = self._newest
        else:
            after = self._read()
            now_ns = lib.monotonic_ns()
        apart_ns = abs(read_ns - start_ns) + abs(now_ns - stop_ns)
        length_ns = stop_ns - start_ns
        if apart_ns > length_ns:
            return None
        return Readings(before, after, apart_ns > TOLERANCE * length_ns)
