"""Perfetto traces, read by Perfetto's own definitions of them."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from perfetto.protos.perfetto.trace import (  # type: ignore[import-untyped]
    perfetto_trace_pb2 as proto,
)


def read_trace(path: Path) -> Any:
    """The trace in a file."""
    trace = proto.Trace()
    trace.ParseFromString(path.read_bytes())
    return trace


class Numbered:
    """What the numbers of stacks and texts stand for, as far as the packets were read."""

    def __init__(self) -> None:
        self._of: dict[str, dict[int, Any]] = {}

    def read(self, packet: Any) -> None:
        """Learn from a packet; none may refer to what was not said before it."""
        if packet.sequence_flags & proto.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
            self._of = {field.name: {} for field in proto.InternedData.DESCRIPTOR.fields}
        for field, entries in packet.interned_data.ListFields():
            for entry in entries:
                assert entry.iid
                assert entry.iid not in self._of[field.name]
                self._of[field.name][entry.iid] = entry
                self._check(field.name, entry)

    def annotation(self, annotation: Any) -> tuple[str, int | str]:
        """A debug annotation's name and value."""
        if annotation.name_iid:
            name = self._of["debug_annotation_names"][annotation.name_iid].name
            text = self._of["debug_annotation_string_values"][annotation.string_value_iid]
            return name, text.str.decode()
        return annotation.name, annotation.string_value or annotation.int_value

    def functions(self, event: Any) -> list[str]:
        """The functions of an event's stack, the outermost first."""
        frames = self._of["callstacks"][event.callstack_iid].frame_ids
        names = (self._of["frames"][number].function_name_id for number in frames)
        return [self._of["function_names"][name].str.decode() for name in names]

    def _check(self, kind: str, entry: Any) -> None:
        if kind == "callstacks":
            assert set(entry.frame_ids) <= set(self._of["frames"])
        elif kind == "frames":
            assert entry.function_name_id in self._of["function_names"]
            assert entry.mapping_id in self._of["mappings"]
        elif kind == "mappings":
            assert set(entry.path_string_ids) <= set(self._of["mapping_paths"])


class Drawn(NamedTuple):
    """A slice of a track, how deep it is in others, and when."""

    depth: int
    start_ns: int
    stop_ns: int
    name: str


def drawn_on(trace: Any) -> dict[str, list[Drawn]]:
    """The slices of each track, by the thread's id and the track's name."""
    tracks = {
        packet.track_descriptor.uuid: packet.track_descriptor
        for packet in trace.packet
        if packet.HasField("track_descriptor")
    }
    open_: dict[int, list[tuple[int, str]]] = defaultdict(list)
    reached: dict[int, int] = {}
    found: dict[str, list[Drawn]] = defaultdict(list)
    for packet in trace.packet:
        if not packet.HasField("track_event"):
            continue
        uuid = packet.track_event.track_uuid
        # On a track time goes on: what is in another ends before that does.
        assert packet.timestamp >= reached.get(uuid, 0)
        reached[uuid] = packet.timestamp
        track = tracks[uuid]
        of = tracks.get(track.parent_uuid)
        tid = track.thread.tid or (of and of.thread.tid) or ""
        key = f"{tid} {track.name}".strip()
        if packet.track_event.type == proto.TrackEvent.TYPE_SLICE_BEGIN:
            open_[uuid].append((packet.timestamp, packet.track_event.name))
        elif packet.track_event.type == proto.TrackEvent.TYPE_SLICE_END:
            depth = len(open_[uuid]) - 1
            start_ns, name = open_[uuid].pop()
            found[key].append(Drawn(depth, start_ns, packet.timestamp, name))
        else:
            value = packet.track_event.counter_value
            found[key].append(Drawn(0, packet.timestamp, packet.timestamp, str(value)))
    assert not any(open_.values())
    kinds = ("thread", "process")
    assert all(track.name or any(map(track.HasField, kinds)) for track in tracks.values())
    return {
        key: sorted(each, key=lambda it: (it.start_ns, it.depth)) for key, each in found.items()
    }


def states_ns(slices: Iterable[Drawn]) -> dict[str, int]:
    """How long a thread was in each state, by the first word of what its track says."""
    times: defaultdict[str, int] = defaultdict(int)
    for each in slices:
        times[each.name.partition(" ")[0].rstrip(":,")] += each.stop_ns - each.start_ns
    return dict(times)
