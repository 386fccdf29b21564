"""Where a thread's time went, as tables that follow the manual's; none without accounting."""

from kernel_delay.analysis.percentiles import percentile
from kernel_delay.model import Histogram, Sleep, SyscallStats, Thread, ThreadTime, Waker
from kernel_delay.printable import printable
from kernel_delay.reporters.tables import Table, call_name, row

SHOWN_TAKERS = 10
"""More tasks than this take too little each to matter; their sum stands for them."""

PERCENTILES = (0.5, 0.9, 0.99)

PERCENTILE_COLUMNS = row(f"{'NAME':20} {'COUNT':>10}", "P50 ns", "P90 ns", "P99 ns", "MAX ns")
TIME_COLUMNS = row(f"{'STATE':20}", "TOTAL ns") + f"  {'%':>7}"
SYSCALL_COLUMNS = row(
    f"{'NAME':20} {'NUMBER':>6}", "ON CPU ns", "READY ns", "BLOCKED ns", "STOPPED ns"
)
UNACCOUNTED_COLUMN = row("", "UNACCOUNTED ns")
TAKER_COLUMNS = row(f"{'NAME':20} {'TID':>10}  {'COUNT':>10}", "TOTAL ns") + f"  {'%':>7}"
SLEEP_COLUMNS = row(f"{'FOR':24} {'COUNT':>9}", "TOTAL ns") + "  WOKEN MOSTLY BY"
LOCK_COLUMNS = row(f"{'HELD BY':20} {'TID':>10}  {'COUNT':>10}", "TOTAL ns", "LOCK")


def accounting_tables(thread: Thread) -> tuple[Table, ...]:
    """The thread's tables, in the order of the report."""
    if thread.time is None:
        return ()
    return (
        _time(thread, thread.time),
        _syscalls(thread.syscalls),
        _cpu_taken_by(thread, thread.time.ready_ns),
        _lock_waits(thread),
        _sleeps(thread.sleeps),
    )


def percentile_table(thread: Thread) -> Table:
    """The thread's percentiles: of each system call's times, of run and of ready."""
    rows = [
        _percentiles(call_name(call), call.count, call.histogram, call.max_ns)
        for call in sorted(thread.syscalls, key=lambda call: (-call.total_ns, call.number))
        if call.histogram
    ]
    for name, intervals in (("THREAD RUN", thread.run), ("THREAD READY", thread.ready)):
        if intervals is not None and intervals.histogram:
            counted = (intervals.count, intervals.histogram, intervals.max_ns)
            rows.append(_percentiles(name, *counted))
    return Table("[PERCENTILES]", PERCENTILE_COLUMNS, rows)


def _percentiles(name: str, count: int, histogram: Histogram, max_ns: int) -> str:
    values = [percentile(histogram, fraction, max_ns) for fraction in PERCENTILES]
    return row(f"{name:20.20} {count:10}", *(f"{value:,}" for value in (*values, max_ns)))


def time_parts(thread: Thread, time: ThreadTime) -> tuple[tuple[str, int], ...]:
    """Where the thread's window went, by name: the parts sum up to it."""
    preempted_ns = thread.preempted_ns or 0
    fault_ns = thread.page_faults.on_cpu_ns if thread.page_faults else 0
    worker = thread.kernel_worker
    return (
        ("user", time.user_ns),
        ("kernel, worker" if worker else "kernel, syscalls", time.kernel_ns - fault_ns),
        ("kernel, page faults", fault_ns),
        ("guest", time.guest_ns),
        ("hard irq", time.hard_irq_ns),
        ("soft irq", time.soft_irq_ns),
        ("ready, woken", time.ready_ns - preempted_ns),
        ("ready, preempted", preempted_ns),
        ("blocked", time.blocked_ns),
        ("stopped", time.stopped_ns),
        ("throttled", time.throttled_ns),
        ("frozen", time.frozen_ns),
        ("absent", time.absent_ns),
        ("unaccounted", time.unaccounted_ns),
    )


def _time(thread: Thread, time: ThreadTime) -> Table:
    parts = time_parts(thread, time)
    window_ns = sum(ns for _, ns in parts)
    rows = [_share(f"{name:20}", ns, window_ns) for name, ns in parts if ns]
    rows.append(_share(f"{'TOTAL:':20}", window_ns, window_ns))
    return Table("[TIME ACCOUNTING]", TIME_COLUMNS, rows)


def _share(first: str, ns: int, whole_ns: int) -> str:
    """A row with a time and how many per cent it is."""
    return row(first, f"{ns:,}") + f"  {100 * ns / whole_ns if whole_ns else 0:7.3f}"


