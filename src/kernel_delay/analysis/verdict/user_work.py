"""The rule that acquits, as a thread was busy with its own code, and what speaks against that."""

import math
from collections.abc import Iterable, Iterator

from msgspec import Struct

from kernel_delay.analysis.verdict.formatting import memory_limit, name, signal_and_sender
from kernel_delay.analysis.verdict.rule import (
    ASLEEP_SHARE,
    KERNEL_SHARE,
    Case,
    Rule,
    Statement,
)
from kernel_delay.analysis.verdict.stopped_or_frozen import stops_as_traced
from kernel_delay.analysis.verdict.thread_roles import spins_by_design
from kernel_delay.model import Sample, SyscallStats, TaskTimes, Thread, ThreadTime

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


LISTS = "bpftool prog lists BPF programs."


class CostlyCall(Struct, frozen=True):
    """A cheap call that took a mean of `mean_ns`, where `usual_ns` is usual on this machine."""

    stats: SyscallStats
    mean_ns: int
    usual_ns: int


def what_runs(sample: Sample, article: str = "a") -> str:
    """What it may be: of filters it is known whether the process has any."""
    filters = sample.system_state.seccomp_filters if sample.system_state else None
    if filters == 0:
        return f"{article} tracer or BPF program"
    return f"{article} tracer, BPF program or seccomp filter"


def has_cheap_calls(threads: Iterable[Thread]) -> bool:
    """Whether any of the threads made so many cheap calls that what each takes can be judged."""
    return any(
        stats.count >= LEAST_CALLS and stats.name in CHEAP
        for thread in threads
        for stats in thread.syscalls
    )


def has_hooked_calls(sample: Sample) -> bool:
    """Whether something runs at each call of any process: this tool's took too long as well."""
    cost = sample.system_state.call_cost if sample.system_state else None
    return cost is not None and cost.call_ns > max(LEAST_NS, MOST_FUNCTIONS * cost.function_ns)


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
    most_ns = max(1, MOST_FUNCTIONS * cost.function_ns)
    usual_ns = max(1, min(cost.call_ns, most_ns))
    # Where the tool's own calls take too long as well, no chance makes those of the thread so.
    times = 1 if has_hooked_calls(sample) else MANY_TIMES
    if mean_ns < max(LEAST_NS, times * usual_ns):
        return None
    return CostlyCall(stats, mean_ns, usual_ns)


# What a call takes of the kernel's time before its entry is seen and after its exit was, for
# programs on these tracepoints too. 140 to 220 ns were measured, as stime has it.
CALL_EDGES_NS = 250

# Below that a second, faults and signals are not what makes a thread slow.
MANY_PER_S = 1_000

# The scheduler's tick, of 1000 a second at most, is no load.
MANY_INTERRUPTS_PER_S = 5_000

# utime and stime are samples, one a tick: CONFIG_HZ is 100 to 1000, and 100 the worst case.
TICK_NS = 10_000_000
SHORTEST_TICK_NS = 1_000_000

# From that share of the window on, what is doubtful is a finding.
DOUBTFUL_SHARE = 0.1

# Standard deviations: what is beyond them is no chance, and what is beyond fewer most likely none.
DEVIATIONS = 4
LIKELY_DEVIATIONS = 2


def per_s(count: int, sample: Sample) -> float:
    """How often a second something happened."""
    return count * 1e9 / sample.window.duration_ns if sample.window.duration_ns else 0.0


def dumps_core(sample: Sample) -> bool:
    """Whether the process was about to write its core dump when the window ended."""
    return sample.system_state is not None and sample.system_state.dumping


def call_edges_ns(thread: Thread) -> int:
    """How much of the time counted as the program's own the kernel took for calls, at their edges.

    No more than its stime has beyond what was seen; 0 where that is not known.
    """
    if thread.time is None or thread.task_times is None:
        return 0
    calls = sum(stats.count for stats in thread.syscalls)
    more_ns = min(thread.task_times.system_ns - _seen_ns(thread.time), thread.time.user_ns)
    return max(0, min(calls * CALL_EDGES_NS, more_ns))


def _seen_ns(time: ThreadTime) -> int:
    return time.kernel_ns + time.hard_irq_ns + time.soft_irq_ns + time.tool_ns


def doubtful_ns(thread: Thread) -> int:
    """How much of the time counted as the program's own the kernel surely counts as its own.

    Without what is at the edges of calls.

    The kernel's stime counts the ticks that found the thread in the kernel. Of a known time K
    there they count K / tick on average, with a deviation of at most the square root of that:
    what is beyond it, and two ticks for the boundaries, is doubtful. 0 where stime is not known.
    """
    more_ns = _more_ns(thread)
    return max(0, more_ns - _chance_ns(thread, DEVIATIONS)) if more_ns else 0


def is_doubtful(sample: Sample, thread: Thread) -> bool:
    """Whether so much of it is that this is a finding."""
    return doubtful_ns(thread) >= DOUBTFUL_SHARE * sample.window.duration_ns


