"""Events to sets: one for each upcall that a handler thread received."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from kernel_delay.monitors.upcalls.batches import Batch, BatchReader
from kernel_delay.monitors.upcalls.events import (
    DpUpcall,
    Event,
    FlowExecute,
    FlowPut,
    PacketCmdExecute,
    RecvUpcall,
)
from kernel_delay.monitors.upcalls.kernel_match import KernelUpcalls


class UpcallSet(Struct, frozen=True):
    """What was found of one packet's trip; only `recv_upcall` is always there.

    `batch` numbers the batches of all threads from 0, in the order of their
    first upcall within a thread.
    """

    recv_upcall: RecvUpcall
    batch: int
    dp_upcall: DpUpcall | None = None
    flow_put: FlowPut | None = None
    flow_execute: FlowExecute | None = None
    packet_cmd_execute: PacketCmdExecute | None = None

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
