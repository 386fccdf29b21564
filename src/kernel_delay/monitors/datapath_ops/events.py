"""Operations of the kernel's datapath, as a recording has them."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from kernel_delay.host.errnos import error_name
from kernel_delay.recording.records import Events

Operation = Literal["flow_new", "flow_set", "flow_del", "flow_get", "packet_execute"]
"""The kernel's names of the commands, OVS_FLOW_CMD_NEW and so on, in lower case."""

OPERATIONS: tuple[Operation, ...] = (
    "flow_new",
    "flow_set",
    "flow_del",
    "flow_get",
    "packet_execute",
)


class OperationEvent(Struct, frozen=True):
    """A completed operation of the kernel's datapath.

    Attributes:
        time_ns: The end of the operation (CLOCK_MONOTONIC).
        cpu: The CPU.
        tid: The thread that requested the operation.
        comm: The name of that thread.
        operation: The operation.
        duration_ns: The time in the kernel's function, in ns. None: the start was missed.
        error: The errno of the answer, positive. 0: done.
        message: The captured start of the request, a netlink message with its header.
        message_len: The full length of the request, in bytes.
        reply: The captured start of the message that the kernel sent back. Empty: there was none.
        reply_len: The full length of that message, in bytes.
    """

    time_ns: int
    cpu: int
    tid: int
    comm: str
    operation: Operation
    duration_ns: int | None
    error: int
    message: bytes
    message_len: int
    reply: bytes = b""
    reply_len: int = 0

    @property
    def is_cut(self) -> bool:
        """Whether the message was captured in part only."""
        return len(self.message) < self.message_len


def answer(event: OperationEvent) -> str:
    """What it was answered with: `ok` or the error's name."""
    if not event.error:
        return "ok"
    return error_name(event.error)


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
