"""How far the scheduler's clock lags behind: what the times in schedstat are wrong by."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.emulation import DIVISOR, is_emulated
from tests.integration.capture.workload import SchedStat, Workload
from tests.integration.oracles import StartBpftrace

# The scheduler reads a run queue's clock, and calls what is attached to its tracepoint later. In
# between it may program a timer, which an emulator or a hypervisor makes long (6.12's
# dl_server_start()), and the host may run others. For the switch that a waking thread asks for,
# the clock is not read at all (kernel/sched/core.c:wakeup_preempt(), RQCF_REQ_SKIP, 5.14 to 6.18).
# Our program is called before this one if it was attached before. So its time of a switch is
# between what the clock says and now: @between is how long that is, @least the same where nothing
# came in between. A thread that is woken was so after its waker's call began or its timer expired,
# and before sched_wakeup: ours says sched_waking, where it is called before this one too.
# On a CPU a thread's time is that of clock_task, which interrupts and a hypervisor stop
# (kernel/sched/core.c:update_rq_clock_task()): @stopped is for how long. It ends at its exec_start
# of then: before a thread is found that is next, the clock may be read again
# (kernel/sched/fair.c:sched_balance_newidle()). How far the two clocks are apart when it gets the
# CPU is @on, 0 where that switch was missed: as they are apart since boot, it would be too long.
# prev_state is TASK_REPORT_MAX, 256, of a thread that is preempted.
PROGRAM = """
tracepoint:task:task_newtask /pid == PROCESS/ { @ours[args->pid] = 1; }
tracepoint:raw_syscalls:sys_enter { @entered[tid] = nsecs; }
tracepoint:timer:hrtimer_expire_entry { @expired[cpu] = nsecs; }
tracepoint:sched:sched_waking /@ours[args->pid] != 0/ {
    @waking[args->pid] = @entered[tid];
    if (@expired[cpu] > @entered[tid]) { @waking[args->pid] = @expired[cpu]; }
}
tracepoint:sched:sched_wakeup /@waking[args->pid] != 0/ {
    @woken[args->pid] += nsecs - @waking[args->pid];
    @waking[args->pid] = 0;
    @asleep[args->pid] = 0;
}
tracepoint:sched:sched_switch /@ours[args->prev_pid] != 0/ {
    $task = (struct task_struct *)curtask;
    $rq = $task->se.cfs_rq->rq;
    $lag = (int64)nsecs - (int64)$rq->clock;
    $stopped = (int64)$rq->clock - (int64)$rq->clock_task;
    if (@switches[args->prev_pid] != 0) {
        if (@on[args->prev_pid] != 0) {
            @stopped[args->prev_pid] += $stopped - (@on[args->prev_pid] - 1);
        }
        @between[args->prev_pid] += (int64)nsecs - (int64)$task->se.exec_start - $stopped;
        @switches[args->prev_pid]++;
    }
    @on[args->prev_pid] = 0;
    @asleep[args->prev_pid] = args->prev_state != 0 && args->prev_state != 256;
    if (@least == 0 || $lag < @least) { @least = $lag; }
}
tracepoint:sched:sched_switch /@ours[args->next_pid] != 0/ {
    $rq = ((struct task_struct *)curtask)->se.cfs_rq->rq;
    $lag = (int64)nsecs - (int64)$rq->clock;
    @on[args->next_pid] = (int64)$rq->clock - (int64)$rq->clock_task + 1;
    @between[args->next_pid] += $lag;
    @switches[args->next_pid] += 1 - @asleep[args->next_pid];
    @asleep[args->next_pid] = 0;
    if (@least == 0 || $lag < @least) { @least = $lag; }
}
END { clear(@entered); clear(@expired); clear(@on); }
"""


# What the scheduler, bpftrace and our programs call the moment of a switch is so far apart where
# nothing comes in between.
SWITCH_NS = 3_000 * (DIVISOR if is_emulated() else 1)

# What bpftrace has seen it lag at most, on two CPUs that were kept busy, was 0.65 ms.
MOST_LAG_NS = 1_000_000

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def stolen_ns() -> int:
    """What a hypervisor has taken of all CPUs, proc_stat(5), in ticks: schedstat leaves it out."""
    return int(Path("/proc/stat").read_text().split()[8]) * TICK_NS


def most_stolen_ns(before_ns: int) -> int:
    """What was taken at most since stolen_ns() was `before_ns`: a tick is cut off at each end."""
    return stolen_ns() - before_ns + 2 * TICK_NS


class Lag(NamedTuple):
    """How far a thread's times on a CPU and ready may be from what schedstat has.

    That is known of so many `switches`, not of those that bpftrace missed. `stopped_ns` is the time
    on a CPU that schedstat leaves out: interrupts', and what a hypervisor took.
    """

    between_ns: int
    stopped_ns: int
    switches: int

    def apart_ns(self, expected: SchedStat) -> int:
        """How far times may be apart that schedstat has as `expected`."""
        unknown = max(2 * expected.runs - self.switches, 0)
        # A queue's clock can be ahead, too: that brings the two no nearer to each other.
        return abs(self.between_ns) + SWITCH_NS * expected.runs + MOST_LAG_NS * unknown


UNKNOWN = Lag(0, 0, 0)
"""Of a thread that bpftrace has not seen."""


class Account(NamedTuple):
    """What is compared: a thread's times on a CPU and ready, and what is known to be in neither."""

    run_ns: int
    ready_ns: int
    unaccounted_ns: int


def disagreements(account: Account, expected: SchedStat, lag: Lag) -> list[str]:
    """In what a thread's account and schedstat are further apart than the clock's lags let them."""
    found = []
    for state, found_ns, expected_ns in (
        ("run", account.run_ns, expected.run_ns + lag.stopped_ns),
        ("ready", account.ready_ns, expected.ready_ns),
    ):
        apart_ns = max(200_000, expected_ns // 100) + lag.apart_ns(expected)
        least_ns = expected_ns - apart_ns - account.unaccounted_ns
        if not least_ns <= found_ns <= expected_ns + apart_ns:
            found.append(f"{state} {found_ns}, not {expected_ns}, with {expected} and {lag}")
    return found


class SchedulerClock:
    """Follows the clock through the switches of a process's threads, from now on."""

    def __init__(self, workload: Workload, start_bpftrace: StartBpftrace) -> None:
        """Follow the threads that it has, and will have.

        They sleep, and what is compared is attached already: see PROGRAM.
        """
        known = "".join(f" @ours[{tid}] = 1;" for tid in workload.tids())
        program = PROGRAM.replace("PROCESS", str(workload.pid))
        self._bpftrace = start_bpftrace(f"BEGIN {{{known} }}" + program)

    def end(self) -> Mapping[int, Lag]:
        """Return each thread's lags."""
        maps = self._bpftrace.end()
        between, woken, stopped, switches = (
            maps.get(name, {}) for name in ("@between", "@woken", "@stopped", "@switches")
        )
        least_ns = _signed(maps.get("@least", 0))
        return {
            int(tid): Lag(
                _signed(between.get(tid, 0) - switches.get(tid, 0) * least_ns) + woken.get(tid, 0),
                _signed(stopped.get(tid, 0)),
                switches.get(tid, 0),
            )
            for tid in maps["@ours"]
        }


def _signed(printed: int) -> int:
    """A sum as it is: bpftrace prints it as if there were none below 0."""
    return (printed & (1 << 64) - 1) - (1 << 64 if printed >> 63 & 1 else 0)
