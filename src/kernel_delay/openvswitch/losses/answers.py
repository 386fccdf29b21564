"""What ovs-vswitchd answers: `upcall/show`, `coverage/show` and `dpctl/show -s`, 2.17 to 4.0."""

import re
from collections.abc import Iterator, Mapping

from kernel_delay.model import FlowLimit
from kernel_delay.openvswitch.losses.datapaths import DatapathCounters, PortCounters

# A line that is not indented names a datapath. In the lines below it, with counts of 63 bits:
_FLOWS = re.compile(r" *flows *: \(current (\d{1,18})\).*\(limit (\d{1,18})\)")
_DUMP = re.compile(r" *dump duration *: (\d{1,12})ms")
_LOOKUPS = re.compile(r" *lookups: hit:\d{1,18} missed:(\d{1,18}) lost:(\d{1,18})")
_PORT = re.compile(r"  port \d{1,18}: (\S+)( \((?:tap|internal)\b)?")
_PACKETS = re.compile(r" *(RX|TX) packets:(\d{1,18}|\?) errors:\S+ dropped:(\d{1,18}|\?)")
_EVENT = re.compile(r"(\w+) .* total: (\d{1,18})$")

# ofproto/ofproto-dpif-upcall.c and lib/conntrack.c; those of lib/dpif-netdev.c have one prefix.
_EVENTS = frozenset(
    (
        *("upcall_flow_limit_hit", "upcall_flow_limit_kill", "upcall_flow_limit_reduced"),
        *("upcall_flow_limit_scaled", "conntrack_full"),
    )
)
_DATAPATH_EVENTS = "datapath_drop_"


def parse_limits(text: str) -> Iterator[FlowLimit]:
    """Yield the flow limit of each datapath."""
    name, flows, limit = "", 0, 0
    for line in text.splitlines():
        if line and not line[0].isspace():
            name = line.rstrip(":")
        elif found := _FLOWS.match(line):
            flows, limit = map(int, found.groups())
        elif found := _DUMP.match(line):
            yield FlowLimit(name, flows, limit, None, int(found[1]) * 1_000_000)


def parse_counters(text: str) -> Mapping[str, int]:
    """Return how often each event was counted; those that never happened are missing."""
    found = (_EVENT.match(line.strip()) for line in text.splitlines())
    return {each[1]: int(each[2]) for each in found if each}


def parse_events(text: str) -> Mapping[str, int]:
    """Return the same of each kind of loss."""
    return {
        name: count
        for name, count in parse_counters(text).items()
        if name in _EVENTS or name.startswith(_DATAPATH_EVENTS)
    }


def parse_datapath(text: str) -> DatapathCounters | None:
    """Return the counters of a datapath and its ports; None if it is not one."""
    lines = text.splitlines()
    lookups = next((found for line in lines if (found := _LOOKUPS.match(line))), None)
    if lookups is None:
        return None
    ports: list[PortCounters] = []
    name, is_internal, received = "", False, (0, 0)
    for line in lines:
        if found := _PORT.match(line):
            name, is_internal = found[1], found[2] is not None
        elif found := _PACKETS.match(line):
            # A device that does not count them has a question mark.
            packets, dropped = (int(word) if word != "?" else 0 for word in found.groups()[1:])
            if found[1] == "RX":
                received = packets, dropped
            else:
                counts = received[0], packets, received[1], dropped
                ports.append(PortCounters(name, *counts, is_internal=is_internal))
    return DatapathCounters(lines[0].rstrip(":"), int(lookups[1]), int(lookups[2]), tuple(ports))
