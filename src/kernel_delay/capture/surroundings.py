"""What bears on the process from outside, window by window: asked of /proc, not of programs."""

from collections.abc import Iterable

from msgspec.structs import replace

from kernel_delay.host.surroundings import Snapshot, between, scheduling
from kernel_delay.loader._records import lib
from kernel_delay.model import Surroundings, Thread

# Counters of /proc are in ticks of 10 ms, and take half a millisecond to read: of shorter
# windows they would say nothing, and keep the next from being opened in time.
SHORTEST_NS = 100_000_000

# How far from a window's edges, as a share of it, they may be read and still be the window's.
TOLERANCE = 0.05

# A thread that waited less for a CPU needs no explanation; more threads than that, nobody reads.
ASKED_SHARE = 0.01
MOST_ASKED = 64


class Observer:
    """Takes a snapshot as a window opens, and compares when it is over."""

    def __init__(self, pid: int) -> None:
        """Observe what is around process `pid`."""
        self._pid = pid
        self._opened: dict[int, tuple[int, Snapshot]] = {}

    def open(self, epoch: int, duration_ns: int) -> None:
        """Note how things stand as the epoch's window opens, which is to last so long."""
        if duration_ns >= SHORTEST_NS:
            self._opened[epoch] = lib.monotonic_ns(), Snapshot.take(self._pid)

    def close(self, epoch: int, start_ns: int, stop_ns: int) -> Surroundings | None:
        """Return what happened in the epoch's window, which is over; None if that isn't known."""
        opened = self._opened.pop(epoch, None)
        if opened is None:
            return None
        read_ns, before = opened
        after = Snapshot.take(self._pid)
        tolerance_ns = TOLERANCE * (stop_ns - start_ns)
        if abs(read_ns - start_ns) + abs(lib.monotonic_ns() - stop_ns) > tolerance_ns:
            return None
        return between(before, after, self._pid)


def with_scheduling(threads: Iterable[Thread], window_ns: int) -> tuple[Thread, ...]:
    """Return the threads; those that waited most for a CPU with how they are scheduled."""
    known = tuple(threads)
    waited = [
        (thread.time.ready_ns, place)
        for place, thread in enumerate(known)
        if thread.tid and thread.time and thread.time.ready_ns >= ASKED_SHARE * window_ns
    ]
    asked = {place for _, place in sorted(waited, reverse=True)[:MOST_ASKED]}
    return tuple(
        replace(thread, scheduling=scheduling(thread.tid)) if place in asked else thread
        for place, thread in enumerate(known)
    )
