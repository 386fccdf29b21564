"""All that threads did in a window, in order: slices of their states, modes and interrupts."""

from typing import Literal

from msgspec import Struct

SliceKind = Literal[
    "call", "fault", "unknown_mode", "lost_modes",
    "running", "ready_woken", "ready_preempted", "blocked", "stopped", "throttled", "frozen",
    "absent", "unknown", "lost_states",
    "hard_irq", "soft_irq", "guest",
]  # fmt: skip
"""What a thread did, or was kept by.

Its modes are "call" and "fault"; between these it was in its program, or a kernel worker in its
work. "unknown_mode" is one of which an event was missed, and "lost_modes" where there was no room
for them.

Its states are "running" and the next eight, which follow one another without a gap;
"lost_states" is where there was no room for them.

The last three came while it ran.
"""

SliceMode = Literal["user", "syscall", "fault", "worker", "unknown"]
"""Where the thread's own execution was: in its program, in a call, or a page fault of its program;
a kernel worker's is always "worker"."""


class Slice(Struct, frozen=True, gc=False, array_like=True):
    """One activity of a thread in [start_ns, stop_ns).

    In JSON this is an array of the fields. A boundary of the window cuts a slice.

    Attributes:
        tid: The thread ID.
        kind: The activity: a mode, a scheduler state or an interrupt. Without "call" and "fault"
            the thread was in its program. "unknown…" marks a missed event, "lost…" a lack of room.
        start_ns: The start (CLOCK_MONOTONIC).
        stop_ns: The end (CLOCK_MONOTONIC).
        mode: The execution context that the time is charged to.
        name: The call, the interrupt, or for a blocked state the reason of the sleep. None: not
            known.
        cpu: The CPU that the thread ran on or waited for. None: not known.
    """

    tid: int
    kind: SliceKind
    start_ns: int
    stop_ns: int
    mode: SliceMode
    name: str | None = None
    cpu: int | None = None
