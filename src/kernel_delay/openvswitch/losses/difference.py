"""What was lost between two readings of the counters."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import structs

from kernel_delay.model import (
    ConntrackLosses,
    DatapathLosses,
    PacketLosses,
    PortLosses,
    PortOverrun,
    SocketOverrun,
)
from kernel_delay.openvswitch.losses import (
    ANSWERS_WITHIN_S,
    COVERAGE,
    OWN_COUNTERS,
    UPCALLS,
    USERSPACE,
    LossReading,
    tables,
)
from kernel_delay.openvswitch.losses.answers import parse_datapath, parse_events, parse_limits
from kernel_delay.openvswitch.losses.datapaths import (
    NETLINK_GENERIC,
    DatapathCounters,
    PortCounters,
)
from kernel_delay.openvswitch.losses.packet_sockets import WRAPS_AT
from kernel_delay.openvswitch.unixctl import Answers

UPCALL_DROPS = ("datapath_drop_upcall_error", "datapath_drop_lock_error")


def losses(before: LossReading, after: LossReading, conntrack_limit: int | None) -> PacketLosses:
    """Return the difference of two readings. Sockets are of the whole network namespace."""
    unread = before.unread | after.unread
    return PacketLosses(
        datapaths=_datapaths(before.datapaths or (), after.datapaths or ()),
        sockets=tuple(_overruns(before, after)),
        conntrack=_conntrack(before.conntrack, after.conntrack, conntrack_limit),
        unread=tuple(f"{what}: {why}" for what, why in unread.items()),
        counted_ns=after.read_ns - before.read_ns,
        port_overruns=tuple(_port_overruns(before, after)),
    )


def own_losses(found: PacketLosses, began: Answers, ended: Answers) -> PacketLosses:
    """Add what Open vSwitch says of it, from one answer to the next."""
    for answers in (began, ended):
        if not answers.texts.keys() >= {UPCALLS, COVERAGE}:
            problem = answers.problem or f"it did not answer within {ANSWERS_WITHIN_S:g} s"
            return structs.replace(found, unread=(*found.unread, f"{OWN_COUNTERS}: {problem}"))
    limits = {each.datapath: each.limit for each in parse_limits(began.texts[UPCALLS])}
    had, has = (parse_events(answers.texts[COVERAGE]) for answers in (began, ended))
    events = {name: count for name, total in has.items() if (count := total - had.get(name, 0)) > 0}
    # What it calls lost includes packets that it forwarded, but could make no flow of
    # (lib/dpif-netdev.c:handle_packet_upcall(), ENOSPC, Open vSwitch 2.17 to 4.0).
    dropped = sum(events.get(name, 0) for name in UPCALL_DROPS)
    userspace = _datapaths(_userspace(began), _userspace(ended))
    return structs.replace(
        found,
        datapaths=(
            *found.datapaths,
            *(
                structs.replace(each, lost=dropped, without_flow=max(0, each.lost - dropped))
                for each in userspace
            ),
        ),
        flow_limits=tuple(
            structs.replace(each, limit_before=limits.get(each.datapath))
            for each in parse_limits(ended.texts[UPCALLS])
        ),
        events=events,
        asked_ns=ended.asked_ns - began.asked_ns,
    )


def _userspace(answers: Answers) -> Sequence[DatapathCounters]:
    found = parse_datapath(answers.texts.get(USERSPACE, ""))
    return (found,) if found else ()


def _datapaths(
    before: Sequence[DatapathCounters], after: Sequence[DatapathCounters]
) -> tuple[DatapathLosses, ...]:
    """Those that were there at both times."""
    old = {each.name: each for each in before}
    return tuple(_datapath(old[each.name], each) for each in after if each.name in old)


def _datapath(before: DatapathCounters, after: DatapathCounters) -> DatapathLosses:
    old = {port.name: port for port in before.ports}
    ports = (_port(old[port.name], port) for port in after.ports if port.name in old)
    return DatapathLosses(
        after.name,
        max(0, after.missed - before.missed),
        max(0, after.lost - before.lost),
        tuple(port for port in ports if port.rx_dropped or port.tx_dropped or port.failed_upcalls),
    )


def _port(before: PortCounters, after: PortCounters) -> PortLosses:
    """Counters that fell are those of a port that was made anew."""
    rx_dropped = tx_dropped = 0
    if not after.is_internal:
        rx_dropped = max(0, after.rx_dropped - before.rx_dropped)
        tx_dropped = max(0, after.tx_dropped - before.tx_dropped)
    packets = after.rx_packets - before.rx_packets + after.tx_packets - before.tx_packets
    failed = None
    if before.failed_upcalls is not None and after.failed_upcalls is not None:
        failed = max(0, after.failed_upcalls - before.failed_upcalls)
    return PortLosses(after.name, rx_dropped, tx_dropped, max(0, packets), failed)


def _overruns(before: LossReading, after: LossReading) -> Iterator[SocketOverrun]:
    old = before.sockets or {}
    for inode, each in (after.sockets or {}).items():
        # Of one that was made since, all drops are of the window.
        drops = each.drops - (old[inode].drops if inode in old else 0)
        if before.sockets is not None and drops > 0:
            yield SocketOverrun(inode, each.portid, tables.protocol_name(each.protocol), drops)


def _port_overruns(before: LossReading, after: LossReading) -> Iterator[PortOverrun]:
    if before.packet_sockets is None:
        return
    for inode, each in (after.packet_sockets or {}).items():
        old = before.packet_sockets.get(inode)
        drops = (each.drops - (old.drops if old else 0)) % WRAPS_AT
        if drops:
            yield PortOverrun(inode, each.ifindex, drops)


def _conntrack(
    before: tables.Conntrack | None, after: tables.Conntrack | None, limit: int | None
) -> ConntrackLosses | None:
    if before is None or after is None:
        return None
    return ConntrackLosses(
        after.entries,
        limit,
        max(0, after.drop - before.drop),
        max(0, after.early_drop - before.early_drop),
        max(0, after.insert_failed - before.insert_failed),
    )


def with_devices(
    found: PacketLosses, own: set[int], device: Callable[[int], str | None]
) -> PacketLosses:
    """Keep the packet sockets of the process, and name the devices that they are bound to."""
    overruns = tuple(
        structs.replace(each, port=device(each.ifindex) if each.ifindex else None)
        for each in found.port_overruns
        if each.inode in own
    )
    return structs.replace(found, port_overruns=overruns)


def with_readers(
    found: PacketLosses, after: LossReading, handlers: Sequence[int], own: set[int]
) -> PacketLosses:
    """Keep the sockets of the process, and say which threads and ports they are of.

    The i-th handler has the i-th socket: of the datapath, or of each port (lib/dpif-netlink.c,
    Open vSwitch 2.17 to 4.0). Handlers may be made anew just now: then there are more or fewer.
    """
    readers: dict[int, tuple[int | None, str | None]] = {}
    for datapath in after.datapaths or ():
        rows = [(None, datapath.portids), *((port.name, port.portids) for port in datapath.ports)]
        for port, portids in rows:
            for place, portid in enumerate(portids):
                tid = handlers[place] if len(handlers) == len(portids) else None
                readers.setdefault(portid, (tid, port))
    sockets = []
    for each in found.sockets:
        if each.inode not in own:
            continue
        is_generic = each.protocol == tables.protocol_name(NETLINK_GENERIC)
        tid, port = readers.get(each.portid, (None, None)) if is_generic else (None, None)
        sockets.append(structs.replace(each, tid=tid, port=port))
    return structs.replace(found, sockets=tuple(sockets))
