"""The five events of an upcall, in the order of its trip.

    kernel      DpUpcall          a flow was not found, the packet goes to user space
    vswitchd    RecvUpcall        a handler thread has read it
    vswitchd    FlowPut           … has looked it up and installs a flow
    vswitchd    FlowExecute       … sends the packet back with its actions
    kernel      PacketCmdExecute  the kernel takes it, in that thread's context

All of one packet but the first are of one thread. Names from other processes
are as they came; who prints them escapes them.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from kernel_delay.recording.records import Events

# OVS_PACKET_CMD_MISS and _ACTION in the kernel, DPIF_UC_MISS and _ACTION in
# ovs-vswitchd: no flow for the packet, or a flow that sends it to user space.
UpcallKind = Literal["miss", "action"]


class EventBase(Struct, frozen=True, kw_only=True, tag_field="event"):
    """When and where an event happened.

    Attributes:
        time_ns: The time (CLOCK_MONOTONIC).
        cpu: The CPU.
        tid: The thread.
        comm: The name of the thread.
    """

    time_ns: int
    cpu: int
    tid: int
    comm: str


class DpUpcall(EventBase, frozen=True, kw_only=True, tag="dp_upcall"):
    """The tracepoint openvswitch:ovs_dp_upcall.

    Attributes:
        datapath: The datapath.
        device: The network device of the packet.
        kind: The kind of the upcall.
        packet: The captured start of the packet.
        packet_len: The full length of the packet, in bytes.
        linear_len: The length of the linear area of the skb, in bytes. Only these bytes can be
            captured.
        in_port: The port of the datapath. None: the packet has none.
        recirc_id: The recirculation ID. None: not captured.
        error: The errno with which the kernel dropped the upcall, positive. 0: sent, or not known.
    """

    datapath: str
    device: str
    kind: UpcallKind
    packet: bytes
    packet_len: int
    linear_len: int
    in_port: int | None = None
    recirc_id: int | None = None
    error: int = 0


class RecvUpcall(EventBase, frozen=True, kw_only=True, tag="recv_upcall"):
    """The USDT probe dpif_recv:recv_upcall.

    Attributes:
        datapath: The full name of the datapath, as "system@ovs-system".
        kind: The kind of the upcall.
        packet: The captured start of the packet.
        packet_len: The full length of the packet, in bytes.
        key: The captured start of the flow key.
        key_len: The full length of the flow key, in bytes.
    """

    datapath: str
    kind: UpcallKind
    packet: bytes
    packet_len: int
    key: bytes
    key_len: int


class FlowPut(EventBase, frozen=True, kw_only=True, tag="op_flow_put"):
    """The USDT probe dpif_netlink_operate__:op_flow_put.

    Attributes:
        key: The captured start of the flow key. Empty: not captured.
        key_len: The full length of the flow key, in bytes. 0: not captured.
        ufid: The UFID of the flow, as Open vSwitch writes it. Empty: not captured.
        rules: The OpenFlow rules of the flow, as Open vSwitch writes them (`--rules`). Empty: it
            does not know them.
    """

    key: bytes = b""
    key_len: int = 0
    ufid: str = ""
    rules: tuple[str, ...] = ()


class FlowExecute(EventBase, frozen=True, kw_only=True, tag="op_flow_execute"):
    """The USDT probe dpif_netlink_operate__:op_flow_execute.

    Attributes:
        packet: The captured start of the packet.
        packet_len: The full length of the packet, in bytes.
    """

    packet: bytes
    packet_len: int


class PacketCmdExecute(EventBase, frozen=True, kw_only=True, tag="packet_cmd_execute"):
    """The entry of the kernel function ovs_packet_cmd_execute().

    Attributes:
        packet: The captured start of the packet. Empty: not captured.
        packet_len: The full length of the packet, in bytes. 0: not captured.
    """

    packet: bytes = b""
    packet_len: int = 0


Event = DpUpcall | RecvUpcall | FlowPut | FlowExecute | PacketCmdExecute
EVENT_TYPES: tuple[type[Event], ...] = (
    DpUpcall,
    RecvUpcall,
    FlowPut,
    FlowExecute,
    PacketCmdExecute,
)


# As a dpif's full name begins, where its datapath is the kernel's (lib/dpif-netlink.c).
SYSTEM = "system@"


class PortName(Struct, frozen=True, tag="port_name", tag_field="event"):
    """The present name of a port.

    Attributes:
        datapath: The datapath.
        number: The number of the port.
        name: The name of the port.
    """

    datapath: str
    number: int
    name: str


class PortNames:
    """The names of the ports that upcalls came from."""

    def __init__(self) -> None:
        """Know none."""
        self._names: dict[tuple[str, int], str] = {}

    def learn(self, port: PortName) -> None:
        """Take a name, which may be a new one for a port that had another."""
        self._names[port.datapath, port.number] = port.name

    def name(self, datapath: str, number: int | None) -> str:
        """The port's name; its number where no name is known, `-` for no port.

        `datapath` is the kernel's name of it or the dpif's, `system@` and the same.
        """
        if number is None:
            return "-"
        return self._names.get((datapath.removeprefix(SYSTEM), number)) or str(number)


class UpcallEvents(Events, frozen=True, tag="upcall_events"):
    """Events of upcalls, and names of ports, in order.

    Attributes:
        events: The events and names.
        since_epoch_ns: CLOCK_REALTIME minus CLOCK_MONOTONIC, in ns.
    """

    events: tuple[Event | PortName, ...]
    since_epoch_ns: int

    def measured(self) -> Sequence[Event | PortName]:
        """The events and names."""
        return self.events


RECORD = UpcallEvents
