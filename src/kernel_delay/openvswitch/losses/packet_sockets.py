"""Packet sockets (AF_PACKET) of a network namespace, and what they had no room for.

A datapath in user space reads ports of type system by such sockets (lib/netdev-linux.c, Open
vSwitch 2.17 to 4.0). Their drops are in no counter of a device, nor of Open vSwitch.
include/uapi/linux/{sock,packet}_diag.h and rtnetlink.h, Linux 5.14 to 6.18.
"""

import _socket
import struct
from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct

from kernel_delay.host.netlink import attributes
from kernel_delay.openvswitch.losses.asking import Asking

_NETLINK_ROUTE = 0
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_RTM_GETLINK = 18
_IFLA_IFNAME = 3

_SHOW_INFO, _SHOW_MEMINFO = 0x1, 0x10
_INFO, _MEMINFO = 0, 6
# Of SK_MEMINFO_VARS.
_DROPS = 8

# struct packet_diag_req: the family, the inode (0: any), what to show, and a cookie.
_REQUEST = struct.Struct("=BBHIIII")
# struct packet_diag_msg: the family, type, protocol, inode, and a cookie.
_ANSWER = struct.Struct("=BBHIII")
_LINK = struct.Struct("=BBHiII")

# A counter of 32 bits: sk_drops of struct sock.
WRAPS_AT = 1 << 32


class PacketSocket(Struct, frozen=True):
    """A packet socket: the device that it is bound to, 0 for all, and its drops of all time."""

    inode: int
    ifindex: int
    drops: int


class PacketSockets:
    """The packet sockets in the network namespace of a process."""

    def __init__(self, pid: int) -> None:
        """Make the sockets to ask by. Raises OSError where that is refused."""
        self._sockets = Asking(pid, _NETLINK_SOCK_DIAG)
        try:
            self._links = Asking(pid, _NETLINK_ROUTE)
        except OSError:
            self._sockets.close()
            raise

    def close(self) -> None:
        """Close what it asks by."""
        self._sockets.close()
        self._links.close()

    def read(self) -> Mapping[int, PacketSocket]:
        """Return them by their inodes. Raises OSError where the kernel does not answer."""
        request = _REQUEST.pack(_socket.AF_PACKET, 0, 0, 0, _SHOW_INFO | _SHOW_MEMINFO, 0, 0)
        found = map(read_socket, self._sockets.dump(_SOCK_DIAG_BY_FAMILY, request))
        return {each.inode: each for each in found if each is not None}

    def device(self, ifindex: int) -> str | None:
        """Return the name of a device; None if that is not known."""
        request = _LINK.pack(_socket.AF_UNSPEC, 0, 0, ifindex, 0, 0)
        with suppress(OSError):
            for answer in self._links.ask(_RTM_GETLINK, request):
                for kind, value in attributes(answer[_LINK.size :]):
                    if kind == _IFLA_IFNAME:
                        return value.rstrip(b"\0").decode(errors="backslashreplace")
        return None


def read_socket(answer: bytes) -> PacketSocket | None:
    """Return what an answer says of a socket; None if it lacks the drops."""
    if len(answer) < _ANSWER.size:
        return None
    inode = int(_ANSWER.unpack_from(answer)[3])
    found = dict(attributes(answer[_ANSWER.size :]))
    info, memory = found.get(_INFO, b""), found.get(_MEMINFO, b"")
    if len(memory) < 4 * (_DROPS + 1):
        return None
    (drops,) = struct.unpack_from("=I", memory, 4 * _DROPS)
    (ifindex,) = struct.unpack_from("=I", info) if len(info) >= 4 else (0,)
    return PacketSocket(inode, ifindex, drops)
