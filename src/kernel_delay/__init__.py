"""kernel-delay: is the kernel to blame for a process that is slow?

What is here, and documented in docs/reference/api.md, is public; no other module is, and
each may change with any version.
"""

# Before the function that takes its name: modules are imported once.
import kernel_delay.capture  # noqa: F401

# Each start of the command imports this: not even typing is to be waited for.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Literal

    from kernel_delay.api import Recording
    from kernel_delay.errors import KernelDelayError
    from kernel_delay.model import Sample
    from kernel_delay.own_block import Measurement

    Stacks = Literal["dwarf", "fp", "none"]

__all__ = [
    "KernelDelayError",
    "Recording",
    "Sample",
    "capture",
    "measure",
    "open_recording",
    "record",
]


def capture(
    pid: int | None = None,
    *,
    seconds: float = 0.5,
    accounting: bool = True,
    syscall_events: bool = False,
    shortest_ns: int = 0,
    stacks: "Stacks" = "dwarf",
    timeline: bool = False,
) -> "Sample":
    """Measure a process for some time, and judge where its time went.

    It takes root, or CAP_BPF and CAP_PERFMON, and is done by one thread at a time. SIGINT,
    SIGTERM and SIGHUP end the window, whose Sample is returned (`window.ended_by` is
    "interrupt"); so does the process's exit ("exit").

    Args:
        pid: the process, or one of its threads; None: the one that is named ovs-vswitchd.
        seconds: how long to measure; at least a nanosecond, at most a week.
        accounting: account for all of each thread's time, and give a verdict.
        syscall_events: keep each system call too, with its stacks: `Sample.syscall_events`.
        shortest_ns: only those that took as long.
        stacks: how user stacks are found: unwound from a copy by DWARF call frame information,
            walked along frame pointers, or not at all.
        timeline: keep everything that the threads did in order: `Sample.timeline`. It takes
            accounting.

    Raises:
        KernelDelayError: where there is no such process, or it may not or can't be measured. Its
            text is one line, its `exit_code` that of the command.
        ValueError: for a time that is none, or a timeline without accounting.
    """
    from kernel_delay import api

    plan = api.plan(seconds, 1, 0.0, syscall_events, shortest_ns, stacks)
    return api.capture(pid, plan, api.account_plan(accounting, timeline))


def record(
    path: "str | os.PathLike[str]",
    pid: int | None = None,
    *,
    seconds: float = 0.5,
    samples: int = 1,
    interval: float = 0.0,
    accounting: bool = True,
    syscall_events: bool = False,
    shortest_ns: int = 0,
    stacks: "Stacks" = "dwarf",
    timeline: bool = False,
) -> "Recording":
    """Measure a process and write a recording, as `kernel-delay capture -o` does; return it.

    Args:
        path: the file, which is created or written over, for its owner alone; plain JSON Lines
            if its name ends in .jsonl. A symbolic link is not followed.
        pid: as in capture().
        seconds: how long each sample is.
        samples: how many to take.
        interval: seconds between two of them.
        accounting: as in capture(), as are the others.
        syscall_events: each system call too.
        shortest_ns: only those that took as long.
        stacks: how user stacks are found.
        timeline: everything that the threads did in order too.

    Raises:
        KernelDelayError: as capture(), and where the file can't be written.
        ValueError: for a time or a number that is none.
    """
    from kernel_delay import api

    plan = api.plan(seconds, samples, interval, syscall_events, shortest_ns, stacks)
    return api.record(path, pid, plan, api.account_plan(accounting, timeline))


def measure(*, accounting: bool = True, timeline: bool = False) -> "Measurement":
    """Measure this process while it runs a block: `with kernel_delay.measure() as measured:`.

    After the block `measured.sample` is the Sample. Another process measures; it takes the rights
    of `capture()`.

    Args:
        accounting: as in capture().
        timeline: as in capture().

    Raises:
        KernelDelayError: where the block begins or ends, as capture().
    """
    from kernel_delay.own_block import Measurement

    return Measurement(accounting, timeline)


def open_recording(path: "str | os.PathLike[str]") -> "Recording":
    """Open a recording; it takes no privilege, and no kernel that has BPF.

    Raises:
        KernelDelayError: where it can't be read, or is no recording of a known format.
    """
    from kernel_delay.api import Recording

    return Recording(path)


def __getattr__(name: str) -> object:
    match name:
        case "Recording":
            from kernel_delay.api import Recording

            return Recording
        case "Sample":
            from kernel_delay.model import Sample

            return Sample
        case "__version__":
            from kernel_delay.version import VERSION

            return VERSION
        case "KernelDelayError":
            from kernel_delay.errors import KernelDelayError

            return KernelDelayError
    raise AttributeError(f"module 'kernel_delay' has no attribute {name!r}")
