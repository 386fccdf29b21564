"""The packets of a Perfetto trace, as bytes: protocol buffers without their library.

Field numbers are those of protos/perfetto/trace in Perfetto 59; they never change. A trace is
packets one behind the other.
"""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Literal

from kernel_delay.formatting import printable

# Trace.packet, and of a TracePacket:
_PACKET = 1
_CLOCK_SNAPSHOT, _TIMESTAMP, _SEQUENCE, _TRACK_EVENT = 6, 8, 10, 11
_INTERNED_DATA, _SEQUENCE_FLAGS = 12, 13
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
_ANNOTATIONS, _TYPE, _TRACK, _EVENT_NAME, _VALUE, _EVENT_CALLSTACK = 4, 9, 11, 23, 30, 56
_ANNOTATION_NAME_IID, _ANNOTATION_INT, _ANNOTATION_STRING, _ANNOTATION_NAME = 1, 4, 6, 10
_ANNOTATION_STRING_IID = 17
_SLICE_BEGIN, _SLICE_END, _COUNTER_VALUE = 1, 2, 4

# Of InternedData, and its InternedString (and DebugAnnotationName), Mapping, Frame and Callstack.
# Each has a number, and what refers to it comes later in the trace.
_FRAMES, _CALLSTACKS, _MAPPINGS = 6, 7, 19
_IID, _INTERNED_TEXT, _MAPPING_PATH = 1, 2, 7
_FRAME_FUNCTION, _FRAME_MAPPING, _FRAME_PC, _CALLSTACK_FRAMES = 2, 3, 4, 2

TextKind = Literal["annotation", "function", "path", "stack"]

_TEXTS: dict[TextKind, int] = {"annotation": 3, "function": 5, "path": 17, "stack": 29}

# SequenceFlags: all numbers begin anew, or a packet refers to one.
_STATE_CLEARED, _NEEDS_STATE = 1, 2

_OUR_SEQUENCE = 1

# Of a timeline there are many of few kinds, at other times.
EVENTS_REMEMBERED = 4096
NAMES_REMEMBERED = 64
LENGTHS_REMEMBERED = 1024

# Of a time: as many as two bytes of a varint have.
_PART_BITS = 14
_PART = (1 << _PART_BITS) - 1

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


def state_cleared() -> bytes:
    """From here on numbers of stacks and texts begin anew: they do at the beginning of a trace."""
    return _packet(_integer(_SEQUENCE_FLAGS, _STATE_CLEARED))


def interned_text(number: int, kind: TextKind, text: str) -> bytes:
    """What a text is; a stack's has lines, and is safe to print."""
    encoded = (_string if kind == "stack" else _text)(_INTERNED_TEXT, text)
    return _interned(_TEXTS[kind], _integer(_IID, number) + encoded)


def interned_mapping(number: int, path: int) -> bytes:
    """What a mapped file is: the number of its path."""
    return _interned(_MAPPINGS, _integer(_IID, number) + _integer(_MAPPING_PATH, path))


def interned_frame(number: int, function: int, mapping: int, address: int) -> bytes:
    """What a frame is: the numbers of its function's name and its mapping."""
    frame = _integer(_IID, number) + _integer(_FRAME_FUNCTION, function)
    frame += _integer(_FRAME_MAPPING, mapping) + _integer(_FRAME_PC, address)
    return _interned(_FRAMES, frame)


def interned_stack(number: int, frames: Iterable[int]) -> bytes:
    """What a stack is: the numbers of its frames, the outermost first."""
    stack = b"".join(_integer(_CALLSTACK_FRAMES, frame) for frame in frames)
    return _interned(_CALLSTACKS, _integer(_IID, number) + stack)


def _interned(field: int, content: bytes) -> bytes:
    return _packet(_message(_INTERNED_DATA, _message(field, content)) + _NEEDS_STATE_FLAG)


def said_of_stacks(stack: int, texts: Iterable[tuple[int, int]]) -> bytes:
    """What begin() takes of an event's stacks, by their numbers.

    `stack` is the whole of it. Of each of `texts` the first is its name, and the second what it is.
    """
    return _integer(_EVENT_CALLSTACK, stack) + b"".join(
        _message(
            _ANNOTATIONS,
            _integer(_ANNOTATION_NAME_IID, name) + _integer(_ANNOTATION_STRING_IID, text),
        )
        for name, text in texts
    )


def begin(track: int, time_ns: int, name: str, annotations: Annotations) -> bytes:
    """A slice begins: on its track it ends before the one that it is in."""
    return _packet_at(time_ns, _begin_alone(track, name, tuple(annotations.items())))


