"""From the programs' records to what a Sample says of each thread."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from kernel_delay.capture._records import ffi, lib
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.rings import Ring
from kernel_delay.model import HardIrqStats, Intervals, Lost, SoftIrqStats, SyscallStats, Thread
from kernel_delay.soft_irqs import soft_irq_name
from kernel_delay.syscalls import syscall_name


class ThreadRecords(Struct):
    """All records of one thread in one epoch.

    There is one thread record, and one a syscall and interrupt handler,
    unless an interrupt came just while the first was made: then both count.
    """

    threads: list[Any]
    syscalls: list[Any]
    hard_irqs: list[Any]


class Collector:
    """Reads what the programs recorded, window after window."""

    def __init__(self, programs: Programs) -> None:
        """Read from these programs."""
        self._programs = programs
        control = programs.control
        self._threads = Ring("thread_record", programs.thread_records, control.threads)
        self._syscalls = Ring("syscall_record", programs.syscall_records, control.syscalls)
        self._hard_irqs = Ring("hard_irq_record", programs.hard_irq_records, control.hard_irqs)
        self._missed = programs.missed_events()

    def collect(self, epoch: int) -> tuple[Thread, ...]:
        """Return the threads of which anything was counted in the epoch's window.

        The epoch's records, and all older ones, are released.
        """
        found: dict[int, ThreadRecords] = {}
        by_identity: dict[int, ThreadRecords] = {}
        records = self._threads.read()
        for record in records:
            if record.epoch == epoch:
                parts = by_identity.setdefault(record.identity, ThreadRecords([], [], []))
                parts.threads.append(record)
                found[record.number] = parts
        # Of the next epoch, if that is open, records may be there already.
        later = (record.number for record in records if record.epoch > epoch)
        next_thread = next(later, self._threads.next_number)

        syscalls = self._syscalls.read()
        for record in syscalls:
            if record.thread in found:
                found[record.thread].syscalls.append(record)
        hard_irqs = self._hard_irqs.read()
        for record in hard_irqs:
            if record.thread in found:
                found[record.thread].hard_irqs.append(record)

        threads = tuple(thread for parts in by_identity.values() if (thread := _thread(parts)))
        self._threads.release(next_thread)
        for ring, kept in ((self._syscalls, syscalls), (self._hard_irqs, hard_irqs)):
            later = (record.number for record in kept if record.thread >= next_thread)
            ring.release(next(later, ring.next_number))
        return threads

    def lost(self) -> Lost:
        """Return what was lost since the last call."""
        rings = (self._threads, self._syscalls, self._hard_irqs)
        missed = self._programs.missed_events()
        new_missed, self._missed = missed - self._missed, missed
        return Lost(map_entries=sum(ring.newly_full() for ring in rings), missed_events=new_missed)


def _thread(parts: ThreadRecords) -> Thread | None:
    last = parts.threads[-1]
    thread = Thread(
        tid=last.tid,
        name=_text(last.comm),
        exited=any(record.exited for record in parts.threads),
        syscalls=_syscalls(parts.syscalls),
        long_poll=_intervals(record.long_poll for record in parts.threads),
        run=_intervals(record.run for record in parts.threads),
        ready=_intervals(record.ready for record in parts.threads),
        stopped=_intervals(record.stopped for record in parts.threads),
        hard_irqs=_hard_irqs(parts.hard_irqs),
        soft_irqs=_soft_irqs(parts.threads),
    )
    counted = (
        thread.exited,
        thread.syscalls,
        thread.long_poll,
        thread.run,
        thread.ready,
        thread.stopped,
        thread.hard_irqs,
        thread.soft_irqs,
    )
    return thread if any(counted) else None


def _text(array: Any) -> str:
    return str(ffi.string(array).decode(errors="backslashreplace"))


def _intervals(counted: Iterable[Any]) -> Intervals | None:
    """Return the sum of several struct intervals, None if they are empty."""
    filled = [intervals for intervals in counted if intervals.count]
    if not filled:
        return None
    return Intervals(
        count=sum(intervals.count for intervals in filled),
        total_ns=sum(intervals.total_ns for intervals in filled),
        min_ns=min(intervals.min_ns for intervals in filled),
        max_ns=max(intervals.max_ns for intervals in filled),
    )


def _syscalls(records: list[Any]) -> tuple[SyscallStats, ...]:
    calls_of: dict[int, list[Any]] = {}
    for record in records:
        calls_of.setdefault(record.syscall, []).append(record.calls)
    found = []
    for number, calls in calls_of.items():
        total = _intervals(calls)
        if total:
            # The kernel takes the number from a 32-bit register, as a signed
            # value (arch/x86/entry/common.c:do_syscall_64()).
            signed = int(ffi.cast("int32_t", number))
            found.append(
                SyscallStats(
                    number=signed,
                    name=syscall_name(signed),
                    count=total.count,
                    total_ns=total.total_ns,
                    max_ns=total.max_ns,
                )
            )
    return tuple(sorted(found, key=lambda stats: (-stats.total_ns, stats.number)))


def _hard_irqs(records: list[Any]) -> tuple[HardIrqStats, ...]:
    runs_of: dict[str, list[Any]] = {}
    for record in records:
        runs_of.setdefault(_text(record.name), []).append(record.runs)
    found = []
    for name, runs in runs_of.items():
        total = _intervals(runs)
        if total:
            found.append(HardIrqStats(name, total.count, total.total_ns, total.max_ns))
    return tuple(sorted(found, key=lambda stats: (-stats.total_ns, stats.name)))


def _soft_irqs(records: list[Any]) -> tuple[SoftIrqStats, ...]:
    found = []
    for vector in range(lib.SOFT_IRQ_VECTORS):
        total = _intervals(record.soft_irqs[vector] for record in records)
        if total:
            name = soft_irq_name(vector)
            found.append(SoftIrqStats(vector, name, total.count, total.total_ns, total.max_ns))
    return tuple(sorted(found, key=lambda stats: (-stats.total_ns, stats.vector)))
