"""What is measured: a Sample and its parts, the one contract between measuring and reporting.

Immutable, typed, and free of any way to get or to print it.
"""

from kernel_delay.model.causes import (
    CgroupLimit,
    CpuUse,
    Scheduling,
    Sleep,
    SleepReason,
    Stopper,
    Surroundings,
    TaskTimes,
    Waker,
    WakerKind,
)
from kernel_delay.model.interrupts import HardIrqStats, SoftIrqStats
from kernel_delay.model.intervals import Histogram, Intervals
from kernel_delay.model.recording import (
    ClockRelation,
    Container,
    MeasuringCommand,
    RecordedTarget,
    RecordingEnd,
    RecordingFormat,
    RecordingHeader,
    RecordingTrailer,
)
from kernel_delay.model.rounds import (
    LogLine,
    OtherThread,
    ProfiledStack,
    Round,
    RoundTotals,
    ThreadRounds,
)
from kernel_delay.model.sample import Lost, Sample, SkippedWindow, Target
from kernel_delay.model.syscalls import Abi, StackFrame, SyscallEvent, SyscallStats
from kernel_delay.model.thread import (
    CpuTaker,
    LockWait,
    OwnerDoings,
    PageFaults,
    Thread,
    ThreadTime,
)
from kernel_delay.model.timeline import Slice, SliceKind, SliceMode
from kernel_delay.model.upcalls import UpcallCount, UpcallStats
from kernel_delay.model.verdict import Finding, Who
from kernel_delay.model.window import EndedBy, TriggerHit, WallClock, Window

__all__ = [
    "Abi",
    "CgroupLimit",
    "ClockRelation",
    "Container",
    "CpuTaker",
    "CpuUse",
    "EndedBy",
    "Finding",
    "HardIrqStats",
    "Histogram",
    "Intervals",
    "LockWait",
    "LogLine",
    "Lost",
    "MeasuringCommand",
    "OtherThread",
    "OwnerDoings",
    "PageFaults",
    "ProfiledStack",
    "RecordedTarget",
    "RecordingEnd",
    "RecordingFormat",
    "RecordingHeader",
    "RecordingTrailer",
    "Round",
    "RoundTotals",
    "Sample",
    "Scheduling",
    "SkippedWindow",
    "Sleep",
    "SleepReason",
    "Slice",
    "SliceKind",
    "SliceMode",
    "SoftIrqStats",
    "StackFrame",
    "Stopper",
    "Surroundings",
    "SyscallEvent",
    "SyscallStats",
    "Target",
    "TaskTimes",
    "Thread",
    "ThreadRounds",
    "ThreadTime",
    "TriggerHit",
    "UpcallCount",
    "UpcallStats",
    "Waker",
    "WakerKind",
    "WallClock",
    "Who",
    "Window",
]
