"""What is read as a window opens and again when it is over, and is said of no other time."""

from collections.abc import Callable
from typing import Generic, TypeVar

from kernel_delay.loader._records import lib

Reading = TypeVar("Reading")

# Counters of the kernel's are in ticks of up to 10 ms: of a shorter window they say nothing,
# and to read them for half a millisecond would keep the next from being opened in time.
SHORTEST_NS = 100_000_000

# How far from a window's boundaries, as a share of it, they may be read and still be its own.
TOLERANCE = 0.05


class Boundaries(Generic[Reading]):
    """Reads at both boundaries of windows."""

    def __init__(self, read: Callable[[], Reading]) -> None:
        """Read by calling `read`, from now on."""
        self._read = read
        self._opened: dict[int, tuple[int, Reading]] = {}

    def open(self, epoch: int, duration_ns: int) -> None:
        """Read as the epoch's window opens, which is to last so long."""
        if duration_ns >= SHORTEST_NS:
            self._opened[epoch] = lib.monotonic_ns(), self._read()

    def close(self, epoch: int, start_ns: int, stop_ns: int) -> tuple[Reading, Reading] | None:
        """Read as the epoch's window is over; return what was read then and now.

        None if the window was not seen to open, or either was too early or too late.
        """
        opened = self._opened.pop(epoch, None)
        if opened is None:
            return None
        read_ns, before = opened
        after = self._read()
        tolerance_ns = TOLERANCE * (stop_ns - start_ns)
        if abs(read_ns - start_ns) + abs(lib.monotonic_ns() - stop_ns) > tolerance_ns:
            return None
        return before, after
