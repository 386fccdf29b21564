"""What was measured of a process in several windows, as if in one: sums, and the extremes.

Everything that a Thread counts adds up exactly. Of who had its CPU, its locks or woke it the
largest are kept one by one, and the rest is in the sums that a Thread has for them.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from msgspec.structs import asdict, replace

from kernel_delay.analysis.percentiles import added
from kernel_delay.model import (
    CpuTaker,
    HardIrqStats,
    Intervals,
    LockWait,
    Lost,
    OwnerActivity,
    PageFaults,
    Sample,
    Sleep,
    SoftIrqStats,
    SyscallStats,
    TaskTimes,
    Thread,
    ThreadTime,
    Waker,
)

Row = TypeVar("Row")
OfTask = TypeVar("OfTask", CpuTaker, LockWait)
Runs = TypeVar("Runs", HardIrqStats, SoftIrqStats)
Times = TypeVar("Times", ThreadTime, PageFaults)

MOST_TASKS = 256
"""Tasks that had a thread's CPU or lock, or woke it, kept one by one; there are as many in a
window at most."""


MOST_THREADS = 4096
MOST_NAMES = 256
"""Threads beyond the former that were in none of the first windows are summed up by name, as a
window sums up those that ended; those of too many names are one."""

OTHER_NAMES = "[other names]"


class Totals:
    """The threads of Samples, added up as these come."""

    def __init__(self) -> None:
        """Begin with none."""
        self._threads: dict[tuple[int, str], Thread] = {}
        self._lost = Lost()

    def add(self, sample: Sample) -> None:
        """Count a Sample in. A thread is the same in both where its id and its name are."""
        for thread in map(self._kept, sample.threads):
            known = self._threads.get((thread.tid, thread.name))
            same = thread if known is None else together(known, thread)
            self._threads[thread.tid, thread.name] = same
        self._lost += sample.lost

    def _kept(self, thread: Thread) -> Thread:
        """The thread, by itself or as one of those of its name, of which it may be the first."""
        room = MOST_THREADS - len(self._threads)
        if (thread.tid, thread.name) in self._threads or room > 0:
            return thread
        name = (
            thread.name if (0, thread.name) in self._threads or -room < MOST_NAMES else OTHER_NAMES
        )
        return replace(thread, tid=0, name=name)

    def lost(self) -> Lost:
        """What was lost of all of them."""
        return self._lost

    def threads(self) -> tuple[Thread, ...]:
        """The sums, in the order in which the threads were met."""
        return tuple(self._threads.values())


def together(one: Thread, other: Thread) -> Thread:
    """One thread of two windows, `other`'s the later; what can't be added is `other`'s."""
    takers, takers_ns = _largest((*one.cpu_taken_by, *other.cpu_taken_by), _taker, _add_takers)
    locks, locks_ns = _largest((*one.lock_waits, *other.lock_waits), _lock, _add_locks)
    sleeps = _merged((*one.sleeps, *other.sleeps), _place, _add_sleeps)
    return replace(
        other,
        exited=one.exited or other.exited,
        syscalls=tuple(_merged((*one.syscalls, *other.syscalls), _call, _add_calls)),
        long_poll=_intervals(one.long_poll, other.long_poll),
        run=_intervals(one.run, other.run),
        ready=_intervals(one.ready, other.ready),
        stopped=_intervals(one.stopped, other.stopped),
        hard_irqs=tuple(_merged((*one.hard_irqs, *other.hard_irqs), _handler, _add_runs)),
        soft_irqs=tuple(_merged((*one.soft_irqs, *other.soft_irqs), _vector, _add_runs)),
        time=_sums(ThreadTime, one.time, other.time),
        preempted_ns=_sum(one.preempted_ns, other.preempted_ns),
        cpu_taken_by=tuple(takers),
        cpu_taken_by_others_ns=one.cpu_taken_by_others_ns
        + other.cpu_taken_by_others_ns
        + takers_ns,
        cpu_taken_by_unknown_ns=one.cpu_taken_by_unknown_ns + other.cpu_taken_by_unknown_ns,
        lock_waits=tuple(locks),
        lock_waits_others_ns=one.lock_waits_others_ns + other.lock_waits_others_ns + locks_ns,
        unsplit_ns=one.unsplit_ns + other.unsplit_ns,
        page_faults=_sums(PageFaults, one.page_faults, other.page_faults),
        sleeps=tuple(sorted(sleeps, key=lambda sleep: -sleep.ns)),
        own_soft_irq_ns=one.own_soft_irq_ns + other.own_soft_irq_ns,
        signals=_sum(one.signals, other.signals),
        newest_signal=(other.newest_signal or one.newest_signal) if other.tid else None,
        migrations=_sum(one.migrations, other.migrations),
        scheduling=other.scheduling or one.scheduling,
        task_times=_task_times(one.task_times, other.task_times),
        # Those that are summed up by name ended, and others did in each window.
        threads=one.threads + other.threads if other.tid == 0 else other.threads,
    )


def _merged(
    rows: Iterable[Row], key: Callable[[Row], Hashable], add: Callable[[Row, Row], Row]
) -> list[Row]:
    """The rows, those of one key as one."""
    found: dict[Hashable, Row] = {}
    for row in rows:
        known = found.get(key(row))
        found[key(row)] = row if known is None else add(known, row)
    return list(found.values())


