"""From one thread's records of one window to what a Sample says of it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import compress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.analysis.accounting import Account, CallTime
from kernel_delay.capture.threads.epochs import ThreadRecords
from kernel_delay.host.kernel_names import irq_vector_name, soft_irq_name
from kernel_delay.host.syscalls import CALLS_REMEMBERED, Syscall, syscall
from kernel_delay.host.system_state import is_itself, sender_of
from kernel_delay.loader._records import ffi, lib
from kernel_delay.model import (
    HardIrqStats,
    Histogram,
    Intervals,
    NewestSignal,
    PageFaults,
    SoftIrqStats,
    SyscallStats,
    Thread,
)

if TYPE_CHECKING:
    from kernel_delay.cdata import Array
    from kernel_delay.loader._records import Account as AccountRecord
    from kernel_delay.loader._records import (
        DumpedThread,
        HardIrqRecord,
        SyscallRecord,
        ThreadRecord,
    )
    from kernel_delay.loader._records import Histogram as HistogramRecord
    from kernel_delay.loader._records import Intervals as IntervalsRecord


class ThreadName(Struct, frozen=True, gc=False):
    """What a thread is called: its id in the tool's PID namespace, its name, what it is.

    `own_tid` is its id in its own namespace, `process` the id of its process in the tool's.
    """

    tid: int
    name: str
    kernel_worker: bool = False
    own_tid: int = 0
    process: int = 0


def text_of(array: "Array[bytes]") -> str:
    """Return a char[] of a record as text."""
    return ffi.string(array).decode(errors="backslashreplace")


def name_of(record: "ThreadRecord | DumpedThread") -> ThreadName:
    """Return what the thread of a struct thread_record or dumped_thread is called."""
    return ThreadName(
        tid=record.tid,
        name=text_of(record.comm),
        kernel_worker=bool(record.kernel_worker),
        own_tid=record.own_tid,
        process=record.process,
    )


def counted_stats(
    name: ThreadName, parts: ThreadRecords, calls: Mapping[int, CallTime] | None = None
) -> Thread:
    """Return what was counted of the thread; of its time only where that in `calls` went."""
    long_poll, run, ready, stopped, *soft_irqs = _all_intervals(parts.threads)
    return Thread(
        kernel_worker=name.kernel_worker,
        tid=name.tid,
        name=name.name,
        exited=any(record.exited for record in parts.threads),
        syscalls=_syscalls(parts.syscalls, calls or {}),
        long_poll=long_poll,
        run=run,
        ready=ready,
        stopped=stopped,
        hard_irqs=_hard_irqs(parts.hard_irqs) if parts.hard_irqs else (),
        soft_irqs=_soft_irqs(soft_irqs),
    )


def anything_counted(thread: Thread) -> bool:
    """Return whether the thread has anything to show in the tables."""
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
    return any(counted)


def accounted_stats(
    name: ThreadName,
    parts: ThreadRecords,
    account: Account,
    sees_faults: bool,
) -> Thread:
    """Return what was counted of the thread, and where its time went."""
    accounts = [record.account for record in parts.threads]
    thread = counted_stats(name, parts, account.syscalls)
    signals = sum([counted.signals for counted in accounts])
    faults = PageFaults(
        count=sum([counted.faults for counted in accounts]) if sees_faults else 0,
        on_cpu_ns=account.fault_on_cpu_ns,
        blocked_ns=account.fault_blocked_ns,
    )
    return replace(
        thread,
        run=_with_histogram(thread.run, [counted.run for counted in accounts]),
        ready=_with_histogram(thread.ready, [counted.ready for counted in accounts]),
        time=account.time,
        preempted_ns=account.preempted_ns,
        page_faults=faults if sees_faults else None,
        signals=signals,
        newest_signal=_newest_signal(accounts, name.process) if signals else None,
        own_soft_irq_ns=min(account.call_soft_irq_ns, _sending_ns(thread.soft_irqs)),
    )


# include/uapi/asm-generic/siginfo.h: up to SI_USER a process sent it, as by kill(2), sigqueue(3) or
# tgkill(2), or a call of its receiver was why, as of SIGPIPE. But for timers of timer_create(2).
_SI_USER = 0
_SI_TIMER = -2
_SI_KERNEL = 0x80

# SIGALRM, SIGVTALRM, SIGPROF: by setitimer(2) and alarm(2) the kernel sends them, 5.14 to 7.2.
_OF_INTERVAL_TIMERS = (14, 26, 27)


def _newest_signal(accounts: "list[AccountRecord]", pid: int) -> NewestSignal | None:
    """Return the last signal of a thread of process `pid`, which has these accounts."""
    newest = next((each for each in reversed(accounts) if each.signal), None)
    if newest is None:
        return None
    number, code = newest.signal, newest.signal_code
    if code == _SI_TIMER or (code == _SI_KERNEL and number in _OF_INTERVAL_TIMERS):
        return NewestSignal(number, "timer")
    if code > _SI_USER:
        return NewestSignal(number, "kernel")
    if is_itself(pid, newest.signal_sender):
        return NewestSignal(number, "itself")
    return NewestSignal(number, "process", *sender_of(pid, newest.signal_sender))


def _sending_ns(soft_irqs: tuple[SoftIrqStats, ...]) -> int:
    """Return the time of those that a thread raises by sending to this machine itself.

    In a call of its own they are taken for its own, though some may be of packets that came
    from outside just then: whether those kept the thread is not known.
    """
    return sum([irq.total_ns for irq in soft_irqs if irq.name in ("net_rx", "net_tx")])


def _with_histogram(
    intervals: Intervals | None, histograms: "list[HistogramRecord]"
) -> Intervals | None:
    return intervals and replace(intervals, histogram=_histogram(histograms))


def _histogram(histograms: "list[HistogramRecord]") -> Histogram:
    """Return the sum of several struct histogram, without the zeros at its end."""
    if len(histograms) == 1:
        return _counts(ffi.buffer(histograms[0].counts)[:])
    each = [ffi.unpack(histogram.counts, lib.HISTOGRAM_BUCKETS) for histogram in histograms]
    return _filled([sum([row[bucket] for row in each]) for bucket in range(lib.HISTOGRAM_BUCKETS)])


HISTOGRAMS_REMEMBERED = 4096
"""Most threads have but a few intervals, and the same histograms as others: these are one.

