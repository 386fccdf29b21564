"""The records of a recording: a line of JSON each, whose kind is in `record`.

    header, (note | sample, continuation … | EVENTS) …, trailer

EVENTS is loop_events, upcall_events, revalidator_rounds, flow_events or operation_events, by
the command.

The model has the first and the last. A record is read whole or not at all, so none is large: a
sample of many threads, stacks or events goes on in the `continuation` records that follow.
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
from kernel_delay.ovs.upcalls.port_names import PortName
from kernel_delay.ovs.upcalls.probe_events import Event

EVENTS_AT_ONCE = 1000
"""In one record at most: so it stays small."""


class Note(Struct, frozen=True, tag="note", tag_field="record"):
    """A message that the user saw during the recording.

    Attributes:
        text: The message.
    """

    text: str


class Skipped(Struct, frozen=True, tag="skipped", tag_field="record"):
    """A window between two triggers that was shorter than `--trigger-delta`.

    It is no sample.

    Attributes:
        window: The time between the two triggers.
    """

    window: Window


class Remaining(Struct, frozen=True):
    """How many parts of a sample are in the records that follow it.

    Attributes:
        threads: Threads in the records that follow.
        stacks: Stacks in the records that follow.
        syscall_events: Single system calls in the records that follow.
        timeline: Slices in the records that follow.
    """

    threads: int = 0
    stacks: int = 0
    syscall_events: int = 0
    timeline: int = 0


class SampleRecord(Struct, frozen=True, tag="sample", tag_field="record"):
    """A Sample.

    Further parts can follow in `continuation` records.

    Attributes:
        sample: The Sample, as in sample.schema.json.
        remaining: What follows in `continuation` records.
    """

    sample: Sample
    remaining: Remaining = Remaining()


class Continuation(Struct, frozen=True, tag="continuation", tag_field="record"):
    """The continuation of the sample before it, in its order.

    Attributes:
        threads: Further threads.
        stacks: Further stacks.
        syscall_events: Further single system calls.
        timeline: Further slices of the timeline.
    """

    threads: tuple[Thread, ...] = ()
    stacks: tuple[tuple[StackFrame, ...], ...] = ()
    syscall_events: tuple[SyscallEvent, ...] = ()
    timeline: tuple[Slice, ...] = ()


class LoopHit(Struct, frozen=True):
    """An event of the main loop.

    Attributes:
        event: The event.
        lost_before: Events were lost between the previous event and this one.
    """

    event: LoopEvent
    lost_before: bool = False


class LoopEvents(Struct, frozen=True, tag="loop_events", tag_field="record"):
    """Events of the main loop of ovs-vswitchd, in order.

    Attributes:
        hits: The events.
    """

    hits: tuple[LoopHit, ...]


class UpcallEvents(Struct, frozen=True, tag="upcall_events", tag_field="record"):
    """Events of upcalls, and names of ports, in order.

    Attributes:
        events: The events and names.
        since_epoch_ns: CLOCK_REALTIME minus CLOCK_MONOTONIC, in ns.
    """

    events: tuple[Event | PortName, ...]
    since_epoch_ns: int


class RevalidatorRounds(Struct, frozen=True, tag="revalidator_rounds", tag_field="record"):
    """Rounds of Open vSwitch's revalidators, in the order of their ends.

    Attributes:
        rounds: The rounds.
    """

    rounds: tuple[RevalidatorRound, ...]


class FlowEvents(Struct, frozen=True, tag="flow_events", tag_field="record"):
    """What happened to flows, in order.

    Attributes:
        events: The events.
        flows_before: How many older flows had been seen by then.
    """

    events: tuple[FlowEvent, ...]
    flows_before: int


class OperationEvents(Struct, frozen=True, tag="operation_events", tag_field="record"):
    """Operations of the kernel's datapath, in the order of their ends.

    Attributes:
        events: The operations.
        since_epoch_ns: CLOCK_REALTIME minus CLOCK_MONOTONIC, in ns.
    """

    events: tuple[OperationEvent, ...]
    since_epoch_ns: int


Events = LoopEvents | UpcallEvents | RevalidatorRounds | FlowEvents | OperationEvents
"""What is measured of Open vSwitch, in place of Samples."""

Content = Note | Skipped | SampleRecord | Continuation | Events
"""What is between the header and the trailer."""

Record = RecordingHeader | Content | RecordingTrailer

Read = Sample | SkippedWindow | Note | Events
"""What a reader makes of the content: Samples are whole."""
