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
    from collections.abc import Iterator, Sequence
    from typing import Literal, TypedDict, Unpack

    from kernel_delay.api.apart import Measurement, Run
    from kernel_delay.api.recording import Recording
    from kernel_delay.api.reports import Comparison, Samples
    from kernel_delay.errors import KernelDelayError
    from kernel_delay.model import Sample

    Stacks = Literal["dwarf", "fp", "none"]

    class Names(TypedDict, total=False):
        """What selects processes in place of a PID; all that is given must match.

        Attributes:
            comm: The process name, as in `ps -o comm`.
            cgroup: The path of a cgroup; the processes below it match too.
            unit: The name of a systemd unit.
            pod: A Kubernetes pod, as NAMESPACE/NAME.
            container: The name of a container, or its ID.
        """

        comm: str
        cgroup: str
        unit: str
        pod: str
        container: str

    class Accounts(TypedDict, total=False):
        """What is measured of all time.

        Attributes:
            accounting: Account for all of each thread's time, and give a verdict (default).
            timeline: Keep everything that the threads did in order: `Sample.timeline`. It takes
                accounting.
            chains: Follow whom the threads wait for: `Thread.chain`. It takes accounting.
        """

        accounting: bool
        timeline: bool
        chains: bool

    class Calls(Accounts, total=False):
        """What is measured, and how; the defaults are in api.measuring.Options.

        Attributes:
            seconds: How long to measure, 0.5 s by default; a nanosecond to a week.
            syscall_events: Keep each system call too, with its stacks: `Sample.syscall_events`.
                It takes a single process.
            shortest_ns: Only those that took as long.
            stacks: How user stacks are found: unwound from a copy by DWARF call frame information
                (default), walked along frame pointers, or not at all.
        """

        seconds: float
        syscall_events: bool
        shortest_ns: int
        stacks: Stacks

    class Options(Names, Calls, total=False):
        """Which processes, and what is measured of them."""


__all__ = [
    "Comparison",
    "KernelDelayError",
    "Recording",
    "Sample",
    "capture",
    "compare",
    "html",
    "measure",
    "open_recording",
    "record",
    "report",
    "run",
    "samples",
    "watch",
]


def capture(pid: int | None = None, **options: "Unpack[Options]") -> "Sample":
    """Measure a process for some time, and judge where its time went.

    It takes root, or CAP_BPF and CAP_PERFMON, and is done by one thread at a time. SIGINT,
    SIGTERM and SIGHUP end the window, whose Sample is returned (`window.ended_by` is
    "interrupt"); so does the process's exit ("exit").

    Args:
        pid: the process, or one of its threads; None: the one that is selected by name, or that is
            named ovs-vswitchd.
        options: keywords, as the reference of the API lists them. Which process: `comm`, `cgroup`,
            `unit`, `pod`, `container`. What is measured: `seconds` (0.5), `accounting` (True),
            `timeline` (False), `chains` (False), `syscall_events` (False), `shortest_ns` (0) and
            `stacks` ("dwarf", "fp" or "none").

    Raises:
        KernelDelayError: where there is no such process, or several, or it may not or can't be
            measured. Its text is one line, its `exit_code` that of the command.
        ValueError: for a time that is none, or a timeline without accounting.
        TypeError: for an option that there is not.
    """
    from kernel_delay.api.measuring import capture, requested

    return capture(pid, *requested(options))


def samples(
    pid: "int | Sequence[int] | None" = None,
    *,
    children: bool = False,
    count: int | None = None,
    interval: float = 0.0,
    **options: "Unpack[Options]",
) -> "Iterator[Sample]":
    """Measure window after window, live: `for sample in kernel_delay.samples(comm="nginx"):`.

    A window has a Sample for each process. The processes are found at once, and measured for as
    long as Samples are taken: closing the iterator, or leaving the loop, ends that.

    Args:
        pid: one process, or several; None: as in capture(), where several may have the name.
        children: also measure what the processes have forked, and what they will fork.
        count: how many windows; None: until a signal, or the processes' exit.
        interval: seconds between two windows.
        options: as in capture(), of each window.

    Raises:
        KernelDelayError: as capture().
        ValueError: for a time or a number that is none, or calls of several processes.
        TypeError: as capture().
    """
    from kernel_delay.api.measuring import pids_of, requested, samples

    names, measured = requested(options)
    return samples(pids_of(pid), names, measured, children=children, count=count, interval=interval)


