"""The network service header's attribute: a nest of OVS_NSH_KEY_ATTR_* (RFC 8300)."""

import struct

from kernel_delay.ovs.flow_key.netlink import walk
from kernel_delay.ovs.flow_key.text import cut_short, spaced_hex, wrong_length

BASE = 1
MD1 = 2
MD_TYPE_1 = 1
BASE_LEN = 8
MD1_LEN = 16


def nsh(payload: bytes) -> str:
    """The text inside `nsh(…)`; context words only where the base says metadata type 1."""
    row = walk(payload)
    words = []
    has_context = False
    for attribute in row.found:
        if not attribute.complete:
            words.append(cut_short(f"key{attribute.type}", attribute))
        elif attribute.type == BASE:
            words.append(_base(attribute.payload))
            has_context = len(attribute.payload) == BASE_LEN and attribute.payload[2] == MD_TYPE_1
        elif attribute.type == MD1:
            if len(attribute.payload) != MD1_LEN:
                words.append(wrong_length("md1", attribute.payload, str(MD1_LEN)))
            elif has_context:
                words.extend(
                    f"c{number}=0x{word:x}"
                    for number, word in enumerate(struct.unpack("!4I", attribute.payload), start=1)
                )
        else:
            words.append(f"key{attribute.type}({spaced_hex(attribute.payload)})")
    if row.problem:
        words.append(f"<{row.problem}>")
    return ",".join(words)


def _base(payload: bytes) -> str:
    if len(payload) != BASE_LEN:
        return wrong_length("base", payload, str(BASE_LEN))
    flags, ttl, md_type, next_protocol, path = struct.unpack("!BBBBI", payload)
    return (
        f"flags={flags},ttl={ttl},mdtype={md_type},np={next_protocol},"
        f"spi=0x{path >> 8:x},si={path & 0xFF}"
    )
