"""The MPLS attribute: an array of label stack entries, and what a flow matches of them."""

import struct

from kernel_delay.openvswitch.flow_key.text import spaced_hex, wrong_length

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


def mpls_match(payload: bytes, mask: bytes) -> str:
    """The same with masks, of the same length, as format_mpls() of lib/odp-util.c writes them."""
    if not payload or len(payload) % LSE_LEN:
        return f"{mpls(payload)}/{spaced_hex(mask)}"
    pairs = zip(entries(payload), entries(mask), strict=True)
    return f"mpls({','.join(_masked(*map(int.from_bytes, pair)) for pair in pairs)})"


def entries(payload: bytes) -> list[bytes]:
    """The label stack's entries, the outermost first; the last may be cut."""
    return [payload[at : at + LSE_LEN] for at in range(0, len(payload), LSE_LEN)]


def _masked(lse: int, mask: int) -> str:
    return (
        f"label={lse >> 12}/0x{mask >> 12:x},tc={lse >> 9 & 7}/{mask >> 9 & 7:x},"
        f"ttl={lse & 0xFF}/0x{mask & 0xFF:x},bos={lse >> 8 & 1}/{mask >> 8 & 1:x}"
    )
