"""What the sums come to: a sentence for each class of threads, and what to run next."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from kernel_delay.logs.causes import Cause
from kernel_delay.logs.rounds import Stall
from kernel_delay.logs.survey import UNKNOWN_CLASS, Group, Survey
from kernel_delay.printable import printable

MOST_FINDINGS = 10

CAUSES: Mapping[Cause, str] = MappingProxyType(
    {
        "computing": "computing",
        "kernel": "in the kernel",
        "waiting": "waiting for a CPU",
        "blocked": "blocked",
        "off_cpu": "off the CPU",
        "not_switched": "not switched",
        "unknown": "not known",
    }
)
"""What a cause is called in a report."""

# Another class of threads, or stall, is worth a sentence from so much of the longest on.
LEAST_SHARE = 0.01


class Finding(Struct, frozen=True):
    """A sentence on one class of threads of a log, and commands that say more."""

    log: str
    program: str
    threads: str
    cause: Cause | None
    text: str
    next: tuple[str, ...]


def findings(survey: Survey) -> Iterator[Finding]:
    """Yield what is to be said, the class of threads with the longest rounds in all first."""
    least_ms = LEAST_SHARE * max((group.length_ms for group in survey.groups), default=0)
    for group in survey.groups[:MOST_FINDINGS]:
        if group.length_ms >= least_ms:
            yield _of_group(group)
    for stall in survey.stalls[:MOST_FINDINGS]:
        if stall.blocked_ms >= least_ms:
            yield _of_stall(stall)


def texts(found: Sequence[Finding]) -> Iterator[str]:
    """Yield the sentences, with the logs' names where there are several."""
    several = len({each.log for each in found}) > 1
    for each in found:
        yield f"{printable(each.log)}: {each.text}" if several else each.text


def commands(found: Iterable[Finding]) -> list[str]:
    """Return what to run next, each command once."""
    return list(dict.fromkeys(command for each in found for command in each.next))


def who(program: str, threads: str) -> str:
    """Return what a class of threads is called."""
    name = {"": "main thread", UNKNOWN_CLASS: "thread"}.get(threads, printable(threads))
    return f"{printable(program)} {name}" if program else name


def length(ms: int) -> str:
    """Return a time as people read it."""
    return f"{ms:,} ms" if ms < 10_000 else f"{ms / 1000:,.1f} s"


def _of_group(group: Group) -> Finding:
    cause = max(group.causes, key=lambda each: group.causes[each])
    count = f"{group.causes[cause]:,} of {group.rounds:,} long rounds"
    count = "its one long round" if group.rounds == 1 else count
    return Finding(
        group.log,
        group.program,
        group.threads,
        cause,
        f"{_subject(group)} {_sentence(group, cause, count)}.",
        _next(cause, group.program),
    )


def _subject(group: Group) -> str:
    of_program = f" of {printable(group.program)}" if group.program else ""
    if not group.threads:
        return f"The main thread{of_program}"
    name = "" if group.threads == UNKNOWN_CLASS else f"{printable(group.threads)} "
    return f"A {name}thread{of_program}"


def _sentence(group: Group, cause: Cause, count: str) -> str:
    """What it did in so many rounds, and a figure of all of them."""
    whole = f"{length(group.length_ms)} in all"
    off = f"off the CPU for {length(group.off_ms)} of {whole}"
    if cause == "computing":
        return f"computed in {count}: its own code ran for {length(group.user_ms)} of {whole}"
    if cause == "kernel":
        faults = group.minor_faults + group.major_faults
        with_faults = f", with {faults:,} page faults" if faults else ""
        system = length(group.system_ms)
        return f"worked in the kernel in {count}: for {system} of {whole}{with_faults}"
    if cause == "waiting":
        switches = f"{group.involuntary:,} involuntary context switches"
        return f"waited for a CPU in {count}: {off}, {switches}"
    if cause == "blocked":
        return f"was blocked in {count}: {off}, {_why_blocked(group)}"
    if cause == "off_cpu":
        return f"was {off} in {count}; the log does not say why"
    if cause == "not_switched":
        return f"was not run in {count}, without a context switch: the hypervisor or interrupts"
    return f"has no usable CPU times of {count} in the log"


def _why_blocked(group: Group) -> str:
    if group.major_faults:
        return f"major page faults: {group.major_faults:,}"
    if blocks := group.blocks_read + group.blocks_written:
        return f"{blocks / 2:,.0f} KiB of file I/O"
    return f"{group.voluntary:,} voluntary context switches"


def _next(cause: Cause, program: str) -> tuple[str, ...]:
    """What to run on that machine while it goes on."""
    name = program.partition("-server-")[0] + "-server" if "-server-" in program else program
    pid = f"$(pidof {printable(name)})" if name else "PID"
    watch = f"kernel-delay watch --pid {pid}"
    if cause == "computing":
        return (f"perf top --pid {pid}", f"{watch} --timeline")
    if cause == "kernel":
        return (f"kernel-delay --pid {pid} --sample-time 10", watch)
    if cause in ("waiting", "off_cpu"):
        quota = f"cat /sys/fs/cgroup$(sed -n 's/^0:://p' /proc/{pid}/cgroup)/cpu.stat"
        return (watch, quota)
    if cause == "not_switched":
        return (watch, "mpstat -P ALL 1")
    return (watch,)


def _of_stall(stall: Stall) -> Finding:
    name = printable(stall.thread)
    text = (
        f"Others waited {length(stall.blocked_ms)} for {who(stall.program, name)} to quiesce, and"
        " no long round of it was logged: it hangs, or is a PMD thread."
    )
    pid = f"$(pidof {printable(stall.program)})" if stall.program else "PID"
    return Finding(
        stall.log,
        stall.program,
        stall.thread,
        None,
        text,
        (
            f"kernel-delay --pid {pid} --sample-time 5",
            f"gdb -p {pid} -batch -ex 'thread apply all bt'",
        ),
    )
