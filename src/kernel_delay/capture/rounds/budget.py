"""How much of a CPU this process takes itself."""

import time
from collections import deque
from collections.abc import Callable

NS_PER_S = 1_000_000_000

# Over this time it is judged: a record or two may take more for a moment.
SPAN_NS = 30 * NS_PER_S


class CpuBudget:
    """Whether this process has taken more than a share of one CPU for a while."""

    def __init__(
        self,
        share: float,
        clock: Callable[[], int] = time.monotonic_ns,
        used: Callable[[], int] = time.process_time_ns,
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
