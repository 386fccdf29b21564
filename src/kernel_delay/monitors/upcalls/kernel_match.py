"""Each received upcall's counterpart in the kernel."""

from collections import defaultdict, deque

from kernel_delay.monitors.upcalls.events import DpUpcall, RecvUpcall
from kernel_delay.monitors.upcalls.packets import (
    VLAN_TAG_LEN,
    agree,
    without_checksum,
    without_outer_tag,
)
from kernel_delay.openvswitch.flow_key import datapath_port, recirculation_id

# Enough for Ethernet, IPv4 and TCP without options; the kernel has these in
# the linear area once it has extracted the flow key.
HEAD_LEN = 54

# Datapath, kind, length and the first bytes; no bytes where too few were captured.
Fingerprint = tuple[str, str, int, bytes | None]


class KernelUpcalls:
    """The kernel's upcalls that no handler has received yet.

    Equal packets of one port are received in the order they were sent, as they
    go through one socket, so the oldest that fits is the one.
    """

    def __init__(self) -> None:
        """Start with none."""
        self._waiting: defaultdict[Fingerprint, deque[tuple[DpUpcall, bytes]]] = defaultdict(deque)

    def sent(self, upcall: DpUpcall) -> None:
        """The kernel sends `upcall`; one it dropped is never waited for."""
        if upcall.error:
            return
        packet = without_checksum(upcall.packet[: upcall.linear_len])
        fingerprint = (
            upcall.datapath,
            upcall.kind,
            upcall.packet_len,
            _head(packet, upcall.packet_len),
        )
        self._waiting[fingerprint].append((upcall, packet))

    def received(self, upcall: RecvUpcall) -> DpUpcall | None:
        """What the kernel sent when `upcall` was received; None if that was not seen."""
        datapath = upcall.datapath.removeprefix("system@")
        packet = without_checksum(upcall.packet)
        forms = [(packet, upcall.packet_len)]
        untagged = without_outer_tag(packet)
        if untagged is not None:
            forms.append((untagged, upcall.packet_len - VLAN_TAG_LEN))
        for form, length in forms:
            for head in (_head(form, length), None):
                fingerprint = (datapath, upcall.kind, length, head)
                if found := self._take(fingerprint, upcall, form):
                    return found
        return None

    def _take(
        self, fingerprint: Fingerprint, received: RecvUpcall, packet: bytes
    ) -> DpUpcall | None:
        waiting = self._waiting.get(fingerprint)
        if not waiting:
            return None
        port = datapath_port(received.key)
        recirc_id = recirculation_id(received.key)
        cut = len(received.key) < received.key_len
        for index, (upcall, sent) in enumerate(waiting):
            same_port = upcall.in_port == port or (port is None and cut)
            same_round = recirc_id is None or upcall.recirc_id in (None, recirc_id)
            if same_port and same_round and agree(sent, packet):
                del waiting[index]
                return upcall
        return None


def _head(packet: bytes, packet_len: int) -> bytes | None:
    wanted = min(HEAD_LEN, packet_len)
    return packet[:wanted] if len(packet) >= wanted else None
