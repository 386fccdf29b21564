"""The metrics: their names, units and labels, and a snapshot as values of these.

Names and units are those of Prometheus (prometheus.io/docs/practices/naming) and OpenMetrics: base
units, `_total` at a counter. docs/reference/metrics.md has this table.
"""

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Literal

from msgspec import Struct
from msgspec.structs import astuple

from kernel_delay.formatting import NS_PER_S
from kernel_delay.metrics import Lengths, LostPackets, PmdFigures, Snapshot
from kernel_delay.version import VERSION

Kind = Literal["counter", "gauge", "histogram"]


class Family(Struct, frozen=True):
    """A metric: `name` has its unit, and a counter's lacks the `_total` that it is exported with.

    `help` is what it means, `labels` are the names of its labels. `bounds` are a histogram's,
    as powers of two in ns: the lengths that are shorter than that.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[int, ...] = ()
    unit: str = ""

    @property
    def exported(self) -> str:
        """The name in an exposition; a histogram's without what is behind it in each of its."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


class Buckets(Struct, frozen=True):
    """A histogram's value: how many lengths are at most each bound, in seconds; and their sum.

    The last bound is infinite.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


class Value(Struct, frozen=True):
    """A value of a metric, of these labels in its order."""

    family: Family
    labels: tuple[str, ...]
    value: float | Buckets


THREAD_SECONDS = Family(
    "kernel_delay_thread_seconds",
    "counter",
    "Time of the threads of a class, by state. The states add up to all of their time.",
    ("thread_class", "state"),
    unit="seconds",
)
THREADS = Family(
    "kernel_delay_threads", "gauge", "Number of threads of a class.", ("thread_class",)
)
ROUND_SECONDS = Family(
    "kernel_delay_round_seconds",
    "histogram",
    "Length of an event loop iteration, from a poll's return to the thread's next poll.",
    ("thread_class",),
    bounds=(12, 15, 18, 20, 22, 24, 27, 30),
    unit="seconds",
)
LONG_ROUNDS = Family(
    "kernel_delay_long_rounds",
    "counter",
    "Event loop iterations of at least the threshold, by the rule of the verdict.",
    ("cause",),
)
WAIT_SECONDS = Family(
    "kernel_delay_wait_seconds",
    "counter",
    "Blocked time in recorded long iterations, by what the thread waited for.",
    ("thread_class", "reason"),
    unit="seconds",
)
ROOT_SECONDS = Family(
    "kernel_delay_root_seconds",
    "counter",
    "The same time by what the thread at the end of the wait chain did: with `--chains`.",
    ("state",),
    unit="seconds",
)
RUN_QUEUE_LATENCY = Family(
    "kernel_delay_run_queue_latency_seconds",
    "histogram",
    "Length of each wait for a CPU.",
    ("thread_class",),
    bounds=(12, 15, 18, 20, 22, 24, 27),
    unit="seconds",
)
SYSCALL_SECONDS = Family(
    "kernel_delay_syscall_seconds",
    "counter",
    "Time in completed system calls, on and off the CPU.",
    ("syscall",),
    unit="seconds",
)
SYSCALLS = Family("kernel_delay_syscalls", "counter", "Completed system calls.", ("syscall",))
UPCALLS = Family(
    "kernel_delay_upcalls",
    "counter",
    "Packets that the kernel's datapath sent to user space.",
)
FAILED_UPCALLS = Family(
    "kernel_delay_failed_upcalls",
    "counter",
    "Packets that the kernel's datapath failed to send to user space.",
)
LOST_PACKETS = Family(
    "kernel_delay_lost_packets",
    "counter",
    "Packets and netlink messages that were lost on their way to the process or past it.",
    ("kind",),
)
FLOW_LIMIT_HITS = Family(
    "kernel_delay_flow_limit_hits",
    "counter",
    "Packets that got no flow, as the flow limit was reached, and batches of flows that were"
    " checked meanwhile.",
)
FLOWS = Family("kernel_delay_flows", "gauge", "Flows in a datapath.", ("datapath",))
FLOW_LIMIT = Family(
    "kernel_delay_flow_limit",
    "gauge",
    "The most flows that Open vSwitch allows now.",
    ("datapath",),
)
CONNTRACK_ENTRIES = Family(
    "kernel_delay_conntrack_entries", "gauge", "Entries of conntrack's table in its namespace."
)
CONNTRACK_LIMIT = Family(
    "kernel_delay_conntrack_limit", "gauge", "The most entries of conntrack's table."
)
PMD_ITERATIONS = Family(
    "kernel_delay_pmd_iterations",
    "counter",
    "Iterations of a PMD thread's loop over its receive queues.",
    ("core",),
)
PMD_BUSY_ITERATIONS = Family(
    "kernel_delay_pmd_busy_iterations",
    "counter",
    "Iterations of a PMD thread that found packets.",
    ("core",),
)
PMD_PACKETS = Family(
    "kernel_delay_pmd_packets", "counter", "Packets that a PMD thread received.", ("core",)
)
PMD_UPCALLS = Family(
    "kernel_delay_pmd_upcalls", "counter", "Upcalls that a PMD thread handled itself.", ("core",)
)
PMD_LOST_UPCALLS = Family(
    "kernel_delay_pmd_lost_upcalls",
    "counter",
    "Upcalls of a PMD thread that failed or made no flow.",
    ("core",),
)
LOSSES = Family(
    "kernel_delay_losses",
    "counter",
    "What the other metrics lack: missed kernel events, records without room, long iterations"
    " without a record, threads without a report of their end.",
    ("kind",),
)
OWN_CPU = Family(
    "kernel_delay_own_cpu_seconds",
    "counter",
    "CPU time of kernel-delay itself, without its BPF programs.",
    unit="seconds",
)
OWN_MEMORY = Family(
    "kernel_delay_own_resident_memory_bytes",
    "gauge",
    "Memory of kernel-delay itself, without its BPF maps.",
    unit="bytes",
)
WATCHING = Family(
    "kernel_delay_watching", "gauge", "1 while the process is watched, 0 while there is no"
    " process.",
    ("comm",),
)  # fmt: skip
READ_TIME = Family(
    "kernel_delay_last_read_timestamp_seconds",
    "gauge",
    "Time of the last reading, in seconds since 1970.",
    unit="seconds",
)
BUILD_INFO = Family(
    "kernel_delay_build_info", "gauge", "1, with the version of kernel-delay.", ("version",)
)

FAMILIES = (
    THREAD_SECONDS,
    THREADS,
    ROUND_SECONDS,
    LONG_ROUNDS,
    WAIT_SECONDS,
    ROOT_SECONDS,
    RUN_QUEUE_LATENCY,
    SYSCALL_SECONDS,
    SYSCALLS,
    UPCALLS,
    FAILED_UPCALLS,
    LOST_PACKETS,
    FLOW_LIMIT_HITS,
    FLOWS,
    FLOW_LIMIT,
    CONNTRACK_ENTRIES,
    CONNTRACK_LIMIT,
    PMD_ITERATIONS,
    PMD_BUSY_ITERATIONS,
    PMD_PACKETS,
    PMD_UPCALLS,
    PMD_LOST_UPCALLS,
    LOSSES,
    OWN_CPU,
    OWN_MEMORY,
    WATCHING,
    READ_TIME,
    BUILD_INFO,
)
"""All that there are, in the order of the page."""


def values(snapshot: Snapshot) -> Iterator[Value]:
    """Return all values of a snapshot, those of a family one after the other."""
    yield from _of_threads(snapshot)
    for cause, count in snapshot.causes.items():
        yield Value(LONG_ROUNDS, (cause,), count)
    for labels, ns in snapshot.waits_ns.items():
        yield Value(WAIT_SECONDS, labels, ns / NS_PER_S)
    for state, ns in snapshot.roots_ns.items():
        yield Value(ROOT_SECONDS, (state,), ns / NS_PER_S)
    for name, call in snapshot.calls.items():
        yield Value(SYSCALL_SECONDS, (name,), call.total_ns / NS_PER_S)
    for name, call in snapshot.calls.items():
        yield Value(SYSCALLS, (name,), call.count)
    if snapshot.upcalls is not None:
        yield Value(UPCALLS, (), snapshot.upcalls.sent)
        yield Value(FAILED_UPCALLS, (), snapshot.upcalls.failed)
    if snapshot.lost_packets is not None:
        yield from _of_losses(snapshot.lost_packets)
    yield from _of_pmds(snapshot.pmds)
    losses = snapshot.losses
    yield Value(LOSSES, ("missed_events",), losses.missed_events)
    yield Value(LOSSES, ("dropped_records",), losses.dropped_records)
    yield Value(LOSSES, ("missed_rounds",), losses.missed_rounds)
    yield Value(LOSSES, ("missed_ends",), losses.missed_ends)
    yield Value(OWN_CPU, (), snapshot.own.cpu_ns / NS_PER_S)
    yield Value(OWN_MEMORY, (), snapshot.own.resident_bytes)
    yield Value(WATCHING, (snapshot.comm,), snapshot.is_watching)
    yield Value(READ_TIME, (), snapshot.read_time)
    yield Value(BUILD_INFO, (VERSION,), 1)


def _of_losses(lost: LostPackets) -> Iterator[Value]:
    for kind, count in lost.counts.items():
        yield Value(LOST_PACKETS, (kind,), count)
    yield Value(FLOW_LIMIT_HITS, (), lost.limit_hits)
    limits = lost.newest.flow_limits
    yield from (Value(FLOWS, (each.datapath,), each.flows) for each in limits)
    yield from (Value(FLOW_LIMIT, (each.datapath,), each.limit) for each in limits)
    if (table := lost.newest.conntrack) is not None:
        yield Value(CONNTRACK_ENTRIES, (), table.entries)
        if table.limit is not None:
            yield Value(CONNTRACK_LIMIT, (), table.limit)


_PMD_FAMILIES = (PMD_ITERATIONS, PMD_BUSY_ITERATIONS, PMD_PACKETS, PMD_UPCALLS, PMD_LOST_UPCALLS)


def _of_pmds(pmds: Mapping[str, PmdFigures]) -> Iterator[Value]:
    for place, family in enumerate(_PMD_FAMILIES):
        for core, figures in pmds.items():
            yield Value(family, (core,), astuple(figures)[place])


def _of_threads(snapshot: Snapshot) -> Iterator[Value]:
    classes = snapshot.classes.items()
    for name, figures in classes:
        for state, ns in figures.state_ns.items():
            yield Value(THREAD_SECONDS, (name, state), ns / NS_PER_S)
    for name, figures in classes:
        yield Value(THREADS, (name,), figures.threads)
    for name, figures in classes:
        if any(figures.rounds.counts):
            yield Value(ROUND_SECONDS, (name,), buckets(ROUND_SECONDS, figures.rounds))
    for name, figures in classes:
        if any(figures.waits.counts):
            yield Value(RUN_QUEUE_LATENCY, (name,), buckets(RUN_QUEUE_LATENCY, figures.waits))


def buckets(family: Family, lengths: Lengths) -> Buckets:
    """Return lengths as a histogram's value.

    A bound is the longest length of whole ns that counts as at most that: a power of two
    itself is in the next.
    """
    below = [0, *accumulate(lengths.counts)]
    counts = [below[min(power, len(below) - 1)] for power in family.bounds]
    return Buckets(
        bounds=(*(((1 << power) - 1) / NS_PER_S for power in family.bounds), float("inf")),
        counts=(*counts, below[-1]),
        sum=lengths.total_ns / NS_PER_S,
    )