All together take 3.5 MiB at most: a watch grows by that much in its first hours.
"""


@lru_cache(HISTOGRAMS_REMEMBERED)  # type: ignore[misc]  # functools' own types have Any
def _counts(histogram: bytes) -> Histogram:
    return _filled(memoryview(histogram).cast("I").tolist())


def _filled(counts: list[int]) -> Histogram:
    # What is behind the last that is not 0, at once: most of a histogram is.
    return tuple(counts[: len(bytes(map(bool, counts)).rstrip(b"\0"))])


def _intervals(counted: "list[IntervalsRecord]") -> Intervals | None:
    """Return the sum of several struct intervals, None if they are empty."""
    filled = [
        Intervals(count, each.total_ns, each.min_ns, each.max_ns)
        for each in counted
        if (count := each.count)
    ]
    if len(filled) < 2:
        return filled[0] if filled else None
    return _sum(filled)


def _sum(filled: list[Intervals]) -> Intervals:
    return Intervals(
        count=sum(intervals.count for intervals in filled),
        total_ns=sum(intervals.total_ns for intervals in filled),
        min_ns=min(intervals.min_ns for intervals in filled),
        max_ns=max(intervals.max_ns for intervals in filled),
    )


def _syscalls(
    records: "list[SyscallRecord]", times: Mapping[int, CallTime]
) -> tuple[SyscallStats, ...]:
    records_of: defaultdict[int, list[SyscallRecord]] = defaultdict(list)
    for number in times:
        records_of[number] = []
    for record in records:
        records_of[record.syscall].append(record)
    found = []
    for id_, same in records_of.items():
        total = _intervals([record.calls for record in same])
        time = times.get(id_)
        without_entry = sum([record.without_entry for record in same])
        if total or time or without_entry:
            call = syscall_of(id_)
            found.append(
                SyscallStats(
                    number=call.number,
                    name=call.name,
                    abi=call.abi,
                    without_entry=without_entry,
                    across=sum([record.across for record in same]),
                    timed_out=sum([record.timed_out for record in same]),
                    count=total.count if total else 0,
                    total_ns=total.total_ns if total else 0,
                    max_ns=total.max_ns if total else 0,
                    histogram=_histogram([record.lengths for record in same]) if same else (),
                    on_cpu_ns=time.on_cpu_ns if time else None,
                    ready_ns=time.ready_ns if time else None,
                    blocked_ns=time.blocked_ns if time else None,
                    stopped_ns=time.stopped_ns if time else None,
                    guest_ns=time.guest_ns if time else None,
                    unaccounted_ns=time.unaccounted_ns if time else None,
                )
            )
    found.sort(key=lambda stats: (-stats.total_ns, stats.number))
    return tuple(found)


@lru_cache(CALLS_REMEMBERED)  # type: ignore[misc]  # functools' own types have Any
def syscall_of(id_: int) -> Syscall:
    """Return the system call that the programs know by `id_`.

    The kernel takes its number from a 32-bit register, as a signed value
    (arch/x86/entry/common.c:do_syscall_64()).
    """
    return syscall(int(ffi.cast("int32_t", id_)), compat=bool(id_ & lib.COMPAT_SYSCALL))


def hard_irq_names(records: "Iterable[HardIrqRecord]") -> dict[int, str]:
    """Return what each interrupt of these is called, by its number in a timeline."""
    return {record.action & 0xFFFFFFFF: hard_irq_name(record) for record in records}


def hard_irq_name(record: "HardIrqRecord") -> str:
    """Return the name of a struct hard_irq_record's handler, or of what it serves."""
    is_vector = record.action < lib.IRQ_VECTORS
    return irq_vector_name(record.action) if is_vector else text_of(record.name)


