"""The parts of attributes that a flow can match one by one, and how each is written and read.

Layouts are the structs of include/uapi/linux/openvswitch.h (Linux 6.18), names those of
ovs-dpctl(8). What is not here is matched as a whole.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from kernel_delay.openvswitch.flow_key.fields import CT_STATE, FRAGMENT, TCP_FLAGS
from kernel_delay.openvswitch.flow_key.text import flags, hex_number, ip, mac

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.IGNORECASE)


class Kind(Struct, frozen=True):
    """How a value is written, how a mask is, and how both are read.

    `parse` takes the text and the value's length; it raises ValueError. `masked_text` writes a
    value and the mask of a part of its bits together, and `parse_masked` reads that, where there
    is such a way; it returns None for what is written in another.
    """

    text: Callable[[bytes], str]
    mask_text: Callable[[bytes], str]
    parse: Callable[[str, int], bytes]
    masked_text: Callable[[bytes, bytes], str] | None = None
    parse_masked: Callable[[str, int], tuple[bytes, bytes] | None] = lambda text, length: None


class Subfield(Struct, frozen=True):
    """A part of an attribute: `bits` of the bytes from an offset on.

    `name` is empty where the attribute is the value itself, as in `in_port(2)`.
    """

    name: str
    offset: int
    length: int
    kind: Kind
    bits: int | None = None

    def of(self, payload: bytes) -> bytes:
        """Its bytes in an attribute's payload, those bits alone that are its own."""
        part = payload[self.offset : self.offset + self.length]
        if self.bits is None:
            return part
        own = self.bits.to_bytes(self.length, "big")
        return bytes(a & b for a, b in zip(part, own, strict=True))

    @property
    def whole(self) -> bytes:
        """The mask of all its bits."""
        return self.of(b"\xff" * (self.offset + self.length))

    def match_text(self, payload: bytes, mask: bytes) -> str:
        """What a flow matches of it, as ovs-dpctl(8) writes it; empty where that is nothing."""
        own = self.of(mask)
        if not any(own):
            return ""
        if own != self.whole and self.kind.masked_text is not None:
            return self.kind.masked_text(self.of(payload), own)
        text = self.kind.text(self.of(payload))
        partly = "" if own == self.whole else f"/{self.kind.mask_text(own)}"
        return f"{self.name}={text}{partly}" if self.name else f"{text}{partly}"


class Layout(Struct, frozen=True):
    """An attribute's length, and its parts in the order in which they are written."""

    length: int
    parts: tuple[Subfield, ...]


Order = Literal["little", "big"]


