"""The counters at one time, and what ovs-vswitchd is asked for."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernel_delay.openvswitch.losses.tables import Conntrack, NetlinkSocket

if TYPE_CHECKING:
    from kernel_delay.openvswitch.losses.datapaths import DatapathCounters

ANSWERS_WITHIN_S = 0.5

UPCALLS = ("upcall/show",)
COVERAGE = ("coverage/show",)
USERSPACE = ("dpctl/show", "-s", "netdev@ovs-netdev")
"""Of the only datapath that ovs-vswitchd makes in user space (lib/dpif-netdev.c)."""

COMMANDS = (UPCALLS, COVERAGE, USERSPACE)

# What a reason for not reading is of.
KERNEL_COUNTERS, OWN_COUNTERS = "counters of the kernel's datapath", "counters of ovs-vswitchd"


class Reading:
    """The counters at one time: what could not be read is None, and `unread` says why."""

    def __init__(self) -> None:
        """Nothing is read."""
        self.read_ns = time.monotonic_ns()
        self.sockets: Mapping[int, NetlinkSocket] | None = None
        self.conntrack: Conntrack | None = None
        self.datapaths: tuple[DatapathCounters, ...] | None = None
        self.unread: dict[str, str] = {}
