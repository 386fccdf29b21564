"""How much of a CPU watching takes, and of memory this process."""

import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from kernel_delay.formatting import NS_PER_S

# Over this time it is judged: a record or two may take more for a moment.
SPAN_NS = 30 * NS_PER_S


STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Return what this process has in memory, by proc_pid_statm(5).

    The kernel counts what is shared with programs among that.
    """
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class MemoryBudget:
    """Whether this process has more memory than it may have."""

    def __init__(self, limit_bytes: int, used: Callable[[], int] = resident_bytes) -> None:
        """Allow `limit_bytes`."""
        self._limit_bytes = limit_bytes
        self._used = used
        self._given_up = False

    def excess(self) -> int | None:
        """Return how many bytes it has, if that is too much and give_up() was not called."""
        if self._given_up:
            return None
        used = self._used()
        return used if used > self._limit_bytes else None

    def give_up(self) -> None:
        """Look no more: there is nothing left that could be given back."""
        self._given_up = True


class CpuBudget:
    """Whether this thread has taken more than a share of one CPU for a while.

    It is the one that watches. What answers scrapes has others: whoever asks for metrics does not
    decide what is recorded.
    """

    def __init__(
        self,
        share: float,
        clock: Callable[[], int] = time.monotonic_ns,
        used: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        """Allow `share` of a CPU, from now on."""
        self._share = share
        self._clock, self._used = clock, used
        self._readings: deque[tuple[int, int]] = deque([(clock(), used())])

    def is_exceeded(self) -> bool:
        """Return whether it took more in the last half minute; False until that is over."""
        now_ns, used_ns = self._clock(), self._used()
        self._readings.append((now_ns, used_ns))
        while len(self._readings) > 2 and now_ns - self._readings[1][0] >= SPAN_NS:
            self._readings.popleft()
        then_ns, before_ns = self._readings[0]
        span_ns = now_ns - then_ns
        return span_ns >= SPAN_NS and used_ns - before_ns > self._share * span_ns

    def restart(self) -> None:
        """Judge only what is to come."""
        self._readings.clear()
        self._readings.append((self._clock(), self._used()))
