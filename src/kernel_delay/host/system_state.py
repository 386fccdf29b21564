"""The state of the machine and of other processes: what can delay a process in a window."""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from msgspec import Struct

from kernel_delay.host.cgroups import (
    CgroupState,
    Hierarchy,
    cpu_cgroups,
    read_hierarchies,
    read_hierarchy,
)
from kernel_delay.host.proc_text import read_lines, read_text
from kernel_delay.host.target import read_comm
from kernel_delay.model import (
    CallCost,
    CgroupLimit,
    CpuUse,
    CpuWeights,
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
    before: Snapshot,
    after: Snapshot,
    pid: int,
    uprobed: bool | None = None,
    cpus: tuple[CpuUse, ...] | None = None,
) -> SystemState:
    """Return what happened around process `pid` from one snapshot to the next.

    Args:
        before: The snapshot at the start.
        after: The snapshot at the end.
        pid: The process.
        uprobed: As in SystemState.
        cpus: What cpu_uses() returned of these snapshots. None: it is called.
    """
    status = _status(pid)
    return SystemState(
        cpu_uses(before, after) if cpus is None else cpus,
        _limit(before.cgroups, after.cgroups),
        _tracer(status),
        uprobed,
        memory=_memory(before.cgroups, after.cgroups),
        dumping=_field(status, "CoreDumping") == "1",
        freezers=after.cgroups.freezers if after.cgroups else (),
        seccomp_filters=_number(_field(status, "Seccomp_filters")),
    )


def cpu_uses(before: Snapshot, after: Snapshot) -> tuple[CpuUse, ...]:
    """Return how each CPU was used from one snapshot to the next."""
    return tuple(
        CpuUse(cpu, max(0, idle - before.cpus[cpu][0]), max(0, steal - before.cpus[cpu][1]))
        for cpu, (idle, steal) in sorted(after.cpus.items())
        if cpu in before.cpus
    )


def _cpu_times() -> dict[int, tuple[int, int]]:
    """Of each CPU the idle and steal times of /proc/stat; see proc_stat(5)."""
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    found = {}
    try:
        lines = read_lines(PROC / "stat")
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
            _used_ns(old[level.path], level),
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


def _used_ns(before: CgroupState, after: CgroupState) -> int | None:
    if before.used_ns is None or after.used_ns is None:
        return None
    return after.used_ns - before.used_ns


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


def _status(pid: int, file: str = "status") -> str:
    """The text of proc_pid_status(5); empty if the process or the thread is gone."""
    try:
        return read_text(f"{PROC}/{pid}/{file}")
    except OSError:
        return ""


