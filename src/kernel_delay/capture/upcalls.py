"""What counts the upcalls of the kernel's datapath beside all else, where it can."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol, TypeVar

from kernel_delay.capture.programs import Programs
from kernel_delay.errors import KernelDelayError
from kernel_delay.model import Lost, Upcalls, UpcallStats


class _Counters(Protocol):
    def close(self) -> None:
        """Detach and unload."""


class WindowUpcalls(_Counters, Protocol):
    """What counts them in each window, until it is closed."""

    def take(self, epoch: int) -> tuple[UpcallStats, ...]:
        """Return what was counted in the epoch's window, which must be over."""

    def lost(self) -> Lost:
        """Return the upcalls that were not counted since the last call."""


class UpcallsSoFar(_Counters, Protocol):
    """What counts them from when it was opened, until it is closed."""

    def so_far(self) -> Upcalls:
        """Return all of them."""


_T = TypeVar("_T", bound=_Counters)


def count_upcalls(
    open_counters: Callable[[int, Programs], _T | None] | None,
    pid: int,
    programs: Programs,
    closing: ExitStack,
    notify: Callable[[str], None],
) -> _T | None:
    """Open the counters for process `pid`, which `closing` closes; `notify` why there are none."""
    if open_counters is None:
        return None
    try:
        counters = open_counters(pid, programs)
    except KernelDelayError as error:
        notify(f"upcalls are not counted: {error}")
        return None
    if counters is not None:
        closing.callback(counters.close)
    return counters
