"""What is measured: a Sample and its parts, the one contract between measuring and reporting.

Immutable, typed, and free of any way to get or to print it.
"""

from kernel_delay.model.sample import (
    CpuTaker,
    EndedBy,
    Finding,
    HardIrqStats,
    Histogram,
    Intervals,
    LockWait,
    Lost,
    PageFaults,
    Sample,
    SoftIrqStats,
    StackFrame,
    SyscallEvent,
    SyscallStats,
    Target,
    Thread,
    ThreadTime,
    TriggerHit,
    UpcallCount,
    UpcallStats,
    WallClock,
    Window,
)

__all__ = [
    "CpuTaker",
    "EndedBy",
    "Finding",
    "HardIrqStats",
    "Histogram",
    "Intervals",
    "LockWait",
    "Lost",
    "PageFaults",
    "Sample",
    "SoftIrqStats",
    "StackFrame",
    "SyscallEvent",
    "SyscallStats",
    "Target",
    "Thread",
    "ThreadTime",
    "TriggerHit",
    "UpcallCount",
    "UpcallStats",
    "WallClock",
    "Window",
]
