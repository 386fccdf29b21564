"""The openvswitch kernel module's netlink side, played by a test.

ovs-dpctl runs unmodified with genl_redirect.c preloaded and talks to this
double instead of the kernel: it dumps flows whose key bytes the test chose,
and the double keeps the key bytes of the flows ovs-dpctl adds. Formats: genl
and nlctrl from include/uapi/linux/genetlink.h, the rest from
include/uapi/linux/openvswitch.h (Linux 6.18).
"""

import errno
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

NLMSG_ERROR = 2
NLMSG_DONE = 3
NLM_F_MULTI = 0x2
NLM_F_ACK = 0x4
NLM_F_DUMP = 0x300

GENL_ID_CTRL = 16
CTRL_ATTR_FAMILY_ID = 1
CTRL_ATTR_FAMILY_NAME = 2
CTRL_ATTR_MCAST_GROUPS = 7
FAMILIES = ("ovs_datapath", "ovs_vport", "ovs_flow", "ovs_packet")

OVS_DP_ATTR_NAME = 1
OVS_FLOW_ATTR_KEY = 1
OVS_FLOW_ATTR_ACTIONS = 2
OVS_FLOW_ATTR_MASK = 7
OVS_FLOW_CMD_NEW = 1

DATAPATH = "ovs-double"
DP_IFINDEX = 7


def attribute(kind: int, payload: bytes) -> bytes:
    """One netlink attribute, padded to 4 bytes."""
    return struct.pack("=HH", len(payload) + 4, kind) + payload + bytes(-len(payload) % 4)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The attributes of a well-formed message of ovs-dpctl."""
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        yield kind & 0x3FFF, data[4:length]
        data = data[(length + 3) & ~3 :]


class DatapathDouble:
    """Answers ovs-dpctl; `added` collects the keys of flows it was given."""

    def __init__(
        self, path: Path, flows: Sequence[tuple[bytes, bytes]], actions: bytes = b""
    ) -> None:
        """Listen on `path`; `flows` are the (key, mask) pairs a dump yields; b"" is no mask.

        Each of them has these `actions`. `requests` are the messages by which flows are added.
        """
        self.actions = actions
        self.path = path
        self.flows = flows
        self.added: list[bytes] = []
        self.requests: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(os.fspath(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; the connections end with ovs-dpctl."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self.path.unlink()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while datagram := connection.recv(1 << 20):
                while datagram:
                    (length,) = struct.unpack_from("=I", datagram)
                    for reply in self._answer(datagram[:length]):
                        connection.send(reply)
                    datagram = datagram[(length + 3) & ~3 :]

    def _answer(self, request: bytes) -> Iterator[bytes]:
        _, kind, flags, sequence, port = struct.unpack_from("=IHHII", request)
        command = request[16]

        def message(kind: int, body: bytes, flags: int = 0) -> bytes:
            return struct.pack("=IHHII", 16 + len(body), kind, flags, sequence, port) + body

        def error(number: int) -> bytes:
            return message(NLMSG_ERROR, struct.pack("=i", -number) + request[:16])

        if kind == GENL_ID_CTRL:
            name = dict(attributes(request[20:]))[CTRL_ATTR_FAMILY_NAME].rstrip(b"\0").decode()
            if name not in FAMILIES:
                yield error(errno.ENOENT)
                return
            number = 20 + FAMILIES.index(name)
            group = attribute(1, b"ovs_vport\0") + attribute(2, struct.pack("=I", 5))
            yield message(
                GENL_ID_CTRL,
                struct.pack("=BBH", 1, 2, 0)
                + attribute(CTRL_ATTR_FAMILY_ID, struct.pack("=H", number))
                + attribute(CTRL_ATTR_FAMILY_NAME, name.encode() + b"\0")
                + attribute(CTRL_ATTR_MCAST_GROUPS, attribute(1, group)),
            )
            return

        header = struct.pack("=BBHi", command, 1, 0, DP_IFINDEX)
        family = FAMILIES[kind - 20] if 20 <= kind < 20 + len(FAMILIES) else ""
        datapath = header + attribute(OVS_DP_ATTR_NAME, DATAPATH.encode() + b"\0")
        if flags & NLM_F_DUMP == NLM_F_DUMP:
            if family == "ovs_datapath":
                yield message(kind, datapath, NLM_F_MULTI)
            for key, mask in self.flows if family == "ovs_flow" else ():
                body = header + attribute(OVS_FLOW_ATTR_KEY, key)
                if mask:
                    body += attribute(OVS_FLOW_ATTR_MASK, mask)
                body += attribute(OVS_FLOW_ATTR_ACTIONS, self.actions)
                yield message(kind, body, NLM_F_MULTI)
            yield message(NLMSG_DONE, struct.pack("=i", 0), NLM_F_MULTI)
        elif family == "ovs_datapath":
            yield message(kind, datapath)
        elif family == "ovs_vport":
            yield error(errno.ENODEV)
        else:
            if family == "ovs_flow" and command == OVS_FLOW_CMD_NEW:
                self.added.append(dict(attributes(request[24:]))[OVS_FLOW_ATTR_KEY])
                self.requests.append(request)
            yield error(0)


class OvsDpctl(NamedTuple):
    """The program ovs-dpctl, and genl_redirect.c, built, which takes it to a double."""

    program: Path
    preload: Path


def ovs_dpctl(double: DatapathDouble, dpctl: OvsDpctl, *arguments: str) -> list[str]:
    """The lines ovs-dpctl prints for `arguments`, against the double."""
    environment = {
        **os.environ,
        "GENL_REDIRECT": os.fspath(double.path),
        "LD_PRELOAD": os.fspath(dpctl.preload),
    }
    result = subprocess.run(
        [dpctl.program, "--timeout=10", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise AssertionError(f"ovs-dpctl {arguments}: {result.stderr.strip()}")
    return result.stdout.splitlines()
