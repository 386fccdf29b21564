"""What the sums come to: a sentence for each class of threads, and what to run next."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from kernel_delay.analysis.verdict import formatting
from kernel_delay.commands.log.causes import Cause
from kernel_delay.commands.log.iterations import IterationCause, IterationGroup
from kernel_delay.commands.log.rounds import Stall
from kernel_delay.commands.log.survey import UNKNOWN_CLASS, Group, LogSurvey, Sums
from kernel_delay.formatting import printable

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

ITERATION_CAUSES: Mapping[IterationCause, str] = MappingProxyType(
    {
        "upcalls": "upcalls",
        "packets": "packets",
        "neither": "neither",
        "unknown": "not known",
    }
)
"""What the cause of a suspicious iteration is called."""

# Another class of threads, or stall, is worth a sentence from so much of the longest on.
SHOWN_SHARE = 0.01


class LogFinding(Struct, frozen=True):
    """A sentence on one class of threads of a log, and commands that say more."""

    log: str
    program: str
    threads: str
    cause: Cause | IterationCause | None
    text: str
    next: tuple[str, ...]


def findings(survey: LogSurvey) -> Iterator[LogFinding]:
    """Yield what is to be said, the class of threads with the longest rounds in all first."""
    least_ms = SHOWN_SHARE * max((group.length_ms for group in survey.groups), default=0)
    for group in survey.groups[:MOST_FINDINGS]:
        if group.length_ms >= least_ms:
            yield _of_group(group)
    for iterations in survey.iterations[:MOST_FINDINGS]:
        if iterations.length_us >= SHOWN_SHARE * survey.iterations[0].length_us:
            yield _of_iterations(iterations)
    for stall in survey.stalls[:MOST_FINDINGS]:
        if stall.blocked_ms >= least_ms:
            yield _of_stall(stall)


def texts(found: Sequence[LogFinding]) -> Iterator[str]:
    """Yield the sentences, with the logs' names where there are several."""
    several = len({each.log for each in found}) > 1
    for each in found:
        yield f"{printable(each.log)}: {each.text}" if several else each.text


def commands(found: Iterable[LogFinding]) -> list[str]:
    """Return what to run next, each command once."""
    return list(dict.fromkeys(command for each in found for command in each.next))


def who(program: str, threads: str) -> str:
    """Return what a class of threads is called."""
    name = {"": "main thread", UNKNOWN_CLASS: "thread"}.get(threads, printable(threads))
    return f"{printable(program)} {name}" if program else name


def length(ms: int) -> str:
    """Return a time as people read it."""
    return f"{ms:,} ms" if ms < 10_000 else f"{ms / 1000:,.1f} s"


def counted(count: int, what: str) -> str:
    """Return a number of things as people read it."""
    ending = "" if count == 1 else "es" if what.endswith("ch") else "s"
    return f"{count:,} {what}{ending}"


def _of_group(group: Group) -> LogFinding:
    """Say what most of the rounds were long of; of two causes the one that took longer in all."""
    cause, sums = max(group.by_cause.items(), key=lambda each: (each[1].rounds, each[1].length_ms))
    return LogFinding(
        group.log,
        group.program,
        group.threads,
        cause,
        f"{_subject(group)} {_sentence(cause, sums, group.rounds)}.",
        _next(cause, group.program),
    )


def _subject(group: Group) -> str:
    of_program = f" of {printable(group.program)}" if group.program else ""
    if not group.threads:
        return f"The main thread{of_program}"
    name = "" if group.threads == UNKNOWN_CLASS else f"{printable(group.threads)} "
    return f"A {name}thread{of_program}"


def _sentence(cause: Cause, sums: Sums, rounds: int) -> str:
    """What it did in so many of its rounds, and a figure of these."""
    count = f"{sums.rounds:,} of {rounds:,} long rounds"
    count = "its one long round" if rounds == 1 else count
    these = "in all" if sums.rounds == rounds else "in that one" if sums.rounds == 1 else "in these"
    whole = f"{length(sums.length_ms)} {these}"
    off = f"off the CPU for {length(sums.off_ms)} of {whole}"
    if cause == "computing":
        return f"computed in {count}: its own code ran for {length(sums.user_ms)} of {whole}"
    if cause == "kernel":
        faults = sums.minor_faults + sums.major_faults
        with_faults = f", with {counted(faults, 'page fault')}" if faults else ""
        system = length(sums.system_ms)
        return f"worked in the kernel in {count}: for {system} of {whole}{with_faults}"
    if cause == "waiting":
        switches = counted(sums.involuntary, "involuntary context switch")
        return f"waited for a CPU in {count}: {off}, {switches}"
    if cause == "blocked":
        return f"was blocked in {count}: {off}, {_why_blocked(sums)}"
    if cause == "off_cpu":
        return f"was {off} in {count}; the log does not say why"
    if cause == "not_switched":
        return f"was not run in {count}, without a context switch: the hypervisor or interrupts"
    return f"has no usable CPU times of {count} in the log"


