"""Windows: opened and ended in the memory that the programs decide by."""

import time
from typing import Any

from kernel_delay.capture._records import lib

# How far ahead a window's edge is set, so that it is set before it comes.
LEAD_NS = 50_000

# Longer than any program runs: for kernels that refuse to say when all are done.
PROGRAM_S = 0.01


class Windows:
    """The windows in a struct control; each open() begins a new epoch."""

    def __init__(self, control: Any) -> None:
        """Open windows in `control`."""
        self._control = control

    def open(self, duration_ns: int) -> int:
        """Open a window of exactly that length, about now; return its epoch.

        Its start must still be to come when it is there for the programs to
        see: if this process was kept from the CPU just then, a later one is
        opened.
        """
        while True:
            start_ns = lib.monotonic_ns() + LEAD_NS
            lib.publish_window(self._control, start_ns, start_ns + duration_ns)
            if lib.monotonic_ns() < start_ns:
                return int(self._control.epoch)

    def end(self) -> None:
        """End the newest window about now, unless it has ended already."""
        while True:
            stop_ns = lib.monotonic_ns() + LEAD_NS
            if stop_ns >= self.edges(int(self._control.epoch))[1]:
                return
            lib.set_stop(self._control, stop_ns)
            if lib.monotonic_ns() < stop_ns:
                return

    def edges(self, epoch: int) -> tuple[int, int]:
        """Return the start and the stop of the epoch's window, CLOCK_MONOTONIC."""
        window = self._control.windows[epoch % lib.WINDOWS]
        return int(window.start_ns), int(window.stop_ns)


def wait_for_programs() -> None:
    """Wait until every program that runs now has ended, and so all it writes is there."""
    if lib.wait_for_programs():
        # EINVAL on kernels with nohz_full CPUs, membarrier(2).
        time.sleep(PROGRAM_S)
