"""Threads as the page has them: what it sorts by and draws, with every name safe to print."""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from kernel_delay.analysis.percentiles import percentile
from kernel_delay.analysis.states import lost_ns, time_parts
from kernel_delay.analysis.verdict.formatting import chain_thread, signal_and_sender
from kernel_delay.formatting import printable
from kernel_delay.model import (
    ChainPart,
    CpuTaker,
    Histogram,
    Intervals,
    LockWait,
    PmdStats,
    Scheduling,
    Sleep,
    SyscallStats,
    TaskTimes,
    Thread,
)
from kernel_delay.reporters.accounting_tables import PERCENTILES, root_state, sleep_file
from kernel_delay.reporters.tables import call_name

Split = tuple[int, int, int, int, int]
"""Time in a call, ns: on a CPU (a virtual machine's included), ready, blocked, stopped, unknown."""


class Lengths(Struct, frozen=True):
    """How long something took: in all, at most, and by percentile; none of these if not known."""

    count: int
    total_ns: int
    max_ns: int
    percentiles_ns: tuple[int, ...]
    histogram: Histogram


class Call(Struct, frozen=True):
    """A system call of a thread."""

    name: str
    number: int
    lengths: Lengths
    split_ns: Split | None
    without_entry: int


class Row(Struct, frozen=True):
    """Someone or something that took time: who had the CPU, the lock, an interrupt."""

    name: str
    about: str
    count: int
    ns: int
    max_ns: int | None = None


class PageSleep(Struct, frozen=True):
    """A place in the kernel where the thread slept, and who woke it.

    `estimated_ns` of its `ns` is what a few short waits stand for.
    """

    reason: str
    call: str | None
    stack: tuple[str, ...]
    uninterruptible: bool
    count: int
    ns: int
    max_ns: int
    wakers: tuple[Row, ...]
    estimated_ns: int
    file: str | None


class ChainRow(Struct, frozen=True):
    """A part of a thread's waits: who was waited for, to the root, and what that did.

    `state` is the one of the account that it is drawn as, `did` says more of it.
    """

    way: tuple[str, ...]
    state: str
    did: str
    ns: int


class PageThread(Struct, frozen=True):
    """A thread. `time_ns` are the parts of its account, named by PART_NAMES; None without one.

    `whole_ns` is their sum, and `lost_ns` what others had of it. `facts` are
    what else is known, by name. The rows under "others" and "unknown" have no name of a task.
    """

    tid: int
    name: str
    time_ns: tuple[int, ...] | None
    whole_ns: int
    lost_ns: int
    calls: tuple[Call, ...]
    intervals: dict[str, Lengths]
    takers: tuple[Row, ...]
    locks: tuple[Row, ...]
    sleeps: tuple[PageSleep, ...]
    interrupts: tuple[Row, ...]
    chain: tuple[ChainRow, ...]
    facts: tuple[tuple[str, str], ...]


WAKER_NAMES = {"hard_irq": "a hard IRQ", "soft_irq": "a soft IRQ", "unknown": "not known"}


def page_thread(thread: Thread) -> PageThread:
    """The thread, as the page has it."""
    parts = None if thread.time is None else time_parts(thread, thread.time)
    times_ns = None if parts is None else tuple(ns for _, ns in parts)
    return PageThread(
        tid=thread.tid,
        name=printable(thread.name),
        time_ns=times_ns,
        whole_ns=sum(times_ns or ()),
        lost_ns=lost_ns(thread),
        calls=tuple(_call(call) for call in _by_time(thread.syscalls)),
        intervals=_intervals(thread),
        takers=_takers(thread),
        locks=_locks(thread),
        sleeps=tuple(map(_sleep, thread.sleeps)),
        interrupts=_interrupts(thread),
        chain=_chain(thread.chain.parts) if thread.chain is not None else (),
        facts=tuple(_facts(thread)),
    )


def _by_time(calls: Sequence[SyscallStats]) -> list[SyscallStats]:
    return sorted(calls, key=lambda call: (-max(call.total_ns, _in_call_ns(call)), call.number))


