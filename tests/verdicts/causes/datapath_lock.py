"""It asks about a datapath of Open vSwitch while another process removes one with many ports."""

import re
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernel_delay.host.netlink import HEADER, NLM_F_REQUEST, attribute, message, walk
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import NotHereError, Staged, cause

# include/uapi/linux/netlink.h: without it there is no answer to what changes something.
NLM_F_ACK = 4

# include/uapi/linux/genetlink.h: struct genlmsghdr, and how a family is asked for by its name.
GENL = struct.Struct("=BBH")
GENL_ID_CTRL, CTRL_CMD_GETFAMILY = 16, 3
CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 1, 2

# include/uapi/linux/openvswitch.h. A datapath is none's with the number 0.
OVS_DP_CMD_NEW, OVS_DP_CMD_DEL, OVS_DP_CMD_GET = 1, 2, 3
OVS_DP_ATTR_NAME, OVS_DP_ATTR_UPCALL_PID = 1, 2
OVS_VPORT_CMD_NEW, OVS_VPORT_TYPE_INTERNAL = 1, 2
OVS_VPORT_ATTR_TYPE, OVS_VPORT_ATTR_NAME, OVS_VPORT_ATTR_UPCALL_PID = 2, 3, 5

# The lock is kept while each of them goes.
PORTS = 50


class Kernel:
    """Generic netlink, a request and its answer at a time."""

    def __init__(self) -> None:
        """Open a socket of it."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)

    def ask(self, family: int, command: int, body: bytes, flags: int = NLM_F_ACK) -> bytes:
        """Return what follows the header of the answer; that may be an error."""
        request = GENL.pack(command, 1, 0) + body
        self._socket.send(message(family, request, NLM_F_REQUEST | flags))
        return self._socket.recv(1 << 16)[HEADER.size :]

    def family(self, name: str) -> int:
        """Return the number of a family."""
        body = attribute(CTRL_ATTR_FAMILY_NAME, f"{name}\0".encode())
        answer = self.ask(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, body, flags=0)
        found = {each.type: each.payload for each in walk(answer[GENL.size :]).found}
        (number,) = struct.unpack("=H", found[CTRL_ATTR_FAMILY_ID])
        return int(number)


def victim() -> None:
    kernel = Kernel()
    datapaths = kernel.family("ovs_datapath")
    tell()
    while True:
        kernel.ask(datapaths, OVS_DP_CMD_GET, struct.pack("=i", 0))
        time.sleep(0.0002)


def makes_and_removes() -> None:
    kernel = Kernel()
    datapaths, ports = kernel.family("ovs_datapath"), kernel.family("ovs_vport")
    name = attribute(OVS_DP_ATTR_NAME, b"verdict\0")
    nobody = struct.pack("=I", 0)
    tell()
    while True:
        body = struct.pack("=i", 0) + name + attribute(OVS_DP_ATTR_UPCALL_PID, nobody)
        kernel.ask(datapaths, OVS_DP_CMD_NEW, body)
        datapath = struct.pack("=i", socket.if_nametoindex("verdict"))
        for number in range(PORTS):
            body = (
                datapath
                + attribute(OVS_VPORT_ATTR_TYPE, struct.pack("=I", OVS_VPORT_TYPE_INTERNAL))
                + attribute(OVS_VPORT_ATTR_NAME, f"verdict{number}\0".encode())
                + attribute(OVS_VPORT_ATTR_UPCALL_PID, nobody)
            )
            kernel.ask(ports, OVS_VPORT_CMD_NEW, body)
        kernel.ask(datapaths, OVS_DP_CMD_DEL, datapath)


@contextmanager
def stage() -> Iterator[Staged]:
    if not re.search(r" ovs_lock\s", Path("/proc/kallsyms").read_text()):
        raise NotHereError("no datapath of Open vSwitch in this kernel")
    # With its network its datapath goes; the lock is one for all networks.
    with (
        running(makes_and_removes, name="other", within=("unshare", "--net")) as other,
        running(victim) as process,
    ):
        yield Staged(
            process.pid,
            cause(
                "wait_kernel_lock",
                names=("sendto", "ovs_mutex", "ovs_dp_cmd_get", other.pid),
                # While the owner runs, who waits for a mutex spins (kernel/locking/mutex.c).
                also=("wait_rcu", "kernel_work"),
            ),
        )
