"""The packets of a Perfetto trace, as bytes: protocol buffers without their library.

Field numbers are those of protos/perfetto/trace in Perfetto 59; they never change. A trace is
packets one behind the other.
"""

from collections.abc import Mapping
from functools import lru_cache

from kernel_delay.printable import printable

# Trace.packet, and of a TracePacket:
_PACKET = 1
_CLOCK_SNAPSHOT, _TIMESTAMP, _SEQUENCE, _TRACK_EVENT = 6, 8, 10, 11
_CLOCK_ID, _TRACK_DESCRIPTOR = 58, 60

# Of a ClockSnapshot and its Clock, and of BuiltinClock:
_CLOCKS, _PRIMARY_TRACE_CLOCK = 1, 2
_CLOCKS_ID, _CLOCKS_TIMESTAMP = 1, 2
_REALTIME, _MONOTONIC = 1, 3

# Of a TrackDescriptor, its ProcessDescriptor and its ThreadDescriptor:
_UUID, _NAME, _PROCESS, _THREAD, _PARENT, _COUNTER = 1, 2, 3, 4, 5, 8
_PROCESS_PID, _PROCESS_CMDLINE, _PROCESS_NAME = 1, 2, 6
_THREAD_PID, _THREAD_TID, _THREAD_NAME = 1, 2, 5

# Of a TrackEvent and its DebugAnnotation:
_ANNOTATIONS, _TYPE, _TRACK, _EVENT_NAME, _VALUE = 4, 9, 11, 23, 30
_ANNOTATION_INT, _ANNOTATION_STRING, _ANNOTATION_NAME = 4, 6, 10
_SLICE_BEGIN, _SLICE_END, _COUNTER_VALUE = 1, 2, 4

_OUR_SEQUENCE = 1

# Of a timeline there are many of few kinds, at other times.
EVENTS_REMEMBERED = 4096

Annotations = Mapping[str, int | str]


def clocks(monotonic_ns: int, realtime_ns: int) -> bytes:
    """The relation of the clocks, and that MONOTONIC is the one of all timestamps here."""
    relation = b"".join(
        _message(_CLOCKS, _integer(_CLOCKS_ID, number) + _integer(_CLOCKS_TIMESTAMP, ns))
        for number, ns in ((_MONOTONIC, monotonic_ns), (_REALTIME, realtime_ns))
    )
    snapshot = relation + _integer(_PRIMARY_TRACE_CLOCK, _MONOTONIC)
    return _packet(_message(_CLOCK_SNAPSHOT, snapshot))


def process_track(uuid: int, pid: int, name: str, command_line: tuple[str, ...]) -> bytes:
    """The track of a process."""
    process = _integer(_PROCESS_PID, pid) + _text(_PROCESS_NAME, name)
    process += b"".join(_text(_PROCESS_CMDLINE, word) for word in command_line)
    return _track(uuid, _message(_PROCESS, process))


def thread_track(uuid: int, parent: int, pid: int, tid: int, name: str) -> bytes:
    """The track of a thread."""
    thread = _integer(_THREAD_PID, pid) + _integer(_THREAD_TID, tid) + _text(_THREAD_NAME, name)
    return _track(uuid, _integer(_PARENT, parent) + _message(_THREAD, thread))


def named_track(uuid: int, parent: int, name: str) -> bytes:
    """A track below another."""
    return _track(uuid, _integer(_PARENT, parent) + _text(_NAME, name))


def counter_track(uuid: int, parent: int, name: str) -> bytes:
    """A track of values."""
    return _track(uuid, _integer(_PARENT, parent) + _text(_NAME, name) + _message(_COUNTER, b""))


def begin(track: int, time_ns: int, name: str, annotations: Annotations) -> bytes:
    """A slice begins: on its track it ends before the one that it is in."""
    return _timed(time_ns, _begin_event(track, name, tuple(annotations.items())))


@lru_cache(EVENTS_REMEMBERED)
def _begin_event(track: int, name: str, annotations: tuple[tuple[str, int | str], ...]) -> bytes:
    event = _integer(_TYPE, _SLICE_BEGIN) + _integer(_TRACK, track) + _text(_EVENT_NAME, name)
    for key, value in annotations:
        kind = (
            _integer(_ANNOTATION_INT, value)
            if isinstance(value, int)
            else _string(_ANNOTATION_STRING, value)
        )
        event += _message(_ANNOTATIONS, _text(_ANNOTATION_NAME, key) + kind)
    return _message(_TRACK_EVENT, event)


def end(track: int, time_ns: int) -> bytes:
    """The slice that began last ends."""
    return _timed(time_ns, _end_event(track))


@lru_cache(EVENTS_REMEMBERED)
def _end_event(track: int) -> bytes:
    return _message(_TRACK_EVENT, _integer(_TYPE, _SLICE_END) + _integer(_TRACK, track))


def value(track: int, time_ns: int, number: int) -> bytes:
    """What a track of values has from now on."""
    event = _integer(_TYPE, _COUNTER_VALUE) + _integer(_TRACK, track) + _integer(_VALUE, number)
    return _timed(time_ns, _message(_TRACK_EVENT, event))


def _track(uuid: int, what: bytes) -> bytes:
    return _packet(_message(_TRACK_DESCRIPTOR, _integer(_UUID, uuid) + what))


def _timed(time_ns: int, event: bytes) -> bytes:
    return _packet(_integer(_TIMESTAMP, time_ns) + _integer(_CLOCK_ID, _MONOTONIC) + event)


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
