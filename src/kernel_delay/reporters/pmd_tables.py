"""What a PMD thread of Open vSwitch did, as tables."""

from kernel_delay.formatting import printable
from kernel_delay.model import PmdStats, RxQueue
from kernel_delay.reporters.grid import Column, Row, Table, first_rows
from kernel_delay.reporters.tables import COUNT, cut, name_column, times

PERCENT = Column("%", 7)

STATS_COLUMNS = (name_column("PART"), COUNT, PERCENT, *times("TOTAL ns", "AVERAGE ns", "MAX ns"))
RX_QUEUE_COLUMNS = (
    name_column("PORT"),
    Column("QUEUE", 6, gap=1),
    Column("% OF LAST 60 s", 15, gap=1),
    Column("STATE", 0, left=True),
)


def pmd_tables(pmd: PmdStats, most: int | None = None) -> tuple[Table, ...]:
    """Its iterations, and its receive queues: the busiest first, `most` of them."""
    queues = _rx_queues(pmd)
    return _stats(pmd), queues if most is None else first_rows(queues, most)


def _stats(pmd: PmdStats) -> Table:
    iterations: Row = ("iterations", str(pmd.iterations), "", pmd.counted_ns)
    if pmd.iterations:
        iterations = (*iterations, pmd.counted_ns // pmd.iterations)
        if pmd.longest_ns is not None:
            iterations = (*iterations, pmd.longest_ns)
    rows: list[Row] = [
        iterations,
        _part("busy iterations", pmd.busy_iterations, pmd.iterations),
    ]
    if pmd.busy_share is not None:
        rows.append(("busy cycles", "", f"{100 * pmd.busy_share:.3f}"))
    if pmd.sleep_ns:
        rows.append(("sleep", "", _percent(pmd.sleep_ns, pmd.counted_ns), pmd.sleep_ns))
    rows.append(("packets received", str(pmd.packets)))
    upcalls: Row = _part("upcalls", pmd.upcalls, pmd.packets)
    if pmd.upcall_ns is not None and pmd.upcalls:
        upcalls = (*upcalls, pmd.upcall_ns, pmd.upcall_ns // pmd.upcalls)
    return Table("[PMD STATISTICS]", STATS_COLUMNS, [*rows, upcalls, *_lost(pmd)])


def _part(name: str, count: int, whole: int) -> tuple[str, str, str]:
    return name, str(count), _percent(count, whole)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole if whole else 0:.3f}"


def _lost(pmd: PmdStats) -> tuple[Row, ...]:
    return (_part("lost upcalls", pmd.lost_upcalls, pmd.packets),) if pmd.lost_upcalls else ()


def _rx_queues(pmd: PmdStats) -> Table:
    rows: list[Row] = [
        (
            cut(printable(each.port)),
            str(each.queue),
            "not known" if each.usage_percent is None else str(each.usage_percent),
            _state(each),
        )
        for each in sorted(pmd.rx_queues, key=lambda each: -(each.usage_percent or 0))
    ]
    return Table("[PMD RX QUEUES]", RX_QUEUE_COLUMNS, rows)


def _state(queue: RxQueue) -> str:
    state = "enabled" if queue.enabled else "disabled"
    core = queue.moved_from_core
    return state if core is None else f"{state}, moved from core {core}"
