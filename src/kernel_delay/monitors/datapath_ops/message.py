"""The request of an operation, and the message that comes back, taken apart.

    struct nlmsghdr | struct genlmsghdr | struct ovs_header | attributes

include/uapi/linux/{netlink,genetlink,openvswitch}.h, Linux 6.18.
"""

import struct
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from kernel_delay.formatting import printable
from kernel_delay.host.netlink import Attribute, walk
from kernel_delay.monitors.datapath_ops.events import Operation
from kernel_delay.openvswitch.flow_key import format_key, format_match
from kernel_delay.openvswitch.flow_key.packet import packet_key
from kernel_delay.openvswitch.flow_key.text import NAMES, flags, spaced_hex, ufid_text

_HEADERS = struct.Struct("=IHHIIBBHi")

FLOW_ATTRIBUTES = (
    *("unspec", "key", "actions", "stats", "tcp_flags", "used", "clear", "mask", "probe"),
    *("ufid", "ufid_flags", "pad"),
)
PACKET_ATTRIBUTES = (
    *("unspec", "packet", "key", "actions", "userdata", "egress_tun_key", "unused1", "unused2"),
    *("probe", "mru", "len", "hash", "upcall_pid"),
)
ETHERNET = NAMES.index("OVS_KEY_ATTR_ETHERNET")
ETHERTYPE = NAMES.index("OVS_KEY_ATTR_ETHERTYPE")
# Those that a request can have of a value alone, and how it is printed.
_NUMBERS = frozenset({"mru", "hash", "len"})
_UFID_FLAGS = ("omit_key", "omit_mask", "omit_actions")
# NLM_F_REQUEST, NLM_F_MULTI, NLM_F_ACK, NLM_F_ECHO; and of a new one NLM_F_REPLACE and so on.
_FLAGS = (*("request", "multi", "ack", "echo", "dump_intr", "dump_filtered"), "0x40", "0x80")
_NEW_FLAGS = (*_FLAGS, "replace", "excl", "create", "append")
_GET_FLAGS = (*_FLAGS, "root", "match", "atomic")


class Request(Struct, frozen=True):
    """A request: which datapath, by its interface's index, and what of it.

    What a message does not have is None. `flags` and `others` are words: the netlink header's
    flags, and the attributes that are in no other field.
    """

    dp_ifindex: int
    flags: str
    sequence: int
    ufid: str | None
    key: bytes | None
    mask: bytes | None
    actions: bytes | None
    packet: bytes | None
    others: tuple[str, ...]
    problem: str | None


class Reply(Struct, frozen=True):
    """A flow as the kernel sends it back, after a get or where it is asked to echo.

    What the message does not have is None: the kernel leaves out what it was asked to, and what a
    flow that no packet hit has not. `counts` are packets and bytes; `used_ms` is when a packet hit
    it last (CLOCK_MONOTONIC), `tcp_flags` are those of all its packets.
    """

    ufid: str | None
    key: bytes | None
    mask: bytes | None
    actions: bytes | None
    counts: tuple[int, int] | None
    used_ms: int | None
    tcp_flags: int | None
    others: tuple[str, ...]
    problem: str | None


_REPLIES: Mapping[str, int] = MappingProxyType({"stats": 16, "used": 8, "tcp_flags": 1})


def read_request(operation: Operation, message: bytes, size: int) -> Request:
    """Take a message apart, of which `message` is the captured beginning of `size` bytes."""
    if len(message) < _HEADERS.size:
        return Request(0, "", 0, None, None, None, None, None, (), "it has no header")
    _, _, nl_flags, sequence, _, _, _, _, dp_ifindex = _HEADERS.unpack_from(message)
    names = PACKET_ATTRIBUTES if operation == "packet_execute" else FLOW_ATTRIBUTES
    found, problem = _attributes(message, size, names)
    payloads = {name: attribute.payload for name, attribute in found.items()}
    reported = {"ufid", "key", "mask", "actions", "packet"}
    return Request(
        dp_ifindex=dp_ifindex,
        flags=flags(nl_flags & ~1, _FLAG_NAMES[operation]),
        sequence=sequence,
        ufid=_ufid(payloads.get("ufid")),
        key=payloads.get("key"),
        mask=payloads.get("mask"),
        actions=payloads.get("actions"),
        packet=payloads.get("packet"),
        others=tuple(_word(name, found[name]) for name in found if name not in reported),
        problem=problem,
    )


