"""A struct upcall_event's bytes → the event that it reports."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct

from kernel_delay.ovs.monitors._ovs_records import ffi, lib
from kernel_delay.ovs.monitors.programs import text
from kernel_delay.ovs.upcalls import (
    DpUpcall,
    Event,
    FlowExecute,
    FlowPut,
    PacketCmdExecute,
    RecvUpcall,
    UpcallKind,
)
from kernel_delay.ovs.upcalls.port_names import PortName

if TYPE_CHECKING:
    from kernel_delay.ovs.monitors._ovs_records import UpcallEventPointer

# A port's number is 16 bits wide in the kernel, and the highest means that there is
# none (DP_MAX_PORTS, net/openvswitch/datapath.h, 6.18).
DP_MAX_PORTS = 0xFFFF


class Where(TypedDict):
    """What every event has."""

    time_ns: int
    cpu: int
    tid: int
    comm: str


class Captured(Struct, frozen=True):
    """A record, and what of the packet and of the key is behind it."""

    record: "UpcallEventPointer"
    packet: bytes
    key: bytes

    @property
    def where(self) -> Where:
        """When and where it happened."""
        event = self.record.event
        return {
            "time_ns": event.time_ns,
            "cpu": event.cpu,
            "tid": event.tid,
            "comm": text(event.comm),
        }


def room(size: int) -> int:
    """The bytes of an event that hold `size` captured ones: the next multiple of 8."""
    return -(-size // 8) * 8


def decode(data: bytes, packet_bytes: int, key_bytes: int) -> Event | PortName:
    """The event in `data`, cut to these lengths of packet and key."""
    record = ffi.from_buffer("struct upcall_event *", data)
    packet_at = ffi.sizeof("struct upcall_event")
    key_at = packet_at + room(packet_bytes)
    captured = Captured(
        record,
        packet=data[packet_at : packet_at + min(record.packet_size, packet_bytes)],
        key=data[key_at : key_at + min(record.key_size, key_bytes)],
    )
    return EVENTS[record.event.type](captured)


def _kind(record: "UpcallEventPointer") -> UpcallKind:
    # Of a process that says something else, it is at least no miss.
    return "miss" if record.kind == lib.UPCALL_MISS else "action"


def _port_name(captured: Captured) -> PortName:
    record = captured.record
    return PortName(text(record.datapath), record.in_port, text(record.device))


def _dp_upcall(captured: Captured) -> DpUpcall:
    record = captured.record
    return DpUpcall(
        **captured.where,
        datapath=text(record.datapath),
        device=text(record.device),
        kind=_kind(record),
        packet=captured.packet,
        packet_len=record.packet_len,
        linear_len=record.linear_len,
        in_port=None if record.in_port == DP_MAX_PORTS else record.in_port,
        recirc_id=record.recirc_id,
        error=record.error,
    )


def _recv_upcall(captured: Captured) -> RecvUpcall:
    record = captured.record
    return RecvUpcall(
        **captured.where,
        datapath=text(record.datapath),
        kind=_kind(record),
        packet=captured.packet,
        packet_len=record.packet_len,
        key=captured.key,
        key_len=record.key_len,
    )


def _flow_put(captured: Captured) -> FlowPut:
    key_len = captured.record.key_len if captured.key else 0
    return FlowPut(**captured.where, key=captured.key, key_len=key_len)


def _flow_execute(captured: Captured) -> FlowExecute:
    packet_len = captured.record.packet_len
    return FlowExecute(**captured.where, packet=captured.packet, packet_len=packet_len)


def _packet_cmd_execute(captured: Captured) -> PacketCmdExecute:
    packet_len = captured.record.packet_len if captured.packet else 0
    return PacketCmdExecute(**captured.where, packet=captured.packet, packet_len=packet_len)


EVENTS: Mapping[int, Callable[[Captured], Event | PortName]] = MappingProxyType(
    {
        lib.EVENT_PORT: _port_name,
        lib.EVENT_DP_UPCALL: _dp_upcall,
        lib.EVENT_RECV_UPCALL: _recv_upcall,
        lib.EVENT_FLOW_PUT: _flow_put,
        lib.EVENT_FLOW_EXECUTE: _flow_execute,
        lib.EVENT_PACKET_CMD_EXECUTE: _packet_cmd_execute,
    }
)