def _syscalls(calls: tuple[SyscallStats, ...]) -> Table:
    """Their last column is there only where anything is in it."""
    columns, shown = SYSCALL_COLUMNS, 4
    if any(call.unaccounted_ns for call in calls):
        columns, shown = SYSCALL_COLUMNS + UNACCOUNTED_COLUMN, 5
    rows = []
    accounted = [call for call in calls if sum(_times(call)) or call.count]
    for call in sorted(accounted, key=lambda call: (-sum(_times(call)), call.number)):
        first = f"{call_name(call):20.20} {call.number:6}"
        rows.append(row(first, *(f"{ns:,}" for ns in _times(call)[:shown])))
    return Table("[SYSCALL TIME ACCOUNTING]", columns, rows)


def _times(call: SyscallStats) -> tuple[int, ...]:
    """All time in the call, of which a thread may have a share in the calls at the boundaries."""
    parts = (
        call.on_cpu_ns,
        call.ready_ns,
        call.blocked_ns,
        call.stopped_ns,
        call.unaccounted_ns,
    )
    return tuple(ns or 0 for ns in parts)


def _cpu_taken_by(thread: Thread, ready_ns: int) -> Table:
    takers, others = thread.cpu_taken_by[:SHOWN_TAKERS], thread.cpu_taken_by[SHOWN_TAKERS:]
    rows = []
    for taker in takers:
        first = f"{printable(taker.comm):20.20} {taker.tid:10}  {taker.waits:10}"
        rows.append(_share(first, taker.ns, ready_ns))
    if others or thread.cpu_taken_by_others_ns:
        others_ns = sum(taker.ns for taker in others) + thread.cpu_taken_by_others_ns
        rows.append(_share(f"{'OTHERS:':20} {'':10}  {'':10}", others_ns, ready_ns))
    if thread.cpu_taken_by_unknown_ns:
        first = f"{'UNKNOWN:':20} {'':10}  {'':10}"
        rows.append(_share(first, thread.cpu_taken_by_unknown_ns, ready_ns))
    return Table("[CPU TAKEN BY]", TAKER_COLUMNS, rows)


def _lock_waits(thread: Thread) -> Table:
    waits, others = thread.lock_waits[:SHOWN_TAKERS], thread.lock_waits[SHOWN_TAKERS:]
    rows = []
    for wait in waits:
        first = f"{printable(wait.name):20.20} {wait.tid:10}  {wait.waits:10}"
        rows.append(row(first, f"{wait.ns:,}", f"{wait.address:#x}" if wait.address else "several"))
    if others or thread.lock_waits_others_ns:
        others_ns = sum(wait.ns for wait in others) + thread.lock_waits_others_ns
        rows.append(row(f"{'OTHERS:':20} {'':10}  {'':10}", f"{others_ns:,}", ""))
    return Table("[LOCK WAITS]", LOCK_COLUMNS, [each.rstrip() for each in rows])


def _sleeps(sleeps: tuple[Sleep, ...]) -> Table:
    """Those for the same in the same call are one line."""
    by_place: dict[str, list[Sleep]] = {}
    for sleep in sleeps:
        by_place.setdefault(_place(sleep), []).append(sleep)
    places = sorted(by_place.items(), key=lambda each: -sum(sleep.ns for sleep in each[1]))
    rows = [_slept(place, each) for place, each in places[:SHOWN_TAKERS]]
    if others := [sleep for _, each in places[SHOWN_TAKERS:] for sleep in each]:
        rows.append(_slept("OTHERS:", others, wakers=False))
    return Table("[SLEEP]", SLEEP_COLUMNS, rows)


def _place(sleep: Sleep) -> str:
    what = sleep.reason.replace("_", " ")
    return f"{what}, {printable(sleep.syscall)}" if sleep.syscall else what


def _slept(place: str, sleeps: list[Sleep], *, wakers: bool = True) -> str:
    first = f"{place:24.24} {sum(sleep.count for sleep in sleeps):9}"
    text = row(first, f"{sum(sleep.ns for sleep in sleeps):,}")
    woken_by = _main_waker(sleeps) if wakers else ""
    return f"{text}  {woken_by}" if woken_by else text


def _main_waker(sleeps: list[Sleep]) -> str:
    """Who ended most of them, empty where nobody did."""
    ns_of: dict[str, int] = {}
    for sleep in sleeps:
        for waker in sleep.wakers:
            who = _waker(waker)
            ns_of[who] = ns_of.get(who, 0) + waker.ns
    return max(ns_of, key=lambda who: ns_of[who], default="")


def _waker(waker: Waker) -> str:
    if waker.kind != "thread":
        return {"hard_irq": "a hard IRQ", "soft_irq": "a soft IRQ"}.get(waker.kind, "(unknown)")
    return f"{printable(waker.comm)} ({waker.tid})"
