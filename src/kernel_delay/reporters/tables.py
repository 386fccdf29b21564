"""What was counted of a thread, as the tables of the text report.

Titles, columns and their widths are those of kernel_delay.py and its manual
(utilities/usdt-scripts/kernel_delay.rst in Open vSwitch): a name is cut at 20
characters, a count has no thousands separators and a time has, and rows go
from the largest total down.
"""

from collections.abc import Iterable

from kernel_delay.formatting import printable
from kernel_delay.host.kernel_names import POLLS
from kernel_delay.model import (
    HardIrqStats,
    Intervals,
    SoftIrqStats,
    SyscallEvent,
    SyscallStats,
    Thread,
)
from kernel_delay.reporters.grid import Column, Row, Table, first_rows

NAME_WIDTH = 20


def name_column(heading: str = "NAME") -> Column:
    """The first column of a table whose rows have names."""
    return Column(heading, NAME_WIDTH, gap=0, left=True)


def times(*headings: str) -> tuple[Column, ...]:
    """Columns of times."""
    return tuple(Column(heading) for heading in headings)


NUMBER = Column("NUMBER", 6, gap=1)
COUNT = Column("COUNT", 10)

SYSCALLS_COLUMNS = (name_column(), NUMBER, COUNT, *times("TOTAL ns", "MAX ns"))
WITHOUT_ENTRY_COLUMNS = (name_column(), NUMBER, COUNT)
LONG_POLL_COLUMNS = (Column("COUNT", 10, gap=0), *times("AVERAGE ns", "MIN ns", "MAX ns"))
RUN_COLUMNS = (Column("SCHED_CNT", 10, gap=0), *times("TOTAL ns", "MIN ns", "MAX ns"))
READY_COLUMNS = (Column("SCHED_CNT", 10, gap=0), *times("TOTAL ns", "MAX ns"))
INTERVALS_COLUMNS = (name_column(), COUNT, *times("TOTAL ns", "MIN ns", "MAX ns"))
STOPPED_COLUMNS = (Column("STOP_CNT", 10, gap=0), *times("TOTAL ns", "MAX ns"))
HARD_IRQS_COLUMNS = (name_column(), COUNT, *times("TOTAL ns", "MAX ns"))
SOFT_IRQS_COLUMNS = (
    name_column(),
    Column("VECT_NR", 7, gap=1),
    COUNT,
    *times("TOTAL ns", "MAX ns"),
)


def cut(name: str) -> str:
    """A name, of which the text has the first 20 characters."""
    return name[:NAME_WIDTH]


def name_of(thread: Thread) -> str:
    """The thread's name; with how many they are, if it stands for several that ended."""
    name = printable(thread.name)
    return name if thread.threads == 1 else f"{name}, {thread.threads:,} threads that ended"


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


def short_tables(thread: Thread, most: int) -> tuple[Table, ...]:
    """The same with `most` rows of each, and intervals of all kinds in one.

    What interrupts took together is in the account.
    """
    return (
        first_rows(_syscalls(thread.syscalls), most),
        first_rows(_without_entry(thread.syscalls), most),
        _intervals(thread),
        first_rows(_without_total(_hard_irqs(thread.hard_irqs)), most),
        first_rows(_without_total(_soft_irqs(thread.soft_irqs)), most),
    )


def _without_total(table: Table) -> Table:
    return table._replace(rows=table.rows[:-1])


def call_name(call: SyscallStats | SyscallEvent) -> str:
    """The call's name, or its number if it has none; before it the ABI, if not the machine's."""
    name = str(call.number) if call.name is None else printable(call.name)
    return f"{call.abi}:{name}" if call.abi else name


