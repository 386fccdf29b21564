"""Netlink sockets and the conntrack table of a network namespace: /proc/PID/net."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

# Of a table: some 40,000 sockets.
MOST_BYTES = 4 << 20

CONNTRACK_LIMIT = Path("/proc/sys/net/netfilter/nf_conntrack_max")
"""One limit for all namespaces (net/netfilter/nf_conntrack_core.c, 5.14 to 6.18)."""

_PROTOCOLS = {
    0: "ROUTE",
    4: "SOCK_DIAG",
    6: "XFRM",
    9: "AUDIT",
    10: "FIB_LOOKUP",
    12: "NETFILTER",
    15: "KOBJECT_UEVENT",
    16: "GENERIC",
}


class NetlinkSocket(Struct, frozen=True):
    """A line of /proc/net/netlink: `drops` is of all time."""

    protocol: int
    portid: int
    drops: int
    inode: int


def protocol_name(protocol: int) -> str:
    """Return a protocol's name, as in netlink(7) without NETLINK_."""
    return _PROTOCOLS.get(protocol, str(protocol))


class Conntrack(Struct, frozen=True):
    """The sums of /proc/net/stat/nf_conntrack over the CPUs; `entries` is of now."""

    entries: int
    drop: int
    early_drop: int
    insert_failed: int


def parse_netlink(text: str) -> Mapping[int, NetlinkSocket]:
    """Return the sockets by their inodes (net/netlink/af_netlink.c:netlink_native_seq_show())."""
    found = {}
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 10:
            continue
        try:
            protocol, portid, drops, inode = (int(words[place]) for place in (1, 2, 8, 9))
        except ValueError:
            continue
        found[inode] = NetlinkSocket(protocol, portid, drops, inode)
    return found


def parse_conntrack(text: str) -> Conntrack | None:
    """Return the sums; None if a column is missing."""
    heading, *lines = text.splitlines() or [""]
    names = heading.split()
    try:
        rows = [
            dict(zip(names, (int(word, 16) for word in each.split()), strict=True))
            for each in lines
        ]
        return Conntrack(
            rows[0]["entries"],
            *(sum(row[name] for row in rows) for name in ("drop", "early_drop", "insert_failed")),
        )
    except (ValueError, KeyError, IndexError):
        return None


def conntrack_limit() -> int | None:
    """Return how many entries there may be; None if that is not known."""
    try:
        return int(CONNTRACK_LIMIT.read_text())
    except (OSError, ValueError):
        return None
