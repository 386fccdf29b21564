"""The records of a recording: a line of JSON each, whose kind is in `record`.

    header, (note | sample, continuation … | EVENTS) …, trailer

EVENTS are those of the monitor that measured: a monitor's `events` module has its kind of record.

The model has the first and the last. A record is read whole or not at all, so none is large: a
sample of many threads, stacks or events goes on in the `continuation` records that follow.
"""

from collections.abc import Collection, Sequence
from functools import reduce
from operator import or_
from typing import Any, ClassVar, cast, get_args

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
from kernel_delay.register import MONITORS, events_module

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


class Events(Struct, frozen=True, tag_field="record"):
    """What a monitor measured, in place of Samples. Each kind of record is a subclass."""

    COUNTERS: ClassVar[Collection[str]] = ()
    """Which fields, here and in the events, can have any value of 64 bits."""

    def measured(self) -> Sequence[Struct]:
        """The events in it, in their order."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise InputError for events that can't be, each figure by itself being in range."""


Content = Note | Skipped | SampleRecord | Continuation
"""What is between the header and the trailer, beside the events of monitors."""

Record = RecordingHeader | Content | Events | RecordingTrailer

COMMANDS = ("capture", "watch", *MONITORS)
"""The commands that measure, and so can write a recording."""

Read = Sample | SkippedWindow | Note | Events
"""What a reader makes of the content: Samples are whole."""


def record_type(command: str) -> type[Events]:
    """Return the kind of record that a recording of a monitor has."""
    return cast(type[Events], events_module(command).RECORD)


def record_types() -> tuple[type[Events], ...]:
    """Return those of all monitors, each once."""
    return tuple(dict.fromkeys(map(record_type, MONITORS)))


def union_of_records() -> Any:
    """Return the type of any record, those of all monitors included."""
    return reduce(or_, (RecordingHeader, *get_args(Content), *record_types(), RecordingTrailer))


def recording_schema() -> str:
    """The JSON Schema (2020-12) of one line of a recording, as indented JSON.

    It is docs/reference/recording.schema.json.
    """
    # No reader needs it.
    from kernel_delay.model.schema import schema_of

    commands = {(RecordingHeader, "command"): sorted(COMMANDS)}
    return schema_of(union_of_records(), "kernel-delay recording", commands)
