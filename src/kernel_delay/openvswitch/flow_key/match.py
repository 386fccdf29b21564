"""What a flow matches, of its key and its mask, as text."""

from collections.abc import Mapping, Sequence

from kernel_delay.host.netlink import Attribute, walk
from kernel_delay.openvswitch.flow_key.decode import MAX_ENCAP_DEPTH, format_key
from kernel_delay.openvswitch.flow_key.encapsulations import mpls_match
from kernel_delay.openvswitch.flow_key.subfields import LAYOUTS
from kernel_delay.openvswitch.flow_key.text import NAMES, attribute_term, cut_short, spaced_hex
from kernel_delay.openvswitch.flow_key.tunnel_match import tunnel_match

ENCAP = NAMES.index("OVS_KEY_ATTR_ENCAP")
MPLS = NAMES.index("OVS_KEY_ATTR_MPLS")
TUNNEL = NAMES.index("OVS_KEY_ATTR_TUNNEL")
ETHERTYPE = NAMES.index("OVS_KEY_ATTR_ETHERTYPE")
PACKET_TYPE = NAMES.index("OVS_KEY_ATTR_PACKET_TYPE")

# What is shown even if it is wildcarded: what the packet is looked up by and, where nothing else
# says so, that it is one of Ethernet.
_ALWAYS_SHOWN = frozenset({"recirc_id", "in_port", "eth_type"})
_ETHERNET = "eth"


def format_match(key: bytes, mask: bytes, key_len: int | None = None) -> str:
    """The flow's match as `ovs-appctl dpctl/dump-flows` writes it, without what it wildcards.

    `recirc_id(0),in_port(2),eth_type(0x0800),ipv4(dst=10.0.0.0/255.0.0.0,frag=no)`: a value with
    a part of its bits is followed by its mask. `key_len` is the key's full length, of which `key`
    is the captured beginning. What can't be decoded is in angle brackets.
    """
    return ",".join(_words(key, mask, key_len, 0)) or "<empty>"


def _words(key: bytes, mask: bytes, size: int | None, depth: int) -> list[str]:
    row = walk(key, size)
    masks = {attribute.type: attribute.payload for attribute in walk(mask).found}
    words = [_word(attribute, mask_of(attribute, masks, mask), depth) for attribute in row.found]
    if not _has_packet_type(row.found, words):
        words = [
            f"{_ETHERNET}()" if _is_any_ethernet(attribute, word) else word
            for attribute, word in zip(row.found, words, strict=True)
        ]
    has_type = any(attribute.type == ETHERTYPE for attribute in row.found)
    if ETHERTYPE in masks and not has_type and not row.problem:
        # A frame with a length in its place: no key has one of that.
        words.append(f"eth_type(0/0x{masks[ETHERTYPE].hex()})")
    if row.problem:
        rest = f": {spaced_hex(row.rest)}" if row.rest else ""
        words.append(f"<{row.problem}{rest}>")
    return [word for word in words if word is not None]


def mask_of(attribute: Attribute, masks: Mapping[int, bytes], mask: bytes) -> bytes | None:
    """The mask of an attribute; None: none, as the key has none at all or this is always exact.

    What a mask leaves out is wildcarded (net/openvswitch/flow_netlink.c, 6.18, and lib/odp-util.c).
    """
    found = masks.get(attribute.type)
    if found is not None or not mask or attribute_term(attribute.type) in _ALWAYS_SHOWN:
        return found
    return bytes(len(attribute.payload))


def _has_packet_type(found: Sequence[Attribute], words: Sequence[str | None]) -> bool:
    """Whether the flow looks at the packet's type: that identifies one of Ethernet then."""
    pairs = zip(found, words, strict=True)
    return any(attribute.type == PACKET_TYPE and word is not None for attribute, word in pairs)


def _is_any_ethernet(attribute: Attribute, word: str | None) -> bool:
    return word is None and attribute_term(attribute.type) == _ETHERNET


def _word(attribute: Attribute, mask: bytes | None, depth: int) -> str | None:
    """One attribute; None where the flow wildcards all of it. Without a mask it is exact."""
    term, payload = attribute_term(attribute.type), attribute.payload
    if not attribute.complete:
        return cut_short(term, attribute)
    if attribute.type == ENCAP and depth < MAX_ENCAP_DEPTH:
        return f"encap({','.join(_words(payload, mask or b'', None, depth + 1))})"
    if mask is None:
        mask = b"\xff" * len(payload)
    elif attribute.type == TUNNEL:
        return f"{term}({tunnel_match(payload, mask)})"
    if attribute.type == MPLS:
        return _mpls(attribute, mask)
    layout = LAYOUTS.get(term)
    if layout is None or not len(payload) == len(mask) == layout.length:
        return _whole(attribute, mask)
    parts = [text for part in layout.parts if (text := part.match_text(payload, mask))]
    if not parts and term in _ALWAYS_SHOWN:
        parts = [f"{part.kind.text(part.of(payload))}/0" for part in layout.parts]
    return f"{term}({','.join(parts)})" if parts else None


def _mpls(attribute: Attribute, mask: bytes) -> str | None:
    """A stack of labels; as a whole where all of it counts, as Open vSwitch has it then."""
    payload = attribute.payload
    if not any(mask) or len(mask) != len(payload) or all(byte == 0xFF for byte in mask):
        return _whole(attribute, mask)
    return mpls_match(payload, mask)


def _whole(attribute: Attribute, mask: bytes) -> str | None:
    """An attribute that is not matched in parts."""
    if not any(mask):
        return None
    header = attribute.length.to_bytes(2, "little") + attribute.type.to_bytes(2, "little")
    text = format_key(header + attribute.payload)
    if all(byte == 0xFF for byte in mask):
        return text
    return f"{text}/{spaced_hex(mask)}"
