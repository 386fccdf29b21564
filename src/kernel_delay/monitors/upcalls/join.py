"""Events to sets: one for each upcall that a handler thread received.

Each is joined with its counterpart in the kernel.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from kernel_delay.monitors.upcalls.batches import Batch, BatchReader
from kernel_delay.monitors.upcalls.events import (
    SYSTEM,
    DpUpcall,
    Event,
    FlowExecute,
    FlowPut,
    PacketCmdExecute,
    RecvUpcall,
)
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
        datapath = upcall.datapath.removeprefix(SYSTEM)
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


class UpcallSet(Struct, frozen=True):
    """What was found of one packet's trip; only `recv_upcall` is always there.

    `batch` numbers the batches of all threads from 0, in the order of their
    first upcall within a thread. `is_own_flow` says whether `flow_put` is
    surely that of this packet.
    """

    recv_upcall: RecvUpcall
    batch: int
    dp_upcall: DpUpcall | None = None
    flow_put: FlowPut | None = None
    flow_execute: FlowExecute | None = None
    packet_cmd_execute: PacketCmdExecute | None = None
    is_own_flow: bool = True

    @property
    def complete(self) -> bool:
        """Whether all five events were found."""
        return len(self.events) == 5

    @property
    def events(self) -> tuple[Event, ...]:
        """The events found, in the order of the trip."""
        trip = (
            self.dp_upcall,
            self.recv_upcall,
            self.flow_put,
            self.flow_execute,
            self.packet_cmd_execute,
        )
        return tuple(event for event in trip if event is not None)


class Joined(Struct, frozen=True):
    """All sets, by the time of their receipt, and what they were made of.

    `batch_sizes` are the upcalls of each batch. `total` counts the events by
    type and `usable` those that are in a set with both the kernel's upcall and
    its receipt.
    """

    sets: tuple[UpcallSet, ...]
    batch_sizes: tuple[int, ...]
    total: Mapping[type[Event], int]
    usable: Mapping[type[Event], int]


def join(events: Sequence[Event], handlers: Collection[str] | None = None) -> Joined:
    """Join events, given in any order, into sets.

    An event that fits nowhere is in no set; two that could be swapped, of
    equal packets, are taken in the order of time.

    With `handlers`, only what threads of these names received is joined and counted, beside all
    of the kernel's upcalls: those are sent from wherever their packets came. What the other
    handlers received is theirs all the same, and is no upcall of these.
    """
    in_order = sorted(events, key=lambda event: event.time_ns)
    kernel = _match_kernel(in_order)
    if handlers is not None:
        in_order = [e for e in in_order if isinstance(e, DpUpcall) or e.comm in handlers]
    sets: list[UpcallSet] = []
    batch_sizes: list[int] = []
    for batch in _batches(in_order):
        sets.extend(
            UpcallSet(
                recv_upcall=upcall.recv,
                batch=len(batch_sizes),
                dp_upcall=kernel.get(id(upcall.recv)),
                flow_put=upcall.put,
                is_own_flow=upcall.is_own_flow,
                flow_execute=upcall.execute,
                packet_cmd_execute=upcall.kernel_execute,
            )
            for upcall in batch
        )
        batch_sizes.append(len(batch))
    sets.sort(key=lambda found: found.recv_upcall.time_ns)
    return Joined(
        sets=tuple(sets),
        batch_sizes=tuple(batch_sizes),
        total=Counter(type(event) for event in in_order),
        usable=Counter(type(event) for found in sets if found.dp_upcall for event in found.events),
    )


def _match_kernel(events: Iterable[Event]) -> dict[int, DpUpcall]:
    """The kernel's upcall of each receipt, by the id() of the RecvUpcall."""
    waiting = KernelUpcalls()
    matches = {}
    for event in events:
        if isinstance(event, DpUpcall):
            waiting.sent(event)
        elif isinstance(event, RecvUpcall) and (sent := waiting.received(event)):
            matches[id(event)] = sent
    return matches


def _batches(events: Iterable[Event]) -> Iterable[Batch]:
    readers: defaultdict[int, BatchReader] = defaultdict(BatchReader)
    for event in events:
        if not isinstance(event, DpUpcall):
            readers[event.tid].add(event)
    for reader in readers.values():
        reader.finish()
        yield from reader.batches