def _in_call_ns(call: SyscallStats) -> int:
    return sum(_split(call) or ())


def _call(call: SyscallStats) -> Call:
    return Call(
        name=call_name(call),
        number=call.number,
        lengths=_lengths(call.count, call.total_ns, call.max_ns, call.histogram),
        split_ns=_split(call),
        without_entry=call.without_entry,
    )


def _split(call: SyscallStats) -> Split | None:
    if call.on_cpu_ns is None:
        return None
    return (
        call.on_cpu_ns + (call.guest_ns or 0),
        call.ready_ns or 0,
        call.blocked_ns or 0,
        call.stopped_ns or 0,
        call.unaccounted_ns or 0,
    )


def _lengths(count: int, total_ns: int, max_ns: int, histogram: Histogram) -> Lengths:
    percentiles = tuple(percentile(histogram, p, max_ns) for p in PERCENTILES) if histogram else ()
    return Lengths(count, total_ns, max_ns, percentiles, histogram)


def _intervals(thread: Thread) -> dict[str, Lengths]:
    named: tuple[tuple[str, Intervals | None], ...] = (
        ("run", thread.run),
        ("ready", thread.ready),
        ("stopped", thread.stopped),
        ("poll to poll", thread.long_poll),
    )
    return {
        name: _lengths(each.count, each.total_ns, each.max_ns, each.histogram)
        for name, each in named
        if each is not None
    }


def _takers(thread: Thread) -> tuple[Row, ...]:
    rows = [
        Row(printable(each.comm), _task(each), each.waits, each.ns) for each in thread.cpu_taken_by
    ]
    return (
        *rows,
        *_rest("others", thread.cpu_taken_by_others_ns),
        *_rest("unknown", thread.cpu_taken_by_unknown_ns),
    )


def _rest(name: str, ns: int) -> tuple[Row, ...]:
    return (Row("", name, 0, ns),) if ns else ()


def _task(taker: CpuTaker) -> str:
    if not taker.tid:
        return ""
    ids = f"{taker.tid}" if taker.pid in (0, taker.tid) else f"{taker.tid} of {taker.pid}"
    kernel = ", kernel thread" if taker.kernel_thread else ""
    return f"{ids}{_policy(taker.policy, taker.nice, taker.rt_priority)}{kernel}"


def _policy(policy: str, nice: int, rt_priority: int) -> str:
    """What is out of the ordinary of it; nothing for what most tasks have."""
    if rt_priority:
        return f", {policy} {rt_priority}"
    said = "" if policy == "OTHER" else f", {policy}"
    return f"{said}, nice {nice}" if nice else said


def _locks(thread: Thread) -> tuple[Row, ...]:
    rows = [_lock(wait) for wait in thread.lock_waits]
    return (*rows, *_rest("others", thread.lock_waits_others_ns))


def _lock(wait: LockWait) -> Row:
    lock = f"{wait.address:#x}" if wait.address else "several locks"
    return Row(printable(wait.name), f"{wait.tid}, {lock}", wait.waits, wait.ns)


def _sleep(sleep: Sleep) -> PageSleep:
    wakers = [
        Row(
            WAKER_NAMES.get(waker.kind) or printable(waker.comm),
            str(waker.tid) if waker.tid else "",
            waker.count,
            waker.ns,
        )
        for waker in sleep.wakers
    ]
    return PageSleep(
        reason=sleep.reason.replace("_", " "),
        call=None if sleep.syscall is None else printable(sleep.syscall),
        stack=tuple(map(printable, sleep.stack)),
        uninterruptible=sleep.uninterruptible,
        count=sleep.count,
        ns=sleep.ns,
        max_ns=sleep.max_ns,
        wakers=tuple(wakers),
        estimated_ns=sleep.short_ns,
        file=None if sleep.file is None else sleep_file(sleep.file),
    )


_DRAWN_AS = {"running": "user", "runnable": "ready", "unknown": "unaccounted"}