class Slices:
    """Makes slices that are alike but for their times.

    Of a million calls most are: what does not change is made once.
    """

    def __init__(self, track: int, name: str, annotations: Annotations, stacks: bytes) -> None:
        """Make them on that track; `stacks` are as said_of_stacks() has them."""
        event = _begin_event(track, name, annotations.items()) + stacks
        behind = _behind_time(event) + (_NEEDS_STATE_FLAG if stacks else b"")
        self._begin, self._end = behind, _end_event(track)
        self._time_bytes = 0
        self._heads = b"", b""

    def packets(self, start_ns: int, stop_ns: int) -> bytes:
        """The packets of one that is alone on its track meanwhile: its begin and its end."""
        high = start_ns >> 2 * _PART_BITS
        if high == 0 or stop_ns >> 2 * _PART_BITS != high:
            return _packet_at(start_ns, self._begin) + _packet_at(stop_ns, self._end)
        parts, last = _parts(), _last_part(high)
        time_bytes = 4 + len(last)
        if time_bytes != self._time_bytes:
            self._time_bytes, self._heads = time_bytes, self._heads_before(time_bytes)
        begin_head, end_head = self._heads
        return b"".join(
            (
                begin_head,
                parts[start_ns & _PART],
                parts[start_ns >> _PART_BITS & _PART],
                last,
                self._begin,
                end_head,
                parts[stop_ns & _PART],
                parts[stop_ns >> _PART_BITS & _PART],
                last,
                self._end,
            )
        )

    def _heads_before(self, time_bytes: int) -> tuple[bytes, bytes]:
        """What is before the times of both, where these have so many bytes."""
        begin_head = _packet_head(time_bytes + len(self._begin)) + _TIME
        return begin_head, _packet_head(time_bytes + len(self._end)) + _TIME


@lru_cache(EVENTS_REMEMBERED)
def _begin_alone(track: int, name: str, annotations: tuple[tuple[str, int | str], ...]) -> bytes:
    return _behind_time(_begin_event(track, name, annotations))


def _begin_event(track: int, name: str, annotations: Iterable[tuple[str, int | str]]) -> bytes:
    event = _begin_named(track, name)
    for key, value in annotations:
        kind = (
            _integer(_ANNOTATION_INT, value)
            if isinstance(value, int)
            else _string(_ANNOTATION_STRING, value)
        )
        event += _message(_ANNOTATIONS, _annotation_name(key) + kind)
    return event


@lru_cache(EVENTS_REMEMBERED)
def _begin_named(track: int, name: str) -> bytes:
    return _integer(_TYPE, _SLICE_BEGIN) + _integer(_TRACK, track) + _text(_EVENT_NAME, name)


@lru_cache(NAMES_REMEMBERED)
def _annotation_name(key: str) -> bytes:
    return _text(_ANNOTATION_NAME, key)


def end(track: int, time_ns: int) -> bytes:
    """The slice that began last ends."""
    return _packet_at(time_ns, _end_event(track))


@lru_cache(EVENTS_REMEMBERED)
def _end_event(track: int) -> bytes:
    return _behind_time(_integer(_TYPE, _SLICE_END) + _integer(_TRACK, track))


def value(track: int, time_ns: int, number: int) -> bytes:
    """What a track of values has from now on."""
    event = _integer(_TYPE, _COUNTER_VALUE) + _integer(_TRACK, track) + _integer(_VALUE, number)
    return _packet_at(time_ns, _behind_time(event))


def _track(uuid: int, what: bytes) -> bytes:
    return _packet(_message(_TRACK_DESCRIPTOR, _integer(_UUID, uuid) + what))


def _behind_time(event: bytes) -> bytes:
    """What follows on the time in a track event's packet: of many it is the same."""
    return _CLOCK + _message(_TRACK_EVENT, event) + _OUR_SEQUENCE_FIELD


def _packet_at(time_ns: int, behind_time: bytes) -> bytes:
    time = _time(time_ns)
    return b"%b%b%b%b" % (_packet_head(len(time) + len(behind_time)), _TIME, time, behind_time)


@lru_cache(LENGTHS_REMEMBERED)
def _packet_head(length: int) -> bytes:
    return _varint(_PACKET << 3 | 2) + _varint(len(_TIME) + length)


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


def _time(ns: int) -> bytes:
    """A time as _varint() has it, from parts that many times share: the first two change."""
    if ns >> 2 * _PART_BITS == 0:
        return _varint(ns)
    parts = _parts()
    low, middle = ns & _PART, ns >> _PART_BITS & _PART
    return b"%b%b%b" % (parts[low], parts[middle], _last_part(ns >> 2 * _PART_BITS))


@cache
def _parts() -> tuple[bytes, ...]:
    """Of each value of a part the two bytes that others follow: 16,384 in a few milliseconds."""
    return tuple(bytes((low, high)) for high in range(0x80, 0x100) for low in range(0x80, 0x100))


@lru_cache(EVENTS_REMEMBERED)
def _last_part(value: int) -> bytes:
    return _varint(value)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; all but the last have the highest bit."""
    if value <= 0x7F:
        return _BYTES[value]
    if value <= _PART:
        return bytes((value & 0x7F | 0x80, value >> 7))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_BYTES = tuple(bytes((value,)) for value in range(0x80))
_TIME = _varint(_TIMESTAMP << 3)
_CLOCK = _integer(_CLOCK_ID, _MONOTONIC)
_OUR_SEQUENCE_FIELD = _integer(_SEQUENCE, _OUR_SEQUENCE)
_NEEDS_STATE_FLAG = _integer(_SEQUENCE_FLAGS, _NEEDS_STATE)
