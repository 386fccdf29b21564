"""The state of the machine and of other processes that can delay a process in a window."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from msgspec import Struct

from kernel_delay.host.cgroups import Hierarchy, read_hierarchies, read_hierarchy
from kernel_delay.host.target import read_comm
from kernel_delay.model import (
    CgroupLimit,
    CpuUse,
    MemoryLimit,
    Scheduling,
    Stopper,
    SystemState,
)

PROC = Path("/proc")

# include/uapi/linux/sched.h, 5.14 to 6.18.
POLICIES = {0: "OTHER", 1: "FIFO", 2: "RR", 3: "BATCH", 5: "IDLE", 6: "DEADLINE", 7: "EXT"}

# Set beside the policy in what sched_getscheduler(2) returns.
SCHED_RESET_ON_FORK = 0x4000_0000


class Snapshot(Struct, frozen=True):
    """Counters of the machine and of a process's cgroups at one time.

    `cpus`: of each CPU how long it idled (waiting for I/O too), and was stolen from, in ns.
    """

    cpus: dict[int, tuple[int, int]]
    cgroups: Hierarchy | None

    @classmethod
    def take(cls, pid: int) -> Self:
        """Read them now."""
        return cls(_cpu_times(), read_hierarchy(pid))

    @classmethod
    def take_all(cls, pids: Iterable[int]) -> dict[int, Self]:
        """Read those of several processes now."""
        cpus = _cpu_times()
        return {pid: cls(cpus, cgroups) for pid, cgroups in read_hierarchies(pids).items()}


def between(
    before: Snapshot, after: Snapshot, pid: int, uprobed: bool | None = None
) -> SystemState:
    """Return what happened around process `pid` from one snapshot to the next.

    `uprobed` is as in SystemState.
    """
    cpus = tuple(
        CpuUse(cpu, max(0, idle - before.cpus[cpu][0]), max(0, steal - before.cpus[cpu][1]))
        for cpu, (idle, steal) in sorted(after.cpus.items())
        if cpu in before.cpus
    )
    status = _status(pid)
    return SystemState(
        cpus,
        _limit(before.cgroups, after.cgroups),
        _tracer(status),
        uprobed,
        memory=_memory(before.cgroups, after.cgroups),
        dumping=status.get("CoreDumping", "").strip() == "1",
        freezers=after.cgroups.freezers if after.cgroups else (),
        seccomp_filters=_number(status.get("Seccomp_filters")),
    )


def _cpu_times() -> dict[int, tuple[int, int]]:
    """Of each CPU the idle and steal times of /proc/stat; see proc_stat(5)."""
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    found = {}
    try:
        lines = (PROC / "stat").read_text().splitlines()
    except OSError:
        return {}
    for line in lines:
        name, *words = line.split()
        if name.startswith("cpu") and name != "cpu":
            ticks = [int(word) for word in words]
            found[int(name[3:])] = (ticks[3] + ticks[4]) * tick_ns, ticks[7] * tick_ns
    return found


def _limit(before: Hierarchy | None, after: Hierarchy | None) -> CgroupLimit | None:
    """The cgroup that was throttled most, else the lowest with a quota, else the lowest."""
    if before is None or after is None:
        return None
    old = {level.path: level for level in before.levels}
    limits = [
        CgroupLimit(
            level.path,
            level.quota_ns,
            level.period_ns,
            level.throttled_periods - old[level.path].throttled_periods,
            level.throttled_ns - old[level.path].throttled_ns,
            bool(after.freezers),
        )
        for level in after.levels
        if level.path in old
    ]
    if not limits:
        return None
    worst = max(limits, key=lambda limit: limit.throttled_ns)
    if worst.throttled_ns:
        return worst
    return next((limit for limit in limits if limit.quota_ns is not None), limits[0])


def _memory(before: Hierarchy | None, after: Hierarchy | None) -> MemoryLimit | None:
    """The limit of memory that was reached most."""
    if before is None or after is None:
        return None
    old = {level.path: level.hits for level in before.memory}
    limits = [
        MemoryLimit(level.path, level.limit_bytes, hits)
        for level in after.memory
        if (hits := level.hits - old.get(level.path, 0)) > 0
    ]
    return max(limits, key=lambda limit: limit.hits, default=None)


def _status(pid: int, file: str = "status") -> dict[str, str]:
    """The lines of proc_pid_status(5); none if the process or the thread is gone."""
    try:
        status = (PROC / str(pid) / file).read_text(errors="backslashreplace")
    except OSError:
        return {}
    return dict(line.partition(":")[::2] for line in status.splitlines())


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _tracer(status: dict[str, str]) -> tuple[str, int] | None:
    """The process that traces the one of that status, if any."""
    try:
        tracer = int(status.get("TracerPid", "0"))
        if not tracer:
            return None
        return read_comm(PROC / str(tracer)), tracer
    except (OSError, ValueError):
        return None


def tracer(pid: int, tids: Iterable[int]) -> tuple[str, int] | None:
    """Return the process that traces the first of these threads of process `pid` that is traced.

    Each thread has a tracer of its own: that of the main one need not be the others'.
    """
    for tid in tids:
        found = _tracer(_status(pid, f"task/{tid}/status"))
        if found is not None:
            return found
    return None


def stopper(pid: int, signal: int, sender: int, *, alone: bool) -> Stopper:
    """Return who sent process `pid` the signal: `sender` is of its PID namespace, 0 if no process.

    Whoever is in another namespace than the tool, or gone, has no name. `alone` is as in Stopper.
    """
    if not sender or not _shares_namespace(pid):
        return Stopper(signal, 0, alone=alone)
    try:
        return Stopper(signal, sender, read_comm(PROC / str(sender)), alone)
    except OSError:
        return Stopper(signal, sender, alone=alone)


def _shares_namespace(pid: int) -> bool:
    try:
        own, other = (os.stat(PROC / each / "ns" / "pid") for each in ("self", str(pid)))
    except OSError:
        return False
    return os.path.samestat(own, other)


def scheduling(tid: int) -> Scheduling | None:
    """Return how the scheduler treats thread `tid` now; None if it is gone."""
    try:
        policy = os.sched_getscheduler(tid) & ~SCHED_RESET_ON_FORK
        return Scheduling(
            policy=POLICIES.get(policy, str(policy)),
            nice=os.getpriority(os.PRIO_PROCESS, tid),
            rt_priority=os.sched_getparam(tid).sched_priority,
            cpus=tuple(sorted(os.sched_getaffinity(tid))),
        )
    except OSError:
        return None
