"""Single system calls as a Perfetto trace, to be looked at in ui.perfetto.dev.

A track for each thread, with a slice for each call; and one of the samples, with their verdicts.
Field numbers are those of protos/perfetto/trace in Perfetto 59; they never change. A trace is
packets one behind the other, so each is written as it is made, and none waits in memory.
"""

from collections.abc import Iterator

from kernel_delay.model import RecordingHeader, Sample, StackFrame, SyscallEvent
from kernel_delay.printable import printable
from kernel_delay.reporters.events import frame_text
from kernel_delay.reporters.tables import call_name

# Trace.packet, and of a TracePacket:
_PACKET = 1
_CLOCK_SNAPSHOT, _TIMESTAMP, _SEQUENCE, _TRACK_EVENT = 6, 8, 10, 11
_CLOCK_ID, _TRACK_DESCRIPTOR = 58, 60

# Of a ClockSnapshot and its Clock, and of BuiltinClock:
_CLOCKS, _PRIMARY_TRACE_CLOCK = 1, 2
_CLOCKS_ID, _CLOCKS_TIMESTAMP = 1, 2
_REALTIME, _MONOTONIC = 1, 3

# Of a TrackDescriptor, its ProcessDescriptor and its ThreadDescriptor:
_UUID, _NAME, _PROCESS, _THREAD, _PARENT = 1, 2, 3, 4, 5
_PROCESS_PID, _PROCESS_CMDLINE, _PROCESS_NAME = 1, 2, 6
_THREAD_PID, _THREAD_TID, _THREAD_NAME = 1, 2, 5

# Of a TrackEvent and its DebugAnnotation:
_ANNOTATIONS, _TYPE, _TRACK, _EVENT_NAME = 4, 9, 11, 23
_ANNOTATION_INT, _ANNOTATION_STRING, _ANNOTATION_NAME = 4, 6, 10
_SLICE_BEGIN, _SLICE_END = 1, 2

_OUR_SEQUENCE = 1
_PROCESS_TRACK, _SAMPLES_TRACK, _FIRST_THREAD_TRACK = 1, 2, 16

# What of a stack is with each call: the innermost functions tell it.
_MOST_STACK_CHARACTERS = 1000

Annotations = dict[str, int | str]


class Trace:
    """Makes the packets of a recording, in the order of its samples."""

    def __init__(self, header: RecordingHeader) -> None:
        """Begin a trace."""
        self._header = header
        self._threads: dict[int, str] = {}

    def head(self) -> Iterator[bytes]:
        """What comes before all samples: the clocks and the process."""
        clock, target = self._header.clock, self._header.target
        # The relation of the clocks, and that MONOTONIC is the one of all timestamps here.
        relation = b"".join(
            _message(_CLOCKS, _integer(_CLOCKS_ID, number) + _integer(_CLOCKS_TIMESTAMP, ns))
            for number, ns in ((_MONOTONIC, clock.monotonic_ns), (_REALTIME, clock.realtime_ns))
        )
        snapshot = relation + _integer(_PRIMARY_TRACE_CLOCK, _MONOTONIC)
        yield _packet(_message(_CLOCK_SNAPSHOT, snapshot))
        process = _integer(_PROCESS_PID, target.pid) + _text(_PROCESS_NAME, target.comm)
        process += b"".join(_text(_PROCESS_CMDLINE, word) for word in target.command_line)
        yield _track(_PROCESS_TRACK, _message(_PROCESS, process))
        samples = _text(_NAME, f"samples on {self._header.host}, Linux {self._header.kernel}")
        yield _track(_SAMPLES_TRACK, _integer(_PARENT, _PROCESS_TRACK) + samples)

    def sample(self, number: int, sample: Sample) -> Iterator[bytes]:
        """A sample, `number` from 0 on: its window, its threads and its calls."""
        window = sample.window
        findings: Annotations = {
            f"{place}: {finding.rule}": printable(finding.text)
            for place, finding in enumerate(sample.verdict, start=1)
        }
        name = f"sample {number + 1}"
        yield _begin(_SAMPLES_TRACK, window.start_ns, name, findings)
        yield _end(_SAMPLES_TRACK, window.stop_ns)
        for thread in sample.threads:
            if thread.tid and self._threads.get(thread.tid) != thread.name:
                yield self._thread(thread.tid, thread.name)
        stacks = [_stack_text(stack) for stack in sample.stacks]
        for event in sample.syscall_events or ():
            if event.tid not in self._threads:
                yield self._thread(event.tid, f"thread {event.tid}")
            track = _thread_track(event.tid)
            yield _begin(track, event.entry_ns, call_name(event), _annotations(event, stacks))
            yield _end(track, event.exit_ns)

    def _thread(self, tid: int, name: str) -> bytes:
        self._threads[tid] = name
        thread = _integer(_THREAD_PID, self._header.target.pid) + _integer(_THREAD_TID, tid)
        thread += _text(_THREAD_NAME, name)
        return _track(
            _thread_track(tid), _integer(_PARENT, _PROCESS_TRACK) + _message(_THREAD, thread)
        )


def _thread_track(tid: int) -> int:
    return _FIRST_THREAD_TRACK + tid


def _annotations(event: SyscallEvent, stacks: list[str]) -> Annotations:
    found: Annotations = {"ret": event.ret}
    if event.off_cpu_ns is not None:
        found["off_cpu_ns"] = event.off_cpu_ns
    for name, place in (("kernel stack", event.kernel_stack), ("user stack", event.user_stack)):
        if place is not None:
            found[name] = stacks[place]
    return found


def _stack_text(stack: tuple[StackFrame, ...]) -> str:
    return "\n".join(map(frame_text, stack))[:_MOST_STACK_CHARACTERS]


def _track(uuid: int, what: bytes) -> bytes:
    return _packet(_message(_TRACK_DESCRIPTOR, _integer(_UUID, uuid) + what))


def _begin(track: int, time_ns: int, name: str, annotations: Annotations) -> bytes:
    event = _integer(_TYPE, _SLICE_BEGIN) + _integer(_TRACK, track) + _text(_EVENT_NAME, name)
    for key, value in annotations.items():
        kind = (
            _integer(_ANNOTATION_INT, value)
            if isinstance(value, int)
            else _string(_ANNOTATION_STRING, value)
        )
        event += _message(_ANNOTATIONS, _text(_ANNOTATION_NAME, key) + kind)
    return _event(time_ns, event)


def _end(track: int, time_ns: int) -> bytes:
    return _event(time_ns, _integer(_TYPE, _SLICE_END) + _integer(_TRACK, track))


def _event(time_ns: int, event: bytes) -> bytes:
    at = _integer(_TIMESTAMP, time_ns) + _integer(_CLOCK_ID, _MONOTONIC)
    return _packet(at + _message(_TRACK_EVENT, event))


def _packet(content: bytes) -> bytes:
    return _message(_PACKET, content + _integer(_SEQUENCE, _OUR_SEQUENCE))


# The wire format of protocol buffers: protobuf.dev/programming-guides/encoding.


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & (1 << 64) - 1)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    """A name of others: no character of it can act on what shows it."""
    return _string(field, printable(text))


def _string(field: int, text: str) -> bytes:
    return _message(field, text.encode(errors="backslashreplace"))


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; all but the last have the highest bit."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