def _largest(
    rows: Iterable[OfTask],
    key: Callable[[OfTask], Hashable],
    add: Callable[[OfTask, OfTask], OfTask],
) -> tuple[list[OfTask], int]:
    """The merged rows, longest first, as many as are kept; and the time of all others."""
    merged = sorted(_merged(rows, key, add), key=lambda row: -row.ns)
    return merged[:MOST_TASKS], sum(row.ns for row in merged[MOST_TASKS:])


def _taker(taker: CpuTaker) -> Hashable:
    return taker.tid, taker.comm, taker.pid, taker.policy, taker.nice, taker.rt_priority


def _add_takers(one: CpuTaker, other: CpuTaker) -> CpuTaker:
    return replace(other, waits=one.waits + other.waits, ns=one.ns + other.ns)


def _lock(wait: LockWait) -> Hashable:
    return wait.address, wait.tid, wait.name


def _add_locks(one: LockWait, other: LockWait) -> LockWait:
    return replace(
        other,
        waits=one.waits + other.waits,
        ns=one.ns + other.ns,
        owner=_add_activity(one.owner, other.owner),
    )


def _add_activity(one: OwnerActivity | None, other: OwnerActivity | None) -> OwnerActivity | None:
    """Their sums; where it slept most is that of the one that slept longer."""
    if one is None or other is None:
        return one or other
    longer = max(one, other, key=lambda activity: activity.blocked_ns)
    return replace(
        longer,
        known_ns=one.known_ns + other.known_ns,
        blocked_ns=one.blocked_ns + other.blocked_ns,
        ready_ns=one.ready_ns + other.ready_ns,
        held_ns=one.held_ns + other.held_ns,
    )


def _place(sleep: Sleep) -> Hashable:
    return sleep.reason, sleep.syscall, sleep.stack, sleep.uninterruptible


def _add_sleeps(one: Sleep, other: Sleep) -> Sleep:
    earlier = [replace(waker, woke_last=False) for waker in one.wakers]
    wakers = _merged((*earlier, *other.wakers), _waker, _add_wakers)
    return replace(
        other,
        count=one.count + other.count,
        ns=one.ns + other.ns,
        max_ns=max(one.max_ns, other.max_ns),
        short_ns=one.short_ns + other.short_ns,
        wakers=tuple(sorted(wakers, key=lambda waker: -waker.ns)[:MOST_TASKS]),
        file=other.file if _is_of_same_file(one, other) else None,
    )


def _is_of_same_file(one: Sleep, other: Sleep) -> bool:
    if one.file is None or other.file is None:
        return False
    return (one.file.fd, one.file.inode) == (other.file.fd, other.file.inode)


def _waker(waker: Waker) -> Hashable:
    return waker.kind, waker.tid, waker.pid, waker.comm, waker.kernel_stack, waker.user_stack


def _add_wakers(one: Waker, other: Waker) -> Waker:
    return replace(other, count=one.count + other.count, ns=one.ns + other.ns)


def _call(call: SyscallStats) -> Hashable:
    return call.abi, call.number


def _add_calls(one: SyscallStats, other: SyscallStats) -> SyscallStats:
    return replace(
        other,
        count=one.count + other.count,
        total_ns=one.total_ns + other.total_ns,
        max_ns=max(one.max_ns, other.max_ns),
        histogram=added(one.histogram, other.histogram),
        on_cpu_ns=_sum(one.on_cpu_ns, other.on_cpu_ns),
        ready_ns=_sum(one.ready_ns, other.ready_ns),
        blocked_ns=_sum(one.blocked_ns, other.blocked_ns),
        stopped_ns=_sum(one.stopped_ns, other.stopped_ns),
        without_entry=one.without_entry + other.without_entry,
        guest_ns=_sum(one.guest_ns, other.guest_ns),
        unaccounted_ns=_sum(one.unaccounted_ns, other.unaccounted_ns),
        across=one.across + other.across,
        timed_out=one.timed_out + other.timed_out,
    )


def _handler(irq: HardIrqStats) -> Hashable:
    return irq.name


def _vector(irq: SoftIrqStats) -> Hashable:
    return irq.vector


def _add_runs(one: Runs, other: Runs) -> Runs:
    return replace(
        other,
        count=one.count + other.count,
        total_ns=one.total_ns + other.total_ns,
        max_ns=max(one.max_ns, other.max_ns),
    )


def _intervals(one: Intervals | None, other: Intervals | None) -> Intervals | None:
    if one is None or other is None:
        return one or other
    return Intervals(
        count=one.count + other.count,
        total_ns=one.total_ns + other.total_ns,
        min_ns=min(one.min_ns, other.min_ns),
        max_ns=max(one.max_ns, other.max_ns),
        histogram=added(one.histogram, other.histogram),
    )


def _sum(one: int | None, other: int | None) -> int | None:
    """The sum of what is known; None where neither is."""
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _task_times(one: TaskTimes | None, other: TaskTimes | None) -> TaskTimes | None:
    if one is None or other is None:
        return one or other
    return TaskTimes(
        user_ns=one.user_ns + other.user_ns,
        system_ns=one.system_ns + other.system_ns,
        minor_faults=one.minor_faults + other.minor_faults,
        major_faults=one.major_faults + other.major_faults,
        steal_ns=_sum(one.steal_ns, other.steal_ns),
    )


def _sums(kind: type[Times], one: Times | None, other: Times | None) -> Times | None:
    """Both as one, field by field."""
    if one is None or other is None:
        return one or other
    second = asdict(other)
    return kind(**{name: value + second[name] for name, value in asdict(one).items()})