def _field(status: str, name: str) -> str | None:
    """What a line of that text has behind the name; None if there is no such line.

    Of the sixty lines few are asked for, of each process in each window.
    """
    _, found, rest = f"\n{status}".partition(f"\n{name}:")
    return rest.partition("\n")[0].strip() if found else None


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _tracer(status: str) -> tuple[str, int] | None:
    """The process that traces the one of that status, if any."""
    try:
        tracer = int(_field(status, "TracerPid") or "0")
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

    `alone` is as in Stopper.
    """
    known, comm = sender_of(pid, sender)
    return Stopper(signal, known, comm, alone)


def sender_of(pid: int, sender: int) -> tuple[int, str | None]:
    """Return the PID and the name of who sent process `pid` a signal.

    Whoever is in another namespace than the tool has neither, and who is gone no name.

    Args:
        pid: Who got the signal.
        sender: The sender in the PID namespace of that process; 0 if no process sent it.
    """
    if not sender or not _shares_namespace(pid):
        return 0, None
    try:
        return sender, read_comm(PROC / str(sender))
    except OSError:
        return sender, None


def is_itself(pid: int, sender: int) -> bool:
    """Return whether `sender`, in a PID namespace of process `pid`, is that process.

    Most processes share the tool's namespace: then nothing is read.
    """
    if sender == pid:
        return True
    try:
        lines = read_lines(PROC / str(pid) / "status")
    except OSError:
        return False
    found = (line.split()[1:] for line in lines if line.startswith("NSpid:"))
    return str(sender) in next(found, ())


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


POSSIBLE = Path("/sys/devices/system/cpu/possible")


def cpu_numbers() -> int:
    """Return one more than the highest number that a CPU can have while this kernel runs.

    The file has ranges, the highest last (Documentation/admin-guide/cputopology.rst).
    """
    try:
        return int(POSSIBLE.read_text().replace(",", "-").split("-")[-1]) + 1
    except (OSError, ValueError):
        return os.cpu_count() or 1


# In less than a millisecond, where nothing runs at each call.
BATCHES = 10
CALLS = 100


def call_cost() -> CallCost:
    """Return what the cheapest batches of calls took, each; of whatever runs at each call too."""
    function_ns = _each_ns(int)
    return CallCost(max(0, _each_ns(os.getppid) - function_ns), function_ns)


def _each_ns(function: Callable[[], int]) -> int:
    best_ns = None
    for _ in range(BATCHES):
        began_ns = time.perf_counter_ns()
        for _ in range(CALLS):
            function()
        ns = time.perf_counter_ns() - began_ns
        best_ns = ns if best_ns is None else min(ns, best_ns)
    assert best_ns is not None
    return best_ns // CALLS


# What a task of nice 0 weighs among cgroups: kernel/sched/core.c:sched_prio_to_weight, as
# cpu.shares of v1 has it, and cpu.weight of v2.
TASK_SHARES, TASK_WEIGHT = 1024, 100

# What a session weighs beside others, by its nice value from -20 on: as a task, by the same.
SESSION_SHARES = (
    *(88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916),
    *(9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277),
    *(1024, 820, 655, 526, 423, 335, 272, 215, 172, 137),
    *(110, 87, 70, 56, 45, 36, 29, 23, 18, 15),
)


def cpu_weights(pid: int, others: Iterable[int]) -> tuple[CpuWeights, ...]:
    """Return how process `pid` shares CPUs with each of others that is not in its own cgroup."""
    asked = tuple(others)
    own = cpu_cgroups(pid) if asked else ()
    found = (_between(pid, own, other) for other in asked if own)
    return tuple(weights for weights in found if weights is not None)


def _between(pid: int, own: tuple[tuple[Path, str], ...], other: int) -> CpuWeights | None:
    theirs = cpu_cgroups(other)
    common = next((path for _, path in own if path in {path for _, path in theirs}), None)
    if common is None:
        return None
    mine, others = _below(own, common), _below(theirs, common)
    if mine is not None or others is not None:
        folder = (mine or others or own[0])[0]
        alone = TASK_SHARES if (folder / "cpu.shares").exists() else TASK_WEIGHT
        return CpuWeights(
            other,
            mine[1] if mine else None,
            _weight(mine[0]) if mine else alone,
            others[1] if others else None,
            _weight(others[0]) if others else alone,
        )
    session, others_session = _autogroup(pid), _autogroup(other)
    if common == "/" and session and others_session and session[0] != others_session[0]:
        return CpuWeights(other, *session, *others_session)
    return None


def _below(levels: tuple[tuple[Path, str], ...], common: str) -> tuple[Path, str] | None:
    """The highest cgroup below the common one; None if the process is in that itself."""
    place = [path for _, path in levels].index(common)
    return levels[place - 1] if place else None


def _weight(folder: Path) -> int:
    try:
        if (folder / "cpu.idle").exists() and (folder / "cpu.idle").read_text().strip() == "1":
            return 0
        name = "cpu.shares" if (folder / "cpu.shares").exists() else "cpu.weight"
        return int((folder / name).read_text())
    except (OSError, ValueError):
        return TASK_WEIGHT


def _autogroup(pid: int) -> tuple[str, int] | None:
    """The group of the process's session and what it weighs; None if it has none.

    /proc/PID/autogroup of sched(7), which is `/autogroup-NUMBER nice NICE`.
    """
    try:
        if (PROC / "sys/kernel/sched_autogroup_enabled").read_text().strip() != "1":
            return None
        path, _, nice = (PROC / str(pid) / "autogroup").read_text().split()
        return path, SESSION_SHARES[int(nice) + 20]
    except (OSError, ValueError, IndexError):
        return None
