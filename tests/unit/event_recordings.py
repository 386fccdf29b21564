"""What each command that follows Open vSwitch can see, and recordings of it."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from msgspec import structs

from kernel_delay.model import MeasuringCommand
from kernel_delay.monitors.bridge_loop.events import LoopEvent, LoopEvents, LoopHit, Probe
from kernel_delay.monitors.datapath_ops.events import OperationEvents
from kernel_delay.monitors.flows.events import FlowEvents
from kernel_delay.monitors.revalidator.events import RevalidatorRounds
from kernel_delay.monitors.upcalls.events import DpUpcall, PortName, UpcallEvents
from kernel_delay.recording.writer import RecordingWriter
from tests.recordings import header
from tests.unit.test_flows import DELETED
from tests.unit.test_operations import EVENT as OPERATION
from tests.unit.test_operations import EXECUTE
from tests.unit.test_revalidator import ROUND, after
from tests.unit.upcall_trips import World

# Its number is another on macOS.
DROPPED = errno.EAGAIN

PROBES: tuple[Probe, ...] = get_args(Probe)
PASSES = [
    (LoopEvent(PROBES[at % 2], at**3 * 1000, 7, "ovs\x1b[2J"), at == 9) for at in range(1, 41)
]
UPCALLS = [
    structs.replace(event, error=DROPPED) if isinstance(event, DpUpcall) else event
    for event in World(seed=1).run([3, 5, 40])[0]
]
ROUNDS = [ROUND, after(ROUND, 400, n_flows=7), after(ROUND, 5000)]
CHANGES = [
    DELETED,
    structs.replace(DELETED, change="insert", comm="a\nb"),
    structs.replace(DELETED, key=b""),
]
OPERATIONS = [
    OPERATION,
    structs.replace(OPERATION, error=DROPPED, comm="\x1b"),
    structs.replace(
        OPERATION, operation="packet_execute", message=EXECUTE, message_len=len(EXECUTE)
    ),
]

LOST = {
    "recv_upcall": 2,
    "loop_events": 1,
    "rounds": 3,
    "flow_results": 4,
    "flow_events": 6,
    "operations": 5,
}


def _upcalls(writer: RecordingWriter) -> None:
    writer.events(UpcallEvents((PortName("ovs-system", 3, "eth\x1b0"), *UPCALLS), 1 << 60))


def _passes(writer: RecordingWriter) -> None:
    writer.events(LoopEvents(tuple(LoopHit(*found) for found in PASSES)))


EVENT_COMMANDS: dict[MeasuringCommand, Callable[[RecordingWriter], None]] = {
    "bridge-loop": _passes,
    "upcall-monitor": _upcalls,
    "upcall-cost": _upcalls,
    "revalidator": lambda writer: writer.events(RevalidatorRounds(tuple(ROUNDS))),
    "flows": lambda writer: writer.events(FlowEvents(tuple(CHANGES), 1 << 40)),
    "datapath-ops": lambda writer: writer.events(OperationEvents(tuple(OPERATIONS), 1 << 60)),
}


def record_events(path: Path, command: MeasuringCommand) -> Path:
    """Write a whole recording of this command."""
    with RecordingWriter(path, header(command)) as writer:
        EVENT_COMMANDS[command](writer)
        writer.finish("exit", LOST)
    return path