def _why_blocked(sums: Sums) -> str:
    if sums.major_faults:
        return counted(sums.major_faults, "major page fault")
    if blocks := sums.blocks_read + sums.blocks_written:
        return f"{blocks / 2:,.0f} KiB of file I/O"
    return counted(sums.voluntary, "voluntary context switch")


# The cpu.stat of each process's cgroup, of cgroup v2 and of v1's cpu controller. On a hybrid system
# one of the two files is missing.
_THROTTLED = (
    "grep -sH throttled $(sed -nE 's#^0::(.*)#/sys/fs/cgroup\\1/cpu.stat#p;"
    " s#^[0-9]+:[^:]*\\bcpu\\b[^:]*:(.*)#/sys/fs/cgroup/cpu\\1/cpu.stat#p'"
    " {files})"
)


def _of_iterations(group: IterationGroup) -> LogFinding:
    """Say what took most of the suspicious iterations of a PMD thread."""
    program, whole = printable(group.program), formatting.length(1000 * group.length_us)
    longest = formatting.length(1000 * group.longest.length_us)
    extent = f"of {whole}" if group.iterations == 1 else f"{whole} in all, at most {longest}"
    text = (
        f"{who(program, group.thread)} had {counted(group.iterations, 'suspicious iteration')}"
        f" ({printable(group.reason)}), {extent}. {_of_most(group)}"
    )
    gap = "1ms" if group.shortest_us >= 2000 else f"{max(50, group.shortest_us // 2)}us"
    next_ = f"kernel-delay {_process(group.program)} --sample-time 10"
    if group.cause in ("neither", "unknown"):
        next_ = f"kernel-delay watch {_process(group.program)} --pmd-gap {gap}"
    return LogFinding(group.log, group.program, group.thread, group.cause, text, (next_,))


def _of_most(group: IterationGroup) -> str:
    count = group.causes[group.cause]
    them = "all of them" if count == group.iterations else f"{count:,} of them"
    them = "it" if group.iterations == 1 else them
    if group.cause == "upcalls":
        return f"Upcalls took most of {them}."
    if group.cause == "packets":
        return f"Packets took most of {them}."
    if group.cause == "neither":
        return (
            f"Packets and upcalls explain less than half of {them}: the thread was off its CPU, or"
            " interrupts, page faults or its other work took the time."
        )
    return f"The log does not say what {them} did."


def _comm(program: str) -> str:
    is_server = "-server-" in program
    return printable(program.partition("-server-")[0] + "-server" if is_server else program)


def _process(program: str) -> str:
    name = _comm(program)
    return f"--comm {name}" if name else "--pid PID"


def _next(cause: Cause, program: str) -> tuple[str, ...]:
    """What to run on that machine while it goes on; several processes may have that name."""
    name = _comm(program)
    process = _process(program)
    watch = f"kernel-delay watch {process}"
    if cause == "computing":
        pids = f"$(pidof {name} | tr ' ' ,)" if name else "PID"
        return (f"perf top --pid {pids}", f"{watch} --timeline")
    if cause == "kernel":
        return (f"kernel-delay {process} --sample-time 10", watch)
    if cause in ("waiting", "off_cpu"):
        files = f"$(printf '/proc/%s/cgroup ' $(pidof {name}))" if name else "/proc/PID/cgroup"
        return (watch, _THROTTLED.format(files=files))
    if cause == "not_switched":
        return (watch, "mpstat -P ALL 1")
    return (watch,)


_BACKTRACE = "gdb -p {pid} -batch -ex 'thread apply all bt'"


def _of_stall(stall: Stall) -> LogFinding:
    name = printable(stall.thread)
    text = (
        f"Others waited {length(stall.blocked_ms)} for {who(stall.program, name)} to quiesce, and"
        " no long round of it was logged: it hangs, or is a PMD thread."
    )
    program = printable(stall.program)
    process, backtrace = "--pid PID", _BACKTRACE.format(pid="PID")
    if program:
        process = f"--comm {program}"
        backtrace = f"for pid in $(pidof {program}); do {_BACKTRACE.format(pid='$pid')}; done"
    return LogFinding(
        stall.log,
        stall.program,
        stall.thread,
        None,
        text,
        (f"kernel-delay {process} --sample-time 5", backtrace),
    )
