"""Recordings for the tests, and what is in one."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, structs

from kernel_delay.model import (
    ClockRelation,
    Container,
    MeasuringCommand,
    RecordedTarget,
    RecordingHeader,
    Sample,
)
from kernel_delay.monitors.upcalls.events import Event, PortName, UpcallEvents
from kernel_delay.recording.reader import open_recording
from kernel_delay.recording.records import Read
from kernel_delay.recording.writer import RecordingWriter

POD = "0c9fc2a3-8b1d-4f5e-9a51-7d3c2b1a0e9f"

HEADER = RecordingHeader(
    format="kernel-delay-recording/1.1",
    tool="0.1.0",
    command="capture",
    arguments=("-p", "27090", "-o", "a file.kdr"),
    host="compute-1",
    kernel="6.1.0-30-amd64",
    machine="x86_64",
    boot_id="5f9635de-b8f7-4010-9ff3-87c09e10421f",
    cpus=8,
    clock=ClockRelation(791_777_000_000_000, 1_686_219_442_000_000_000),
    target=RecordedTarget(
        pid=27090,
        comm="ovs-vswitchd",
        exe="/usr/sbin/ovs-vswitchd",
        command_line=("ovs-vswitchd", "--pidfile", "unix:db socket"),
        cgroup=f"/kubepods/pod{POD}/{'ab' * 32}",
        container=Container(None, "ab" * 32, POD),
    ),
)


class UpcallRecording(Struct, frozen=True):
    """The events of a recording of upcalls, and what was lost, by the trailer."""

    events: tuple[Event, ...]
    lost: Mapping[str, int]


def header(command: MeasuringCommand, **changes: object) -> RecordingHeader:
    """HEADER, of another command and with changes."""
    return structs.replace(HEADER, command=command, **changes)


def record_samples(path: Path, *samples: Sample) -> Path:
    """Write a whole recording of the samples."""
    with RecordingWriter(path, HEADER) as writer:
        for sample in samples:
            writer.sample(sample)
        writer.finish("done")
    return path


def read_all(path: Path) -> list[Read]:
    """What is in a recording; raises what its reader raises."""
    with open_recording(path) as recording:
        return list(recording.read())


def read_upcalls(path: Path) -> UpcallRecording:
    """The events of upcalls in a whole recording."""
    with open_recording(path) as recording:
        records = [record for record in recording.read() if isinstance(record, UpcallEvents)]
        assert recording.trailer is not None
        events = (event for record in records for event in record.events)
        found = tuple(event for event in events if not isinstance(event, PortName))
        return UpcallRecording(found, recording.trailer.lost)
