"""The counters of the kernel's datapaths and of their ports, from its generic netlink.

include/uapi/linux/{genetlink,openvswitch}.h, Linux 6.18.
"""

import struct

from msgspec import Struct

from kernel_delay.host import netlink
from kernel_delay.openvswitch.losses.asking import Asking

NETLINK_GENERIC = 16
_GENL_ID_CTRL = 0x10
_CTRL_CMD_GETFAMILY = 3
_CTRL_ATTR_FAMILY_ID = 1
_CTRL_ATTR_FAMILY_NAME = 2

_CMD_GET = 3  # OVS_DP_CMD_GET and OVS_VPORT_CMD_GET
_DP_NAME, _DP_STATS, _DP_PER_CPU_PIDS = 1, 3, 8
_VPORT_TYPE, _VPORT_NAME, _VPORT_UPCALL_PID, _VPORT_STATS, _VPORT_UPCALL_STATS = 2, 3, 5, 6, 10
_TYPE_INTERNAL = 2
_UPCALL_FAIL = 1

_GENERIC = struct.Struct("=BBH")
_OVS = struct.Struct("=i")
_DP_COUNTERS = struct.Struct("=4Q")
_VPORT_COUNTERS = struct.Struct("=8Q")


class PortCounters(Struct, frozen=True):
    """The counters of a port since it was made.

    `portids` are those of its upcall sockets. `is_internal`: it is a device of Open vSwitch's own,
    as of each bridge. One that is down drops whatever it gets, and nobody misses that.
    """

    name: str
    rx_packets: int
    tx_packets: int
    rx_dropped: int
    tx_dropped: int
    failed_upcalls: int | None = None
    portids: tuple[int, ...] = ()
    is_internal: bool = False


class DatapathCounters(Struct, frozen=True):
    """The counters of a datapath since it was made.

    `portids` are the upcall sockets of all ports, in the order of the handlers. Empty: each port
    has sockets of its own.
    """

    name: str
    missed: int
    lost: int
    ports: tuple[PortCounters, ...] = ()
    portids: tuple[int, ...] = ()


class Datapaths:
    """The kernel's datapaths in the network namespace of a process."""

    def __init__(self, pid: int) -> None:
        """Make the socket to ask by. Raises OSError where that is refused."""
        self._asking = Asking(pid, NETLINK_GENERIC)
        try:
            # Only where there are datapaths: to ask for a family can load its module.
            self._datapaths = self._family(b"ovs_datapath")
            self._ports = self._family(b"ovs_vport")
        except OSError:
            self._asking.close()
            raise

    def close(self) -> None:
        """Close what it asks by."""
        self._asking.close()

    def read(self) -> tuple[DatapathCounters, ...]:
        """Return the counters now. Raises OSError where the kernel does not answer."""
        return tuple(
            read_datapath(answer, tuple(map(read_port, self._dump(self._ports, _index(answer)))))
            for answer in self._dump(self._datapaths, 0)
        )

    def _family(self, name: bytes) -> int:
        named = netlink.attribute(_CTRL_ATTR_FAMILY_NAME, name + b"\0")
        request = _GENERIC.pack(_CTRL_CMD_GETFAMILY, 1, 0) + named
        for answer in self._asking.ask(_GENL_ID_CTRL, request):
            for kind, found in netlink.attributes(answer[_GENERIC.size :]):
                if kind == _CTRL_ATTR_FAMILY_ID:
                    return int(struct.unpack_from("=H", found)[0])
            break
        raise OSError(0, f"no generic netlink family {name.decode()}")

    def _dump(self, family: int, index: int) -> list[bytes]:
        request = _GENERIC.pack(_CMD_GET, 0, 0) + _OVS.pack(index)
        return list(self._asking.dump(family, request))


def _index(answer: bytes) -> int:
    return int(_OVS.unpack_from(answer, _GENERIC.size)[0])


def _attributes(answer: bytes) -> dict[int, bytes]:
    return dict(netlink.attributes(answer[_GENERIC.size + _OVS.size :]))


def read_datapath(answer: bytes, ports: tuple[PortCounters, ...]) -> DatapathCounters:
    """Return what an answer says of a datapath: struct genlmsghdr and what is behind it."""
    found = _attributes(answer)
    _, missed, lost, _ = _DP_COUNTERS.unpack(found.get(_DP_STATS, b"").ljust(32, b"\0")[:32])
    return DatapathCounters(
        f"system@{_name(found.get(_DP_NAME, b''))}",
        missed,
        lost,
        ports,
        # A CPU that has no handler of its own uses another's (lib/dpif-netlink.c, 2.16 to 4.0).
        tuple(dict.fromkeys(_portids(found.get(_DP_PER_CPU_PIDS, b"")))),
    )


def read_port(answer: bytes) -> PortCounters:
    """Return what an answer says of a port."""
    found = _attributes(answer)
    stats = found.get(_VPORT_STATS, b"").ljust(64, b"\0")[:64]
    rx, tx, _, _, _, _, rx_dropped, tx_dropped = _VPORT_COUNTERS.unpack(stats)
    upcalls = dict(netlink.attributes(found.get(_VPORT_UPCALL_STATS, b"")))
    failed = upcalls.get(_UPCALL_FAIL)
    return PortCounters(
        _name(found.get(_VPORT_NAME, b"")),
        rx,
        tx,
        rx_dropped,
        tx_dropped,
        struct.unpack_from("=Q", failed)[0] if failed and len(failed) >= 8 else None,
        _portids(found.get(_VPORT_UPCALL_PID, b"")),
        found.get(_VPORT_TYPE, b"")[:4] == struct.pack("=I", _TYPE_INTERNAL),
    )


def _name(value: bytes) -> str:
    return value.rstrip(b"\0").decode(errors="backslashreplace")


def _portids(value: bytes) -> tuple[int, ...]:
    found = (portid for (portid,) in struct.iter_unpack("=I", value[: len(value) // 4 * 4]))
    return tuple(portid for portid in found if portid)
