"""A Perfetto trace, read by Perfetto's own definitions of it."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from perfetto.protos.perfetto.trace import (  # type: ignore[import-untyped]
    perfetto_trace_pb2 as proto,
)

from kernel_delay.cli import main
from kernel_delay.model import Finding, Sample
from kernel_delay.reporters import perfetto
from tests.perfetto_traces import Numbered, drawn_on, states_ns
from tests.recordings import HEADER, record_samples
from tests.unit.event_samples import EVENTS, WITH_EVENTS, renamed
from tests.unit.samples import EVERYTHING
from tests.unit.timeline_samples import WITH_TIMELINE

FOUND = Finding("cpu", "other-process", 0.5, 1, "it had no CPU")
EVENT = proto.TrackEvent


Traced = Callable[..., Any]


@pytest.fixture
def traced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Traced:
    """The trace of a recording of samples, as Perfetto reads it."""

    def traced(*samples: Sample) -> Any:
        path = record_samples(tmp_path / "a.kdr", *samples)
        assert main(["report", "--perfetto", str(tmp_path / "trace"), str(path)]) == 0
        assert capsys.readouterr().out
        trace = proto.Trace()
        trace.ParseFromString((tmp_path / "trace").read_bytes())
        return trace

    return traced


def test_each_call_is_a_slice_of_its_thread(traced: Traced) -> None:
    sample = structs.replace(WITH_EVENTS, verdict=(FOUND,))
    trace = traced(sample, sample)
    tracks = {
        packet.track_descriptor.uuid: packet.track_descriptor
        for packet in trace.packet
        if packet.HasField("track_descriptor")
    }
    slices: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    begun: dict[int, tuple[int, str]] = {}
    annotations: dict[str, list[dict[str, Any]]] = defaultdict(list)
    numbered = Numbered()
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        numbered.read(packet)
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        assert packet.timestamp_clock_id == proto.BUILTIN_CLOCK_MONOTONIC
        if event.type == EVENT.TYPE_SLICE_BEGIN:
            # Nothing nests: a thread is in one call at a time.
            assert event.track_uuid not in begun
            begun[event.track_uuid] = (packet.timestamp, event.name)
            annotations[event.name].append(dict(map(numbered.annotation, event.debug_annotations)))
        else:
            assert event.type == EVENT.TYPE_SLICE_END
            start, name = begun.pop(event.track_uuid)
            assert start <= packet.timestamp
            slices[event.track_uuid].append((start, packet.timestamp, name))
    assert not begun
    by_thread = {
        tracks[uuid].thread.tid: found for uuid, found in slices.items() if tracks[uuid].thread.tid
    }
    for event in EVENTS:
        name = event.name or str(event.number)
        found = [(start, stop) for start, stop, call in by_thread[event.tid] if name in call]
        assert found == [(event.entry_ns, event.exit_ns)] * 2
    total = sum(stop - start for found in by_thread.values() for start, stop, _ in found)
    assert total == 2 * sum(event.exit_ns - event.entry_ns for event in EVENTS)
    names = {track.thread.tid: track.thread.thread_name for track in tracks.values()}
    assert names[3359699] == "revalidator14"
    assert names[3359635] == "thread 3359635"
    (process,) = (track.process for track in tracks.values() if track.HasField("process"))
    assert (process.pid, process.process_name) == (27090, "ovs-vswitchd")
    assert list(process.cmdline) == list(HEADER.target.command_line)
    whole, failed = annotations["futex"][:2]
    assert whole["ret"] == 0
    assert whole["user stack"].startswith("__GI___lll_lock_wait+0x30 [libc.so.6]\n")
    assert {key for key in failed if key != "off_cpu_ns"} == {"ret"}
    assert failed["ret"] == -11
    assert failed.get("off_cpu_ns") == EVENTS[1].off_cpu_ns
    assert annotations["sample 2"] == [{"1: cpu": "it had no CPU"}]


def slices_with_stacks(trace: Any) -> list[tuple[str, list[str]]]:
    """Each call that has stacks, and its functions, the outermost first."""
    numbered, found = Numbered(), []
    for packet in trace.packet:
        numbered.read(packet)
        if packet.track_event.callstack_iid:
            # Who reads from somewhere within leaves it out.
            assert packet.sequence_flags == proto.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
            found.append((packet.track_event.name, numbered.functions(packet.track_event)))
    return found


FUTEX_FUNCTIONS = [
    *("0x696c003936313a63", "ovs_mutex_lock_at", "__GI___lll_lock_wait"),
    *("do_syscall_64", "syscall_exit_to_user_mode_prepare"),
]


def test_stack_of_a_call_has_program_then_kernel_frames(traced: Traced) -> None:
    found = slices_with_stacks(traced(WITH_EVENTS, WITH_EVENTS))
    assert (
        found
        == [("futex", FUTEX_FUNCTIONS), ("9999", ["main", "ovs_mutex_lock_at", "0x7fff19f2bd00"])]
        * 2
    )


def test_each_stack_is_in_a_trace_once(traced: Traced) -> None:
    many = structs.replace(WITH_EVENTS, syscall_events=EVENTS * 100)
    one, other = traced(WITH_EVENTS, WITH_EVENTS), traced(many, many)
    more = len(other.SerializeToString()) - len(one.SerializeToString())
    assert more / (2 * 99 * len(EVENTS)) < 100
    stacks = [stack for packet in other.packet for stack in packet.interned_data.callstacks]
    assert len(stacks) == 2


def test_of_very_many_stacks_the_numbers_begin_anew(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = slices_with_stacks(traced(WITH_EVENTS, WITH_EVENTS))
    monkeypatch.setattr(perfetto, "_MOST_STACK_PARTS", 1)
    trace = traced(WITH_EVENTS, WITH_EVENTS)
    assert slices_with_stacks(trace) == before
    assert len([s for packet in trace.packet for s in packet.interned_data.callstacks]) == 4


def test_timeline_has_nested_slices_states_interrupts_and_a_counter(traced: Traced) -> None:
    found = drawn_on(traced(WITH_TIMELINE))
    at = WITH_TIMELINE.window.start_ns

    def shown(track: str) -> list[tuple[int, int, int, str]]:
        return [
            (each.depth, (each.start_ns - at) // 1000, (each.stop_ns - at) // 1000, each.name)
            for each in found[track]
        ]

    assert shown("7") == [
        (0, 60, 900, "futex"),
        (1, 100, 600, "blocked: futex"),
        (1, 600, 800, "runnable: woken"),
        (0, 910, 940, "page fault"),
        (0, 950, 1000, "runnable: preempted"),
    ]
    assert shown("7 state") == [
        (0, 0, 100, "running on CPU 1"),
        (0, 100, 600, "blocked: futex"),
        (0, 600, 800, "runnable: woken, for CPU 0"),
        (0, 800, 950, "running on CPU 0"),
        (0, 950, 1000, "runnable: preempted, for CPU 0"),
    ]
    assert shown("7 interrupts") == [
        (0, 20, 50, "soft IRQ: net rx"),
        (1, 30, 35, "hard IRQ: eth0"),
    ]
    assert [(start, int(value)) for _, start, _, value in shown("runnable threads")] == [
        (0, 0),
        (200, 1),
        (600, 2),
        (700, 1),
        (800, 0),
        (950, 1),
        (1000, 0),
    ]


@pytest.mark.parametrize("kind", ["throttled", "stopped", "frozen"])
def test_other_states_are_shown_as_states_and_within_calls(traced: Traced, kind: str) -> None:
    slices = tuple(
        structs.replace(each, kind=kind, name=None) if each.kind == "blocked" else each
        for each in WITH_TIMELINE.timeline or ()
    )
    found, before = (
        drawn_on(traced(structs.replace(WITH_TIMELINE, timeline=each)))
        for each in (slices, WITH_TIMELINE.timeline)
    )
    (state,) = (each for each in found["7 state"] if each.name == kind)
    (within,) = (each for each in found["7"] if each.name == kind)
    (call,) = (each for each in found["7"] if each.name == "futex")
    assert (state.start_ns, state.stop_ns) == (within.start_ns, within.stop_ns)
    assert (within.depth, call.depth) == (1, 0)
    assert call.start_ns < within.start_ns < within.stop_ns < call.stop_ns
    # It could not run, so that it is not among those that had no CPU.
    assert found["runnable threads"] == before["runnable threads"]


def test_states_of_a_trace_add_up_to_the_account(traced: Traced) -> None:
    found = drawn_on(traced(WITH_TIMELINE))
    for thread in WITH_TIMELINE.threads:
        its = thread.time
        assert its is not None
        assert states_ns(found[f"{thread.tid} state"]) == {
            name: ns
            for name, ns in (
                ("blocked", its.blocked_ns),
                ("runnable", its.ready_ns),
                ("absent", its.absent_ns),
                ("running", its.user_ns + its.kernel_ns + its.hard_irq_ns + its.soft_irq_ns),
            )
            if ns
        }


def test_each_of_several_processes_has_its_own_tracks(traced: Traced) -> None:
    """Those of the header, a child that it does not know, and the sum of what ended."""
    target = WITH_TIMELINE.target
    first = structs.replace(WITH_TIMELINE, processes=3)
    tids = {thread.tid: thread.tid + 10 for thread in first.threads}
    child = structs.replace(
        first,
        target=structs.replace(target, pid=4791, comm="php\x1b"),
        threads=tuple(structs.replace(each, tid=tids[each.tid]) for each in first.threads),
        timeline=[structs.replace(each, tid=tids[each.tid]) for each in first.timeline or ()],
    )
    ended = structs.replace(
        first, target=structs.replace(target, pid=0, comm=""), threads=(), timeline=()
    )
    trace = traced(first, child, ended)
    found = drawn_on(trace)
    assert found["17 state"] == found["7 state"]
    assert [each.name for each in found["threads that ended, of all processes"]] == ["sample 1"]
    tracks = [p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")]
    processes = {track.uuid: track.process for track in tracks if track.HasField("process")}
    names = {process.pid: process.process_name for process in processes.values()}
    assert names == {target.pid: target.comm, 4791: "php\\x1b"}
    of_threads = {t.thread.tid: t for t in tracks if t.HasField("thread")}
    for tid, pid in ((7, target.pid), (8, target.pid), (17, 4791), (18, 4791)):
        assert of_threads[tid].thread.pid == processes[of_threads[tid].parent_uuid].pid == pid
    counters = [t for t in tracks if t.name == "runnable threads"]
    assert [processes[counter.parent_uuid].pid for counter in counters] == [target.pid, 4791]


def test_the_clocks_are_those_of_the_header(traced: Traced) -> None:
    (snapshot,) = (
        packet.clock_snapshot
        for packet in traced(WITH_EVENTS).packet
        if packet.HasField("clock_snapshot")
    )
    clocks = {clock.clock_id: clock.timestamp for clock in snapshot.clocks}
    assert clocks[proto.BUILTIN_CLOCK_MONOTONIC] == HEADER.clock.monotonic_ns
    assert clocks[proto.BUILTIN_CLOCK_REALTIME] == HEADER.clock.realtime_ns
    assert snapshot.primary_trace_clock == proto.BUILTIN_CLOCK_MONOTONIC


def test_hostile_names_are_text(traced: Traced) -> None:
    hostile = "\x1b[2J</script>\ud83d;"
    sample = renamed(WITH_EVENTS, "revalidator14", hostile.encode(errors="replace").decode())
    names = [
        packet.track_descriptor.thread.thread_name
        for packet in traced(sample).packet
        if packet.HasField("track_descriptor")
    ]
    assert all(name.isprintable() for name in names)
    assert any("</script>" in name for name in names)


def test_without_single_calls_there_is_no_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = record_samples(tmp_path / "a.kdr", EVERYTHING)
    assert main(["report", "--perfetto", str(tmp_path / "trace"), str(path)]) == 64
    assert "--perfetto needs single calls or a timeline" in capsys.readouterr().err
    assert main(["report", "--perfetto", str(tmp_path / "trace"), str(path), str(path)]) == 64
    assert main(["report", "--perfetto", str(tmp_path / "none" / "trace"), str(path)]) == 73
