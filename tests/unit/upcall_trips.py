"""Made-up trips through ovs-vswitchd, with the events a capture would see of them.

It plays what ovs-vswitchd and the kernel do, by their sources: batches of up
to 64 upcalls a thread, for most of them a put, an execute or both, up to 50 of
these operations at once. What really belongs together is known, so a join can
be held against it.
"""

import random
import struct
from typing import Any

from kernel_delay.monitors.upcalls.events import (
    DpUpcall,
    Event,
    FlowExecute,
    FlowPut,
    PacketCmdExecute,
    RecvUpcall,
)

OPERATE_MAX_OPS = 50
START_NS = 10**15

# In the order of the trip: the five events, None where there is none.
Trip = tuple[Event | None, ...]


class Draft:
    """An event that has no time yet."""

    def __init__(self, event_type: type[Event], **fields: Any) -> None:
        self.event_type = event_type
        self.fields = fields
        self.event: Event | None = None

    def happen(self, time_ns: int) -> Event:
        self.event = self.event_type(time_ns=time_ns, **self.fields)
        return self.event


class World:
    """A datapath with its handler threads; everything random comes from `seed`.

    The capture takes `capture` bytes of a packet, and the key of a flow that
    is put if `keys`.
    """

    def __init__(self, seed: int, *, keys: bool = True, capture: int = 256) -> None:
        self.random = random.Random(seed)
        self.keys = keys
        self.capture = capture
        self.serial = 0

    def run(self, sizes: list[int]) -> tuple[list[Event], list[Trip]]:
        """A batch of each size; two threads' batches overlap. Events in time order, true trips."""
        drafts: list[Draft] = []
        trips: list[list[Draft | None]] = []
        for at in range(0, len(sizes), 2):
            pair = []
            for tid, size in enumerate(sizes[at : at + 2], start=1):
                found, true = self._batch(tid, size)
                pair.append(found)
                trips += true
            drafts += self._interleaved(pair)
        time_ns = START_NS
        events = []
        for draft in drafts:
            time_ns += self.random.randrange(1, 5000)
            events.append(draft.happen(time_ns))
        return events, [tuple(part.event if part else None for part in trip) for trip in trips]

    def _interleaved(self, rows: list[list[Draft]]) -> list[Draft]:
        turns = [number for number, row in enumerate(rows) for _ in row]
        self.random.shuffle(turns)
        sources = [iter(row) for row in rows]
        return [next(sources[number]) for number in turns]

    def _batch(self, tid: int, size: int) -> tuple[list[Draft], list[list[Draft | None]]]:
        thread = {"cpu": tid, "tid": tid, "comm": f"handler{tid}"}
        trips: list[list[Draft | None]] = []
        operations: list[Draft] = []
        for index in range(size):
            sent, received, put, execute = self._upcall(thread)
            trips.append([sent, received, None, None, None])
            # Each batch has an operation, or it could not be told from the next.
            if index == 0 or self.random.random() < 0.9:
                operations.append(put)
                trips[index][2] = put
            if self.random.random() < 0.9:
                operations.append(execute)
                trips[index][3] = execute
                trips[index][4] = Draft(PacketCmdExecute, **thread)
        drafts = [trip[0] for trip in trips] + [trip[1] for trip in trips]
        taken = {id(trip[3]): trip[4] for trip in trips if trip[3]}
        for start in range(0, len(operations), OPERATE_MAX_OPS):
            chunk = operations[start : start + OPERATE_MAX_OPS]
            drafts += chunk
            drafts += [taken[id(draft)] for draft in chunk if id(draft) in taken]
        return [draft for draft in drafts if draft], trips

    def _upcall(self, thread: dict[str, Any]) -> tuple[Draft, Draft, Draft, Draft]:
        self.serial += 1
        port = self.random.randrange(1, 4)
        seen, got = self._packet()
        linear = len(seen) if self.random.random() < 0.7 else min(len(seen), 60)
        key = struct.pack("=HHIHHIHHI", 8, 20, 0, 8, 3, port, 8, 15, self.serial)
        packet = {"packet": got[: self.capture], "packet_len": len(got)}
        flow = {"key": key, "key_len": len(key)}
        sent = Draft(
            DpUpcall,
            cpu=0,
            tid=0,
            comm="swapper/0",
            datapath="ovs-system",
            device=f"port{port}",
            kind="miss",
            packet=seen[: min(linear, self.capture)],
            packet_len=len(seen),
            linear_len=linear,
            in_port=port,
            recirc_id=0,
        )
        received = Draft(
            RecvUpcall, **thread, datapath="system@ovs-system", kind="miss", **packet, **flow
        )
        put = Draft(FlowPut, **thread, **(flow if self.keys else {}))
        return sent, received, put, Draft(FlowExecute, **thread, **packet)

    def _packet(self) -> tuple[bytes, bytes]:
        """A new UDP packet as the tracepoint sees it, and as user space gets it.

        In between the checksum is filled in, and sometimes a VLAN tag.
        """
        body = struct.pack("!I", self.serial) + self.random.randbytes(self.random.randrange(300))
        addresses = bytes.fromhex("000002000000000001000000")
        ip = struct.pack(
            "!BBHHHBBH4s4s", 0x45, 0, 28 + len(body), 0, 0, 64, 17, 0, b"\1\0\0\0", b"\2\0\0\0"
        )
        udp = struct.pack("!HHH", 1000 + self.serial % 7, 53, 8 + len(body))
        rest = b"\x08\x00" + ip + udp
        seen = addresses + rest + b"\x12\x34" + body
        tag = b"\x81\x00\x20\x05" if self.random.random() < 0.2 else b""
        return seen, addresses + tag + rest + struct.pack("!H", self.serial % 65536) + body
