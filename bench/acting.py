"""The load of loads/acts.c: threads that make system calls, or wake each other."""

import mmap
import os
import statistics
import time
from pathlib import Path
from typing import Self

from lab.child import Child

# Those of loads/acts.c.
_THREADS, _KEPT = 2, 65536
_BATCH = {"calls": 1024, "paced": 1024, "pings": 128, "packets": 1024}
_RING = 8 * (1 + _KEPT)
_ANSWER_S = 60.0


class Acting:
    """The running load. A context manager; `pid` is its process."""

    def __init__(self, program: Path, memory: Path) -> None:
        """Start it; it rests."""
        cpus = sorted(os.sched_getaffinity(0))
        self._child = Child([program, memory, str(cpus[-1]), str(cpus[0])])
        self._child.expect("ready", _ANSWER_S)
        with open(memory, "rb") as file:
            self._memory = mmap.mmap(file.fileno(), _THREADS * _RING, access=mmap.ACCESS_READ)
        self.pid = self._child.pid
        self._work = "rest"

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._child.stop()

    def act(self, work: str, number: int) -> None:
        """Go over to "calls", "pings" or "packets" in `number` threads, or to "rest" in 0.

        Or to "paced", `number` thousand calls a second in one thread.
        """
        self._child.tell(f"{work} {number}")
        self._child.expect("done", _ANSWER_S)
        self._work = work

    def measured_ns(self, seconds: float) -> float:
        """Return how long an act takes: the median of the batches of the next `seconds`.

        Where batches are slow it waits for three, for a minute at most. What
        disturbs a few batches (ticks, other processes) does not count.
        """
        before = [self._count(thread) for thread in range(_THREADS)]
        took_ns: list[int] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end or (len(took_ns) < 3 and time.monotonic() < end + 60):
            time.sleep(max(0.01, end - time.monotonic()))
            took_ns = []
            for thread, count in enumerate(before):
                took_ns += self._batches(thread, count)
        return statistics.median(took_ns) / _BATCH[self._work]

    def _count(self, thread: int) -> int:
        return self._number(thread * _RING)

    def _batches(self, thread: int, since: int) -> list[int]:
        now = self._count(thread)
        # The first began before `since` was read.
        first = max(since + 1, now - _KEPT // 2)
        return [self._number(thread * _RING + 8 * (1 + i % _KEPT)) for i in range(first, now)]

    def _number(self, at: int) -> int:
        return int.from_bytes(self._memory[at : at + 8], "little")
