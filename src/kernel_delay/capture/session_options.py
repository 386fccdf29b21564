"""What a session is set up with, and what counts upcalls beside it where it can."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct

from kernel_delay.capture.plan import EventPlan, WindowPlan
from kernel_delay.capture.programs import Programs
from kernel_delay.errors import KernelDelayError
from kernel_delay.host.target import Targets
from kernel_delay.loader.waiting import ReportLeft
from kernel_delay.model import Lost, Upcalls, UpcallStats

if TYPE_CHECKING:
    from kernel_delay.capture.syscall_events.event_store import Progress


class SessionOptions(Struct, frozen=True):
    """What a session is set up with.

    `events` says which syscalls are reported one by one; None: none.
    `open_upcall_counters` counts upcalls in the windows of the process of that PID;
    it may raise KernelDelayError or return None where there are none to count.
    `packet_losses`: of a process that is measured alone, read what was lost in each window.
    `coverage`: of such a process, read what Open vSwitch or OVN counted itself.
    `accounting`: account for all of each thread's time, and not for what the tables
    hold alone. `waker_stacks`: and from where each thread was woken. `chains`: and whom threads
    waited for, to the roots. `on_open` is called
    with the epoch of each window that is planned by the clock, or that only a stop trigger
    ends, a moment before it begins; and, of one that a program's execution opens, when that can
    be executed.
    `timeline`: how many slices of a timeline are kept of a window, which takes accounting; None:
    there is none.
    `report_left` is called with how many ns a window still has that is as long as the plan says,
    twice a second, and with 0 when it is over.
    """

    events: EventPlan | None = None
    open_upcall_counters: "Callable[[int, Programs], WindowUpcalls | None] | None" = None
    packet_losses: bool = False
    coverage: bool = False
    accounting: bool = True
    timeline: int | None = None
    waker_stacks: bool = False
    chains: bool = False
    on_open: Callable[[int], None] = lambda epoch: None
    report_left: ReportLeft | None = None


class Request(Struct, frozen=True):
    """What a session is to measure, and whom it calls meanwhile.

    Fields:
        targets: the processes.
        plan: their windows.
        options: what else it is set up with.
        notify: is called with what is waited for, when that takes a while.
        progress: is called while the stacks of events are named.
    """

    targets: Targets
    plan: WindowPlan
    options: SessionOptions
    notify: Callable[[str], None]
    progress: "Progress"


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