def likely_ns(thread: Thread) -> int:
    """Return the lower bound of that: 0 where it may well be chance, or is not known."""
    more_ns = _more_ns(thread)
    return more_ns if more_ns and more_ns > _chance_ns(thread, LIKELY_DEVIATIONS) else 0


def possible_ns(thread: Thread) -> int:
    """Return the upper bound of that."""
    return _more_ns(thread) + _chance_ns(thread, LIKELY_DEVIATIONS)


def _more_ns(thread: Thread) -> int:
    """By how much stime is more than what was seen, up to the program's own time."""
    if thread.time is None or not thread.time.user_ns or thread.task_times is None:
        return 0
    known_ns = _seen_ns(thread.time) + call_edges_ns(thread)
    return max(0, min(thread.task_times.system_ns - known_ns, thread.time.user_ns))


def _chance_ns(thread: Thread, deviations: int) -> int:
    if thread.time is None or thread.task_times is None:
        return 0
    known_ns = _seen_ns(thread.time) + call_edges_ns(thread)
    tick_ns = _tick_ns(thread.task_times)
    return 2 * tick_ns + deviations * math.isqrt(known_ns * tick_ns)


def _tick_ns(times: TaskTimes) -> int:
    """The kernel's tick, of which both times are multiples; where they are not, the longest."""
    tick_ns = math.gcd(times.user_ns, times.system_ns)
    return tick_ns if SHORTEST_TICK_NS <= tick_ns < TICK_NS else TICK_NS


def _doubtful_ns(sample: Sample, thread: Thread) -> int:
    return doubtful_ns(thread)


def _say_doubtful(case: Case) -> Statement | None:
    sample, thread = case.sample, case.thread
    times = thread.task_times
    assert times is not None
    causes = causes_of(sample, thread)
    interrupts = interrupts_of(sample, thread)
    # An interrupt is not caused by the thread.
    how = "worked for" if causes else "had the CPU of"
    causes += [interrupts] if interrupts else []
    # Where calls are not hooked it may be in any, and what samples show of it is no bound.
    where = " on a CPU," if "calls" in sample.unseen else " outside of system calls,"
    evidence = {
        "faults": times.minor_faults + times.major_faults,
        "signals": thread.signals or 0,
        "system_ns": times.system_ns,
    }
    return Statement(
        f"the kernel {how} {name(sample, thread)},{where}",
        "kernel",
        evidence,
        (*_causes(causes), *newest_signal(sample, thread), *memory_limit(sample)),
        estimated=True,
    )


# More make too long a sentence.
_CAUSES_PER_SENTENCE = 2


def _causes(causes: list[str]) -> tuple[str, ...]:
    if not causes:
        return ("The cause is not known.",)
    n = _CAUSES_PER_SENTENCE
    first, *others = (" and ".join(causes[i : i + n]) for i in range(0, len(causes), n))
    return (f"It had {first}.", *(f"It also had {each}." for each in others))


def interrupts_of(sample: Sample, thread: Thread) -> str | None:
    """How many interrupts the thread had, if they are so many that entering them takes long."""
    hard = sum(irq.count for irq in thread.hard_irqs)
    soft = sum(irq.count for irq in thread.soft_irqs)
    rate = per_s(max(hard, soft), sample)
    return f"{rate:,.0f} interrupts a second" if rate >= MANY_INTERRUPTS_PER_S else None


def signals_of(sample: Sample, thread: Thread) -> str | None:
    """How many signals the thread had, if they are so many that handing them to it takes long."""
    rate = per_s(thread.signals or 0, sample)
    return f"{rate:,.0f} signals a second" if rate >= MANY_PER_S else None


def newest_signal(sample: Sample, thread: Thread) -> tuple[str, ...]:
    """Say which signal came last and from where, if there were so many that they take long."""
    newest = thread.newest_signal
    if newest is None or signals_of(sample, thread) is None:
        return ()
    return (f"The newest was {signal_and_sender(newest)}.",)


def causes_of(sample: Sample, thread: Thread) -> list[str]:
    """What the thread had that makes the kernel work for it and that no hook sees, in words."""
    times = thread.task_times
    if times is None:
        return []
    causes = []
    faults = times.minor_faults + times.major_faults
    if thread.page_faults is None and per_s(faults, sample) >= MANY_PER_S:
        causes.append(f"{per_s(faults, sample):,.0f} page faults a second")
    if (signals := signals_of(sample, thread)) is not None:
        causes.append(signals)
    denied = sum(stats.without_entry for stats in thread.syscalls)
    if per_s(denied, sample) >= MANY_PER_S:
        causes.append(f"{per_s(denied, sample):,.0f} system calls denied at their entry a second")
    compat = sum(stats.count for stats in thread.syscalls if stats.abi)
    if per_s(compat, sample) >= MANY_PER_S:
        causes.append(f"{per_s(compat, sample):,.0f} system calls of another ABI a second")
    if costly_call(sample, thread) is not None or has_hooked_calls(sample):
        causes.append(f"{what_runs(sample)} that runs at each call")
    tracer = sample.system_state.tracer if sample.system_state else None
    if tracer is not None and stops_as_traced(thread):
        causes.append(f"{tracer[0]} ({tracer[1]}), which stopped it at its calls")
    if sample.system_state is not None and sample.system_state.uprobed:
        causes.append("uprobes that a tool has in its code")
    if dumps_core(sample):
        causes.append("its core dump to write")
    return causes


