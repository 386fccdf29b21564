"""What a long round was long of, by its own resource usage alone.

The figures are those of getrusage(2), RUSAGE_THREAD, from one poll's return to the next poll
(lib/timeval.c:log_poll_interval(), Open vSwitch 2.4 to 4.0).
"""

from typing import Literal

from msgspec import Struct

Cause = Literal["computing", "kernel", "waiting", "blocked", "off_cpu", "not_switched", "unknown"]
"""What took most of a round.

computing: the thread's own code.
kernel: system calls and page faults.
waiting: off the CPU, by involuntary context switches: it could run and had no CPU.
blocked: off the CPU, by voluntary context switches: it slept, or was stopped.
off_cpu: off the CPU; its context switches do not say whether it waited for a CPU or was blocked.
not_switched: not run, and without a context switch: the hypervisor or interrupts had its CPU.
unknown: the log has no resource usage of it, or one that can't be.
"""

# The clock of the round's length and that of its CPU time are different ones, and each figure is
# cut to ms.
TOLERANCE_MS = 20
TOLERANCE_SHARE = 0.05

# A thread that is preempted waits for some slices of the others, of 3 ms each: kernel/sched/fair.c,
# 5.14 to 6.18. Waits so short add up to a round only if they are many.
SHORT_PREEMPTED_MS = 10

# A CPU quota keeps a thread off the CPU to the end of its period, which is 100 ms if nobody changed
# it (Documentation/scheduler/sched-bwc.rst). What is longer was no preemption, but of a real-time
# task's.
LONGEST_PREEMPTED_MS = 100

PREEMPTED_OFTENER = 4
"""So many times as many involuntary context switches as voluntary ones explain a round."""


class Usage(Struct, frozen=True):
    """What the log says of a round; None: it does not say.

    length_ms: from the poll's return to the next poll, by CLOCK_MONOTONIC.
    user_ms, system_ms: what the thread ran, in its own code and in the kernel.
    minor_faults, major_faults: page faults without and with a read of a device.
    blocks_read, blocks_written: 512 bytes each; written is what was made dirty in the page cache
        (include/linux/task_io_accounting_ops.h).
    voluntary, involuntary: context switches: the thread slept or was stopped, or was preempted.
    """

    length_ms: int
    user_ms: int | None = None
    system_ms: int | None = None
    minor_faults: int | None = None
    major_faults: int | None = None
    blocks_read: int | None = None
    blocks_written: int | None = None
    voluntary: int | None = None
    involuntary: int | None = None

    @property
    def off_ms(self) -> int | None:
        """How long the thread did not run; None where that is not known, or can't be."""
        if self.user_ms is None or self.system_ms is None:
            return None
        if self.user_ms < 0 or self.system_ms < 0:
            return None
        off_ms = self.length_ms - self.user_ms - self.system_ms
        tolerance_ms = max(TOLERANCE_MS, TOLERANCE_SHARE * self.length_ms)
        return None if off_ms < -tolerance_ms else max(0, off_ms)


def cause_of(usage: Usage) -> Cause:
    """Return what took most of a round."""
    off_ms = usage.off_ms
    if off_ms is None or usage.user_ms is None or usage.system_ms is None:
        return "unknown"
    if off_ms <= max(usage.user_ms, usage.system_ms):
        return "computing" if usage.user_ms >= usage.system_ms else "kernel"
    return _off_cpu(off_ms, usage.voluntary, usage.involuntary)


def _off_cpu(off_ms: int, voluntary: int | None, involuntary: int | None) -> Cause:
    if voluntary is None or involuntary is None:
        return "off_cpu"
    if not voluntary:
        return "waiting" if involuntary else "not_switched"
    if off_ms >= 2 * LONGEST_PREEMPTED_MS * involuntary:
        return "blocked"
    is_often = involuntary >= PREEMPTED_OFTENER * voluntary
    if is_often and off_ms <= SHORT_PREEMPTED_MS * involuntary:
        return "waiting"
    return "off_cpu"
