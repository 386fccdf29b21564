"""Whether something runs at each system call of a thread: a tracer, BPF program or filter."""

from collections.abc import Iterable

from msgspec import Struct

from kernel_delay.analysis.verdict.formatting import call, length, name
from kernel_delay.analysis.verdict.rule import Case, Statement
from kernel_delay.model import Sample, SyscallStats, Thread

# Calls that read a number which the kernel has at hand: kernel/sys.c, 5.14 to 6.18.
CHEAP = frozenset(
    (
        *("getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getpgrp"),
        *("getuid32", "geteuid32", "getgid32", "getegid32"),
    )
)

# Fewer may have been the first ones, which take longer.
LEAST_CALLS = 1_000

# Entering the kernel takes 4 to 15 times as long as calling a function that does nothing, with
# mitigations of processors' defects too. What takes more has something run at each call.
MOST_FUNCTIONS = 20

# Our own programs run at each call as well, and caches are cold now and then.
MANY_TIMES = 3
LEAST_NS = 1_000


class CostlyCall(Struct, frozen=True):
    """A cheap call that took a mean of `mean_ns`, where `usual_ns` is usual on this machine."""

    stats: SyscallStats
    mean_ns: int
    usual_ns: int


def say_costly(case: Case, costly: CostlyCall) -> Statement:
    """Say what a call took, and what that means; with what no hook sees of it."""
    sample, thread = case.sample, case.thread
    each = (
        f"Each {call(costly.stats)} took {length(costly.mean_ns)},"
        f" {costly.mean_ns / costly.usual_ns:.0f} times the usual: {what_runs(sample)} runs at each"
        " call."
    )
    evidence = {
        "calls": costly.stats.count,
        "mean_ns": costly.mean_ns,
        "usual_ns": costly.usual_ns,
    }
    edges = frozenset({("doubtful_user", thread.tid)})
    return Statement(
        f"the kernel worked for {name(sample, thread)}, on a CPU,",
        "other-process",
        evidence,
        (each,),
        "bpftool prog lists BPF programs.",
        edges,
    )


def what_runs(sample: Sample) -> str:
    """What it may be: of filters it is known whether the process has any."""
    filters = sample.system_state.seccomp_filters if sample.system_state else None
    if filters == 0:
        return "a tracer or BPF program"
    return "a tracer, BPF program or seccomp filter"


def has_cheap_calls(threads: Iterable[Thread]) -> bool:
    """Whether any of the threads made so many cheap calls that what each takes can be judged."""
    return any(
        stats.count >= LEAST_CALLS and stats.name in CHEAP
        for thread in threads
        for stats in thread.syscalls
    )


def costly_call(sample: Sample, thread: Thread) -> CostlyCall | None:
    """Return the cheap call that took many times what it should; None if none did.

    What it should is what it took this tool, unless that is too long for any machine: a program
    that runs at all calls of all processes makes these long as well. Interrupts are no part.
    """
    cost = sample.system_state.call_cost if sample.system_state else None
    calls = [stats for stats in thread.syscalls if stats.name in CHEAP]
    stats = max(calls, key=lambda each: each.on_cpu_ns or 0, default=None)
    if cost is None or stats is None or stats.count < LEAST_CALLS or thread.time is None:
        return None
    irqs_ns = thread.time.hard_irq_ns + thread.time.soft_irq_ns
    mean_ns = max(0, (stats.on_cpu_ns or 0) - irqs_ns) // stats.count
    usual_ns = max(1, min(cost.call_ns, MOST_FUNCTIONS * cost.function_ns))
    if mean_ns < max(LEAST_NS, MANY_TIMES * usual_ns):
        return None
    return CostlyCall(stats, mean_ns, usual_ns)
