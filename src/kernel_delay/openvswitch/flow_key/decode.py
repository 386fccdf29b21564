"""A whole flow key to text: as attributes (`nlraw`), or in ovs-dpctl's terms (`decode`)."""

import struct

from kernel_delay.host.netlink import Attribute, walk
from kernel_delay.openvswitch.flow_key.encapsulations import mpls, nsh
from kernel_delay.openvswitch.flow_key.fields import FIELDS
from kernel_delay.openvswitch.flow_key.text import (
    IN_PORT,
    RECIRC_ID,
    attribute_name,
    attribute_term,
    cut_short,
    spaced_hex,
    wrong_length,
)
from kernel_delay.openvswitch.flow_key.tunnel import tunnel

# The kernel nests two, one for each VLAN tag (net/openvswitch/flow_netlink.c,
# 6.18); bytes that nest deeper must not exhaust our stack.
MAX_ENCAP_DEPTH = 8


def nlraw_lines(key: bytes, size: int | None = None) -> list[str]:
    """One line for each attribute: its length, its type with name and number, its payload.

    `size` is the key's full length, of which `key` is the captured beginning;
    None means that all of it is there. Where the row of attributes breaks, a
    last line says why and shows the bytes that are left.
    """
    row = walk(key, size)
    lines = [
        f"nla_len {attribute.length}, nla_type {attribute_name(attribute.type)}[{attribute.type}], "
        f"data: {spaced_hex(attribute.payload)}{'' if attribute.complete else ' ...'}"
        for attribute in row.found
    ]
    if row.problem:
        rest = f": {spaced_hex(row.rest)}" if row.rest else ""
        lines.append(f"<{row.problem}{rest}>")
    return lines


def format_key(key: bytes, size: int | None = None) -> str:
    """The key in the terms of ovs-dpctl(8): `recirc_id(0),in_port(2),eth(src=…),…`.

    `size` is as in nlraw_lines(). Angle brackets hold what can't be decoded:
    an attribute cut short, one of a wrong length, bytes that are no attribute.
    """
    return _row(key, size, 0)


def _row(data: bytes, size: int | None, depth: int) -> str:
    row = walk(data, size)
    words = [_word(attribute, depth) for attribute in row.found]
    if row.problem:
        rest = f": {spaced_hex(row.rest)}" if row.rest else ""
        words.append(f"<{row.problem}{rest}>")
    return ",".join(words) or "<empty>"


def _word(attribute: Attribute, depth: int) -> str:
    term = attribute_term(attribute.type)
    payload = attribute.payload
    if not attribute.complete:
        return cut_short(term, attribute)
    match name := attribute_name(attribute.type):
        case "OVS_KEY_ATTR_ENCAP":
            if depth == MAX_ENCAP_DEPTH:
                return f"encap(<nested deeper than {MAX_ENCAP_DEPTH}: {spaced_hex(payload)}>)"
            return f"encap({_row(payload, None, depth + 1) if payload else ''})"
        case "OVS_KEY_ATTR_TUNNEL":
            return f"tunnel({tunnel(payload)})"
        case "OVS_KEY_ATTR_NSH":
            return f"nsh({nsh(payload)})"
        case "OVS_KEY_ATTR_MPLS":
            return mpls(payload)
    field = FIELDS.get(name)
    if field is None:
        return f"{term}({spaced_hex(payload)})"
    if len(payload) != field.length:
        return wrong_length(term, payload, str(field.length))
    return f"{term}({field.text(payload)})"


def datapath_port(key: bytes) -> int | None:
    """The datapath port a packet came in on; None when `key` does not say.

    The kernel leaves the attribute out for a packet that user space injected
    without a port (ovs_nla_put_key(), net/openvswitch/flow_netlink.c, 6.18).
    """
    return _u32(key, IN_PORT)


def recirculation_id(key: bytes) -> int | None:
    """The recirculation ID a packet was looked up with; None when `key` does not say."""
    return _u32(key, RECIRC_ID)


def _u32(key: bytes, kind: int) -> int | None:
    for attribute in walk(key).found:
        if attribute.type == kind and attribute.complete and len(attribute.payload) == 4:
            value: int = struct.unpack("=I", attribute.payload)[0]
            return value
    return None
