"""The actions of a flow or a packet to text, in the terms of ovs-dpctl(8).

A row of OVS_ACTION_ATTR_* netlink attributes (enum ovs_action_attr of
include/uapi/linux/openvswitch.h, Linux 6.18), some of which nest others.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from kernel_delay.formatting import printable
from kernel_delay.host.netlink import NLA_HDRLEN, Attribute, walk
from kernel_delay.monitors.datapath_ops.cookie import format_cookie
from kernel_delay.openvswitch.flow_key.decode import format_key
from kernel_delay.openvswitch.flow_key.encapsulations import halves, nsh, nsh_masked
from kernel_delay.openvswitch.flow_key.fields import VLAN_CFI
from kernel_delay.openvswitch.flow_key.match import format_match
from kernel_delay.openvswitch.flow_key.text import (
    NAMES,
    hex_number,
    ip,
    mac,
    spaced_hex,
    wrong_length,
)

MAX_DEPTH = 16
"""The kernel nests 16 clones at most (net/openvswitch/flow_netlink.c, 6.18)."""

ETH_P_8021Q = 0x8100
UINT32_MAX = 0xFFFFFFFF
NSH = NAMES.index("OVS_KEY_ATTR_NSH")

Nested = Mapping[int, Attribute]


def format_actions(actions: bytes, depth: int = 0) -> str:
    """The actions as `2,push_vlan(vid=5,pcp=0),recirc(0x1)`; none at all are `drop`.

    Angle brackets hold what can't be decoded; an action that is not known is printed as its number.
    """
    row = walk(actions)
    words = [_action(attribute, depth) for attribute in row.found]
    if row.problem:
        rest = f": {spaced_hex(row.rest)}" if row.rest else ""
        words.append(f"<{row.problem}{rest}>")
    return ",".join(words) or "drop"


class _Action(Struct, frozen=True):
    """How an action is written: its name, the length of its value, and the value itself."""

    name: str
    length: int | None
    text: Callable[[bytes, int], str]


def _action(attribute: Attribute, depth: int) -> str:
    payload = attribute.payload
    known = ACTIONS.get(attribute.type)
    name = f"action{attribute.type}" if known is None else known.name
    if not attribute.complete:
        return f"{name}(<{len(payload)} of {attribute.claimed} bytes: {spaced_hex(payload)}>)"
    if known is None:
        return f"{name}({spaced_hex(payload)})"
    if known.length is not None and len(payload) != known.length:
        return wrong_length(name, payload, str(known.length))
    if depth >= MAX_DEPTH:
        return f"{name}(<nested deeper than {MAX_DEPTH}: {spaced_hex(payload)}>)"
    return known.text(payload, depth)


def _u32(payload: bytes) -> int:
    value: int = struct.unpack("=I", payload)[0]
    return value


def _nested(payload: bytes) -> Nested:
    return {attribute.type: attribute for attribute in walk(payload).found}


def _others(payload: bytes, known: Mapping[int, int | None]) -> list[str]:
    """What is nested beside the known kinds of these lengths (None: any), or can't be read."""
    row = walk(payload)
    words = [
        f"attribute{each.type}({spaced_hex(each.payload)})"
        for each in row.found
        if known.get(each.type, -1) not in (None, len(each.payload))
    ]
    if row.problem:
        words.append(f"<{row.problem}>")
    return words


def _number(nested: Nested, kind: int, length: int) -> int | None:
    """A number of that length within an action; None where there is none."""
    attribute = nested.get(kind)
    if attribute is None or len(attribute.payload) != length:
        return None
    return int.from_bytes(attribute.payload, "little")


def _payload(nested: Nested, kind: int) -> bytes:
    attribute = nested.get(kind)
    return b"" if attribute is None else attribute.payload


def _malformed(name: str, payload: bytes) -> str:
    return f"{name}(<{spaced_hex(payload)}>)"


def _word(name: str) -> Callable[[bytes, int], str]:
    return lambda payload, depth: name


def _of_u32(name: str, write: Callable[[int], str] = str) -> Callable[[bytes, int], str]:
    return lambda payload, depth: f"{name}({write(_u32(payload))})"


def _output(payload: bytes, depth: int) -> str:
    return str(_u32(payload))