DOUBTFUL_USER = Rule(
    name="doubtful_user",
    of_sleepers=False,
    least_share=DOUBTFUL_SHARE,
    lost_ns=_doubtful_ns,
    say=_say_doubtful,
    measures="The kernel's own system time of a thread (stime), if it exceeds the calls, page"
    " faults and interrupts that were seen. Also signals, denied calls, uprobes and a"
    " core dump.",
    limits=("Ignores a few clock ticks."),
)


# From half of its time on, a thread's own work is what it is busy with.
USER_SHARE = 0.5

# If more of a thread's own time than that may be the kernel's, it is not acquitted.
POSSIBLE_SHARE = 0.25


def _user_ns(sample: Sample, thread: Thread) -> int:
    # What no hook sees of the kernel's work for a thread, its own count alone shows.
    if thread.time is None or not thread.time.user_ns or thread.task_times is None:
        return 0
    if spins_by_design(sample, thread):
        return 0
    kernel_ns = likely_ns(thread) + call_edges_ns(thread)
    if _is_unsplit(thread):
        return thread.time.user_ns - kernel_ns
    return thread.time.user_ns - max(thread.unsplit_ns, kernel_ns)


def _is_unsplit(thread: Thread) -> bool:
    """Whether for most of the program's time no sample shows that it was not in calls."""
    return thread.time is not None and 2 * thread.unsplit_ns > thread.time.user_ns


UNSPLIT = "No sample shows which, as they began too late: `watch --calls` has it exactly."


def _say_user(case: Case) -> Statement:
    sample, thread = case.sample, case.thread
    if _is_unsplit(thread):
        claim = f"{name(sample, thread)} was on a CPU, in its own code or in calls,"
        return Statement(claim, "program", details=(UNSPLIT,))
    claim = f"{name(sample, thread)} was in its own code"
    if not case.accused and not_refuted(sample, thread):
        claim = f"the kernel is not to blame: {claim}"
    return Statement(claim, "program", details=tuple(_unknown(sample, thread)))


def _unknown(sample: Sample, thread: Thread) -> Iterator[str]:
    """Say what else the kernel took some of the thread's time for, which nothing shows."""
    if denied := sum(stats.without_entry for stats in thread.syscalls):
        calls = f"{denied:,} system calls that had no entry"
        yield f"That includes what the kernel took for {calls}: how much is not known."
    # Ticks find a thread at its signals too, unless a timer sends them in step with the ticks.
    signals = signals_of(sample, thread)
    if signals is not None and not is_doubtful(sample, thread):
        yield f"It also had {signals}: how much the kernel took for these is not known."
        yield from newest_signal(sample, thread)


def not_refuted(sample: Sample, thread: Thread) -> bool:
    """Whether what would refute that the thread kept itself busy was looked at, and is not there.

    What was missed could be it; so could calls that were denied at their entry; many signals;
    kernel time that no hook sees, which only the kernel's own count of the thread's times shows;
    the hypervisor's, of each thread or at least of each CPU; and a third of the window in
    futexes, which may have been locks.
    """
    time, times, lost = thread.time, thread.task_times, sample.lost
    futexes_ns = sum(sleep.ns for sleep in thread.sleeps if sleep.reason == "futex")
    return (
        time is not None
        and times is not None
        and max(possible_ns(thread), thread.unsplit_ns) < POSSIBLE_SHARE * time.user_ns
        and not time.unaccounted_ns
        and futexes_ns < ASLEEP_SHARE * sample.window.duration_ns
        and not (lost.dropped_records or lost.missed_events)
        and not any(stats.without_entry for each in sample.threads for stats in each.syscalls)
        and signals_of(sample, thread) is None
        and (times.steal_ns is not None or _sees_steal_of_cpus(sample))
    )


def _sees_steal_of_cpus(sample: Sample) -> bool:
    return sample.system_state is not None and bool(sample.system_state.cpus)


USER_WORK = Rule(
    name="user_work",
    of_sleepers=False,
    least_share=USER_SHARE,
    lost_ns=_user_ns,
    say=_say_user,
    measures="Time in the program's own code. Also whether the kernel's own count agrees,"
    " what was missed or denied, and steal time. Beside delays it counts from 25 % on.",
    limits="Leaves out PMD threads, windows below 0.1 s and ended"
    " threads. Does not detect which function ran.",
    remark=True,
    round_share=KERNEL_SHARE,
)
