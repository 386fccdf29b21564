"""One handler thread's events, split into batches and these into upcalls.

A handler reads up to UPCALL_MAX_BATCH upcalls, looks all of them up, and then
hands what came of them to dpif_operate(): for each upcall in turn a flow to
install, the packet to execute, both, or neither (recv_upcalls() and
handle_upcalls(), ofproto/ofproto-dpif-upcall.c). dpif_netlink_operate__()
(lib/dpif-netlink.c) passes its probes for up to 50 of these operations before
the kernel gets them all at once, in the same order and thread. Read in Open
vSwitch 3.7 and 4.0.

What only order can assign may be assigned wrongly where upcalls have no
operation: a put without its whole key and without an execute behind it, and a
batch of which nothing came, which looks like the beginning of the next.
"""

from kernel_delay.monitors.upcalls.events import (
    Event,
    FlowExecute,
    FlowPut,
    PacketCmdExecute,
    RecvUpcall,
)
from kernel_delay.monitors.upcalls.packets import agree

UPCALL_MAX_BATCH = 64


class OpenUpcall:
    """An upcall of a batch whose operations are still to come."""

    def __init__(self, recv: RecvUpcall) -> None:
        """Start from its receipt."""
        self.recv = recv
        self.put: FlowPut | None = None
        # Whether the put is surely its own: where keys were cut, or not captured, others may have
        # the same beginning.
        self.is_own_flow = False
        self.execute: FlowExecute | None = None
        self.kernel_execute: PacketCmdExecute | None = None


Batch = list[OpenUpcall]


class BatchReader:
    """Takes the events of one thread in time order; `batches` are those found so far."""

    def __init__(self) -> None:
        """Start before the thread's first batch."""
        self.batches: list[Batch] = []
        self._operating = True
        # The upcall the last operation went to: operations come in upcall order.
        self._cursor = 0
        # A put that only its place in the order assigned, directly before this event.
        self._guessed: OpenUpcall | None = None
        self._sent: list[tuple[FlowExecute, OpenUpcall | None]] = []
        self._taken: list[PacketCmdExecute] = []

    def add(self, event: Event) -> None:
        """Take the thread's next event."""
        if not isinstance(event, PacketCmdExecute) and self._taken:
            self._settle()
        match event:
            case RecvUpcall():
                self._recv(event)
            case FlowPut():
                self._operating = True
                self._put(event)
            case FlowExecute():
                self._operating = True
                self._sent.append((event, self._execute(event)))
                self._guessed = None
            case PacketCmdExecute():
                self._taken.append(event)

    def finish(self) -> None:
        """There are no more events."""
        self._settle()

    def _recv(self, event: RecvUpcall) -> None:
        if self._operating or len(self.batches[-1]) == UPCALL_MAX_BATCH:
            self.batches.append([])
            self._operating = False
            self._cursor = 0
            self._guessed = None
            # What the last batch sent has been taken by now, or not seen.
            self._sent.clear()
        self.batches[-1].append(OpenUpcall(event))

    def _put(self, event: FlowPut) -> None:
        self._guessed = None
        found = [
            (index, upcall)
            for index, upcall in self._open()
            if not upcall.put
            and not upcall.execute
            and upcall.recv.kind == "miss"
            and (not _are_known(event, upcall.recv) or _same_key(event, upcall.recv))
        ]
        if not found:
            return
        self._cursor, upcall = found[0]
        upcall.put = event
        if not _are_known(event, upcall.recv):
            self._guessed = upcall
            return
        # Of equal keys the flow is the same.
        is_whole = len(event.key) == event.key_len and len(upcall.recv.key) == upcall.recv.key_len
        upcall.is_own_flow = is_whole or len(found) == 1

    def _execute(self, event: FlowExecute) -> OpenUpcall | None:
        for index, upcall in self._open():
            if upcall.execute or not _same_packet(event, upcall.recv):
                continue
            guessed = self._guessed
            if guessed and guessed is not upcall and not upcall.put:
                # The put directly before is this packet's: an earlier upcall had no operation.
                upcall.put, guessed.put = guessed.put, None
            upcall.execute = event
            self._cursor = index
            return upcall
        return None

    def _open(self) -> list[tuple[int, OpenUpcall]]:
        if not self.batches:
            return []
        return list(enumerate(self.batches[-1]))[self._cursor :]

    def _settle(self) -> None:
        """Pair what the kernel took with what was sent since the last time it took something."""
        if len(self._sent) == len(self._taken):
            pairs = list(zip(self._sent, self._taken, strict=True))
        else:
            # One was missed, and order alone would pair all behind it wrongly.
            pairs = self._by_packet()
        for (sent, upcall), taken in pairs:
            if upcall and (not taken.packet or _same_packet(taken, sent)):
                upcall.kernel_execute = taken
        self._sent.clear()
        self._taken.clear()

    def _by_packet(self) -> list[tuple[tuple[FlowExecute, OpenUpcall | None], PacketCmdExecute]]:
        pairs = []
        start = 0
        for taken in self._taken:
            if not taken.packet:
                continue
            for index in range(start, len(self._sent)):
                if _same_packet(taken, self._sent[index][0]):
                    pairs.append((self._sent[index], taken))
                    start = index + 1
                    break
        return pairs


def _are_known(put: FlowPut, recv: RecvUpcall) -> bool:
    return bool(put.key and recv.key)


def _same_key(put: FlowPut, recv: RecvUpcall) -> bool:
    return put.key_len == recv.key_len and agree(put.key, recv.key)


def _same_packet(one: FlowExecute | PacketCmdExecute, other: RecvUpcall | FlowExecute) -> bool:
    return one.packet_len == other.packet_len and agree(one.packet, other.packet)
