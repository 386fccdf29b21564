"""What Open vSwitch's revalidators make of flows: made, kept, modified, deleted and why."""

import re
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from kernel_delay.analysis.histogram import Log2Histogram
from kernel_delay.errors import InputError
from kernel_delay.formatting import NS_PER_MS, printable
from kernel_delay.openvswitch.flow_key import format_match
from kernel_delay.openvswitch.installed import Version
from kernel_delay.recording.records import Events

FlowChange = Literal["insert", "keep", "modify", "delete"]
"""What happened to a flow: it was made, or a revalidator looked at it and did that."""

# enum flow_del_reason of ofproto/ofproto-dpif-upcall.c, without its prefix: 3.4.0 has all but the
# last, and 3.4.1 to 4.0 have all, in this order.
REASONS = (
    "none",
    "avoid_caching",
    "bad_odp_fit",
    "flow_idle",
    "flow_limit",
    "flow_wildcarded",
    "no_ofproto",
    "purge",
    "too_expensive",
    "update_fail",
    "xlation_error",
    "flow_missing_dp",
)
REASONS_SINCE: Version = (3, 4)
REASONS_UNTIL: Version = (4, 0)

MOST_REASONS = 64
OTHERS = "other reasons"

THRASH_NS = 1000 * NS_PER_MS
"""A flow that is there again so soon was deleted in vain."""

REMEMBERED_NS = 10 * THRASH_NS
"""How long a deleted flow is remembered: that it is back is reported with the next round."""

MOST_DELETED = 100_000
"""Deleted flows that are remembered; of more, the oldest are forgotten."""

MOST_RETURNED = 10_000
"""Flows that came back of which each is counted by itself."""


class FlowEvent(Struct, frozen=True):
    """A flow of the datapath, and what happened to it.

    Attributes:
        time_ns: When it happened (CLOCK_MONOTONIC). For an insertion: when the flow was made, to
            the millisecond.
        tid: The thread that changed or checked the flow.
        comm: The name of that thread.
        change: What happened.
        in_sweep: It happened in the sweep after the dump.
        reason: The reason of a deletion. None: the number has no certain name.
        reason_number: Open vSwitch's number of the reason.
        datapath: The datapath.
        ufid: The UFID, as Open vSwitch writes it.
        layer: Who holds the flow: "ovs" the datapath, "tc" or "dpdk" an offload. Empty: not yet
            known to Open vSwitch.
        pmd_id: The PMD thread of the flow, as Open vSwitch numbers it.
        created_ns: When the flow was made (CLOCK_MONOTONIC).
        used_ns: When the flow had its last packet (CLOCK_MONOTONIC). None: no packet yet.
        n_packets: Packets, as Open vSwitch last knew.
        n_bytes: Bytes, as Open vSwitch last knew.
        key: The captured start of the key, as netlink attributes.
        key_len: The full length of the key, in bytes.
        mask: The captured start of the mask, as netlink attributes.
        mask_len: The full length of the mask, in bytes.
        rules: The OpenFlow rules of a made or modified flow, as Open vSwitch writes them
            (`--rules`). Empty: it does not know them.
    """

    time_ns: int
    tid: int
    comm: str
    change: FlowChange
    in_sweep: bool
    reason: str | None
    reason_number: int
    datapath: str
    ufid: str
    layer: str
    pmd_id: int
    created_ns: int
    used_ns: int | None
    n_packets: int
    n_bytes: int
    key: bytes
    key_len: int
    mask: bytes
    mask_len: int
    rules: tuple[str, ...] = ()

    @property
    def is_cut(self) -> bool:
        """Whether the key or the mask was captured in part only."""
        return len(self.key) < self.key_len or len(self.mask) < self.mask_len

    @property
    def age_ns(self) -> int:
        """How old the flow was."""
        return max(self.time_ns - self.created_ns, 0)


UNKNOWN_REASON = "unknown reason "
"""What the number of a reason without a name follows."""


def reason_names(version: Version | None) -> Mapping[int, str]:
    """The reasons that are known of that version, by their numbers; none of one that is not."""
    if version is None or not REASONS_SINCE <= version <= REASONS_UNTIL:
        return MappingProxyType({})
    return MappingProxyType(dict(enumerate(REASONS)))


def reason_text(event: FlowEvent) -> str:
    """A deletion's reason, by name where that is sure."""
    if event.reason in REASONS:
        return event.reason
    return f"{UNKNOWN_REASON}{event.reason_number}"


def match_text(event: FlowEvent) -> str:
    """What the flow matches, as far as it was captured."""
    text = format_match(event.key, event.mask, event.key_len)
    if len(event.mask) < event.mask_len:
        text += f",<{len(event.mask)} of the mask's {event.mask_len} bytes captured>"
    return printable(text)


# Each PMD thread of a userspace datapath has a flow of its own, with the same UFID.
_Identity = tuple[str, int, str]


def _identity(event: FlowEvent) -> _Identity:
    return event.datapath, event.pmd_id, event.ufid


class FlowChurn:
    """What all events come to, in bounded memory."""

    def __init__(self) -> None:
        """Start before the first."""
        self.changes = Counter[FlowChange]()
        self.reasons = Counter[str]()
        self.lifetimes_ms = Log2Histogram()
        self.came_back = 0
        self.returned: dict[str, int] = {}
        self._deleted = OrderedDict[_Identity, int]()

    @property
    def remembered(self) -> int:
        """How many deleted flows may still be reported to be back."""
        return len(self._deleted)

    def take(self, event: FlowEvent) -> bool:
        """Count the next; return whether it is a flow that came back within THRASH_NS."""
        self.changes[event.change] += 1
        match event.change:
            case "delete":
                reason = reason_text(event)
                if reason not in self.reasons and len(self.reasons) >= MOST_REASONS:
                    reason = OTHERS
                self.reasons[reason] += 1
                self.lifetimes_ms.add(event.age_ns // NS_PER_MS)
                self._remember(event)
            case "insert":
                return self._is_back(event)
        return False

    def _remember(self, event: FlowEvent) -> None:
        identity = _identity(event)
        self._deleted.pop(identity, None)
        self._deleted[identity] = event.time_ns
        while (
            len(self._deleted) > MOST_DELETED or self._oldest_ns() < event.time_ns - REMEMBERED_NS
        ):
            self._deleted.popitem(last=False)

    def _oldest_ns(self) -> int:
        return next(iter(self._deleted.values()))

    def _is_back(self, event: FlowEvent) -> bool:
        deleted_ns = self._deleted.get(_identity(event))
        if deleted_ns is None or event.created_ns - deleted_ns > THRASH_NS:
            return False
        self.came_back += 1
        if event.ufid in self.returned or len(self.returned) < MOST_RETURNED:
            self.returned[event.ufid] = self.returned.get(event.ufid, 0) + 1
        return True


_UFID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class FlowEvents(Events, frozen=True, tag="flow_events"):
    """What happened to flows, in order.

    Attributes:
        events: The events.
        flows_before: How many older flows had been seen by then.
    """

    COUNTERS = frozenset({"n_packets", "n_bytes", "flows_before"})

    events: tuple[FlowEvent, ...]
    flows_before: int

    def measured(self) -> Sequence[FlowEvent]:
        """The events."""
        return self.events

    def check(self) -> None:
        """Raise InputError for a flow without a UFID."""
        if not all(_UFID.fullmatch(event.ufid) for event in self.events):
            raise InputError("a flow's ufid is malformed")


RECORD = FlowEvents
