"""Whether a flow can be hit by the packets that are asked for."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType

from msgspec import Struct, structs

from kernel_delay.errors import UsageError
from kernel_delay.host.netlink import Attribute, walk
from kernel_delay.openvswitch.flow_key import subfields, tunnel_match
from kernel_delay.openvswitch.flow_key.decode import MAX_ENCAP_DEPTH
from kernel_delay.openvswitch.flow_key.encapsulations import LSE_LEN, label_entries
from kernel_delay.openvswitch.flow_key.match import ENCAP, ETHERTYPE, MPLS, TUNNEL, mask_of
from kernel_delay.openvswitch.flow_key.subfields import Layout, Subfield
from kernel_delay.openvswitch.flow_key.text import attribute_term

_PACKET_TYPE = "packet_type"
LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        **subfields.LAYOUTS,
        "tunnel": tunnel_match.LAYOUT,
        # Of flows of the userspace datapath; written as a whole, always.
        _PACKET_TYPE: Layout(
            4, (Subfield("ns", 0, 2, subfields.DEC), Subfield("id", 2, 2, subfields.HEX))
        ),
    }
)

_ETHERNET = bytes(4)

# Of a tunnel, which has brackets of their own.
_FLAGS = re.compile(r"\bflags\(([^()]*)\)")

_ENCAP = re.compile(r"\bencap\(")

_BOTTOM_OF_STACK = LAYOUTS["mpls"].parts[-1]


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
            return True  # not decoded: it is not known
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
        if not cut and _TYPE not in found and (types := _looked_at_type(mask)):
            # As it is written: of a frame that has a length in its place.
            found[_TYPE] = [(bytes(len(types)), types)]
        if "eth" in found:
            # The kernel has no attribute of it.
            found.setdefault(_PACKET_TYPE, [(_ETHERNET, None)])
        return all(self._is_hit(term, found, cut) for term in self._terms)

    @staticmethod
    def _is_hit(term: _Term, found: "_Found", cut: bool) -> bool:
        attributes = found.get(term.attribute)
        if attributes is None:
            return cut or _may_be_of_others(term.attribute, found)
        return any(term.allows(payload, looked_at) for payload, looked_at in attributes)


_TYPE = "eth_type"


def _looked_at_type(mask: bytes) -> bytes:
    (*_, found) = (b"", *(a.payload for a in walk(mask).found if a.type == ETHERTYPE))
    return found


_Found = Mapping[str, Sequence[tuple[bytes, bytes | None]]]

# What only a packet of one IP protocol has.
_OF_PROTOCOLS = frozenset({"tcp", "tcp_flags", "udp", "sctp", "icmp", "icmpv6"})


def _may_be_of_others(attribute: str, found: _Found) -> bool:
    """Whether the flow does not look at what is asked for, and packets with it may hit it."""
    if attribute in _OF_PROTOCOLS:
        return _wildcards_protocol(found)
    return attribute.startswith("mpls ") and "mpls" in found and not _ends_stack(found)


def _ends_stack(found: _Found) -> bool:
    """Whether an entry that the flow looks at is the stack's last, for sure."""
    stack = [pair for name, pairs in found.items() if name.startswith("mpls") for pair in pairs]
    return any(
        len(entry) == LSE_LEN
        and any(_BOTTOM_OF_STACK.of(entry))
        and (mask is None or len(mask) != LSE_LEN or any(_BOTTOM_OF_STACK.of(mask)))
        for entry, mask in stack
    )


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
        looked_at = mask_of(attribute, masks, mask)
        if attribute.type == ENCAP and depth < MAX_ENCAP_DEPTH:
            yield from _all_attributes(attribute.payload, looked_at or b"", depth + 1)
        elif attribute.type == MPLS:
            yield from _labels(attribute.payload, looked_at)
        elif attribute.type == TUNNEL:
            yield _tunnel(attribute, looked_at)
        else:
            yield attribute_term(attribute.type), attribute.payload, looked_at


def _tunnel(attribute: Attribute, looked_at: bytes | None) -> tuple[str, bytes, bytes | None]:
    # Of one that is cut nothing is known.
    row = tunnel_match.row_of(attribute.payload, looked_at) if attribute.complete else (b"", None)
    return attribute_term(attribute.type), *row


def _labels(payload: bytes, looked_at: bytes | None) -> Iterator[tuple[str, bytes, bytes | None]]:
    """Each entry of the stack, by its place in it."""
    masks = () if looked_at is None else label_entries(looked_at)
    for place, (entry, mask) in enumerate(zip_longest(label_entries(payload), masks)):
        if entry is not None:
            yield _label(place), entry, mask


def _label(place: int) -> str:
    return "mpls" if place == 0 else f"mpls {place}"


def _parse(text: str) -> Iterator[_Term]:
    rest = _FLAGS.sub(r"flags=\1", _without_encap(text)).strip(" ,")
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
        if name == "mpls":
            terms = _by_place(terms)
        if len({(term.attribute, term.part.name) for term in terms}) < len(terms):
            raise UsageError(f"filter {text!r}: {name} has a part twice")
        yield from terms


def _without_encap(text: str) -> str:
    """The text with what is within VLAN tags beside what is around them."""
    while (found := _ENCAP.search(text)) is not None:
        depth, at = 1, found.end()
        while depth and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        inside = text[found.end() : at if depth else at - 1]
        text = f"{text[: found.start()]}{inside}{text[at:]}"
    return text


def _by_place(terms: Sequence[_Term]) -> list[_Term]:
    """Of a stack of labels: where a part comes again, the next entry begins."""
    found: list[_Term] = []
    seen: set[str] = set()
    place = 0
    for term in terms:
        if term.part.name in seen:
            place, seen = place + 1, set()
        seen.add(term.part.name)
        found.append(structs.replace(term, attribute=_label(place)))
    return found


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
        hint = ": 'ovs-appctl dpctl/show' has those of the ports" if name == "in_port" else ""
        raise UsageError(f"filter {text!r}: {error}{hint}") from None
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
