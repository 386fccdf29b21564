"""Where a thread's time went, as tables that follow the manual's; none without accounting."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from kernel_delay.analysis.percentiles import percentile
from kernel_delay.analysis.states import time_parts
from kernel_delay.analysis.verdict.formatting import chain_thread
from kernel_delay.formatting import printable
from kernel_delay.model import (
    ChainGap,
    ChainPart,
    Histogram,
    Sleep,
    SleepFile,
    SyscallStats,
    Thread,
    ThreadTime,
    WaitChain,
    Waker,
)
from kernel_delay.reporters.grid import Column, Row, Table
from kernel_delay.reporters.tables import COUNT, NUMBER, call_name, cut, name_column, times

SHOWN_ROWS = 10
"""More of who had a CPU or a lock had too little each to matter; their sum stands for them."""

TELLING_SHARE = 0.9
"""Whoever had less than what these had together is in that sum too."""

TELLING_SHARE_OF_CALLS = 0.99

PERCENTILES = (0.5, 0.9, 0.99)

PLACE_WIDTH = 24

# A name and a thread ID.
WAKER_WIDTH = 25

PERCENT = Column("%", 7)
TID = Column("TID", 10, gap=1)

PERCENTILE_COLUMNS = (
    name_column(),
    COUNT._replace(gap=1),
    *times("P50 ns", "P90 ns", "P99 ns", "MAX ns"),
)
TIME_COLUMNS = (name_column("STATE"), *times("TOTAL ns"), PERCENT)
SYSCALL_COLUMNS = (
    name_column(),
    NUMBER,
    *times("ON CPU ns", "READY ns", "BLOCKED ns", "STOPPED ns"),
)
UNACCOUNTED_COLUMNS = (*SYSCALL_COLUMNS, *times("UNACCOUNTED ns"))
TAKER_COLUMNS = (name_column(), TID, COUNT, *times("TOTAL ns"), PERCENT)
SLEEP_COLUMNS = (
    Column("FOR", PLACE_WIDTH, gap=0, left=True),
    Column("COUNT", 9, gap=1),
    *times("TOTAL ns"),
    Column("WOKEN MOSTLY BY", 0, left=True),
)
FILE_COLUMNS = (
    *SLEEP_COLUMNS[:-1],
    Column("WOKEN MOSTLY BY", WAKER_WIDTH, left=True),
    Column("FILE", 0, left=True),
)
CHAIN_COLUMNS = (
    name_column("ROOT"),
    TID,
    *times("TOTAL ns"),
    PERCENT,
    Column("STATE", PLACE_WIDTH, left=True),
    Column("WAITED FOR", 0, left=True),
)
LOCK_COLUMNS = (name_column("HELD BY"), TID, COUNT, *times("TOTAL ns", "LOCK"))


def accounting_tables(thread: Thread, most: int | None = None) -> tuple[Table, ...]:
    """The thread's tables, in the order of the report; `most` rows of each, and one of the others.

    All of where the time went is shown, except its total, which is the window.
    """
    if thread.time is None:
        return ()
    most_calls = len(thread.syscalls) if most is None else most
    most_others = SHOWN_ROWS if most is None else most
    return (
        _time(thread, thread.time, total=most is None),
        _syscalls(thread.syscalls, most_calls),
        _cpu_taken_by(thread, thread.time.ready_ns, most_others),
        _lock_waits(thread, most_others),
        _sleeps(thread.sleeps, most_others),
        *([_chain(thread.chain)] if thread.chain is not None else []),
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


def _percentiles(name: str, count: int, histogram: Histogram, max_ns: int) -> Row:
    values = [percentile(histogram, fraction, max_ns) for fraction in PERCENTILES]
    return (cut(name), str(count), *values, max_ns)


def _time(thread: Thread, time: ThreadTime, *, total: bool) -> Table:
    parts = time_parts(thread, time)
    window_ns = sum(ns for _, ns in parts)
    rows = [(name, *_share(ns, window_ns)) for name, ns in parts if ns]
    if total:
        rows.append(("TOTAL:", *_share(window_ns, window_ns)))
    return Table("[TIME ACCOUNTING]", TIME_COLUMNS, rows)


def _share(ns: int, whole_ns: int) -> tuple[int, str]:
    """A time, and how many per cent it is."""
    return ns, f"{100 * ns / whole_ns if whole_ns else 0:.3f}"


def _syscalls(calls: tuple[SyscallStats, ...], most: int) -> Table:
    """Their last column is there only where anything is in it."""
    columns, shown = SYSCALL_COLUMNS, 4
    if any(call.unaccounted_ns for call in calls):
        columns, shown = UNACCOUNTED_COLUMNS, 5
    timed = [(call, times) for call in calls if any(times := _times(call)) or call.count]
    timed.sort(key=lambda each: (-sum(each[1]), each[0].number))
    in_calls = [sum(times) for _, times in timed]
    telling = _telling(in_calls, sum(in_calls), TELLING_SHARE_OF_CALLS, most)
    rows: list[Row] = [
        (cut(call_name(call)), str(call.number), *times[:shown]) for call, times in timed[:telling]
    ]
    if others := [times for _, times in timed[telling:]]:
        sums = [sum(each) for each in zip(*others, strict=True)]
        rows.append(("OTHERS:", "", *sums[:shown]))
    return Table("[SYSCALL TIME ACCOUNTING]", columns, rows)


def _telling(parts: Sequence[int], whole: int, share: float, most: int) -> int:
    """How many of the parts, largest first, it takes to show where that share of it went.

    One that would stand alone as the others has a row of its own.
    """
    reported = accumulate(parts)
    needed = next(
        (n for n, so_far in enumerate(reported, 1) if so_far >= share * whole), len(parts)
    )
    shown = min(needed, most)
    return len(parts) if len(parts) == shown + 1 <= most else shown


def _times(call: SyscallStats) -> tuple[int, ...]:
    """All time in the call, of which a thread may have a share in the calls at the boundaries."""
    return (
        call.on_cpu_ns or 0,
        call.ready_ns or 0,
        call.blocked_ns or 0,
        call.stopped_ns or 0,
        call.unaccounted_ns or 0,
    )


def _cpu_taken_by(thread: Thread, ready_ns: int, most: int) -> Table:
    shown = _telling([taker.ns for taker in thread.cpu_taken_by], ready_ns, TELLING_SHARE, most)
    takers, others = thread.cpu_taken_by[:shown], thread.cpu_taken_by[shown:]
    rows = [
        (
            cut(printable(taker.comm)),
            str(taker.tid),
            str(taker.waits),
            *_share(taker.ns, ready_ns),
        )
        for taker in takers
    ]
    if others or thread.cpu_taken_by_others_ns:
        others_ns = sum(taker.ns for taker in others) + thread.cpu_taken_by_others_ns
        rows.append(("OTHERS:", "", "", *_share(others_ns, ready_ns)))
    if thread.cpu_taken_by_unknown_ns:
        rows.append(("UNKNOWN:", "", "", *_share(thread.cpu_taken_by_unknown_ns, ready_ns)))
    return Table("[CPU TAKEN BY]", TAKER_COLUMNS, rows)


def _lock_waits(thread: Thread, most: int) -> Table:
    waits, others = thread.lock_waits[:most], thread.lock_waits[most:]
    rows: list[Row] = [
        (
            cut(printable(wait.name)),
            str(wait.tid),
            str(wait.waits),
            wait.ns,
            f"{wait.address:#x}" if wait.address else "several",
        )
        for wait in waits
    ]
    if others or thread.lock_waits_others_ns:
        others_ns = sum(wait.ns for wait in others) + thread.lock_waits_others_ns
        rows.append(("OTHERS:", "", "", others_ns))
    return Table("[LOCK WAITS]", LOCK_COLUMNS, rows)


def _sleeps(sleeps: tuple[Sleep, ...], most: int) -> Table:
    """Those for the same in the same call, on the same file, are one line."""
    by_place: dict[tuple[str, str], list[Sleep]] = {}
    for sleep in sleeps:
        place = sleep_place(sleep), sleep_file(sleep.file) if sleep.file else ""
        by_place.setdefault(place, []).append(sleep)
    places = sorted(by_place.items(), key=lambda each: -sum(sleep.ns for sleep in each[1]))
    has_files = any(file for (_, file), _ in places[:most])
    columns = FILE_COLUMNS if has_files else SLEEP_COLUMNS
    rows = [
        (*_slept(place, each), *([file] if file else [])) for (place, file), each in places[:most]
    ]
    if others := [sleep for _, each in places[most:] for sleep in each]:
        rows.append(_slept("OTHERS:", others, wakers=False))
    return Table("[SLEEP]", columns, rows)


def _chain(chain: WaitChain) -> Table:
    """Who was waited for in the end: all rows, as they add up to the time that was blocked.

    What a client without a request did is not shown, so that it makes no rows of its own.
    """
    lengths: Counter[tuple[str, str, str, str]] = Counter()
    for part in chain.parts:
        root = part.threads[-1] if part.threads else None
        name = cut(printable(root.name)) if root else ""
        tid = str(root.tid) if root and root.tid else ""
        way = " → ".join(printable(chain_thread(each)) for each in part.threads)
        lengths[name, tid, root_state(part), way] += part.ns
    rows: list[Row] = [
        (name, tid, *_share(ns, chain.ns), state, way)
        for (name, tid, state, way), ns in lengths.most_common()
    ]
    followed = "not all threads were followed" if chain.is_bounded else ""
    rows.append(("TOTAL:", "", *_share(chain.ns, chain.ns), "", followed))
    return Table("[WAIT CHAINS]", CHAIN_COLUMNS, rows)


_GAPS: dict[ChainGap, str] = {
    "lasts": "still asleep",
    "interrupt": "an interrupt",
    "threads": "which thread",
    "ran": "which thread",
    "circle": "a circle",
    "hops": "too many hops",
    "not_followed": "not followed",
    "serves": "it served others",
    "for_whom": "it polled, for whom is not known",
}


def root_state(part: ChainPart) -> str:
    """What a root did, and what kept it so."""
    if part.idle:
        return "it sent no request"
    state: str = "not known" if part.state == "unknown" else part.state
    if part.reason != "unknown":
        state += f", {part.reason.replace('_', ' ')}"
    held_by = part.cgroup or part.device or (part.by and f"{part.by.name} ({part.by.tid})")
    held_by = held_by or (part.gap and _GAPS[part.gap])
    return f"{state}: {printable(held_by)}" if held_by else state


def sleep_file(file: SleepFile) -> str:
    """What a file is, and who has its other end; only the descriptor where that is not known."""
    if file.kind == "unknown":
        return f"fd {file.fd}"
    peers = [f"{printable(peer.comm)} ({peer.pid})" for peer in file.peers]
    if file.kind == "pipe" and peers:
        what = "pipe"
    elif file.peer_address is not None:
        what = f"{file.kind} {printable(file.peer_address)}"
    else:
        what = printable(file.name)
    more = " and others" if len(peers) > 1 or (peers and file.more_peers) else ""
    return f"{what}, {peers[0]}{more}" if peers else what


def sleep_place(sleep: Sleep) -> str:
    """What a thread slept for, and in which call."""
    what = sleep.reason.replace("_", " ")
    return f"{what}, {printable(sleep.syscall)}" if sleep.syscall else what


def _slept(place: str, sleeps: list[Sleep], *, wakers: bool = True) -> Row:
    count, ns = sum(sleep.count for sleep in sleeps), sum(sleep.ns for sleep in sleeps)
    woken_by = _main_waker(sleeps) if wakers else ""
    return place[:PLACE_WIDTH], str(count), ns, woken_by


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