def _syscalls(syscalls: Iterable[SyscallStats]) -> Table:
    syscalls = [call for call in syscalls if call.count]
    rows: list[Row] = [
        (
            cut(call_name(call)),
            str(call.number),
            str(call.count),
            call.total_ns,
            call.max_ns,
        )
        for call in sorted(syscalls, key=lambda c: (-c.total_ns, c.number))
    ]
    # Polls are there to wait, which is no delay. The heading is kernel_delay.py's.
    counted = [call for call in syscalls if call.name not in POLLS]
    if counted:
        rows.append(("TOTAL( - poll):", "", *_total(counted)))
    return Table("[SYSCALL STATISTICS]", SYSCALLS_COLUMNS, rows, always=True)


def _without_entry(syscalls: Iterable[SyscallStats]) -> Table:
    denied = [call for call in syscalls if call.without_entry]
    rows = [
        (cut(call_name(call)), str(call.number), str(call.without_entry))
        for call in sorted(denied, key=lambda c: (-c.without_entry, c.number))
    ]
    return Table("[SYSCALLS WITHOUT ENTRY]", WITHOUT_ENTRY_COLUMNS, rows)


def _long_poll(polls: Intervals | None) -> Table:
    rows = []
    if polls is not None:
        average_ns = polls.total_ns // polls.count
        found = (average_ns, polls.min_ns, polls.max_ns)
        rows.append((str(polls.count), *found))
    return Table("[LONG POLL STATISTICS]", LONG_POLL_COLUMNS, rows)


def _run(runs: Intervals | None) -> Table:
    rows = []
    if runs is not None:
        found = (runs.total_ns, runs.min_ns, runs.max_ns)
        rows.append((str(runs.count), *found))
    return Table("[THREAD RUN STATISTICS]", RUN_COLUMNS, rows, always=True)


def _ready(waits: Intervals | None) -> Table:
    return Table("[THREAD READY STATISTICS]", READY_COLUMNS, _total_and_max(waits), always=True)


def _stopped(stops: Intervals | None) -> Table:
    return Table("[THREAD STOPPED STATISTICS]", STOPPED_COLUMNS, _total_and_max(stops))


def _intervals(thread: Thread) -> Table:
    kinds = (
        ("long poll", thread.long_poll),
        ("run", thread.run),
        ("ready", thread.ready),
        ("stopped", thread.stopped),
    )
    rows = [
        (name, str(all_.count), all_.total_ns, all_.min_ns, all_.max_ns)
        for name, all_ in kinds
        if all_ is not None
    ]
    return Table("[THREAD STATISTICS]", INTERVALS_COLUMNS, rows)


def _hard_irqs(irqs: Iterable[HardIrqStats]) -> Table:
    rows: list[Row] = [
        (cut(printable(irq.name)), str(irq.count), irq.total_ns, irq.max_ns)
        for irq in sorted(irqs, key=lambda i: (-i.total_ns, i.name))
    ]
    if rows:
        rows.append(("TOTAL:", *_total(irqs)))
    return Table("[HARD IRQ STATISTICS]", HARD_IRQS_COLUMNS, rows)


def _soft_irqs(irqs: Iterable[SoftIrqStats]) -> Table:
    rows: list[Row] = []
    for irq in sorted(irqs, key=lambda i: (-i.total_ns, i.vector)):
        name = str(irq.vector) if irq.name is None else printable(irq.name)
        counted = (str(irq.count), irq.total_ns, irq.max_ns)
        rows.append((cut(name), str(irq.vector), *counted))
    if rows:
        rows.append(("TOTAL:", "", *_total(irqs)))
    return Table("[SOFT IRQ STATISTICS]", SOFT_IRQS_COLUMNS, rows)


def _total_and_max(intervals: Intervals | None) -> list[Row]:
    if intervals is None:
        return []
    return [(str(intervals.count), intervals.total_ns, intervals.max_ns)]


def _total(stats: Iterable[SyscallStats | HardIrqStats | SoftIrqStats]) -> tuple[str, int]:
    """The count and the time of all of `stats`."""
    count = sum(s.count for s in stats)
    return str(count), sum(s.total_ns for s in stats)
