"""Events of upcalls, as a recording has them."""

from collections.abc import Sequence

from kernel_delay.ovs.upcalls.port_names import PortName
from kernel_delay.ovs.upcalls.probe_events import Event
from kernel_delay.recording.records import Events


class UpcallEvents(Events, frozen=True, tag="upcall_events"):
    """Events of upcalls, and names of ports, in order.

    Attributes:
        events: The events and names.
        since_epoch_ns: CLOCK_REALTIME minus CLOCK_MONOTONIC, in ns.
    """

    events: tuple[Event | PortName, ...]
    since_epoch_ns: int

    def measured(self) -> Sequence[Event | PortName]:
        """The events and names."""
        return self.events


RECORD = UpcallEvents
