"""What a monitoring system receives from a watch: counters and gauges, as they are at one time."""

from collections.abc import Mapping

from msgspec import Struct

from kernel_delay.analysis.percentiles import added
from kernel_delay.model import Histogram, Losses, PacketLosses, PmdStats, Upcalls


class Lengths(Struct, frozen=True):
    """How many intervals had which length, as a model Histogram, and their sum in ns."""

    counts: Histogram = ()
    total_ns: int = 0

    def __add__(self, more: "Lengths") -> "Lengths":
        """Return both together."""
        return Lengths(added(self.counts, more.counts), self.total_ns + more.total_ns)


class ClassFigures(Struct, frozen=True):
    """Of one class of threads: how many there are, and what all that ever were did, in ns."""

    threads: int = 0
    state_ns: Mapping[str, int] = {}
    rounds: Lengths = Lengths()
    waits: Lengths = Lengths()


class CallFigures(Struct, frozen=True):
    """Of one system call."""

    count: int = 0
    total_ns: int = 0


class OwnCost(Struct, frozen=True):
    """What the tool itself took: CPU time since it was started, and memory now."""

    cpu_ns: int
    resident_bytes: int


LOST_KINDS = (
    *("upcall", "netlink_receive", "conntrack_drop", "conntrack_early_drop"),
    *("port_receive", "port_transmit", "port_overrun"),
)
"""What packets and messages were lost of: the values of a label."""


class LostPackets(Struct, frozen=True):
    """What was lost since the first process was watched, by kind; and the newest PacketLosses."""

    counts: Mapping[str, int]
    limit_hits: int
    newest: PacketLosses

    def __add__(self, more: PacketLosses) -> "LostPackets":
        """Return the same after `more` was lost."""
        ports = [port for each in more.datapaths for port in each.ports]
        table = more.conntrack
        lost = {
            "upcall": sum(each.lost for each in more.datapaths),
            "netlink_receive": sum(each.drops for each in more.sockets),
            "conntrack_drop": table.dropped if table else 0,
            "conntrack_early_drop": table.early_dropped if table else 0,
            "port_receive": sum(port.rx_dropped for port in ports),
            "port_transmit": sum(port.tx_dropped for port in ports),
            "port_overrun": sum(each.drops for each in more.port_overruns),
        }
        return LostPackets(
            {kind: self.counts.get(kind, 0) + lost[kind] for kind in LOST_KINDS},
            self.limit_hits + more.events.get("upcall_flow_limit_hit", 0),
            more,
        )


class PmdFigures(Struct, frozen=True):
    """What the PMD thread of a core did since the first process was watched."""

    iterations: int = 0
    busy_iterations: int = 0
    packets: int = 0
    upcalls: int = 0
    lost_upcalls: int = 0

    def __add__(self, more: PmdStats) -> "PmdFigures":
        """Return the same after it did more."""
        return PmdFigures(
            self.iterations + more.iterations,
            self.busy_iterations + more.busy_iterations,
            self.packets + more.packets,
            self.upcalls + more.upcalls,
            self.lost_upcalls + more.lost_upcalls,
        )


class Snapshot(Struct, frozen=True):
    """All that is exported.

    `causes` are of long rounds; `waits_ns` are those in them, by the class of the thread and what
    it waited for, and `roots_ns` what was at the end of their chains. `upcalls` is None where the
    kernel does not say, and `lost_packets` where that is not read. `pmds` are Open vSwitch's PMD
    threads, by their cores. `is_watching`: the process is there. The figures are of `read_time`, in
    seconds since 1970.
    """

    comm: str
    read_time: float
    is_watching: bool
    classes: Mapping[str, ClassFigures]
    calls: Mapping[str, CallFigures]
    causes: Mapping[str, int]
    waits_ns: Mapping[tuple[str, str], int]
    roots_ns: Mapping[str, int]
    losses: Losses
    own: OwnCost
    upcalls: Upcalls | None = None
    lost_packets: LostPackets | None = None
    pmds: Mapping[str, PmdFigures] = {}
