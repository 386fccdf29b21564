"""Where a thread's time went: its account's parts by name, and the states that they make up."""

from kernel_delay.model import Thread, ThreadTime

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
