"""How far the scheduler's clock lags behind: what the times in schedstat are wrong by."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.integration.capture.workload import Workload
from tests.integration.oracles import StartBpftrace

# The clock of a run queue is not read again for the switch that a waking thread asks for
# (kernel/sched/core.c:wakeup_preempt(), RQCF_REQ_SKIP, 5.14 to 6.18): to schedstat that thread
# runs from its waking on, and the one before it no more, though first comes the rest of the
# interrupt, then its soft ones, and at any time the hypervisor. So each time in schedstat is
# wrong by how much more the clock lags at its end than at its beginning. A waking by another
# CPU is passed over, as here that one's clock is at hand.
# prev_state is TASK_REPORT_MAX, 256, of a thread that is preempted.
PROGRAM = """
tracepoint:task:task_newtask /pid == PROCESS/ { @ours[args->pid] = 1; }
tracepoint:sched:sched_wakeup /@asleep[args->pid] != 0 && cpu == args->target_cpu/ {
    @at_wait[args->pid] =
        (int64)nsecs - (int64)((struct task_struct *)curtask)->se.cfs_rq->rq->clock;
}
tracepoint:sched:sched_wakeup { @asleep[args->pid] = 0; }
tracepoint:sched:sched_switch /@ours[args->prev_pid] != 0/ {
    $lag = (int64)nsecs - (int64)((struct task_struct *)curtask)->se.cfs_rq->rq->clock;
    if (@at_run[args->prev_pid] != 0) {
        @run[args->prev_pid] += $lag - @at_run[args->prev_pid];
        @runs[args->prev_pid]++;
    }
    @at_run[args->prev_pid] = 0;
    if (args->prev_state == 0 || args->prev_state == 256) {
        @at_wait[args->prev_pid] = $lag;
    } else {
        @asleep[args->prev_pid] = 1;
    }
}
tracepoint:sched:sched_switch /@ours[args->next_pid] != 0/ {
    $lag = (int64)nsecs - (int64)((struct task_struct *)curtask)->se.cfs_rq->rq->clock;
    if (@at_wait[args->next_pid] != 0) {
        @ready[args->next_pid] += $lag - @at_wait[args->next_pid];
        @waits[args->next_pid]++;
    }
    @at_wait[args->next_pid] = 0;
    @at_run[args->next_pid] = $lag;
}
"""


# What the scheduler, bpftrace and our programs call the moment of a switch is so far apart.
SWITCH_NS = 3_000

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
    """By how much a thread's times on a CPU and ready are longer than schedstat has them.

    That is known of so many `runs` and `waits`: not of what was under way before, of what
    bpftrace missed, and of waits that another CPU began.
    """

    run_ns: int
    ready_ns: int
    runs: int
    waits: int

    def unknown_run_ns(self, runs: int) -> int:
        """How far the times of so many runs may be off, as the lag of some is not known."""
        return (runs - min(runs, self.runs)) * MOST_LAG_NS

    def unknown_ready_ns(self, waits: int) -> int:
        """How far the times of so many waits may be off."""
        return (waits - min(waits, self.waits)) * MOST_LAG_NS


class SchedulerClock:
    """Follows the clock through the switches of a process's threads, from now on."""

    def __init__(self, workload: Workload, start_bpftrace: StartBpftrace) -> None:
        """Follow the threads that it has, and will have."""
        known = "".join(f" @ours[{tid}] = 1;" for tid in workload.tids())
        program = PROGRAM.replace("PROCESS", str(workload.pid))
        self._bpftrace = start_bpftrace(f"BEGIN {{{known} }}" + program)

    def end(self) -> Mapping[int, Lag]:
        """Return each thread's lags."""
        maps = self._bpftrace.end()
        run, ready, runs, waits = (
            maps.get(name, {}) for name in ("@run", "@ready", "@runs", "@waits")
        )
        return {
            int(tid): Lag(
                _signed(run.get(tid, 0)),
                _signed(ready.get(tid, 0)),
                runs.get(tid, 0),
                waits.get(tid, 0),
            )
            for tid in maps["@ours"]
        }


def _signed(printed: int) -> int:
    """A sum as it is: bpftrace prints it as if there were none below 0."""
    return (printed & (1 << 64) - 1) - (1 << 64 if printed >> 63 & 1 else 0)
