"""How ovs-dpctl(8) writes single values."""

import socket
from collections.abc import Sequence

from kernel_delay.openvswitch.flow_key.netlink import Attribute


def hex_number(value: int) -> str:
    """`value` as C's `%#x` writes it: no prefix for zero."""
    return f"{value:#x}" if value else "0"


def mac(octets: bytes) -> str:
    """An Ethernet address of 6 octets."""
    return octets.hex(":")


def ip(octets: bytes) -> str:
    """An IPv4 (4 octets) or IPv6 (16 octets) address, as inet_ntop(3) writes it."""
    return socket.inet_ntop(socket.AF_INET if len(octets) == 4 else socket.AF_INET6, octets)


def flags(value: int, names: Sequence[str]) -> str:
    """Bits of `value` by `names`, bit 0 first, as `a|b`; nameless ones as one hex number."""
    words = [name for bit, name in enumerate(names) if value & 1 << bit]
    unnamed = value >> len(names) << len(names)
    if unnamed:
        words.append(hex_number(unnamed))
    return "|".join(words) or "0"


def spaced_hex(data: bytes) -> str:
    """Bytes in hexadecimal, a space between two."""
    return data.hex(" ")


def cut_short(term: str, attribute: Attribute) -> str:
    """An attribute of which only a part is there."""
    return (
        f"{term}(<{len(attribute.payload)} of {attribute.claimed} bytes: "
        f"{spaced_hex(attribute.payload)}>)"
    )


def wrong_length(term: str, payload: bytes, expected: str) -> str:
    """An attribute whose payload is not of the length its kind has."""
    return f"{term}(<length {len(payload)}, not {expected}: {spaced_hex(payload)}>)"


def ufid_text(first: int, second: int, third: int, fourth: int) -> str:
    """A UFID as Open vSwitch writes it, the four words of 32 bits as a UUID."""
    return (
        f"{first:08x}-{second >> 16:04x}-{second & 0xFFFF:04x}"
        f"-{third >> 16:04x}-{third & 0xFFFF:04x}{fourth:08x}"
    )