def _chain(parts: Iterable[ChainPart]) -> tuple[ChainRow, ...]:
    """A row for those that look alike, the longest first."""
    lengths: Counter[tuple[tuple[str, ...], str, str]] = Counter()
    for part in parts:
        way = tuple(printable(chain_thread(each)) for each in part.threads)
        lengths[way, _DRAWN_AS.get(part.state, part.state), root_state(part)] += part.ns
    return tuple(ChainRow(*row, ns) for row, ns in lengths.most_common())


def _interrupts(thread: Thread) -> tuple[Row, ...]:
    hard = [
        Row(printable(irq.name), "hard", irq.count, irq.total_ns, irq.max_ns)
        for irq in thread.hard_irqs
    ]
    soft = [
        Row(printable(irq.name or str(irq.vector)), "soft", irq.count, irq.total_ns, irq.max_ns)
        for irq in thread.soft_irqs
    ]
    return tuple(sorted((*hard, *soft), key=lambda row: -row.ns))


def _facts(thread: Thread) -> list[tuple[str, str]]:
    facts = []
    if thread.threads > 1:
        facts.append(("stands for", f"{thread.threads:,} threads that ended"))
    elif thread.exited:
        facts.append(("ended", "within the window"))
    if thread.kernel_worker:
        facts.append(("kernel worker", "made by the kernel, for the process"))
    if thread.scheduling is not None:
        facts += _scheduling(thread.scheduling)
    for name, count in (("migrations", thread.migrations), ("signals handled", thread.signals)):
        if count:
            facts.append((name, f"{count:,}"))
    if thread.newest_signal is not None:
        facts.append(("newest signal", printable(signal_and_sender(thread.newest_signal))))
    if thread.page_faults is not None and thread.page_faults.count:
        facts.append(("page faults of the program", f"{thread.page_faults.count:,}"))
    if thread.pmd is not None:
        facts += _pmd(thread.pmd)
    if thread.task_times is not None:
        facts += _task_times(thread.task_times)
    return facts


def _pmd(pmd: PmdStats) -> list[tuple[str, str]]:
    facts = [
        ("iterations", f"{pmd.iterations:,} in {pmd.counted_ns / 1e9:,.3f} s"),
        ("iterations with packets", f"{pmd.busy_iterations:,}"),
        ("packets received", f"{pmd.packets:,}"),
        ("upcalls in the thread", f"{pmd.upcalls:,}, {pmd.lost_upcalls:,} lost"),
    ]
    if pmd.busy_share is not None:
        facts.insert(2, ("cycles with packets", f"{100 * pmd.busy_share:.1f} %"))
    if pmd.longest_ns is not None:
        facts.append(("longest iteration", f"{pmd.longest_ns:,} ns or more"))
    if pmd.upcall_ns is not None:
        facts.append(("time in upcalls", f"{pmd.upcall_ns:,} ns"))
    queues = [f"{printable(each.port)} {each.queue}" for each in pmd.rx_queues]
    return [*facts, *([("receive queues", ", ".join(queues))] if queues else [])]


def _task_times(times: TaskTimes) -> list[tuple[str, str]]:
    faults = [("major faults", f"{times.major_faults:,}")] if times.major_faults else []
    stolen = [("stolen by the hypervisor", f"{times.steal_ns:,} ns")] if times.steal_ns else []
    return faults + stolen


def _scheduling(scheduling: Scheduling) -> list[tuple[str, str]]:
    policy = f"SCHED_{scheduling.policy}"
    if scheduling.rt_priority:
        policy += f", priority {scheduling.rt_priority}"
    if scheduling.nice:
        policy += f", nice {scheduling.nice}"
    return [("policy", policy), ("may run on CPUs", _ranges(scheduling.cpus))]


def _ranges(cpus: Sequence[int]) -> str:
    """`0-3, 8` as the kernel lists CPUs."""
    found: list[list[int]] = []
    for cpu in sorted(cpus):
        if found and cpu == found[-1][-1] + 1:
            found[-1][1:] = [cpu]
        else:
            found.append([cpu])
    return ", ".join("-".join(map(str, ends)) for ends in found)
