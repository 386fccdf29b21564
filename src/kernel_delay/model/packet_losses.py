"""Packets and messages that were lost in a window, by the kernel's and Open vSwitch's counters."""

from collections.abc import Mapping

from msgspec import Struct


class PortLosses(Struct, frozen=True):
    """Packets that a port of a datapath dropped within the window.

    Attributes:
        name: The port.
        rx_dropped: Packets that came in and were dropped.
        tx_dropped: Packets that were to go out and were dropped.
        packets: Packets that came in or went out, in all.
        failed_upcalls: Packets of this port that could not be sent to user space. None: the kernel
            does not count them by port (before Linux 6.4).
    """

    name: str
    rx_dropped: int
    tx_dropped: int
    packets: int
    failed_upcalls: int | None = None


class DatapathLosses(Struct, frozen=True):
    """Packets that a datapath lost within the window.

    Attributes:
        name: The datapath.
        missed: Packets without a flow.
        lost: Those of them that did not reach Open vSwitch's upcall code.
        ports: The ports that dropped packets.
        without_flow: Packets that were forwarded, but no flow could be made. None: it is not
            counted (the kernel's datapath).
    """

    name: str
    missed: int
    lost: int
    ports: tuple[PortLosses, ...] = ()
    without_flow: int | None = None


class SocketOverrun(Struct, frozen=True):
    """A netlink socket of the target that had no room for messages within the window.

    Attributes:
        inode: The number of the socket's inode.
        portid: The address of the socket.
        protocol: The netlink protocol, as in netlink(7) without NETLINK_.
        drops: Messages that were dropped.
        tid: The thread that reads it. None: not known.
        port: The port of the datapath whose upcalls it receives. None: not known, or all ports.
    """

    inode: int
    portid: int
    protocol: str
    drops: int
    tid: int | None = None
    port: str | None = None


class PortOverrun(Struct, frozen=True):
    """A packet socket (AF_PACKET) of the target that had no room for packets within the window.

    A datapath in user space receives from ports of type system by such sockets.

    Attributes:
        inode: The number of the socket's inode.
        ifindex: The number of the network device that it is bound to. 0: all.
        drops: Packets that came in and were dropped.
        port: The name of the device. None: not known.
    """

    inode: int
    ifindex: int
    drops: int
    port: str | None = None


class ConntrackLosses(Struct, frozen=True):
    """The conntrack table of the target's network namespace.

    Attributes:
        entries: Entries at the end of the window.
        limit: The highest number of entries (nf_conntrack_max). None: not known.
        dropped: Packets that were dropped because they got no entry, within the window.
        early_dropped: Entries that were deleted to make room, within the window.
        insert_failed: Entries that could not be inserted, within the window.
    """

    entries: int
    limit: int | None
    dropped: int
    early_dropped: int
    insert_failed: int


class FlowLimit(Struct, frozen=True):
    """How many flows Open vSwitch allows in a datapath: `ovs-appctl upcall/show`.

    Attributes:
        datapath: The datapath.
        flows: Flows at the end of the window.
        limit: The limit at the end of the window.
        limit_before: The limit when the window began. None: not known.
        dump_ns: How long the last dump of all flows took, in ns.
    """

    datapath: str
    flows: int
    limit: int
    limit_before: int | None
    dump_ns: int


class PacketLosses(Struct, frozen=True):
    """What was lost within the window.

    `flow_limits`, `events` and the datapath in user space are as ovs-vswitchd answered, which is
    asked before the first window and after each.

    Attributes:
        datapaths: The datapaths of Open vSwitch in the target's network namespace.
        sockets: The netlink sockets of the target that dropped messages.
        conntrack: The conntrack table. None: it was not read.
        flow_limits: The flow limits of the datapaths.
        events: Open vSwitch's own counts of losses (`ovs-appctl coverage/show`), by name.
        unread: What could not be read, and why.
        counted_ns: The time from one reading of the kernel's counters to the next, in ns.
        asked_ns: The time from one answer of ovs-vswitchd to the next, in ns. 0: there are none.
        port_overruns: The packet sockets of the target that dropped packets.
    """

    datapaths: tuple[DatapathLosses, ...] = ()
    sockets: tuple[SocketOverrun, ...] = ()
    conntrack: ConntrackLosses | None = None
    flow_limits: tuple[FlowLimit, ...] = ()
    events: Mapping[str, int] = {}
    unread: tuple[str, ...] = ()
    counted_ns: int = 0
    asked_ns: int = 0
    port_overruns: tuple[PortOverrun, ...] = ()
