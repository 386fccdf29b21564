"""The counters of the kernel's datapaths and of their ports, from its generic netlink.

include/uapi/linux/{genetlink,openvswitch}.h, Linux 6.18.
"""

import _socket
import errno
import os
import struct
from collections.abc import Callable, Iterator
from typing import TypeVar

from msgspec import Struct

from kernel_delay.host import netlink
from kernel_delay.host.target import living_thread

_T = TypeVar("_T")

NETLINK_GENERIC = 16
_GENL_ID_CTRL = 0x10
_CTRL_CMD_GETFAMILY = 3
_CTRL_ATTR_FAMILY_ID = 1
_CTRL_ATTR_FAMILY_NAME = 2
_NLM_F_DUMP = 0x300
_NLMSG_ERROR = 2
_NLMSG_DONE = 3

_CMD_GET = 3  # OVS_DP_CMD_GET and OVS_VPORT_CMD_GET
_DP_NAME, _DP_STATS, _DP_PER_CPU_PIDS = 1, 3, 8
_VPORT_TYPE, _VPORT_NAME, _VPORT_UPCALL_PID, _VPORT_STATS, _VPORT_UPCALL_STATS = 2, 3, 5, 6, 10
_TYPE_INTERNAL = 2
_UPCALL_FAIL = 1

_GENERIC = struct.Struct("=BBH")
_OVS = struct.Struct("=i")
_DP_COUNTERS = struct.Struct("=4Q")
_VPORT_COUNTERS = struct.Struct("=8Q")

_CHUNK = 1 << 16
MOST_CHUNKS = 64
"""Of a dump no more is read: some 10,000 ports."""

_ANSWERS_WITHIN_S = 0.2


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
        self._asking = _within_network(pid, _generic_socket)
        self._sequence = 0
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
        for answer in self._ask(_GENL_ID_CTRL, request, netlink.NLM_F_REQUEST):
            for kind, found in netlink.attributes(answer[_GENERIC.size :]):
                if kind == _CTRL_ATTR_FAMILY_ID:
                    return int(struct.unpack_from("=H", found)[0])
            break
        raise OSError(0, f"no generic netlink family {name.decode()}")

    def _dump(self, family: int, index: int) -> list[bytes]:
        request = _GENERIC.pack(_CMD_GET, 0, 0) + _OVS.pack(index)
        return list(self._ask(family, request, netlink.NLM_F_REQUEST | _NLM_F_DUMP))

    def _ask(self, family: int, request: bytes, flags: int) -> Iterator[bytes]:
        """Send a request; yield what its answers have behind struct nlmsghdr."""
        self._sequence += 1
        self._asking.send(netlink.message(family, request, flags, self._sequence))
        for _ in range(MOST_CHUNKS):
            chunk = self._asking.recv(_CHUNK)
            while len(chunk) >= netlink.HEADER.size:
                length, kind, _, sequence, _ = netlink.HEADER.unpack_from(chunk)
                if length < netlink.HEADER.size:
                    return
                payload, chunk = (
                    chunk[netlink.HEADER.size : length],
                    chunk[netlink.aligned(length) :],
                )
                if sequence != self._sequence:
                    continue  # of a request that was given up
                if kind == _NLMSG_DONE:
                    return
                if kind == _NLMSG_ERROR:
                    number = -struct.unpack_from("=i", payload)[0]
                    raise OSError(number, os.strerror(number))
                yield payload
                if not flags & _NLM_F_DUMP:
                    return
        raise OSError(0, "there are too many ports")


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


def _generic_socket() -> _socket.socket:
    asking = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, NETLINK_GENERIC)
    asking.settimeout(_ANSWERS_WITHIN_S)
    return asking


def _within_network(pid: int, make: Callable[[], _T]) -> _T:
    """Call `make` in the network namespace of a process. Raises OSError where that is refused."""
    path = f"/proc/{living_thread(pid) or pid}/ns/net"
    if os.path.samestat(os.stat(path), os.stat("/proc/self/ns/net")):
        return make()
    import threading

    made: list[_T] = []
    failed: list[OSError] = []

    def run() -> None:
        # Python has os.setns() since 3.12.
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        try:
            with open(path) as namespace:
                if libc.setns(namespace.fileno(), 0):
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number))
            made.append(make())
        except OSError as error:
            failed.append(error)

    # It stays in that namespace, and ends.
    entering = threading.Thread(target=run)
    try:
        entering.start()
    except RuntimeError as error:  # as shortage() of errors.py has it
        raise OSError(errno.EAGAIN, str(error)) from error
    entering.join()
    if failed:
        raise failed[0]
    return made[0]
