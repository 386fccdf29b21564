"""The set of one packet's events."""

from msgspec import Struct

from kernel_delay.ovs.upcalls.probe_events import (
    DpUpcall,
    Event,
    FlowExecute,
    FlowPut,
    PacketCmdExecute,
    RecvUpcall,
)


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
