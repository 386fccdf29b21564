"""Snapshots, and totals of threads, for tests."""

from typing import get_args

from kernel_delay.analysis.rounds import CAUSES
from kernel_delay.metrics import (
    CallFigures,
    ClassFigures,
    Lengths,
    LostPackets,
    OwnCost,
    PmdFigures,
    Snapshot,
)
from kernel_delay.metrics.exporter import NOT_RECORDED
from kernel_delay.metrics.ledger import MAIN, MOST_CALLS, MOST_CLASSES, MOST_WAITS, OTHER, STATES
from kernel_delay.model import (
    ChainState,
    ConntrackLosses,
    DatapathLosses,
    FlowLimit,
    Losses,
    PacketLosses,
    PortLosses,
    PortOverrun,
    SocketOverrun,
    ThreadTime,
    ThreadTotals,
    Upcalls,
)

LOSSES = PacketLosses(
    (DatapathLosses("system@ovs-system", 100, 5, (PortLosses("veth1", 7, 8, 1000),)),),
    (SocketOverrun(1, 2, "GENERIC", 6),),
    ConntrackLosses(10, 20, 9, 10, 11),
    (FlowLimit("system@ovs-system", 30, 40, 50, 60),),
    {"upcall_flow_limit_hit": 12},
    port_overruns=(PortOverrun(1, 2, 13, "veth1"),),
)

NOTHING = dict.fromkeys(ThreadTime.__struct_fields__, 0)


def thread(
    identity: int,
    name: str,
    *,
    tid: int | None = None,
    waits: Lengths = Lengths(),  # noqa: B008 (immutable)
    rounds: Lengths = Lengths(),  # noqa: B008
    **parts_ns: int,
) -> ThreadTotals:
    """Totals of one thread, whose parts are 0 but for those that are given."""
    return ThreadTotals(
        identity=identity,
        tid=1000 + identity if tid is None else tid,
        name=name,
        time=ThreadTime(**{**NOTHING, **parts_ns}),
        waits=waits.counts,
        waits_ns=waits.total_ns,
        rounds=rounds.counts,
        rounds_ns=rounds.total_ns,
    )


def full_snapshot() -> Snapshot:
    """One with as much of everything as there can be."""
    lengths = Lengths((0, 1) * 16, 10**10)
    named = [f"call{number}" for number in range(MOST_CALLS)]
    classes = [MAIN, OTHER, *(f"class{number}" for number in range(MOST_CLASSES - 2))]
    return Snapshot(
        comm="ovs-vswitchd",
        read_time=1_750_000_000.25,
        is_watching=True,
        classes={
            name: ClassFigures(
                threads=3,
                state_ns=dict.fromkeys(STATES, 1500000000),
                rounds=lengths,
                waits=lengths,
            )
            for name in classes
        },
        calls={name: CallFigures(7, 2_000_000_000) for name in (*named, OTHER)},
        causes=dict.fromkeys((NOT_RECORDED, *CAUSES), 1),
        waits_ns={(OTHER, f"reason{number}"): 500_000_000 for number in range(MOST_WAITS + 1)},
        roots_ns=dict.fromkeys(get_args(ChainState), 250_000_000),
        losses=Losses(1, 2, 3, 4),
        own=OwnCost(cpu_ns=250_000_000, resident_bytes=1 << 27),
        upcalls=Upcalls(100, 2),
        lost_packets=LostPackets({}, 0, PacketLosses()) + LOSSES,
        pmds={"3": PmdFigures(1000, 100, 3200, 5, 1)},
    )
