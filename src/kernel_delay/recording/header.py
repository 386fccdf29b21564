"""What a new recording says of this machine and of its target."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from kernel_delay.formatting import encodable
from kernel_delay.host.container_names import node_name
from kernel_delay.host.containers import named_cgroup_of
from kernel_delay.host.target import ProcessTarget, command_line
from kernel_delay.model import (
    ClockRelation,
    MeasuringCommand,
    RecordedTarget,
    RecordingHeader,
)
from kernel_delay.version import VERSION

PROC = Path("/proc")

MOST_COMMAND_LINE_BYTES = 4096


def new_header(
    command: MeasuringCommand,
    arguments: Sequence[str],
    target: ProcessTarget,
    *others: ProcessTarget,
) -> RecordingHeader:
    """Return the header of a recording, of these processes, that `command` begins now."""
    uname = os.uname()
    return RecordingHeader(
        format="kernel-delay-recording/1.1",
        tool=VERSION,
        command=command,
        arguments=tuple(map(encodable, arguments)),
        host=encodable(uname.nodename),
        kernel=uname.release,
        machine=uname.machine,
        boot_id=_boot_id(),
        cpus=os.cpu_count() or 0,
        clock=relate_clocks(),
        target=_recorded(target),
        node=node_name(),
        others=tuple(map(_recorded, others)),
    )


def _recorded(target: ProcessTarget) -> RecordedTarget:
    cgroup, container = named_cgroup_of(target.pid)
    return RecordedTarget(
        pid=target.pid,
        comm=target.comm,
        exe=target.exe,
        command_line=target.command_line or command_line(target.pid, MOST_COMMAND_LINE_BYTES),
        cgroup=cgroup,
        container=container,
    )


def _boot_id() -> str | None:
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def relate_clocks() -> ClockRelation:
    """Read both clocks at one time: that in the middle of two readings of one of them."""
    before_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    realtime_ns = time.time_ns()
    after_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return ClockRelation((before_ns + after_ns) // 2, realtime_ns)
