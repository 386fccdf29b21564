"""Operations of the kernel's datapath, as a recording has them."""

from collections.abc import Sequence

from kernel_delay.ovs.operations import OperationEvent
from kernel_delay.recording.records import Events


class OperationEvents(Events, frozen=True, tag="operation_events"):
    """Operations of the kernel's datapath, in the order of their ends.

    Attributes:
        events: The operations.
        since_epoch_ns: CLOCK_REALTIME minus CLOCK_MONOTONIC, in ns.
    """

    events: tuple[OperationEvent, ...]
    since_epoch_ns: int

    def measured(self) -> Sequence[OperationEvent]:
        """The operations."""
        return self.events


RECORD = OperationEvents
