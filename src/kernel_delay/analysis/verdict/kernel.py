"""Rules on the kernel at work for a thread, or in its way: calls, faults, signals, interrupts."""

import math

from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.waits import ADVICE
from kernel_delay.analysis.verdict.words import also, call, length, memory_limit, name
from kernel_delay.host import irq_vectors
from kernel_delay.model import Sample, TaskTimes, Thread, ThreadTime

# A thread that does I/O is there for making system calls; from a quarter of
# its time on, what the kernel does for it bounds what it gets done.
KERNEL_SHARE = 0.25

# Calls shorter than that are counted to no use: what they cost is their being made.
TINY_CALL_NS = 2_000

# What a call takes of the kernel's time before its entry is seen and after its exit was, for
# programs on these tracepoints too. 140 to 220 ns were measured, as stime has it.
CALL_EDGES_NS = 250

# Below that a second, faults and signals are not what makes a thread slow.
MANY_PER_S = 1_000

# utime and stime are samples, one a tick: CONFIG_HZ is 100 to 1000, and 100 the worst case.
TICK_NS = 10_000_000
SHORTEST_TICK_NS = 1_000_000

# Standard deviations: what is beyond them is no chance, and what is beyond fewer most likely none.
DEVIATIONS = 4
LIKELY_DEVIATIONS = 2


def _per_s(count: int, sample: Sample) -> float:
    return count * 1e9 / sample.window.duration_ns if sample.window.duration_ns else 0.0


def _kernel_ns(sample: Sample, thread: Thread) -> int:
    if thread.time is None or thread.kernel_worker:
        return 0
    faults_ns = thread.page_faults.on_cpu_ns if thread.page_faults else 0
    return max(0, thread.time.kernel_ns - faults_ns) + call_edges_ns(thread)


def _say_work(case: Case) -> Statement | None:
    sample, thread = case.sample, case.thread
    calls = sorted(thread.syscalls, key=lambda stats: -(stats.on_cpu_ns or 0))
    text = f"the kernel worked for {name(sample, thread)}, on a CPU, for {case.of_window}"
    text += also(sample, case.others)
    if _dumps_core(sample):
        # What it was in when it crashed has no part in that.
        return Statement(f"{text}, and {_DUMPS_CORE}", "program", advice=ADVICE["core_dump"])
    shown = [f"{call(each)} {length(each.on_cpu_ns)}" for each in calls[:3] if each.on_cpu_ns]
    if not shown:
        return Statement(text + memory_limit(sample), "kernel")
    worst = calls[0]
    rate = _per_s(worst.count, sample)
    evidence = {"calls": worst.count, "call_ns": worst.on_cpu_ns or 0}
    text += f"; most of it in {', '.join(shown)}"
    if (worst.on_cpu_ns or 0) > case.lost_ns:
        text += ", with the interrupts and page faults in it"
    mean_ns = (worst.on_cpu_ns or 0) // worst.count if worst.count else 0
    if worst.count and mean_ns < TINY_CALL_NS:
        text += f"; it made {rate:,.0f} calls of {call(worst)} a second, of {mean_ns:,} ns each"
        advice = f"fewer calls of {call(worst)} help: the kernel takes little time for each"
        return Statement(text, "program", evidence, advice)
    return Statement(text + memory_limit(sample), "kernel", evidence)


_DUMPS_CORE = "was about to write its core dump when the window ended"


def _dumps_core(sample: Sample) -> bool:
    return sample.surroundings is not None and sample.surroundings.dumping


KERNEL_WORK = Rule(
    name="kernel_work",
    least_share=KERNEL_SHARE,
    lost_ns=_kernel_ns,
    say=_say_work,
    looks_at="the time on a CPU in system calls, by call, with how many a second",
    silent_on="work in the kernel that no call or fault is known for: see doubtful_user",
)


def _worker_ns(sample: Sample, thread: Thread) -> int:
    return thread.time.kernel_ns if thread.time and thread.kernel_worker else 0


def _say_worker(case: Case) -> Statement:
    text = f"{name(case.sample, case.thread)}, which the kernel made in the process to work for it,"
    text += f" was on a CPU for {case.of_window}{also(case.sample, case.others)}"
    return Statement(text, "kernel")


KERNEL_WORKER = Rule(
    name="kernel_worker",
    least_share=KERNEL_SHARE,
    lost_ns=_worker_ns,
    say=_say_worker,
    looks_at="the time on a CPU of threads that the kernel made in the process, for io_uring"
    " (iou-wrk-…, iou-sqp-…) or vhost",
    silent_on="what they worked on; whether an iou-sqp-… only looked for requests, as it was asked"
    " to do without sleeping",
)


def _fault_ns(sample: Sample, thread: Thread) -> int:
    faults = thread.page_faults
    return faults.on_cpu_ns + faults.blocked_ns if faults else 0


