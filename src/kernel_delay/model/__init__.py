"""What is measured: a Sample and its parts, and of a recording what is around them.

Immutable, typed, and free of any way to get or to print it.
"""

from kernel_delay.model.causes import (
    CallCost,
    CgroupLimit,
    CpuUse,
    CpuWeights,
    FileKind,
    FilePeer,
    MemoryLimit,
    Scheduling,
    Sleep,
    SleepFile,
    SleepReason,
    Stopper,
    SystemState,
    TaskTimes,
    Waker,
    WakerKind,
)
from kernel_delay.model.chains import ChainPart, ChainState, ChainThread, WaitChain
from kernel_delay.model.interrupts import HardIrqStats, SoftIrqStats
from kernel_delay.model.intervals import Histogram, Intervals
from kernel_delay.model.lost import Lost
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
    RelatedLine,
    Round,
    RoundTotals,
    ThreadRounds,
)
from kernel_delay.model.sample import Sample, SkippedWindow, Target, Unseen
from kernel_delay.model.syscalls import Abi, StackFrame, SyscallEvent, SyscallStats
from kernel_delay.model.thread import (
    CpuTaker,
    LockWait,
    OwnerActivity,
    PageFaults,
    Thread,
    ThreadTime,
)
from kernel_delay.model.timeline import Slice, SliceKind, SliceMode
from kernel_delay.model.totals import (
    CallTotals,
    Losses,
    ThreadTotals,
    UpcallCount,
    Upcalls,
    UpcallStats,
)
from kernel_delay.model.verdict import Finding, Who
from kernel_delay.model.window import EndedBy, TriggerHit, WallClock, Window

__all__ = [
    "Abi",
    "CallCost",
    "CallTotals",
    "CgroupLimit",
    "ChainPart",
    "ChainState",
    "ChainThread",
    "ClockRelation",
    "Container",
    "CpuTaker",
    "CpuUse",
    "CpuWeights",
    "EndedBy",
    "FileKind",
    "FilePeer",
    "Finding",
    "HardIrqStats",
    "Histogram",
    "Intervals",
    "LockWait",
    "LogLine",
    "Losses",
    "Lost",
    "MeasuringCommand",
    "MemoryLimit",
    "OtherThread",
    "OwnerActivity",
    "PageFaults",
    "ProfiledStack",
    "RecordedTarget",
    "RecordingEnd",
    "RecordingFormat",
    "RecordingHeader",
    "RecordingTrailer",
    "RelatedLine",
    "Round",
    "RoundTotals",
    "Sample",
    "Scheduling",
    "SkippedWindow",
    "Sleep",
    "SleepFile",
    "SleepReason",
    "Slice",
    "SliceKind",
    "SliceMode",
    "SoftIrqStats",
    "StackFrame",
    "Stopper",
    "SyscallEvent",
    "SyscallStats",
    "SystemState",
    "Target",
    "TaskTimes",
    "Thread",
    "ThreadRounds",
    "ThreadTime",
    "ThreadTotals",
    "TriggerHit",
    "Unseen",
    "UpcallCount",
    "UpcallStats",
    "Upcalls",
    "WaitChain",
    "Waker",
    "WakerKind",
    "WallClock",
    "Who",
    "Window",
]
