"""Which processes lose time now, by /proc alone: what to measure, for who does not know yet."""

import os
import time
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from kernel_delay.host.cgroups import read_hierarchies
from kernel_delay.host.target import PROC, process_ids, read_comm

INTERVAL_NS = 200_000_000

MOST_THREADS = 20_000
"""Of more the first are looked at: each takes two files, twice."""

LOSS_SHARE = 0.05
"""Of the interval: who lost less is not worth a line."""

UNINTERRUPTIBLE = "D"
RUNNABLE = "R"


class Losing(Struct, frozen=True):
    """A process that lost time in the interval.

    Attributes:
        pid: The process ID.
        comm: The name of the process.
        waited_ns: How long its threads waited for a CPU, together.
        waiting: How many of them did.
        uninterruptible: How many were in state D, before and after.
        throttled_ns: How long a cgroup of it was throttled, summed up over CPUs.
    """

    pid: int
    comm: str
    waited_ns: int = 0
    waiting: int = 0
    uninterruptible: int = 0
    throttled_ns: int = 0

    def lost_ns(self, interval_ns: int) -> int:
        """What it lost, of several losses the sum."""
        return self.waited_ns + self.throttled_ns + self.uninterruptible * interval_ns


class Thread(Struct, frozen=True):
    """A thread as /proc has it: its state, and what it ran and waited so far."""

    state: str
    ran_ns: int
    waited_ns: int


class LossSurvey(Struct, frozen=True):
    """The processes that lost time, the worst first, and in how long."""

    interval_ns: int
    processes: tuple[Losing, ...]


Threads = Mapping[int, Mapping[int, Thread]]
"""The threads of each process, by their ids."""


def losing_processes(known: Container[int] = ()) -> LossSurvey:
    """Look for INTERVAL_NS, and as long as looking takes; return those that lost most.

    The processes `known` are left out; where there are no others, that takes no time.

    Linux counts a wait for a CPU when it ends (Documentation/scheduler/sched-stats.rst): who was
    runnable before and after and did not run has waited all the time.
    """
    began_ns = time.monotonic_ns()
    before = _threads(known)
    if not before:
        return LossSurvey(INTERVAL_NS, ())
    throttled = _throttled(before)
    time.sleep(INTERVAL_NS / 1e9)
    after = _threads(known)
    throttled_after = _throttled(after)
    interval_ns = time.monotonic_ns() - began_ns
    found = []
    for pid, threads in after.items():
        throttled_ns = max(0, throttled_after.get(pid, 0) - throttled.get(pid, 0))
        loss = lost(pid, before.get(pid, {}), threads, throttled_ns, interval_ns)
        if loss.lost_ns(interval_ns) >= LOSS_SHARE * interval_ns:
            found.append(loss)
    found.sort(key=lambda loss: (-loss.lost_ns(interval_ns), loss.pid))
    return LossSurvey(interval_ns, tuple(found))


def lost(
    pid: int,
    before: Mapping[int, Thread],
    after: Mapping[int, Thread],
    throttled_ns: int,
    interval_ns: int,
) -> Losing:
    """Return what a process lost from one look to another."""
    waits: list[int] = []
    uninterruptible = 0
    for tid, now in after.items():
        then = before.get(tid)
        if then is None:
            continue
        waited_ns = now.waited_ns - then.waited_ns
        if then.state == now.state == RUNNABLE and then.ran_ns == now.ran_ns and not throttled_ns:
            waited_ns = max(waited_ns, interval_ns)
        if waited_ns:
            waits.append(waited_ns)
        uninterruptible += then.state == now.state == UNINTERRUPTIBLE and then.ran_ns == now.ran_ns
    comm = ""
    with suppress(OSError):
        comm = read_comm(PROC / str(pid))
    return Losing(pid, comm, sum(waits), len(waits), uninterruptible, throttled_ns)


def _threads(known: Container[int]) -> Threads:
    found: dict[int, dict[int, Thread]] = {}
    count = 0
    for pid in process_ids(known):
        if pid == os.getpid():
            continue
        found[pid] = {}
        with suppress(OSError):
            for tid in os.listdir(PROC / str(pid) / "task"):
                if count < MOST_THREADS and (thread := _thread(PROC / str(pid) / "task" / tid)):
                    found[pid][int(tid)] = thread
                    count += 1
    return found


def _thread(folder: Path) -> Thread | None:
    """None where it is gone, or the kernel has no CONFIG_SCHED_INFO."""
    try:
        state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0].decode()
        ran_ns, waited_ns, *_ = map(int, (folder / "schedstat").read_text().split())
    except (OSError, ValueError, IndexError):
        return None
    return Thread(state, ran_ns, waited_ns)


def _throttled(pids: Iterable[int]) -> dict[int, int]:
    """How long the cgroups of each process that have a quota were throttled so far."""
    return {
        pid: sum(level.throttled_ns for level in hierarchy.levels if level.quota_ns is not None)
        for pid, hierarchy in read_hierarchies(pids).items()
        if hierarchy is not None
    }


MOST_GLANCED = 128
"""A file is read for each: of more threads a glance would cost what it is to show."""


class RunDelays:
    """What the kernel itself counts of each thread, since this was first looked at."""

    def __init__(self, *pids: int) -> None:
        """Of these processes."""
        self._folders = [PROC / str(pid) / "task" for pid in pids]
        self._tasks: dict[str, Path] = {}
        self._before: dict[str, int] = {}

    def __call__(self) -> str:
        """How many threads there are, and which has waited longest for a CPU since the first call.

        The latter is left out where the kernel does not count it, and where they are many.
        """
        self._tasks = {}
        for folder in self._folders:
            with suppress(OSError):
                self._tasks |= dict.fromkeys(os.listdir(folder), folder)
        tids = list(self._tasks)
        if not tids:
            return "no threads"
        found = "1 thread" if len(tids) == 1 else f"{len(tids):,} threads"
        if len(tids) > MOST_GLANCED:
            return found
        delays = {tid: ns for tid in tids if (ns := self._delay_ns(tid)) is not None}
        self._before = {**delays, **self._before}
        waited = {tid: ns - self._before[tid] for tid, ns in delays.items()}
        longest = max(waited, key=waited.__getitem__, default=None)
        if longest is None or not waited[longest]:
            return found
        ms = waited[longest] / 1e6
        return f"{found}; {self._name(longest)} ({longest}) waited {ms:,.0f} ms for a CPU"

    def _delay_ns(self, tid: str) -> int | None:
        """The second field of schedstat (Documentation/scheduler/sched-stats.rst)."""
        try:
            return int((self._tasks[tid] / tid / "schedstat").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return None

    def _name(self, tid: str) -> str:
        try:
            comm = self._tasks[tid] / tid / "comm"
            return comm.read_text(errors="backslashreplace").rstrip("\n")
        except OSError:
            return "a thread"
