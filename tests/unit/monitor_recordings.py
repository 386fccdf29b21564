"""Recordings of Open vSwitch's monitors, of as many events as asked for, and of any names."""

import errno
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import structs

from kernel_delay.model import MeasuringCommand
from kernel_delay.monitors.bridge_loop.events import LoopEvents, LoopHit
from kernel_delay.monitors.datapath_ops.events import OPERATIONS, OperationEvent, OperationEvents
from kernel_delay.monitors.flows.events import FlowChange, FlowEvent, FlowEvents
from kernel_delay.monitors.monitor import batches
from kernel_delay.monitors.revalidator.events import LeaderTime, RevalidatorRound, RevalidatorRounds
from kernel_delay.monitors.upcalls.events import RecvUpcall, UpcallEvents
from kernel_delay.recording.records import EVENTS_AT_ONCE
from kernel_delay.recording.writer import RecordingWriter
from tests.recordings import header
from tests.unit.test_bridge_loop import passes
from tests.unit.test_flows import CREATED_NS, DELETED
from tests.unit.test_operations import EVENT
from tests.unit.test_revalidator import ROUND, after
from tests.unit.upcall_trips import World

NS_PER_MS = 1_000_000
NOTE = "which upcalls the kernel drops is not seen"

LOST: Mapping[MeasuringCommand, str] = {
    "bridge-loop": "loop_events",
    "revalidator": "revalidator_rounds",
    "flows": "flow_events",
    "datapath-ops": "operations",
    "upcall-cost": "recv_upcall",
}


def record(path: Path, command: MeasuringCommand, count: int, name: str = "") -> Path:
    """A recording of that command; `name` is what strangers called all that has a name."""
    known = header(command)
    if name:
        known = structs.replace(known, target=structs.replace(known.target, comm=name))
    with RecordingWriter(path, known) as writer:
        writer.note(NOTE + name)
        _WRITE[command](writer, count, name)
        writer.finish("interrupt", {LOST[command]: 3})
    return path


def rounds(count: int, name: str = "") -> Iterator[RevalidatorRound]:
    """Rounds of one datapath, each longer than the one before."""
    found = structs.replace(ROUND, datapath=name or ROUND.datapath, comm=name or ROUND.comm)
    for number in range(count):
        yield found
        length_ns = found.duration_ns + NS_PER_MS
        found = after(found, wait_ms=500, n_flows=100 + number)
        found = structs.replace(
            found,
            stop_ns=found.start_ns + length_ns,
            leader_time=LeaderTime(length_ns - NS_PER_MS, NS_PER_MS // 2, NS_PER_MS // 2),
        )


def flow_events(count: int, name: str = "") -> Iterator[FlowEvent]:
    """Flows that are made and deleted by turns, for two reasons."""
    for number in range(count):
        change: FlowChange = "delete" if number % 2 else "insert"
        yield structs.replace(
            DELETED,
            time_ns=CREATED_NS + number * 100 * NS_PER_MS,
            change=change,
            reason=None if change == "insert" else ("purge" if number % 3 else "flow_idle"),
            ufid=f"{number // 2:08x}{DELETED.ufid[8:]}",
            datapath=name or DELETED.datapath,
            comm=name or DELETED.comm,
            layer=name or DELETED.layer,
        )


def operations(count: int, name: str = "") -> Iterator[OperationEvent]:
    """Operations of all kinds; each tenth is refused."""
    for number in range(count):
        yield structs.replace(
            EVENT,
            time_ns=EVENT.time_ns + number * 10 * NS_PER_MS,
            operation=OPERATIONS[number % 4],
            duration_ns=1000 * (1 + number) if number % 7 else None,
            error=0 if number % 10 else errno.EEXIST,
            comm=name or EVENT.comm,
        )


def _write_loop(writer: RecordingWriter, count: int, name: str) -> None:
    found = passes([((1 + number) * NS_PER_MS, 10 * NS_PER_MS) for number in range(count)])
    hits = (LoopHit(structs.replace(event, comm=name or event.comm)) for event in found)
    for batch in batches(hits, EVENTS_AT_ONCE):
        writer.events(LoopEvents(batch))


def _write_rounds(writer: RecordingWriter, count: int, name: str) -> None:
    for batch in batches(rounds(count, name), EVENTS_AT_ONCE):
        writer.events(RevalidatorRounds(batch))


def _write_flows(writer: RecordingWriter, count: int, name: str) -> None:
    for event in flow_events(count, name):
        writer.events(FlowEvents((event,), 7))


def _write_operations(writer: RecordingWriter, count: int, name: str) -> None:
    writer.events(OperationEvents(tuple(operations(count, name)), 0))


def _write_upcalls(writer: RecordingWriter, count: int, name: str) -> None:
    events, _ = World(seed=1).run([count])
    named = (structs.replace(event, comm=name or event.comm) for event in events)
    events = [
        structs.replace(event, datapath=name) if name and isinstance(event, RecvUpcall) else event
        for event in named
    ]
    for batch in batches(iter(events), EVENTS_AT_ONCE):
        writer.events(UpcallEvents(batch, 0))


_WRITE: Mapping[MeasuringCommand, Callable[[RecordingWriter, int, str], None]] = {
    "bridge-loop": _write_loop,
    "revalidator": _write_rounds,
    "flows": _write_flows,
    "datapath-ops": _write_operations,
    "upcall-cost": _write_upcalls,
}
