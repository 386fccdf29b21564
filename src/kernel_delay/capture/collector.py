"""From the programs' records to what a Sample says of each thread."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from kernel_delay.capture._records import ffi, lib
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.rings import Ring
from kernel_delay.capture.windows import wait_for_programs
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


class EpochRecords(Struct):
    """All records of one epoch: its threads by identity, and each ring's oldest number."""

    threads: dict[int, ThreadRecords]
    oldest: dict[Ring, int]


class Collector:
    """Reads what the programs recorded, window after window."""

    def __init__(self, programs: Programs) -> None:
        """Read from these programs."""
        self._programs = programs
        control = programs.control
        self._threads = Ring("thread_record", programs.thread_records, control.threads)
        self._syscalls = Ring("syscall_record", programs.syscall_records, control.syscalls)
        self._hard_irqs = Ring("hard_irq_record", programs.hard_irq_records, control.hard_irqs)
        self._rings = (self._threads, self._syscalls, self._hard_irqs)
        self._epochs: dict[int, EpochRecords] = {}
        self._owners: dict[int, tuple[EpochRecords, ThreadRecords]] = {}
        self._complete_ns = 0
        self._missed_events = programs.missed_events()
        self._missed_hits = 0
        self._orphans = 0

    def collect(self, epoch: int, stop_ns: int) -> tuple[Thread, ...]:
        """Return the threads of which anything was counted in the epoch's window.

        The window must be over. The epoch's records, and all older ones, are
        released.
        """
        self._read_after(stop_ns)
        records = self._epochs.get(epoch)
        found = [_thread(thread) for thread in records.threads.values()] if records else []
        self._release(epoch)
        return tuple(thread for thread in found if thread)

    def discard(self, epoch: int, stop_ns: int) -> None:
        """Release the epoch's records, and all older ones, unread."""
        self._read_after(stop_ns)
        self._release(epoch)

    def _read_after(self, stop_ns: int) -> None:
        """Take in all that was recorded before `stop_ns`, which is past.

        A syscall's and an interrupt's record is made after its thread's, so
        with the heads taken in that order the thread's is always read too.
        """
        if stop_ns < self._complete_ns:
            return
        complete_ns = int(lib.monotonic_ns())
        hard_irq_head, syscall_head = self._hard_irqs.head(), self._syscalls.head()
        thread_head = self._threads.head()
        wait_for_programs()
        self._complete_ns = complete_ns
        for record in self._threads.read_to(thread_head):
            epoch = self._epochs.setdefault(record.epoch, EpochRecords({}, {}))
            thread = epoch.threads.setdefault(record.identity, ThreadRecords([], [], []))
            thread.threads.append(record)
            epoch.oldest.setdefault(self._threads, record.number)
            self._owners[record.number] = epoch, thread
        for ring, head in ((self._syscalls, syscall_head), (self._hard_irqs, hard_irq_head)):
            for record in ring.read_to(head):
                self._assign(record, ring)

    def _assign(self, record: Any, ring: Ring) -> None:
        """Give a syscall's or an interrupt's record to its thread's."""
        if record.thread not in self._owners:
            # Released: user space was too slow to see a window's last events.
            self._orphans += 1
            return
        epoch, thread = self._owners[record.thread]
        (thread.syscalls if ring is self._syscalls else thread.hard_irqs).append(record)
        epoch.oldest.setdefault(ring, record.number)

    def _release(self, epoch: int) -> None:
        for older in [number for number in self._epochs if number <= epoch]:
            for thread in self._epochs.pop(older).threads.values():
                for record in thread.threads:
                    del self._owners[record.number]
        for ring in self._rings:
            kept = (records.oldest.get(ring) for records in self._epochs.values())
            ring.release(min(filter(None, kept), default=ring.next_number))

    def lost(self) -> Lost:
        """Return what was lost since the last call."""
        missed_events = self._programs.missed_events()
        missed_hits = self._programs.missed_hits()
        lost = Lost(
            map_entries=sum(ring.newly_full() for ring in self._rings) + self._orphans,
            missed_events=missed_events - self._missed_events,
            missed_triggers=missed_hits - self._missed_hits,
        )
        self._missed_events, self._missed_hits, self._orphans = missed_events, missed_hits, 0
        return lost


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
