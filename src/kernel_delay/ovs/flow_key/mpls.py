"""The MPLS attribute: an array of label stack entries."""

import struct

from kernel_delay.ovs.flow_key.text import wrong_length

LSE_LEN = 4


def mpls(payload: bytes) -> str:
    """`mpls(…)` with each label stack entry (RFC 3032, 2.1): label, TC, bottom of stack, TTL."""
    if not payload or len(payload) % LSE_LEN:
        return wrong_length("mpls", payload, "a multiple of 4")
    return (
        "mpls("
        + ",".join(
            f"label={lse >> 12},tc={lse >> 9 & 7},ttl={lse & 0xFF},bos={lse >> 8 & 1}"
            for (lse,) in struct.iter_unpack("!I", payload)
        )
        + ")"
    )