def packet_headers(request: Request) -> bytes:
    """The headers of the packet as attributes of a key: an execution's own key has none of them.

    A packet that does not begin with Ethernet has its type in the key (odp_key_from_dp_packet() of
    lib/odp-util.c, Open vSwitch 3.5).
    """
    found = {each.type: each.payload for each in walk(request.key or b"").found}
    ethertype = None if ETHERNET in found else found.get(ETHERTYPE)
    return packet_key(request.packet or b"", ethertype)


def read_reply(message: bytes, size: int) -> Reply | None:
    """The flow that the kernel sent back; None where it sent none."""
    if not size:
        return None
    if len(message) < _HEADERS.size:
        return Reply(None, None, None, None, None, None, None, (), "it has no header")
    found, problem = _attributes(message, size, FLOW_ATTRIBUTES)
    payloads = {name: attribute.payload for name, attribute in found.items()}
    reported = {"ufid", "key", "mask", "actions", "pad"}
    counts = payloads.get("stats", b"")
    used, flags_seen = payloads.get("used", b""), payloads.get("tcp_flags", b"")
    reported |= {
        name for name, length in _REPLIES.items() if len(payloads.get(name, b"")) == length
    }
    return Reply(
        ufid=_ufid(payloads.get("ufid")),
        key=payloads.get("key"),
        mask=payloads.get("mask"),
        actions=payloads.get("actions"),
        counts=struct.unpack("=2Q", counts) if "stats" in reported else None,
        used_ms=int.from_bytes(used, "little") if "used" in reported else None,
        tcp_flags=flags_seen[0] if "tcp_flags" in reported else None,
        others=tuple(_word(name, found[name]) for name in found if name not in reported),
        problem=problem,
    )


_FLAG_NAMES: Mapping[Operation, tuple[str, ...]] = MappingProxyType(
    {
        "flow_new": _NEW_FLAGS,
        "flow_set": _NEW_FLAGS,
        "flow_del": _FLAGS,
        "flow_get": _GET_FLAGS,
        "packet_execute": _FLAGS,
    }
)


def _attributes(
    message: bytes, size: int, names: tuple[str, ...]
) -> tuple[dict[str, Attribute], str | None]:
    """What stands behind the headers, by name; and why it is not all."""
    row = walk(message[_HEADERS.size :], size - _HEADERS.size)
    return {_name(names, attribute): attribute for attribute in row.found}, row.problem


def _name(names: tuple[str, ...], attribute: Attribute) -> str:
    return names[attribute.type] if attribute.type < len(names) else f"attribute{attribute.type}"


def _ufid(payload: bytes | None) -> str | None:
    if payload is None:
        return None
    if len(payload) != 16:
        return f"<{len(payload)} bytes: {spaced_hex(payload)}>"
    return ufid_text(*struct.unpack("=4I", payload))


def _word(name: str, attribute: Attribute) -> str:
    payload = attribute.payload
    if not payload and attribute.complete:
        return name
    if name == "ufid_flags" and len(payload) == 4:
        return f"{name}({flags(struct.unpack('=I', payload)[0], _UFID_FLAGS)})"
    if name in _NUMBERS and len(payload) in (2, 4, 8):
        return f"{name}({int.from_bytes(payload, 'little')})"
    return f"{name}({spaced_hex(payload)}{'' if attribute.complete else ' ...'})"


def flow_match(flow: Request | Reply) -> str | None:
    """What the flow matches; None where the message does not say."""
    if flow.key is None:
        return None
    if flow.mask is None:
        return printable(format_key(flow.key))
    return printable(format_match(flow.key, flow.mask))


def packet_text(request: Request) -> str:
    """The headers of an execution's packet, as a flow key."""
    return printable(format_key(packet_headers(request)))
