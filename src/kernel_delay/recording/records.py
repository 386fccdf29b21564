"""The records of a recording: a line of JSON each, told apart by `record`.

    header, (note | sample, more … | EVENTS) …, trailer

EVENTS is loop_events, upcall_events, revalidator_rounds, flow_events or operation_events, by
the command.

The model has the first and the last. A record is read whole or not at all, so none is large: a
sample of many threads, stacks or events goes on in the `more` records that follow.
"""

from msgspec import Struct

from kernel_delay.model import (
    RecordingHeader,
    RecordingTrailer,
    Sample,
    SkippedWindow,
    Slice,
    StackFrame,
    SyscallEvent,
    Thread,
    Window,
)
from kernel_delay.ovs.bridge_loop import LoopEvent
from kernel_delay.ovs.flows import FlowEvent
from kernel_delay.ovs.operations import OperationEvent
from kernel_delay.ovs.revalidator import RevalidatorRound
from kernel_delay.ovs.upcalls.events import Event
from kernel_delay.ovs.upcalls.port_names import PortName

EVENTS_AT_ONCE = 1000
"""In one record at most: so it stays small."""


class Note(Struct, frozen=True, tag="note", tag_field="record"):
    """What the user was told while it was recorded: as of what can't be seen."""

    text: str


class Skipped(Struct, frozen=True, tag="skipped", tag_field="record"):
    """A window between two triggers that was shorter than asked for: it is no sample."""

    window: Window


class ToCome(Struct, frozen=True):
    """How many of a sample's threads, stacks, events and slices are in the records behind it."""

    threads: int = 0
    stacks: int = 0
    syscall_events: int = 0
    timeline: int = 0


class SampleRecord(Struct, frozen=True, tag="sample", tag_field="record"):
    """A Sample, whole unless there is more `to_come`: docs/sample.schema.json."""

    sample: Sample
    to_come: ToCome = ToCome()


class More(Struct, frozen=True, tag="more", tag_field="record"):
    """More of the sample before it, in its order."""

    threads: tuple[Thread, ...] = ()
    stacks: tuple[tuple[StackFrame, ...], ...] = ()
    syscall_events: tuple[SyscallEvent, ...] = ()
    timeline: tuple[Slice, ...] = ()


class LoopHit(Struct, frozen=True):
    """An event of the main loop, and whether others were lost between it and the one before."""

    event: LoopEvent
    lost_before: bool = False


class LoopEvents(Struct, frozen=True, tag="loop_events", tag_field="record"):
    """Events of ovs-vswitchd's main loop, as they came."""

    hits: tuple[LoopHit, ...]


class UpcallEvents(Struct, frozen=True, tag="upcall_events", tag_field="record"):
    """Events of upcalls, and names of ports, as they came.

    `since_epoch_ns` is what CLOCK_REALTIME was ahead of CLOCK_MONOTONIC then.
    """

    events: tuple[Event | PortName, ...]
    since_epoch_ns: int


class RevalidatorRounds(Struct, frozen=True, tag="revalidator_rounds", tag_field="record"):
    """Rounds of Open vSwitch's revalidators, as they ended."""

    rounds: tuple[RevalidatorRound, ...]


class FlowEvents(Struct, frozen=True, tag="flow_events", tag_field="record"):
    """What happened to flows, as it was seen.

    `flows_before` is how many of the flows that were there before the recording had been seen then.
    """

    events: tuple[FlowEvent, ...]
    flows_before: int


class OperationEvents(Struct, frozen=True, tag="operation_events", tag_field="record"):
    """Operations of the kernel's datapath, as they ended.

    `since_epoch_ns` is what CLOCK_REALTIME was ahead of CLOCK_MONOTONIC then.
    """

    events: tuple[OperationEvent, ...]
    since_epoch_ns: int


Events = LoopEvents | UpcallEvents | RevalidatorRounds | FlowEvents | OperationEvents
"""What is measured of Open vSwitch, in place of Samples."""

Content = Note | Skipped | SampleRecord | More | Events
"""What is between the header and the trailer."""

Record = RecordingHeader | Content | RecordingTrailer

Read = Sample | SkippedWindow | Note | Events
"""What a reader makes of the content: Samples are whole."""