def _hard_irqs(records: "list[HardIrqRecord]") -> tuple[HardIrqStats, ...]:
    runs_of: dict[str, list[IntervalsRecord]] = {}
    for record in records:
        runs_of.setdefault(hard_irq_name(record), []).append(record.runs)
    found = []
    for name, runs in runs_of.items():
        total = _intervals(runs)
        if total:
            found.append(HardIrqStats(name, total.count, total.total_ns, total.max_ns))
    found.sort(key=lambda stats: (-stats.total_ns, stats.name))
    return tuple(found)


def _soft_irqs(by_vector: "list[Intervals | None]") -> tuple[SoftIrqStats, ...]:
    found = [
        SoftIrqStats(vector, soft_irq_name(vector), total.count, total.total_ns, total.max_ns)
        for vector, total in enumerate(by_vector)
        if total
    ]
    found.sort(key=lambda stats: (-stats.total_ns, stats.vector))
    return tuple(found)


def _all_intervals(records: "list[ThreadRecord]") -> "list[Intervals | None]":
    """Return all that a thread's records have, in their order: of soft IRQs one a vector.

    Read at once: of most there are none, and to look at each takes longer.
    """
    sums: list[Intervals | None] = [None] * _THREAD_INTERVALS
    for record in records:
        words = ffi.unpack(
            ffi.cast("uint64_t *", ffi.addressof(record, "long_poll")),
            _INTERVALS_WORDS * _THREAD_INTERVALS,
        )
        for place in compress(range(_THREAD_INTERVALS), words[::_INTERVALS_WORDS]):
            start = _INTERVALS_WORDS * place
            count, total_ns, min_ns, max_ns = words[start : start + _INTERVALS_WORDS]
            more = Intervals(count, total_ns, min_ns, max_ns)
            known = sums[place]
            sums[place] = more if known is None else _sum([known, more])
    return sums


_INTERVALS_WORDS = ffi.sizeof("struct intervals") // ffi.sizeof("uint64_t")

# long_poll, run, ready and stopped; and soft_irqs, which are next to them.
_THREAD_INTERVALS = 4 + lib.SOFT_IRQ_VECTORS
