"""What happened to flows, as a recording has it."""

import re
from collections.abc import Sequence

from kernel_delay.errors import InputError
from kernel_delay.ovs.flows import FlowEvent
from kernel_delay.recording.records import Events

_UFID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class FlowEvents(Events, frozen=True, tag="flow_events"):
    """What happened to flows, in order.

    Attributes:
        events: The events.
        flows_before: How many older flows had been seen by then.
    """

    COUNTERS = frozenset({"n_packets", "n_bytes", "flows_before"})

    events: tuple[FlowEvent, ...]
    flows_before: int

    def measured(self) -> Sequence[FlowEvent]:
        """The events."""
        return self.events

    def check(self) -> None:
        """Raise InputError for a flow without a UFID."""
        if not all(_UFID.fullmatch(event.ufid) for event in self.events):
            raise InputError("a flow's ufid is malformed")


RECORD = FlowEvents