def _userspace(payload: bytes, depth: int) -> str:
    nested = _nested(payload)
    pid = _number(nested, 1, 4)
    if pid is None:
        return _malformed("userspace", payload)
    words = [f"pid={pid}"]
    if 2 in nested:
        userdata = _payload(nested, 2)
        words.append(format_cookie(userdata) or f"userdata({userdata.hex()})")
    if 4 in nested:
        words.append("actions")
    if (port := _number(nested, 3, 4)) is not None:
        words.append(f"tunnel_out_port={port}")
    words += _others(payload, {1: 4, 2: None, 3: 4, 4: None})
    return f"userspace({','.join(words)})"


def _set(payload: bytes, depth: int) -> str:
    return f"set({format_key(payload)})"


def _set_masked(payload: bytes, depth: int) -> str:
    """The value and its mask, of one length, in one attribute of the key."""
    found = walk(payload).found
    if len(found) != 1 or not found[0].complete:
        return _malformed("set", payload)
    kind, payload = found[0].type, found[0].payload
    if kind == NSH:
        return f"set(nsh({nsh_masked(payload)}))"
    if len(payload) % 2:
        return _malformed("set", payload)
    header = struct.pack("=HH", NLA_HDRLEN + len(payload) // 2, kind)
    value, mask = (header + half for half in halves(payload))
    return f"set({format_match(value, mask)})"


def _push_vlan(payload: bytes, depth: int) -> str:
    tpid, tci = struct.unpack("!HH", payload)
    words = [] if tpid == ETH_P_8021Q else [f"tpid={tpid:#06x}"]
    words += [f"vid={tci & 0xFFF}", f"pcp={tci >> 13}"]
    if not tci & VLAN_CFI:
        words.append("cfi=0")
    return f"push_vlan({','.join(words)})"


def _sample(payload: bytes, depth: int) -> str:
    nested = _nested(payload)
    probability = _number(nested, 1, 4)
    if probability is None or 2 not in nested:
        return _malformed("sample", payload)
    actions = format_actions(_payload(nested, 2), depth + 1)
    words = [f"sample={100 * probability / UINT32_MAX:.1f}%", f"actions({actions})"]
    return f"sample({','.join([*words, *_others(payload, {1: 4, 2: None})])})"


def _hash(payload: bytes, depth: int) -> str:
    algorithm, basis = struct.unpack("=II", payload)
    names = ("l4", "sym_l4")
    if algorithm >= len(names):
        return f"hash(<algorithm {algorithm}>({basis}))"
    return f"hash({names[algorithm]}({basis}))"


def _mpls(lse: int) -> str:
    return f"label={lse >> 12},tc={lse >> 9 & 7},ttl={lse & 0xFF},bos={lse >> 8 & 1}"


def _of_mpls(word: str) -> Callable[[bytes, int], str]:
    def format_mpls(payload: bytes, depth: int) -> str:
        lse, ethertype = struct.unpack("!IH", payload[:6])
        return f"{word}({_mpls(lse)},eth_type={ethertype:#x})"

    return format_mpls


def _pop_mpls(payload: bytes, depth: int) -> str:
    return f"pop_mpls(eth_type={int.from_bytes(payload, 'big'):#x})"


def _push_eth(payload: bytes, depth: int) -> str:
    return f"push_eth(src={mac(payload[:6])},dst={mac(payload[6:])})"


def _string(payload: bytes) -> str:
    return printable(payload.rstrip(b"\0").decode(errors="backslashreplace"))


def _ct(payload: bytes, depth: int) -> str:
    nested = _nested(payload)
    words = [word for kind, word in ((1, "commit"), (7, "force_commit")) if kind in nested]
    if zone := _number(nested, 2, 2):
        words.append(f"zone={zone}")
    if len(mark := _payload(nested, 3)) == 8:
        words.append("mark={}/{}".format(*map(hex_number, struct.unpack("=II", mark))))
    if len(label := _payload(nested, 4)) == 32:
        value, mask = (int.from_bytes(half, "little") for half in (label[:16], label[16:]))
        words.append(f"label={hex_number(value)}/{hex_number(mask)}")
    words += [
        f"{word}={_string(_payload(nested, kind))}" for kind, word in _CT_STRINGS if kind in nested
    ]
    if (events := _number(nested, 8, 4)) is not None:
        words.append(f"eventmask={hex_number(events)}")
    if 6 in nested:
        words.append(_nat(nested[6].payload))
    words += _others(payload, _CT)
    return f"ct({','.join(words)})" if words else "ct"


_CT = MappingProxyType({1: 0, 2: 2, 3: 8, 4: 32, 5: None, 6: None, 7: 0, 8: 4, 9: None})
_CT_STRINGS = ((5, "helper"), (9, "timeout"))


def _nat(payload: bytes) -> str:
    nested = _nested(payload)
    if not nested:
        return "nat"
    addresses = [_payload(nested, kind) for kind in (3, 4)]
    if any(len(address) not in (0, 4, 16) for address in addresses):
        return _malformed("nat", payload)
    ports = [_number(nested, kind, 2) or 0 for kind in (5, 6)]
    word = "src" if 1 in nested else "dst"
    if addresses[0]:
        word += (
            f"={_range([_address(address, ports[0]) if address else '' for address in addresses])}"
        )
    if ports[0]:
        word += f":{_range([str(port) if port else '' for port in ports])}"
    words = [word, *(name for kind, name in _NAT_FLAGS if kind in nested)]
    return f"nat({','.join([*words, *_others(payload, _NAT)])})"


_NAT = MappingProxyType({1: 0, 2: 0, 3: None, 4: None, 5: 2, 6: 2, 7: 0, 8: 0, 9: 0})
_NAT_FLAGS = ((7, "persistent"), (8, "hash"), (9, "random"))


def _address(address: bytes, port: int) -> str:
    return f"[{ip(address)}]" if len(address) == 16 and port else ip(address)


def _range(ends: Sequence[str]) -> str:
    first, last = ends
    return first if not last or last == first else f"{first}-{last}"


def _clone(payload: bytes, depth: int) -> str:
    return f"clone({format_actions(payload, depth + 1)})"


def _check_pkt_len(payload: bytes, depth: int) -> str:
    nested = _nested(payload)
    size = _number(nested, 1, 2)
    if size is None or not {2, 3} <= nested.keys():
        return _malformed("check_pkt_len", payload)
    greater, less = (format_actions(_payload(nested, kind), depth + 1) for kind in (2, 3))
    words = [f"size={size}", f"gt({greater})", f"le({less})"]
    return f"check_pkt_len({','.join([*words, *_others(payload, {1: 2, 2: None, 3: None})])})"


def _dec_ttl(payload: bytes, depth: int) -> str:
    actions = format_actions(_payload(_nested(payload), 1), depth + 1)
    return f"dec_ttl({','.join([f'le_1({actions})', *_others(payload, {1: None})])})"


def _psample(payload: bytes, depth: int) -> str:
    nested = _nested(payload)
    words = []
    if (group := _number(nested, 1, 4)) is not None:
        words.append(f"group={group}")
    if 2 in nested:
        words.append(f"cookie=0x{_payload(nested, 2).hex()}")
    return f"psample({','.join([*words, *_others(payload, {1: 4, 2: None})])})"


def _push_nsh(payload: bytes, depth: int) -> str:
    found = walk(payload).found
    if len(found) != 1 or not found[0].complete or found[0].type != NSH:
        return _malformed("push_nsh", payload)
    return f"push_nsh({nsh(found[0].payload)})"


ACTIONS: Mapping[int, _Action] = MappingProxyType(
    {
        1: _Action("output", 4, _output),
        2: _Action("userspace", None, _userspace),
        3: _Action("set", None, _set),
        4: _Action("push_vlan", 4, _push_vlan),
        5: _Action("pop_vlan", 0, _word("pop_vlan")),
        6: _Action("sample", None, _sample),
        7: _Action("recirc", 4, _of_u32("recirc", hex_number)),
        8: _Action("hash", 8, _hash),
        9: _Action("push_mpls", 8, _of_mpls("push_mpls")),
        10: _Action("pop_mpls", 2, _pop_mpls),
        11: _Action("set", None, _set_masked),
        12: _Action("ct", None, _ct),
        13: _Action("trunc", 4, _of_u32("trunc")),
        14: _Action("push_eth", 12, _push_eth),
        15: _Action("pop_eth", 0, _word("pop_eth")),
        16: _Action("ct_clear", 0, _word("ct_clear")),
        17: _Action("push_nsh", None, _push_nsh),
        18: _Action("pop_nsh", 0, _word("pop_nsh()")),
        19: _Action("meter", 4, _of_u32("meter")),
        20: _Action("clone", None, _clone),
        21: _Action("check_pkt_len", None, _check_pkt_len),
        22: _Action("add_mpls", 8, _of_mpls("add_mpls")),
        23: _Action("dec_ttl", None, _dec_ttl),
        24: _Action("drop", 4, _of_u32("drop")),
        25: _Action("psample", None, _psample),
    }
)
"""By number: what the kernel has of enum ovs_action_attr."""
