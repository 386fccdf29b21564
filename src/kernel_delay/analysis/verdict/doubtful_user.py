"""The rule on work that the kernel counts as its own and no hook sees, and how sure that is."""

import math

from kernel_delay.analysis.verdict.costly_calls import costly_call, what_runs
from kernel_delay.analysis.verdict.formatting import memory_limit, name
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.model import Sample, TaskTimes, Thread, ThreadTime

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
    return max(0, _more_ns(thread) - _chance_ns(thread, DEVIATIONS))


def likely_ns(thread: Thread) -> int:
    """The same, of what is more likely than not: 0 where it may well be chance, or is not known."""
    more_ns = _more_ns(thread)
    return more_ns if more_ns > _chance_ns(thread, LIKELY_DEVIATIONS) else 0


def possible_ns(thread: Thread) -> int:
    """The same, of what may well be."""
    return _more_ns(thread) + _chance_ns(thread, LIKELY_DEVIATIONS)


def _more_ns(thread: Thread) -> int:
    """By how much stime is more than what was seen, up to the program's own time."""
    if thread.time is None or thread.task_times is None:
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
    evidence = {
        "faults": times.minor_faults + times.major_faults,
        "signals": thread.signals or 0,
        "system_ns": times.system_ns,
    }
    return Statement(
        f"the kernel {how} {name(sample, thread)}, outside of system calls,",
        "kernel",
        evidence,
        (*_causes(causes), *memory_limit(sample)),
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


def causes_of(sample: Sample, thread: Thread) -> list[str]:
    """What the thread had that makes the kernel work for it and that no hook sees, in words."""
    times = thread.task_times
    if times is None:
        return []
    causes = []
    faults = times.minor_faults + times.major_faults
    if thread.page_faults is None and per_s(faults, sample) >= MANY_PER_S:
        causes.append(f"{per_s(faults, sample):,.0f} page faults a second")
    if thread.signals and per_s(thread.signals, sample) >= MANY_PER_S:
        causes.append(f"{per_s(thread.signals, sample):,.0f} signals a second")
    denied = sum(stats.without_entry for stats in thread.syscalls)
    if per_s(denied, sample) >= MANY_PER_S:
        causes.append(f"{per_s(denied, sample):,.0f} system calls denied at their entry a second")
    compat = sum(stats.count for stats in thread.syscalls if stats.abi)
    if per_s(compat, sample) >= MANY_PER_S:
        causes.append(f"{per_s(compat, sample):,.0f} system calls of another ABI a second")
    if costly_call(sample, thread) is not None:
        causes.append(f"{what_runs(sample)} that runs at each call")
    if sample.system_state is not None and sample.system_state.uprobed:
        causes.append("uprobes that a tool has in its code")
    if dumps_core(sample):
        causes.append("its core dump to write")
    return causes


DOUBTFUL_USER = Rule(
    name="doubtful_user",
    least_share=0.1,
    lost_ns=_doubtful_ns,
    say=_say_doubtful,
    measures="The kernel's own system time of a thread (stime), if it exceeds the calls, page"
    " faults and interrupts that were seen. Also signals, denied calls, uprobes and a"
    " core dump.",
    limits=("Ignores differences of a few clock ticks."),
)
