"""Events of the main loop of ovs-vswitchd, as a recording has them."""

from collections.abc import Sequence

from msgspec import Struct

from kernel_delay.ovs.bridge_loop import LoopEvent
from kernel_delay.recording.records import Events


class LoopHit(Struct, frozen=True):
    """An event of the main loop.

    Attributes:
        event: The event.
        lost_before: Events were lost between the previous event and this one.
    """

    event: LoopEvent
    lost_before: bool = False


class LoopEvents(Events, frozen=True, tag="loop_events"):
    """Events of the main loop of ovs-vswitchd, in order.

    Attributes:
        hits: The events.
    """

    hits: tuple[LoopHit, ...]

    def measured(self) -> Sequence[LoopEvent]:
        """The events."""
        return [hit.event for hit in self.hits]


RECORD = LoopEvents
