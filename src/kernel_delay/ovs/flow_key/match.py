"""What a flow matches, of its key and its mask; and whether it can be hit by given packets."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from kernel_delay.errors import UsageError
from kernel_delay.ovs.flow_key.decode import MAX_ENCAP_DEPTH, format_key
from kernel_delay.ovs.flow_key.names import NAMES, attribute_term
from kernel_delay.ovs.flow_key.netlink import Attribute, walk
from kernel_delay.ovs.flow_key.subfields import LAYOUTS, Layout, Subfield
from kernel_delay.ovs.flow_key.text import cut_short, spaced_hex

ENCAP = NAMES.index("OVS_KEY_ATTR_ENCAP")

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
    words = [_word(attribute, _looked_at(attribute, masks, mask), depth) for attribute in row.found]
    if not any(attribute.type == PACKET_TYPE for attribute in row.found):
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


def _looked_at(attribute: Attribute, masks: Mapping[int, bytes], mask: bytes) -> bytes | None:
    """The mask of an attribute; None: none, as the key has none at all or this is always exact.

    What a mask leaves out is wildcarded (net/openvswitch/flow_netlink.c, 6.18, and lib/odp-util.c).
    """
    found = masks.get(attribute.type)
    if found is not None or not mask or attribute_term(attribute.type) in _ALWAYS_SHOWN:
        return found
    return bytes(len(attribute.payload))


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
    layout = LAYOUTS.get(term)
    if layout is None or not len(payload) == len(mask) == layout.length:
        return _whole(attribute, mask)
    parts = [text for part in layout.parts if (text := _part(part, payload, mask))]
    if not parts and term in _ALWAYS_SHOWN:
        parts = [f"{part.kind.text(part.of(payload))}/0" for part in layout.parts]
    return f"{term}({','.join(parts)})" if parts else None


def _whole(attribute: Attribute, mask: bytes) -> str | None:
    """An attribute that is not matched in parts."""
    if not any(mask):
        return None
    header = attribute.length.to_bytes(2, "little") + attribute.type.to_bytes(2, "little")
    text = format_key(header + attribute.payload)
    if all(byte == 0xFF for byte in mask):
        return text
    return f"{text}/{spaced_hex(mask)}"


def _part(part: Subfield, payload: bytes, mask: bytes) -> str:
    own = part.of(mask)
    if not any(own):
        return ""
    if own != part.whole and part.kind.masked_text is not None:
        return part.kind.masked_text(part.of(payload), own)
    text = part.kind.text(part.of(payload))
    partly = "" if own == part.whole else f"/{part.kind.mask_text(own)}"
    return f"{part.name}={text}{partly}" if part.name else f"{text}{partly}"


class _Term(Struct, frozen=True):
    """What a filter asks of one part of an attribute."""

    attribute: str
    layout: Layout
    part: Subfield
    value: bytes
    mask: bytes

    def allows(self, payload: bytes, mask: bytes | None) -> bool:
        """Whether the flow's value goes with it, in the bits that both look at."""
        if len(payload) != self.layout.length:
            return True  # not decoded: it can't be told
        mask = b"\xff" * len(payload) if mask is None or len(mask) != len(payload) else mask
        found, looked_at = self.part.of(payload), self.part.of(mask)
        both = zip(found, self.value, looked_at, self.mask, strict=True)
        return not any((a ^ b) & c & d for a, b, c, d in both)


class FlowFilter:
    """The packets that are asked about, written as ovs-dpctl(8) writes a flow, with masks.

    `in_port(2),ipv4(src=10.0.0.0/8),udp(dst=53)`: a mask is one of the same kind of value, or of
    an IP address a length too.
    """

    def __init__(self, text: str) -> None:
        """Read it; UsageError where it is malformed."""
        self._terms = tuple(_parse(text))

    def covers(self, key: bytes, mask: bytes, *, cut: bool = False) -> bool:
        """Whether such a packet can hit the flow: no bit that both look at is another.

        A flow that has no attribute of the kind is one of other packets, as one of TCP where UDP
        is asked for and the flow looks at the protocol; where it only wildcards the part, it is
        hit. What is within VLAN tags counts as what is around them. Of a key or mask that is
        `cut` short, what is not there does not count against it.
        """
        found: dict[str, list[tuple[bytes, bytes | None]]] = {}
        for name, payload, looked_at in _all_attributes(key, mask):
            found.setdefault(name, []).append((payload, looked_at))
        return all(self._is_hit(term, found, cut) for term in self._terms)

    @staticmethod
    def _is_hit(term: _Term, found: "_Found", cut: bool) -> bool:
        attributes = found.get(term.attribute)
        if attributes is None:
            return cut or (term.attribute in _OF_PROTOCOLS and _wildcards_protocol(found))
        return any(term.allows(payload, looked_at) for payload, looked_at in attributes)


