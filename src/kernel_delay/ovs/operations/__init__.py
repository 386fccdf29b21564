"""Netlink operations of the kernel's datapath: their messages and actions, made readable.

The bytes come from another process and may be cut by the capture or simply wrong: every function
here takes any bytes, and says what it can't decode.
"""

from kernel_delay.ovs.operations.actions import format_actions
from kernel_delay.ovs.operations.message import Reply, Request, read_reply, read_request
from kernel_delay.ovs.operations.operation import OPERATIONS, Operation, OperationEvent

__all__ = [
    "OPERATIONS",
    "Operation",
    "OperationEvent",
    "Reply",
    "Request",
    "format_actions",
    "read_reply",
    "read_request",
]
