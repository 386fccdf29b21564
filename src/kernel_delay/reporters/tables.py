"""What was counted of a thread, as the tables of the text report.

Titles, columns and their widths are those of kernel_delay.py and its manual
(utilities/usdt-scripts/kernel_delay.rst in Open vSwitch): a name is cut at 20
characters, a count has no thousands separators and a time has, and rows go
from the largest total down.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kernel_delay.host.syscalls import POLLS
from kernel_delay.model import (
    HardIrqStats,
    Intervals,
    SoftIrqStats,
    SyscallEvent,
    SyscallStats,
    Thread,
)
from kernel_delay.printable import printable


def row(first: str, *times: str) -> str:
    """A row of any of the tables: `first`, then each time in a column of 16."""
    return first + "".join(f"  {time:>16}" for time in times)


SYSCALLS_COLUMNS = row(f"{'NAME':20} {'NUMBER':>6}  {'COUNT':>10}", "TOTAL ns", "MAX ns")
WITHOUT_ENTRY_COLUMNS = f"{'NAME':20} {'NUMBER':>6}  {'COUNT':>10}"
LONG_POLL_COLUMNS = row(f"{'COUNT':10}", "AVERAGE ns", "MIN ns", "MAX ns")
RUN_COLUMNS = row(f"{'SCHED_CNT':10}", "TOTAL ns", "MIN ns", "MAX ns")
READY_COLUMNS = row(f"{'SCHED_CNT':10}", "TOTAL ns", "MAX ns")
STOPPED_COLUMNS = row(f"{'STOP_CNT':10}", "TOTAL ns", "MAX ns")
HARD_IRQS_COLUMNS = row(f"{'NAME':20}  {'COUNT':>10}", "TOTAL ns", "MAX ns")
SOFT_IRQS_COLUMNS = row(f"{'NAME':20} {'VECT_NR':>7}  {'COUNT':>10}", "TOTAL ns", "MAX ns")


def name_of(thread: Thread) -> str:
    """The thread's name; with how many they are, if it stands for several that ended."""
    name = printable(thread.name)
    return name if thread.threads == 1 else f"{name}, {thread.threads:,} threads that ended"


class Table(NamedTuple):
    """A section of a thread's report.

    `always`: it stands with its headings alone where it has no rows; another
    table without rows is left out.
    """

    title: str
    columns: str
    rows: list[str]
    always: bool = False


def tables(thread: Thread) -> tuple[Table, ...]:
    """The thread's tables, in the order of the report."""
    return (
        _syscalls(thread.syscalls),
        _without_entry(thread.syscalls),
        _long_poll(thread.long_poll),
        _run(thread.run),
        _ready(thread.ready),
        _stopped(thread.stopped),
        _hard_irqs(thread.hard_irqs),
        _soft_irqs(thread.soft_irqs),
    )


def call_name(call: SyscallStats | SyscallEvent) -> str:
    """The call's name, or its number if it has none; before it the ABI, if not the machine's."""
    name = str(call.number) if call.name is None else printable(call.name)
    return f"{call.abi}:{name}" if call.abi else name


def _syscalls(syscalls: Iterable[SyscallStats]) -> Table:
    rows = []
    syscalls = [call for call in syscalls if call.count]
    for call in sorted(syscalls, key=lambda c: (-c.total_ns, c.number)):
        first = f"{call_name(call):20.20} {call.number:6}  {call.count:10}"
        rows.append(row(first, f"{call.total_ns:,}", f"{call.max_ns:,}"))
    # Polls are there to wait, which is no delay. The heading is kernel_delay.py's.
    counted = [call for call in syscalls if call.name not in POLLS]
    if counted:
        rows.append(_total(f"{'TOTAL( - poll):':20} {'':6}", counted))
    return Table("[SYSCALL STATISTICS]", SYSCALLS_COLUMNS, rows, always=True)


def _without_entry(syscalls: Iterable[SyscallStats]) -> Table:
    denied = [call for call in syscalls if call.without_entry]
    rows = [
        f"{call_name(call):20.20} {call.number:6}  {call.without_entry:10}"
        for call in sorted(denied, key=lambda c: (-c.without_entry, c.number))
    ]
    return Table("[SYSCALLS WITHOUT ENTRY]", WITHOUT_ENTRY_COLUMNS, rows)


def _long_poll(polls: Intervals | None) -> Table:
    rows = []
    if polls is not None:
        average_ns = polls.total_ns // polls.count
        times = (f"{average_ns:,}", f"{polls.min_ns:,}", f"{polls.max_ns:,}")
        rows.append(row(f"{polls.count:10}", *times))
    return Table("[LONG POLL STATISTICS]", LONG_POLL_COLUMNS, rows)


def _run(runs: Intervals | None) -> Table:
    rows = []
    if runs is not None:
        times = (f"{runs.total_ns:,}", f"{runs.min_ns:,}", f"{runs.max_ns:,}")
        rows.append(row(f"{runs.count:10}", *times))
    return Table("[THREAD RUN STATISTICS]", RUN_COLUMNS, rows, always=True)


def _ready(waits: Intervals | None) -> Table:
    return Table("[THREAD READY STATISTICS]", READY_COLUMNS, _total_and_max(waits), always=True)


def _stopped(stops: Intervals | None) -> Table:
    return Table("[THREAD STOPPED STATISTICS]", STOPPED_COLUMNS, _total_and_max(stops))


def _hard_irqs(irqs: Iterable[HardIrqStats]) -> Table:
    rows = []
    for irq in sorted(irqs, key=lambda i: (-i.total_ns, i.name)):
        first = f"{printable(irq.name):20.20}  {irq.count:10}"
        rows.append(row(first, f"{irq.total_ns:,}", f"{irq.max_ns:,}"))
    if rows:
        rows.append(_total(f"{'TOTAL:':20}", irqs))
    return Table("[HARD IRQ STATISTICS]", HARD_IRQS_COLUMNS, rows)


def _soft_irqs(irqs: Iterable[SoftIrqStats]) -> Table:
    rows = []
    for irq in sorted(irqs, key=lambda i: (-i.total_ns, i.vector)):
        name = str(irq.vector) if irq.name is None else printable(irq.name)
        first = f"{name:20.20} {irq.vector:7}  {irq.count:10}"
        rows.append(row(first, f"{irq.total_ns:,}", f"{irq.max_ns:,}"))
    if rows:
        rows.append(_total(f"{'TOTAL:':20} {'':7}", irqs))
    return Table("[SOFT IRQ STATISTICS]", SOFT_IRQS_COLUMNS, rows)


def _total_and_max(intervals: Intervals | None) -> list[str]:
    if intervals is None:
        return []
    return [row(f"{intervals.count:10}", f"{intervals.total_ns:,}", f"{intervals.max_ns:,}")]


def _total(first: str, stats: Iterable[SyscallStats | HardIrqStats | SoftIrqStats]) -> str:
    """The row that sums up `stats`, `first` being what stands before its count."""
    count = sum(s.count for s in stats)
    return row(f"{first}  {count:10}", f"{sum(s.total_ns for s in stats):,}")
