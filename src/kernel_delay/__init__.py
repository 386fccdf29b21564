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
    from typing import Literal, TypedDict, Unpack

    from kernel_delay.api import Recording
    from kernel_delay.errors import KernelDelayError
    from kernel_delay.model import Sample
    from kernel_delay.own_block import Measurement

    Stacks = Literal["dwarf", "fp", "none"]

    class Options(TypedDict, total=False):
        """What capture() and record() measure, and how; the defaults are in api.Options.

        Attributes:
            seconds: How long to measure, 0.5 s by default; a nanosecond to a week.
            accounting: Account for all of each thread's time, and give a verdict (default).
            syscall_events: Keep each system call too, with its stacks: `Sample.syscall_events`.
            shortest_ns: Only those that took as long.
            stacks: How user stacks are found: unwound from a copy by DWARF call frame information
                (default), walked along frame pointers, or not at all.
            timeline: Keep everything that the threads did in order: `Sample.timeline`. It takes
                accounting.
        """

        seconds: float
        accounting: bool
        syscall_events: bool
        shortest_ns: int
        stacks: Stacks
        timeline: bool


__all__ = [
    "KernelDelayError",
    "Recording",
    "Sample",
    "capture",
    "measure",
    "open_recording",
    "record",
]


def capture(pid: int | None = None, **options: "Unpack[Options]") -> "Sample":
    """Measure a process for some time, and judge where its time went.

    It takes root, or CAP_BPF and CAP_PERFMON, and is done by one thread at a time. SIGINT,
    SIGTERM and SIGHUP end the window, whose Sample is returned (`window.ended_by` is
    "interrupt"); so does the process's exit ("exit").

    Args:
        pid: the process, or one of its threads; None: the one that is named ovs-vswitchd.
        options: keywords, as the reference of the API lists them: `seconds` (0.5),
            `accounting` (True), `syscall_events` (False), `shortest_ns` (0), `stacks` ("dwarf",
            "fp" or "none") and `timeline` (False).

    Raises:
        KernelDelayError: where there is no such process, or it may not or can't be measured. Its
            text is one line, its `exit_code` that of the command.
        ValueError: for a time that is none, or a timeline without accounting.
        TypeError: for an option that there is not.
    """
    from kernel_delay import api

    return api.capture(pid, api.Options(**options))


def record(
    path: "str | os.PathLike[str]",
    pid: int | None = None,
    *,
    samples: int = 1,
    interval: float = 0.0,
    **options: "Unpack[Options]",
) -> "Recording":
    """Measure a process and write a recording, as `kernel-delay capture -o` does; return it.

    Args:
        path: the file, which is created or written over, for its owner alone; plain JSON Lines
            if its name ends in .jsonl. A symbolic link is not followed.
        pid: as in capture().
        samples: how many to take.
        interval: seconds between two of them.
        options: as in capture(), of each sample.

    Raises:
        KernelDelayError: as capture(), and where the file can't be written.
        ValueError: for a time or a number that is none.
        TypeError: as capture().
    """
    from kernel_delay import api

    return api.record(path, pid, api.Options(**options), samples, interval)


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
