"""An operation, as the kernel carried it out."""

from typing import Literal

from msgspec import Struct

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