_Found = Mapping[str, Sequence[tuple[bytes, bytes | None]]]

# What only a packet of one IP protocol has.
_OF_PROTOCOLS = frozenset({"tcp", "tcp_flags", "udp", "sctp", "icmp", "icmpv6"})


def _wildcards_protocol(found: _Found) -> bool:
    """Whether the flow is one of IP, of any protocol: the first packet's says nothing of others."""
    for name in ("ipv4", "ipv6"):
        (protocol,) = (part for part in LAYOUTS[name].parts if part.name == "proto")
        for _, looked_at in found.get(name, ()):
            if looked_at is not None and not any(protocol.of(looked_at)):
                return True
    return False


def _all_attributes(
    key: bytes, mask: bytes, depth: int = 0
) -> Iterator[tuple[str, bytes, bytes | None]]:
    """The attributes and those within VLAN tags, by their terms, each with its mask."""
    masks = {attribute.type: attribute.payload for attribute in walk(mask).found}
    for attribute in walk(key).found:
        looked_at = _looked_at(attribute, masks, mask)
        if attribute.type == ENCAP and depth < MAX_ENCAP_DEPTH:
            yield from _all_attributes(attribute.payload, looked_at or b"", depth + 1)
        else:
            yield attribute_term(attribute.type), attribute.payload, looked_at


def _parse(text: str) -> Iterator[_Term]:
    rest = text.strip()
    while rest:
        name, bracket, rest = rest.partition("(")
        inside, closed, rest = rest.partition(")")
        name = name.strip(" ,")
        layout = LAYOUTS.get(name)
        if not bracket or not closed:
            raise UsageError(f"filter {text!r} is malformed: write NAME(VALUE), NAME(PART=VALUE)")
        if layout is None:
            raise UsageError(f"filter {text!r}: {name!r} is none of {', '.join(LAYOUTS)}")
        if not inside.strip():
            # Of that kind, whatever it is.
            yield _Term(name, layout, layout.parts[0], *(bytes(layout.parts[0].length),) * 2)
        terms = [
            _term(text, name, layout, word)
            for word in filter(None, map(str.strip, inside.split(",")))
        ]
        if len({term.part.name for term in terms}) < len(terms):
            raise UsageError(f"filter {text!r}: {name} has a part twice")
        yield from terms


def _term(text: str, name: str, layout: Layout, word: str) -> _Term:
    left, equals, right = word.partition("=")
    part_name, written = (left.strip(), right.strip()) if equals else ("", word)
    found = [part for part in layout.parts if part.name == part_name]
    if not found:
        raise UsageError(f"filter {text!r}: {name} has {_names(layout.parts)}, not {word!r}")
    part = found[0]
    value, slash, mask = written.partition("/")
    try:
        signed = part.kind.parse_masked(written, part.length)
        wanted = signed[0] if signed else _value(value, part)
        bits = signed[1] if signed else _mask(mask, part) if slash else part.whole
    except ValueError as error:
        raise UsageError(f"filter {text!r}: {error}") from None
    return _Term(name, layout, part, wanted, bits)


def _value(text: str, part: Subfield) -> bytes:
    """A value as it is written, which has no bit that is not the part's own."""
    value = part.kind.parse(text, part.length)
    if any(a & ~b for a, b in zip(value, part.whole, strict=True)):
        raise ValueError(f"{text} is more than fits")
    return value


def _mask(text: str, part: Subfield) -> bytes:
    """A mask as it is written; of an IP address also how many bits of it count."""
    if text.isdecimal() and part.length in (4, 16) and part.kind is LAYOUTS["ipv4"].parts[0].kind:
        bits = part.length * 8
        if int(text) > bits:
            raise ValueError(f"/{text} is more than the address's {bits} bits")
        return ((1 << bits) - (1 << bits - int(text))).to_bytes(part.length, "big")
    return part.kind.parse(text, part.length)


def _names(parts: Sequence[Subfield]) -> str:
    names = [part.name for part in parts if part.name]
    return f"the parts {', '.join(names)}" if names else "a value alone"
