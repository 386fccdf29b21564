"""What the kernel itself counted meanwhile: who ran, who waited, and what CPUs did."""

import os
from pathlib import Path

from msgspec import Struct

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

# Where proc_pid_stat(5) has it, without the PID and the name.
_STIME = 12


class Count(Struct, frozen=True):
    """How long each task ran, and waited, in ns, and what each CPU did.

    Tasks: /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst), which run or
    wait just now, and how long the kernel worked for each (proc_pid_stat(5), state and stime).
    CPUs: idle and steal of proc_stat(5).
    """

    ran: dict[int, int]
    waited: dict[int, int]
    runnable: frozenset[int]
    idle: dict[int, int]
    steal_ns: int
    system: dict[int, int] = {}


def count() -> Count:
    """Read all counts."""
    ran, waited, system, runnable = {}, {}, {}, set()
    for process in filter(str.isdecimal, os.listdir("/proc")):
        try:
            for tid in os.listdir(f"/proc/{process}/task"):
                task = Path(f"/proc/{process}/task/{tid}")
                counts = (task / "schedstat").read_text().split()
                ran[int(tid)], waited[int(tid)] = map(int, counts[:2])
                # The name before the last parenthesis is of any bytes.
                stat = (task / "stat").read_bytes().rpartition(b")")[2].split()
                system[int(tid)] = int(stat[_STIME]) * TICK_NS
                if stat[0] == b"R":
                    runnable.add(int(tid))
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
    idle, steal = {}, 0
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("cpu") and line[3].isdecimal():
            name, *values = line.split()
            idle[int(name[3:])] = int(values[3]) * TICK_NS
            steal += int(values[7]) * TICK_NS
    return Count(ran, waited, frozenset(runnable), idle, steal, system)


def throttled_ns(group: Path) -> int:
    """How long a cgroup was throttled, each CPU counted (cpu.stat of v1 and of v2)."""
    stat = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    if "throttled_time" in stat:
        return int(stat["throttled_time"])
    return int(stat["throttled_usec"]) * 1000


class Span(Struct, frozen=True):
    """The time between two counts, around all windows of a capture.

    `throttled_ns` is how long each thread of the target was throttled, about.
    """

    before: Count
    after: Count
    length_ns: int
    throttled_ns: int = 0

    def ran_ns(self, tid: int) -> int | None:
        """How long a task ran; None if it ended meanwhile."""
        if tid not in self.after.ran:
            return None
        return self.after.ran[tid] - self.before.ran.get(tid, 0)

    def waited_ns(self, tid: int) -> int | None:
        """How long a task waited for a CPU, at most; None if it ended meanwhile."""
        ran_ns = self.ran_ns(tid)
        if ran_ns is None:
            return None
        if tid in self.after.runnable or self.throttled_ns:
            # A wait is counted when it is over, and this one's may not be; being throttled counts
            # as waiting, or does not, by the kernel's release.
            return self.length_ns - ran_ns - self.throttled_ns
        return self.after.waited[tid] - self.before.waited.get(tid, 0)

    def system_ns(self, tid: int) -> int | None:
        """How long the kernel worked for a task; None if it ended meanwhile."""
        if tid not in self.after.system:
            return None
        return self.after.system[tid] - self.before.system.get(tid, 0)

    @property
    def steal_ns(self) -> int:
        """What the hypervisor took, of all CPUs."""
        return self.after.steal_ns - self.before.steal_ns

    def idle_share(self, cpu: int) -> float:
        """How much of the time a CPU idled."""
        return (self.after.idle[cpu] - self.before.idle.get(cpu, 0)) / self.length_ns