def _integer(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None


def _number(text: str, length: int, order: Order) -> bytes:
    try:
        return _integer(text).to_bytes(length, order)
    except OverflowError:
        raise ValueError(f"{text} is no number of {length} bytes") from None


def _integers(order: Order, number: Callable[[int], str]) -> Kind:
    def value(data: bytes) -> str:
        return number(int.from_bytes(data, order))

    def mask(data: bytes) -> str:
        return hex_number(int.from_bytes(data, order))

    return Kind(value, mask, lambda text, length: _number(text, length, order))


def _parse_ip(text: str, length: int) -> bytes:
    found = ipaddress.ip_address(text).packed
    if len(found) != length:
        raise ValueError(f"{text} is of another version of IP")
    return found


def _parse_mac(text: str, length: int) -> bytes:
    if not _MAC.fullmatch(text):
        raise ValueError(f"{text} is no Ethernet address")
    return bytes.fromhex(text.replace(":", ""))


def _fragment(data: bytes) -> str:
    return FRAGMENT[data[0]] if data[0] < len(FRAGMENT) else str(data[0])


def _parse_fragment(text: str, length: int) -> bytes:
    if text in FRAGMENT:
        return bytes([FRAGMENT.index(text)])
    return _number(text, length, "big")


def bits(order: Order, names: tuple[str, ...]) -> Kind:
    """Flags, by their names with a bar between, or as a number; some of them as `-new+trk`.

    As lib/dynamic-string.c:format_flags_masked() of Open vSwitch 3.5 writes them.
    """

    def masked(data: bytes, mask: bytes) -> str:
        value, looked_at = int.from_bytes(data, order), int.from_bytes(mask, order)
        return "".join(
            f"{'+' if value >> bit & 1 else '-'}{_flag_name(bit, names)}"
            for bit in range(8 * len(mask))
            if looked_at >> bit & 1
        )

    def parse_masked(text: str, length: int) -> tuple[bytes, bytes] | None:
        if not _SIGNED.fullmatch(text):
            return None
        value = mask = 0
        for sign, name in _SIGNED_FLAG.findall(text):
            if name not in names:
                raise ValueError(f"{name!r} is none of {', '.join(names)}")
            mask |= 1 << names.index(name)
            value |= (sign == "+") << names.index(name)
        return value.to_bytes(length, order), mask.to_bytes(length, order)

    def parse(text: str, length: int) -> bytes:
        words = text.split("|")
        if not all(word in names for word in words):
            return _number(text, length, order)
        value = sum(1 << names.index(word) for word in words)
        return value.to_bytes(length, order)

    def value(data: bytes) -> str:
        return flags(int.from_bytes(data, order), names)

    return Kind(value, value, parse, masked, parse_masked)


_SIGNED = re.compile(r"([+-][^+-]+)+")
_SIGNED_FLAG = re.compile(r"([+-])([^+-]+)")


def _flag_name(bit: int, names: tuple[str, ...]) -> str:
    return names[bit] if bit < len(names) else "[Unknown]"


DEC, HEX = _integers("big", str), _integers("big", hex_number)
# The kernel's own numbers are in host order, and all architectures we run on are little-endian.
HOST, HOST_HEX = _integers("little", str), _integers("little", hex_number)
IP = Kind(ip, ip, _parse_ip)
MAC = Kind(mac, mac, _parse_mac)
FRAG = Kind(_fragment, lambda data: hex_number(data[0]), _parse_fragment)


def _type_text(data: bytes) -> str:
    return f"0x{data.hex()}"


def _shifted(shift: int) -> Kind:
    """A number whose lowest bit is not its bytes' lowest."""

    def parse(text: str, length: int) -> bytes:
        value = _integer(text) << shift
        if value >> 8 * length:
            raise ValueError(f"{text} is more than fits")
        return value.to_bytes(length, "big")

    def number(data: bytes) -> int:
        return int.from_bytes(data, "big") >> shift

    return Kind(lambda data: str(number(data)), lambda data: hex_number(number(data)), parse)


# lib/odp-util.c, format_be64(): a prefix also of zero.
TUN_ID = Kind(lambda data: f"0x{int.from_bytes(data):x}", HEX.mask_text, HEX.parse)
ETHERTYPE = Kind(_type_text, _type_text, HEX.parse)

_PORTS = Layout(4, (Subfield("src", 0, 2, DEC), Subfield("dst", 2, 2, DEC)))
_ICMP = Layout(2, (Subfield("type", 0, 1, DEC), Subfield("code", 1, 1, DEC)))

LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "recirc_id": Layout(4, (Subfield("", 0, 4, HOST_HEX),)),
        "dp_hash": Layout(4, (Subfield("", 0, 4, HOST_HEX),)),
        "skb_priority": Layout(4, (Subfield("", 0, 4, HOST_HEX),)),
        "in_port": Layout(4, (Subfield("", 0, 4, HOST),)),
        "skb_mark": Layout(4, (Subfield("", 0, 4, HOST_HEX),)),
        "ct_state": Layout(4, (Subfield("", 0, 4, bits("little", CT_STATE)),)),
        "ct_zone": Layout(2, (Subfield("", 0, 2, HOST_HEX),)),
        "ct_mark": Layout(4, (Subfield("", 0, 4, HOST_HEX),)),
        "ct_label": Layout(16, (Subfield("", 0, 16, HOST_HEX),)),
        "eth": Layout(12, (Subfield("src", 0, 6, MAC), Subfield("dst", 6, 6, MAC))),
        "eth_type": Layout(2, (Subfield("", 0, 2, ETHERTYPE),)),
        "vlan": Layout(
            2,
            (
                Subfield("vid", 0, 2, DEC, bits=0x0FFF),
                Subfield("pcp", 0, 1, _shifted(5), bits=0xE0),
            ),
        ),
        "ipv4": Layout(
            12,
            (
                Subfield("src", 0, 4, IP),
                Subfield("dst", 4, 4, IP),
                Subfield("proto", 8, 1, DEC),
                Subfield("tos", 9, 1, HEX),
                Subfield("ttl", 10, 1, DEC),
                Subfield("frag", 11, 1, FRAG),
            ),
        ),
        "ipv6": Layout(
            40,
            (
                Subfield("src", 0, 16, IP),
                Subfield("dst", 16, 16, IP),
                Subfield("label", 32, 4, HEX, bits=0x000FFFFF),
                Subfield("proto", 36, 1, DEC),
                Subfield("tclass", 37, 1, HEX),
                Subfield("hlimit", 38, 1, DEC),
                Subfield("frag", 39, 1, FRAG),
            ),
        ),
        # The entry of a label; a stack has several.
        "mpls": Layout(
            4,
            (
                Subfield("label", 0, 3, _shifted(4), bits=0xFFFFF0),
                Subfield("tc", 2, 1, _shifted(1), bits=0x0E),
                Subfield("ttl", 3, 1, DEC),
                Subfield("bos", 2, 1, DEC, bits=0x01),
            ),
        ),
        "ct_tuple4": Layout(
            16,
            (
                Subfield("src", 0, 4, IP),
                Subfield("dst", 4, 4, IP),
                Subfield("proto", 12, 1, DEC),
                Subfield("tp_src", 8, 2, DEC),
                Subfield("tp_dst", 10, 2, DEC),
            ),
        ),
        "ct_tuple6": Layout(
            40,
            (
                Subfield("src", 0, 16, IP),
                Subfield("dst", 16, 16, IP),
                Subfield("proto", 36, 1, DEC),
                Subfield("src_port", 32, 2, DEC),
                Subfield("dst_port", 34, 2, DEC),
            ),
        ),
        "tcp": _PORTS,
        "udp": _PORTS,
        "sctp": _PORTS,
        "tcp_flags": Layout(2, (Subfield("", 0, 2, bits("big", TCP_FLAGS), bits=0x0FFF),)),
        "icmp": _ICMP,
        "icmpv6": _ICMP,
        "arp": Layout(
            24,
            (
                Subfield("sip", 0, 4, IP),
                Subfield("tip", 4, 4, IP),
                Subfield("op", 8, 2, DEC),
                Subfield("sha", 10, 6, MAC),
                Subfield("tha", 16, 6, MAC),
            ),
        ),
        "nd": Layout(
            28,
            (
                Subfield("target", 0, 16, IP),
                Subfield("sll", 16, 6, MAC),
                Subfield("tll", 22, 6, MAC),
            ),
        ),
    }
)
"""By what ovs-dpctl(8) calls the attribute."""
