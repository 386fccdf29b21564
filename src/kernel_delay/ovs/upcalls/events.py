"""The five events of an upcall, in the order of its trip.

    kernel      DpUpcall          a flow was not found, the packet goes to user space
    vswitchd    RecvUpcall        a handler thread has read it
    vswitchd    FlowPut           … has looked it up and installs a flow
    vswitchd    FlowExecute       … sends the packet back with its actions
    kernel      PacketCmdExecute  the kernel takes it, in that thread's context

All of one packet but the first are of one thread. Names from other processes
are as they came; who prints them escapes them.
"""

from typing import Literal

from msgspec import Struct

# OVS_PACKET_CMD_MISS and _ACTION in the kernel, DPIF_UC_MISS and _ACTION in
# ovs-vswitchd: no flow for the packet, or a flow that sends it to user space.
UpcallKind = Literal["miss", "action"]


class EventBase(Struct, frozen=True, kw_only=True, tag_field="event"):
    """When (CLOCK_MONOTONIC) and where an event was: the CPU and the thread it ran in."""

    time_ns: int
    cpu: int
    tid: int
    comm: str


class DpUpcall(EventBase, frozen=True, kw_only=True, tag="dp_upcall"):
    """The tracepoint openvswitch:ovs_dp_upcall.

    `packet` is the captured beginning of the `packet_len` bytes, of which only
    the first `linear_len` lie in the skb's linear area and can be captured.
    `in_port` is the datapath port, None when the packet has none, and
    `recirc_id` None when it was not captured. `error` is the positive errno
    with which the kernel then dropped the upcall, 0 if it sent it or that is
    not known.
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

    `datapath` is the dpif's full name, `system@ovs-system`. `packet` and `key`
    are the captured beginnings of `packet_len` and `key_len` bytes.
    """

    datapath: str
    kind: UpcallKind
    packet: bytes
    packet_len: int
    key: bytes
    key_len: int


class FlowPut(EventBase, frozen=True, kw_only=True, tag="op_flow_put"):
    """The USDT probe dpif_netlink_operate__:op_flow_put.

    `key` is the captured beginning of the `key_len` bytes of the flow's key;
    both empty when the key was not captured.
    """

    key: bytes = b""
    key_len: int = 0


class FlowExecute(EventBase, frozen=True, kw_only=True, tag="op_flow_execute"):
    """The USDT probe dpif_netlink_operate__:op_flow_execute."""

    packet: bytes
    packet_len: int


class PacketCmdExecute(EventBase, frozen=True, kw_only=True, tag="packet_cmd_execute"):
    """The kernel's ovs_packet_cmd_execute() is entered.

    `packet` is the captured beginning of the `packet_len` bytes to execute;
    both empty when they were not captured.
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