def _say_faults(case: Case) -> Statement:
    faults = case.thread.page_faults
    assert faults is not None
    text = f"{faults.count:,} page faults kept {name(case.sample, case.thread)} for"
    text += f" {case.of_window}{also(case.sample, case.others)}"
    if faults.blocked_ns:
        text += f", of which it slept {length(faults.blocked_ns)}"
    text += memory_limit(case.sample)
    return Statement(text, "kernel", {"faults": faults.count})


PAGE_FAULTS = Rule(
    name="page_faults",
    least_share=0.05,
    lost_ns=_fault_ns,
    say=_say_faults,
    looks_at="the time in page faults of the thread's program, by fentry",
    silent_on="faults where the kernel refuses fentry: see doubtful_user",
)


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
    return time.kernel_ns + time.hard_irq_ns + time.soft_irq_ns


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
    text = (
        f"the kernel worked for {name(sample, thread)}, outside of system calls, for about"
        f" {case.of_window}{also(sample, case.others)}"
    )
    causes = []
    faults = times.minor_faults + times.major_faults
    if thread.page_faults is None and _per_s(faults, sample) >= MANY_PER_S:
        causes.append(f"{_per_s(faults, sample):,.0f} page faults a second")
    if thread.signals and _per_s(thread.signals, sample) >= MANY_PER_S:
        causes.append(f"{_per_s(thread.signals, sample):,.0f} signals a second")
    denied = sum(stats.without_entry for stats in thread.syscalls)
    if _per_s(denied, sample) >= MANY_PER_S:
        causes.append(f"{_per_s(denied, sample):,.0f} system calls denied at their entry a second")
    compat = sum(stats.count for stats in thread.syscalls if stats.abi)
    if _per_s(compat, sample) >= MANY_PER_S:
        causes.append(f"{_per_s(compat, sample):,.0f} system calls of another ABI a second")
    if sample.surroundings is not None and sample.surroundings.uprobed:
        causes.append("uprobes that a tool has in its code")
    if _dumps_core(sample):
        causes.append("its core dump to write")
    evidence = {"faults": faults, "signals": thread.signals or 0, "system_ns": times.system_ns}
    text += f"; it had {' and '.join(causes)}" if causes else "; why is not known"
    return Statement(text + memory_limit(sample), "kernel", evidence)


DOUBTFUL_USER = Rule(
    name="doubtful_user",
    least_share=0.1,
    lost_ns=_doubtful_ns,
    say=_say_doubtful,
    looks_at="the kernel's own count of a thread's system time (stime), where it is more than the"
    " calls and interrupts that were seen, with its page faults, its signals, calls denied at their"
    " entry, uprobes, and a core dump",
    silent_on="less than a few ticks",
)


def foreign_interrupt_ns(sample: Sample, thread: Thread) -> int:
    """Interrupts' time on a thread that its own calls did not raise."""
    if thread.time is None:
        return 0
    return thread.time.hard_irq_ns + thread.time.soft_irq_ns - thread.own_soft_irq_ns


def _say_interrupts(case: Case) -> Statement:
    thread = case.thread
    text = (
        f"interrupts took the CPU from under {name(case.sample, thread)} for"
        f" {case.of_window}{also(case.sample, case.others)}"
    )
    irqs = [(irq.total_ns, irq.name) for irq in thread.hard_irqs]
    irqs += [(irq.total_ns, f"soft {irq.name or irq.vector}") for irq in thread.soft_irqs]
    if irqs:
        most_ns, most = max(irqs)
        text += f"; most of it by {most}, {length(most_ns)}"
    return Statement(text, "kernel", advice=_irq_advice(thread))


# Soft IRQs that a device's interrupts raise; the others are timers', RCU's, the scheduler's.
_OF_DEVICES = frozenset(("net_tx", "net_rx", "block", "irq_poll"))
_OWN_HARD_IRQS = frozenset(irq_vectors.NAMES.values())


def _irq_advice(thread: Thread) -> str | None:
    """How a device's interrupts are kept off the CPU; None if most are the kernel's own."""
    of_devices = [irq.total_ns for irq in thread.hard_irqs if irq.name not in _OWN_HARD_IRQS]
    of_devices += [irq.total_ns for irq in thread.soft_irqs if irq.name in _OF_DEVICES]
    all_ns = sum(irq.total_ns for irq in thread.hard_irqs)
    all_ns += sum(irq.total_ns for irq in thread.soft_irqs)
    if 2 * sum(of_devices) < all_ns:
        return None
    return "see /proc/interrupts and the IRQs' smp_affinity"


INTERRUPTS = Rule(
    name="interrupt_load",
    least_share=0.05,
    lost_ns=foreign_interrupt_ns,
    say=_say_interrupts,
    looks_at="hard and soft IRQs in the thread's time on a CPU",
    silent_on="soft IRQs that the thread's own sending raised; those of a round before that was"
    " open for a tenth of watch's threshold; vectors without an irq_handler, as"
    " the timer's, which are in user and kernel time",
)
