"""Suspicious iterations of PMD threads, and the table that Open vSwitch writes of each.

lib/dpif-netdev-perf.c (2.10 to 4.0) writes a line for the iteration, and then a row for each
iteration around it. `dpif-netdev/pmd-perf-log-set` switches that on.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from kernel_delay.commands.log.lines import LONGEST_PREFIX, Line
from kernel_delay.model import WallClock
from kernel_delay.openvswitch.log_lines import ITERATION_MESSAGE

MODULE = "pmd_perf"

PROGRAM = "ovs-vswitchd"
"""No other has PMD threads."""

NEIGHBORHOOD_MESSAGE = "Neighborhood of suspicious iteration"

MOST_ROWS = 1000
"""HISTORY_LEN in lib/dpif-netdev-perf.h."""

MOST_PENDING = 64
"""Iterations of a thread without a table yet: `pmd-perf-log-set -e` writes one for several."""

MOST_THREADS = 1024

MOST_GROUPS = 1000

OTHERS = "others"

_ITERATION = re.compile(ITERATION_MESSAGE)

# iter, cycles, packets, cycles/pkt, pkts/batch, vhost qlen, upcalls, cycles/upcall
_ROW = re.compile(rb"   (\d{1,18})" + 7 * rb" +(\d{1,18})\b")

IterationCause = Literal["upcalls", "packets", "neither", "unknown"]
"""What took most of an iteration.

upcalls: packets without a flow.
packets: as many packets, at what a packet took in the iterations around it.
neither: the packets and upcalls do not explain its length.
unknown: the log has no row of it, or no other iteration with packets.
"""


class Iteration(Struct, frozen=True):
    """A suspicious iteration of a PMD thread; None: its row is not in the log.

    number: as the thread counts its iterations.
    cycles: of the time stamp counter.
    packets: received.
    """

    log: str
    program: str
    thread: str
    time: WallClock | None
    reason: str
    number: int
    length_us: int
    cause: IterationCause = "unknown"
    cycles: int | None = None
    packets: int | None = None
    upcalls: int | None = None


class IterationGroup(Struct):
    """The suspicious iterations of one PMD thread for one reason.

    causes: how many of each cause.
    first, last: when one was logged, in UTC.
    """

    log: str
    program: str
    thread: str
    reason: str
    longest: Iteration
    shortest_us: int
    iterations: int = 0
    length_us: int = 0
    causes: dict[IterationCause, int] = field(default_factory=dict)
    first: WallClock | None = None
    last: WallClock | None = None

    @property
    def cause(self) -> IterationCause:
        """What took most of most of them."""
        return max(self.causes, key=lambda cause: self.causes[cause])

    def add(self, each: Iteration) -> None:
        """Add one of that thread and reason."""
        self.iterations += 1
        self.length_us += each.length_us
        self.causes[each.cause] = self.causes.get(each.cause, 0) + 1
        self.longest = max(self.longest, each, key=lambda one: one.length_us)
        self.shortest_us = min(self.shortest_us, each.length_us)
        if each.time is not None:
            self.first = each.time if self.first is None else min(self.first, each.time)
            self.last = each.time if self.last is None else max(self.last, each.time)


class IterationGroups:
    """Suspicious iterations by PMD thread and reason, as they come."""

    def __init__(self) -> None:
        """There are none yet."""
        self._groups: dict[tuple[str, str, str, str], IterationGroup] = {}

    def add(self, each: Iteration) -> None:
        """Add an iteration to those of its thread and reason."""
        key = each.log, each.program, each.thread, each.reason
        if key not in self._groups and len(self._groups) >= MOST_GROUPS:
            key = "", OTHERS, OTHERS, OTHERS
        new = IterationGroup(*key, longest=each, shortest_us=each.length_us)
        self._groups.setdefault(key, new).add(each)

    def all(self) -> list[IterationGroup]:
        """Return the groups, the one with the longest sum first."""
        return sorted(self._groups.values(), key=lambda group: -group.length_us)


class _Row(Struct, frozen=True):
    """What Open vSwitch counted in an iteration."""

    cycles: int
    packets: int
    upcalls: int
    upcall_cycles: int


_Writer = tuple[str, str, str | None]


class Iterations:
    """Takes the lines of a log in their order, and makes suspicious iterations of them."""

    def __init__(self, log: str, program: str) -> None:
        """Start before the first line; `program` where the lines do not name it."""
        self._log = log
        self._program = program
        self._pending: dict[_Writer, deque[Iteration]] = {}
        self._table: _Writer | None = None
        self._rows: dict[int, _Row] = {}

    def take(self, line: Line) -> Iterator[Iteration]:
        """Take a line of vlog's; yield the iterations whose table is whole by it."""
        if line.module != MODULE:
            return
        yield from self._end_table()
        writer = line.program, line.host, line.thread
        if match := _ITERATION.match(line.message):
            if writer not in self._pending and len(self._pending) >= MOST_THREADS:
                yield from self._pending.pop(next(iter(self._pending)))
            pending = self._pending.setdefault(writer, deque())
            if len(pending) >= MOST_PENDING:
                yield pending.popleft()
            pending.append(self._iteration(line, match))
        elif line.message.startswith(NEIGHBORHOOD_MESSAGE):
            self._table = writer

    def take_row(self, raw: bytes) -> None:
        """Take a line that is none of vlog's: it may be of the table that began last."""
        if self._table is None or len(self._rows) >= MOST_ROWS:
            return
        if match := _ROW.search(raw, 0, LONGEST_PREFIX):
            number, cycles, packets, _, _, _, upcalls, each = map(int, match.groups())
            self._rows[number] = _Row(cycles, packets, upcalls, upcalls * each)

    def rest(self) -> Iterator[Iteration]:
        """Yield the iterations of which no table came."""
        yield from self._end_table()
        for pending in self._pending.values():
            yield from pending
        self._pending.clear()

    def _iteration(self, line: Line, match: re.Match[str]) -> Iteration:
        reason, number, length_us = match.groups()
        return Iteration(
            log=self._log,
            program=line.program or self._program or PROGRAM,
            thread=line.thread or "",
            time=line.time,
            reason=reason,
            number=int(number),
            length_us=int(length_us),
        )

    def _end_table(self) -> Iterator[Iteration]:
        """Give the rows of the table that began last to its iterations."""
        if self._table is None:
            return
        pending, rows = self._pending.pop(self._table, deque()), self._rows
        self._table, self._rows = None, {}
        suspicious = {each.number for each in pending}
        usual = {number: row for number, row in rows.items() if number not in suspicious}
        for each in pending:
            row = rows.get(each.number)
            yield each if row is None else _with_row(each, row, usual)


def _with_row(iteration: Iteration, row: _Row, usual: Mapping[int, _Row]) -> Iteration:
    return replace(
        iteration,
        cause=_cause_of(row, usual),
        cycles=row.cycles,
        packets=row.packets,
        upcalls=row.upcalls,
    )


def _cause_of(row: _Row, usual: Mapping[int, _Row]) -> IterationCause:
    """Return what took half of an iteration, or more, by those around it."""
    if row.upcalls and 2 * row.upcall_cycles >= row.cycles:
        return "upcalls"
    if not row.packets:
        return "neither"
    each = [other.cycles / other.packets for other in usual.values() if other.packets]
    if not each:
        return "unknown"
    return "packets" if 2 * row.packets * median(each) >= row.cycles else "neither"
