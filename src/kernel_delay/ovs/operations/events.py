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
    """An operation that ended at `time_ns` (CLOCK_MONOTONIC), in the thread that asked for it.

    `duration_ns` is its time in the kernel's function, None where its begin was not seen. `error`
    is the positive errno that it was answered with, 0 if it was done. `message` is the request, the
    netlink message from its header on: the captured beginning of `message_len` bytes. `reply` is
    the message that the kernel sent back beside the answer, the same of `reply_len`, none without
    one.
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