def run(
    command: "Sequence[str]", *, user: str | None = None, **options: "Unpack[Accounts]"
) -> "Run":
    """Run a program, and measure it from its first instruction to its end.

    `run.sample` is the Sample, and `run.status` its exit status. It has this process's standard
    input and outputs. Another process starts and measures it.

    Args:
        command: the program and its arguments.
        user: who it runs as; None: the user of this process.
        options: `accounting`, `timeline` and `chains`, as in capture().

    Raises:
        KernelDelayError: as capture(), and where there is no such program or user.
        TypeError: for an option that there is not.
    """
    from kernel_delay.api.apart import endless, run_apart

    return run_apart(command, user, endless(**options))


def record(
    path: "str | os.PathLike[str]",
    pid: "int | Sequence[int] | None" = None,
    *,
    samples: int = 1,
    interval: float = 0.0,
    children: bool = False,
    **options: "Unpack[Options]",
) -> "Recording":
    """Measure processes and write a recording, as `kernel-delay capture -o` does; return it.

    Args:
        path: the file, which is created or written over, for its owner alone; plain JSON Lines
            if its name ends in .jsonl. A symbolic link is not followed.
        pid: as in samples().
        samples: how many windows to measure.
        interval: seconds between two of them.
        children: as in samples().
        options: as in capture(), of each window.

    Raises:
        KernelDelayError: as capture(), and where the file can't be written.
        ValueError: as samples().
        TypeError: as capture().
    """
    from kernel_delay.api.measuring import pids_of, record, requested
    from kernel_delay.api.recording import Recording

    names, measured = requested(options)
    targets = pids_of(pid), names
    record(path, targets, measured, children=children, count=samples, interval=interval)
    return Recording(path)


def watch(
    pid: int | None = None,
    *,
    threshold: float = 1.0,
    seconds: float | None = None,
    chains: bool = False,
    **names: "Unpack[Names]",
) -> "Iterator[Sample]":
    """Wait for long rounds of a process, and yield a Sample of each when it is over.

    A round is an iteration of an event loop: from the return of a poll to the next poll. The
    process is found at once, and watched for as long as Samples are taken. SIGINT, SIGTERM,
    SIGHUP and the process's exit end it.

    Args:
        pid: as in capture().
        threshold: the length in seconds from which on a round is long.
        seconds: how long to watch; None: to the end of the process.
        chains: follow whom the threads wait for.
        names: `comm`, `cgroup`, `unit`, `pod` and `container`, as in capture().

    Raises:
        KernelDelayError: as capture().
        ValueError: for a time that is none.
        TypeError: for a name that there is not.
    """
    from kernel_delay.api.measuring import Names, WatchOptions, watch

    options = WatchOptions(threshold=threshold, seconds=seconds, chains=chains)
    return watch(pid, Names(**names), options)


def measure(**options: "Unpack[Accounts]") -> "Measurement":
    """Measure this process while it runs a block: `with kernel_delay.measure() as measured:`.

    After the block `measured.sample` is the Sample. Another process measures; it takes the rights
    of `capture()`.

    Args:
        options: `accounting`, `timeline` and `chains`, as in capture().

    Raises:
        KernelDelayError: where the block begins or ends, as capture().
        TypeError: for an option that there is not.
    """
    from kernel_delay.api.apart import Measurement, endless

    return Measurement(endless(**options))


def open_recording(path: "str | os.PathLike[str]") -> "Recording":
    """Open a recording; it takes no privilege, and no kernel that has BPF.

    Raises:
        KernelDelayError: where it can't be read, or is no recording of a known format.
    """
    from kernel_delay.api.recording import Recording

    return Recording(path)


def report(samples: "Samples", *, summary: bool = False) -> str:
    """Return the text that `kernel-delay report` prints in a pipe.

    Args:
        samples: a Sample, several, or a Recording.
        summary: a line per thread, and the verdict.

    Raises:
        KernelDelayError: where a recording was cut or is damaged.
    """
    from kernel_delay.api.reports import report

    return report(samples, summary=summary)


def html(samples: "Samples", path: "str | os.PathLike[str]") -> None:
    """Write the page of `--html`: one file, for a browser without a network.

    Args:
        samples: a Sample, several, or a Recording.
        path: the file, which is created or written over, for its owner alone.

    Raises:
        KernelDelayError: where the file can't be written, or a recording is not whole.
    """
    from kernel_delay.api.reports import write_html

    write_html(samples, path)


def compare(before: "str | os.PathLike[str]", after: "str | os.PathLike[str]") -> "Comparison":
    """Compare two recordings: what changed, beyond chance.

    Args:
        before: a recording of capture or watch, or a folder of watch's; FILE@M-N selects samples.
        after: another of the same kind.

    Raises:
        KernelDelayError: where one can't be read, is not whole, or is of another kind.
    """
    from kernel_delay.api.reports import Comparison

    return Comparison(before, after)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> object:
    match name:
        case "Recording":
            from kernel_delay.api.recording import Recording

            return Recording
        case "Comparison":
            from kernel_delay.api.reports import Comparison

            return Comparison
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
