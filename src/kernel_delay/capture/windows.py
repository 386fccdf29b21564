"""Windows: opened and ended in the memory that the programs decide by."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kernel_delay.loader._records import ffi, lib

if TYPE_CHECKING:
    from kernel_delay.loader._records import ControlPointer, TriggerHit

# How far ahead a window's boundary is set, so that it is set before it comes. Where that
# was too late, twice as far: a slow CPU may need longer each time.
LEAD_NS = 50_000
LONGEST_LEAD_NS = LEAD_NS << 8

# The same for an early end. It can't be moved back once it is set, so it is far enough
# ahead that this process is hardly ever kept from the CPU for so long in between.
END_LEAD_NS = 2_000_000

# The stop of a window that nothing has closed yet; outside every window.
NEVER_NS = (1 << 64) - 1

# More windows than any plan has; programs that just close one may still add to it.
ENOUGH = 1 << 63

# Longer than any program runs: for kernels that refuse to say when all are done.
PROGRAM_S = 0.01


class Windows:
    """The windows in a struct control; each open() begins a new epoch."""

    def __init__(
        self,
        control: "ControlPointer",
        forget: Callable[[], None],
        on_open: Callable[[int], None] = lambda epoch: None,
    ) -> None:
        """Open windows in `control`.

        `forget` is called to have all that was measured forgotten, while no window is open.
        `on_open` is called with the epoch of each window that was opened.
        """
        self._control = control
        self._forget = forget
        self._on_open = on_open
        self._late = False
        self._lead_ns = LEAD_NS

    @property
    def newest(self) -> int:
        """Epoch of the window opened last, 0 before the first one."""
        return lib.load_counter(ffi.addressof(self._control, "epoch"))

    def open(self, duration_ns: int | None) -> int:
        """Open a window of exactly that length, about now; return its epoch.

        With no length a stop trigger closes it. The windows before must be
        reported: see try_open().
        """
        while (epoch := self.try_open(duration_ns)) is None:
            pass
        return epoch

    def try_open(self, duration_ns: int | None) -> int | None:
        """Open a window as open() does; None if that came too late.

        Its start must still be to come when it is there for the programs to
        see, and this process may be kept from the CPU just then. What was
        measured for such a window is forgotten when another is to be opened,
        with all that was measured before and not taken yet.
        """
        if self._late:
            wait_for_programs()
            self._forget()
            self._late = False
        start_ns = lib.monotonic_ns() + self._lead_ns
        stop_ns = NEVER_NS if duration_ns is None else start_ns + duration_ns
        lib.publish_window(self._control, start_ns, stop_ns)
        if lib.monotonic_ns() < start_ns:
            self._on_open(self.newest)
            return self.newest
        # Of this one nothing is measured, so that what is forgotten is whole.
        lib.publish_window(self._control, NEVER_NS, NEVER_NS)
        self._late = True
        self._lead_ns = min(2 * self._lead_ns, LONGEST_LEAD_NS)
        return None

    def end(self, epoch: int) -> None:
        """End the epoch's window about now, unless it ends earlier."""
        lib.end_window(self._control, epoch, lib.monotonic_ns() + END_LEAD_NS)

    def open_no_more(self) -> None:
        """Keep triggers from opening windows."""
        lib.store_counter(ffi.addressof(self._control, "windows_done"), ENOUGH)

    def free(self, epoch: int) -> None:
        """Let the places of the windows before this one be used for new ones.

        Many are freed at once, as no program that saw them may be left.
        """
        if epoch - self._control.windows_kept >= lib.WINDOWS // 4:
            wait_for_programs()
            lib.free_windows(self._control, epoch)

    def boundaries(self, epoch: int) -> tuple[int, int]:
        """Return the start and the stop of the epoch's window, CLOCK_MONOTONIC."""
        window = self._control.windows[epoch % lib.WINDOWS]
        stop_ns = lib.load_counter(ffi.addressof(window, "stop_ns"))
        return window.start_ns, stop_ns

    def hits(self, epoch: int) -> "tuple[TriggerHit, TriggerHit]":
        """Return what opened and what closed the epoch's window."""
        window = self._control.windows[epoch % lib.WINDOWS]
        return window.start_hit, window.stop_hit


def wait_for_programs() -> None:
    """Wait until every program that runs now has ended, and so all it writes is there."""
    if lib.wait_for_programs():
        # EINVAL on kernels with nohz_full CPUs, membarrier(2).
        time.sleep(PROGRAM_S)
