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
    """One thing that a thread did, or was kept by, in [start_ns, stop_ns) of CLOCK_MONOTONIC.

    In JSON it is an array of its fields. What goes on across a boundary of the window is cut off
    there. `mode` is the one that the time is charged to. `name` is the call's, with its ABI in
    front of it unless that is the machine's own; the interrupt's; or of a block what the thread
    slept for, as in SleepReason: None where that is not known, as it is of short ones. `cpu` is
    the CPU that the thread ran on, or waited for; None where it is not known.
    """

    tid: int
    kind: SliceKind
    start_ns: int
    stop_ns: int
    mode: SliceMode
    name: str | None = None
    cpu: int | None = None
