"""From sets to costs, and from costs to statistics.

    DpUpcall ─ kernel_to_vswitchd ─ RecvUpcall ─ lookup ─ FlowPut
             ─ put_to_execute ─ FlowExecute ─ execute_to_kernel ─ PacketCmdExecute

`total` is all of it, exactly: the sum of the four. `overhead` is total minus
lookup, exactly: what the trip costs beside the work it is made for. All are
integers in nanoseconds. With batches, lookup spans the lookups of the whole
batch, and put_to_execute and execute_to_kernel what was prepared between.
"""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from msgspec import Struct

from kernel_delay.monitors.upcalls.events import Event
from kernel_delay.monitors.upcalls.join import Joined, UpcallSet


class Costs(Struct, frozen=True):
    """The intervals of one set; None where one of its ends was not seen."""

    kernel_to_vswitchd_ns: int | None
    lookup_ns: int | None
    put_to_execute_ns: int | None
    execute_to_kernel_ns: int | None
    overhead_ns: int | None
    total_ns: int | None


class Statistics(Struct, frozen=True):
    """One cost over all sets that have it, which is at least one.

    `variance_ns2` is the population's, in square nanoseconds, and the median of
    an even count the mean of the middle two. `values_ns` are sorted.
    """

    values_ns: tuple[int, ...]
    mean_ns: float
    variance_ns2: float
    median_ns: float

    @property
    def count(self) -> int:
        """How many sets have this cost."""
        return len(self.values_ns)

    @property
    def min_ns(self) -> int:
        """The least."""
        return self.values_ns[0]

    @property
    def max_ns(self) -> int:
        """The greatest."""
        return self.values_ns[-1]

    @property
    def deviation_ns(self) -> float:
        """The standard deviation, of the population."""
        return math.sqrt(self.variance_ns2)


class Analysis(Struct, frozen=True):
    """The costs of all misses whose sending and receipt were both seen.

    `upcalls` counts received upcalls by the name and ID of their thread. A
    cost is None when no set has it.
    """

    sets: tuple[UpcallSet, ...]
    upcalls: tuple[tuple[str, int, int], ...]
    batch_sizes: tuple[int, ...]
    kernel_to_vswitchd: Statistics | None
    execute_to_kernel: Statistics | None
    overhead: Statistics | None
    total: Statistics | None


def costs_of(found: UpcallSet) -> Costs:
    """The intervals of one set."""
    return Costs(
        kernel_to_vswitchd_ns=_between(found.dp_upcall, found.recv_upcall),
        lookup_ns=_between(found.recv_upcall, found.flow_put),
        put_to_execute_ns=_between(found.flow_put, found.flow_execute),
        execute_to_kernel_ns=_between(found.flow_execute, found.packet_cmd_execute),
        overhead_ns=_overhead(found),
        total_ns=_between(found.dp_upcall, found.packet_cmd_execute),
    )


def analyse(joined: Joined) -> Analysis:
    """The statistics of `joined`; upcalls that a flow's action asked for are not in the costs."""
    sets = tuple(
        found for found in joined.sets if found.dp_upcall and found.recv_upcall.kind == "miss"
    )
    costs = [costs_of(found) for found in sets]
    threads = Counter((found.recv_upcall.comm, found.recv_upcall.tid) for found in joined.sets)
    return Analysis(
        sets=sets,
        upcalls=tuple((comm, tid, count) for (comm, tid), count in sorted(threads.items())),
        batch_sizes=joined.batch_sizes,
        kernel_to_vswitchd=describe([cost.kernel_to_vswitchd_ns for cost in costs]),
        execute_to_kernel=describe([cost.execute_to_kernel_ns for cost in costs]),
        overhead=describe([cost.overhead_ns for cost in costs]),
        total=describe([cost.total_ns for cost in costs]),
    )


def describe(values_ns: Sequence[int | None]) -> Statistics | None:
    """The statistics of the values that are there; None when none is."""
    found = sorted(value for value in values_ns if value is not None)
    if not found:
        return None
    # In integers up to the last division: squares of nanoseconds lose digits in floats.
    count, total = len(found), sum(found)
    variance = Fraction(count * sum(v * v for v in found) - total * total, count * count)
    return Statistics(
        values_ns=tuple(found),
        mean_ns=float(Fraction(total, count)),
        variance_ns2=float(variance),
        median_ns=float(statistics.median(found)),
    )


def _overhead(found: UpcallSet) -> int | None:
    total = _between(found.dp_upcall, found.packet_cmd_execute)
    lookup = _between(found.recv_upcall, found.flow_put)
    return None if total is None or lookup is None else total - lookup


def _between(start: Event | None, stop: Event | None) -> int | None:
    return None if start is None or stop is None else stop.time_ns - start.time_ns
