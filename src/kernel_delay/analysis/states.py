"""Where a thread's time went: its account's parts by name, their states, and what it lost."""

from collections.abc import Iterable

from msgspec import structs

from kernel_delay.analysis.verdict.user_work import USER_WORK
from kernel_delay.model import HardIrqStats, Intervals, Sample, SoftIrqStats, Thread, ThreadTime

STATE_OF = {
    "user": "user",
    "kernel, syscalls": "kernel",
    "kernel, page faults": "kernel",
    "guest": "guest",
    "kernel-delay": "tool",
    "hard irq": "irq",
    "soft irq": "irq",
    "ready, woken": "ready",
    "ready, preempted": "ready",
    "blocked": "blocked",
    "stopped": "stopped",
    "throttled": "throttled",
    "frozen": "frozen",
    "absent": "absent",
    "unaccounted": "unaccounted",
}
"""The state that each part is of, in the order of the report."""

STATES = tuple(dict.fromkeys(STATE_OF.values()))
"""All of them, of which states() has the times."""

PART_NAMES = tuple(STATE_OF)

WORKER_PART = "kernel, worker"
"""What a kernel worker has for its system calls: it makes none."""


def time_parts(thread: Thread, time: ThreadTime) -> tuple[tuple[str, int], ...]:
    """Where the thread's window went, by name: the parts sum up to it."""
    preempted_ns = thread.preempted_ns or 0
    fault_ns = thread.page_faults.on_cpu_ns if thread.page_faults else 0
    parts_ns = (
        time.user_ns,
        time.kernel_ns - fault_ns,
        fault_ns,
        time.guest_ns,
        time.tool_ns,
        time.hard_irq_ns,
        time.soft_irq_ns,
        time.ready_ns - preempted_ns,
        preempted_ns,
        time.blocked_ns,
        time.stopped_ns,
        time.throttled_ns,
        time.frozen_ns,
        time.absent_ns,
        time.unaccounted_ns,
    )
    names = list(PART_NAMES)
    if thread.kernel_worker:
        names[names.index("kernel, syscalls")] = WORKER_PART
    return tuple(zip(names, parts_ns, strict=True))


def states(time: ThreadTime) -> dict[str, int]:
    """How long the thread was in each state: together the window."""
    return {
        "user": time.user_ns,
        "kernel": time.kernel_ns,
        "guest": time.guest_ns,
        "tool": time.tool_ns,
        "irq": time.hard_irq_ns + time.soft_irq_ns,
        "ready": time.ready_ns,
        "blocked": time.blocked_ns,
        "stopped": time.stopped_ns,
        "throttled": time.throttled_ns,
        "frozen": time.frozen_ns,
        "absent": time.absent_ns,
        "unaccounted": time.unaccounted_ns,
    }


def worst_first(sample: Sample) -> list[Thread]:
    """The threads, by what they lost: those first that lost most."""
    found = _found_ns(sample)

    def place(thread: Thread) -> tuple[int, str, int]:
        own = found.get(thread.tid, 0) if thread.threads == 1 else 0
        return -max(lost_ns(thread), own), thread.name, thread.tid

    return sorted(sample.threads, key=place)


def by_name(sample: Sample) -> list[Thread]:
    """The threads, by name: kernel_delay.py's order."""
    return sorted(sample.threads, key=lambda thread: (thread.name, thread.tid))


def lost_ns(thread: Thread) -> int:
    """What others had of the thread's time: not its own code, and no sleep of its choice.

    That is work of the kernel and of this tool, interrupts, waits for a CPU, quotas, freezers,
    stops, and waits for a lock that another thread held. Without accounting it is what was
    counted of these.
    """
    time = thread.time
    if time is None:
        irqs = _total_ns((*thread.hard_irqs, *thread.soft_irqs))
        return irqs + _total_ns(filter(None, (thread.ready, thread.stopped)))
    locks_ns = sum(wait.ns for wait in thread.lock_waits) + thread.lock_waits_others_ns
    off_cpu_ns = time.ready_ns + time.throttled_ns + time.frozen_ns + time.stopped_ns
    on_cpu_ns = time.kernel_ns + time.hard_irq_ns + time.soft_irq_ns + time.tool_ns
    return on_cpu_ns + off_cpu_ns + locks_ns


def slept_throughout(sample: Sample) -> frozenset[int]:
    """The ids of the threads that were asleep from the window's beginning to its end.

    None of them is the one of the verdict's first line, or one of its findings, or waited for a
    lock that was held or in a sleep that a signal can't end: of these one asks where they slept.
    """
    findings = [finding for finding in sample.verdict if not finding.remark]
    reported = {finding.tid for finding in findings or sample.verdict[:1]}
    return frozenset(
        thread.tid
        for thread in sample.threads
        if thread.tid not in reported and thread.threads == 1 and _only_slept(thread)
    )


def _only_slept(thread: Thread) -> bool:
    time = thread.time
    if time is None or not time.blocked_ns:
        return False
    awake_ns = sum(structs.astuple(time)) - time.blocked_ns
    waited = thread.lock_waits or any(sleep.uninterruptible for sleep in thread.sleeps)
    return not (awake_ns or waited or thread.lock_waits_others_ns)


def _found_ns(sample: Sample) -> dict[int, int]:
    """By thread, the most that a finding says it lost.

    Where nothing was found, a thread that its own code kept busy is what one asks about.
    """
    findings = [finding for finding in sample.verdict if not finding.remark]
    findings = findings or [each for each in sample.verdict if each.rule == USER_WORK.name]
    found: dict[int, int] = {}
    for finding in findings:
        ns = finding.evidence.get("lost_ns", 0)
        found[finding.tid] = max(ns, found.get(finding.tid, 0))
    return found


def _total_ns(counted: Iterable[Intervals | HardIrqStats | SoftIrqStats]) -> int:
    return sum(each.total_ns for each in counted)
