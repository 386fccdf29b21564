"""A recording: whole, large, cut anywhere, damaged, or not one at all."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kernel_delay.cli import main
from kernel_delay.errors import InputError, NoInputError, OutputError
from kernel_delay.model import (
    ProfiledStack,
    RecordingTrailer,
    Round,
    Sample,
    SkippedWindow,
    SyscallEvent,
    ThreadTime,
)
from kernel_delay.monitors.bridge_loop.events import LoopEvent, LoopEvents, LoopHit
from kernel_delay.monitors.datapath_ops.events import OperationEvents
from kernel_delay.monitors.flows.events import FlowEvents
from kernel_delay.monitors.revalidator.events import LeaderTime, RevalidatorRounds
from kernel_delay.monitors.upcalls.events import DpUpcall, PortName, UpcallEvents
from kernel_delay.recording import frames
from kernel_delay.recording.reader import IntactRecords, open_recording, renamed
from kernel_delay.recording.records import (
    EVENTS_AT_ONCE,
    Note,
    Read,
    Record,
    SampleRecord,
    recording_schema,
)
from kernel_delay.recording.sample_assembly import MOST_EVENTS
from kernel_delay.recording.writer import BATCH_BYTES, RecordingWriter
from kernel_delay.reporters import folded, json, text
from kernel_delay.reporters.layout import Layout
from tests.recordings import HEADER, header, read_all, record_samples
from tests.unit.event_samples import STACKS, WITH_EVENTS
from tests.unit.samples import (
    COUNTS,
    EVERYTHING,
    START_TIME,
    TIMED_WINDOW_NS,
    TIMES,
    bare_sample,
    bare_thread,
    samples,
    timed_thread,
    window,
)
from tests.unit.test_flows import DELETED
from tests.unit.test_operations import EVENT as OPERATION
from tests.unit.test_revalidator import ROUND
from tests.unit.timeline_samples import HANDLER, WITH_TIMELINE
from tests.unit.upcall_trips import World

OLDER = Path(__file__).parent / "golden" / "recording-1.jsonl"
SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "recording.schema.json"

ACCOUNTED = bare_sample(
    timed_thread(1, "handler1", user=250, kernel=50), window=window(duration_ns=TIMED_WINDOW_NS)
)

RENDERERS: dict[str, Callable[[Sample], str]] = {
    "text": text.render,
    "summary": text.render,
    "percentiles": lambda sample: text.render(sample, Layout(percentiles=True)),
    "json": json.render,
    "folded": folded.render,
}


def possible(sample: Sample) -> Sample:
    """The Sample with a window whose length is that from its start to its stop."""
    known = sample.window
    stop_ns = known.start_ns + known.duration_ns
    return structs.replace(sample, window=structs.replace(known, stop_ns=stop_ns))


def rendered(samples: list[Sample], form: str) -> str:
    return "".join(map(RENDERERS[form], samples))


def read_samples(path: Path) -> list[Sample]:
    found = read_all(path)
    assert all(isinstance(sample, Sample) for sample in found)
    return found  # type: ignore[return-value]


def until_damage(path: Path) -> tuple[list[Read], str | None]:
    """What is whole of a recording, and the line that says why that is not all."""
    try:
        with open_recording(path) as recording:
            reading = IntactRecords(recording)
            found = list(reading)
            damage = reading.damage
    except InputError as error:
        found, damage = [], error
    return found, None if damage is None else str(damage)


@pytest.mark.parametrize("form", RENDERERS)
@pytest.mark.parametrize("name", ["samples.kdr", "samples.jsonl"])
def test_reports_from_a_file_equal_those_of_the_samples(
    tmp_path: Path, name: str, form: str
) -> None:
    written = [EVERYTHING, ACCOUNTED, WITH_EVENTS, WITH_TIMELINE]
    read = read_samples(record_samples(tmp_path / name, *written))
    assert rendered(read, form) == rendered(written, form)


@given(samples(COUNTS, TIMES).map(possible))
def test_any_sample_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, sample: Sample
) -> None:
    path = record_samples(tmp_path_factory.mktemp("any") / "one.kdr", sample)
    assert read_samples(path) == [sample]


def test_events_and_notes_are_read_as_they_were_written(tmp_path: Path) -> None:
    events, _ = World(seed=1).run([3, 5])
    upcalls = UpcallEvents((*events, PortName("ovs-system", 3, "eth0")), 1_600_000_000)
    hits = (
        LoopHit(LoopEvent("run_start", 5, 7, "ovs-vswitchd")),
        LoopHit(LoopEvent("poll_block", 9, 7, "ovs-vswitchd"), lost_before=True),
    )
    path = tmp_path / "events.kdr"
    with RecordingWriter(path, header("upcall-cost")) as writer:
        writer.note("what is not seen")
        writer.events(upcalls)
        writer.events(LoopEvents(hits))
        writer.finish("exit", {"recv_upcall": 3})
    with open_recording(path) as recording:
        assert list(recording.read()) == [Note("what is not seen"), upcalls, LoopEvents(hits)]
        assert recording.header == header("upcall-cost")
        assert recording.trailer is not None
        assert recording.trailer.ended == "exit"
        assert recording.trailer.events == len(events) + 1 + len(hits)
        assert recording.trailer.lost == {"recv_upcall": 3}


def test_revalidator_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "events.kdr"
    operations = OperationEvents((OPERATION,), 1_600_000_000)
    changes = FlowEvents((DELETED, structs.replace(DELETED, used_ns=None)), 1 << 40)
    with RecordingWriter(path, header("flows")) as writer:
        writer.events(RevalidatorRounds((ROUND,)))
        writer.events(changes)
        writer.events(operations)
        writer.finish("done")
    with open_recording(path) as recording:
        assert list(recording.read()) == [RevalidatorRounds((ROUND,)), changes, operations]
        assert recording.trailer is not None
        assert recording.trailer.events == 4


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"stop_ns": ROUND.start_ns - 1}, "a round ended before it began"),
        ({"previous_stop_ns": ROUND.start_ns + 1}, "a round ended before it began"),
        ({"leader_time": LeaderTime(1, 2, 3)}, "the leader's time is not its round's length"),
        ({"n_flows": -1}, "n_flows can't be -1"),
    ],
)
def test_a_round_that_can_not_be_is_refused(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    path = tmp_path / "impossible.kdr"
    with RecordingWriter(path, header("revalidator")) as writer:
        writer.events(RevalidatorRounds((structs.replace(ROUND, **changes),)))
        writer.finish("done")
    found, damage = until_damage(path)
    assert found == []
    assert reason in (damage or "")


def test_a_flow_without_a_ufid_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "impossible.kdr"
    with RecordingWriter(path, header("flows")) as writer:
        writer.events(FlowEvents((structs.replace(DELETED, ufid="\x1b[2J"),), 0))
        writer.finish("done")
    found, damage = until_damage(path)
    assert found == []
    assert "a flow's ufid is malformed" in (damage or "")


def test_skipped_window_is_read_and_is_no_sample(tmp_path: Path) -> None:
    path = tmp_path / "a.kdr"
    skipped = SkippedWindow(window(ended_by="trigger"))
    with RecordingWriter(path, HEADER) as writer:
        writer.skipped(skipped)
        writer.sample(ACCOUNTED)
        writer.finish("done")
    assert read_all(path) == [skipped, ACCOUNTED]


def many_events(count: int) -> Sample:
    events = tuple(
        SyscallEvent(
            1 + at % 3, at % 400, "futex", at, at + 7, -(at % 5), None, at % 3, None, at % 8
        )
        for at in range(count)
    )
    return bare_sample(bare_thread(1, "main"), syscall_events=events, stacks=STACKS)


def test_a_sample_of_many_events_is_in_several_records(tmp_path: Path) -> None:
    sample = many_events(3 * EVENTS_AT_ONCE + 1)
    path = record_samples(tmp_path / "many.jsonl", sample, EVERYTHING)
    # The header, 1000 events with the sample and 2001 behind it, another sample, the trailer.
    assert path.read_bytes().count(b"\n") == 1 + 4 + 1 + 1
    read = read_samples(path)
    assert [json.render(found) for found in read] == [json.render(sample), json.render(EVERYTHING)]
    events = read[0].syscall_events
    assert events is not None
    assert sample.syscall_events is not None
    assert (len(events), events[-1]) == (len(sample.syscall_events), sample.syscall_events[-1])
    assert tuple(events[5:8]) == sample.syscall_events[5:8]


def test_a_timeline_of_many_slices_is_in_several_records(tmp_path: Path) -> None:
    slices = HANDLER * EVENTS_AT_ONCE
    sample = structs.replace(WITH_TIMELINE, timeline=slices)
    path = record_samples(tmp_path / "many.jsonl", sample)
    assert path.read_bytes().count(b"\n") == 1 + len(HANDLER) + 1
    (read,) = read_samples(path)
    assert json.render(read) == json.render(sample)
    assert read.timeline is not None
    assert tuple(read.timeline[5:8]) == slices[5:8]
    assert read.timeline[-1] == slices[-1]


def test_large_sample_is_split_into_several_records(tmp_path: Path) -> None:
    threads = tuple(bare_thread(tid, "t" * 1000) for tid in range(1, 3000))
    stacks = tuple((structs.replace(STACKS[0][0], name="f" * at),) for at in range(2000))
    sample = bare_sample(*threads, stacks=stacks)
    path = record_samples(tmp_path / "many.jsonl", sample)
    lines = path.read_bytes().splitlines()
    assert len(lines) > 5
    assert max(map(len, lines)) < 3 * BATCH_BYTES
    assert read_samples(path) == [sample]


@pytest.mark.long
def test_a_million_events_are_read_in_bounded_memory(tmp_path: Path) -> None:
    """Written and read by a process that may have no more than so much."""
    script = f"""
import resource
from pathlib import Path
from tests.unit import test_recording
from tests.recordings import record_samples
from kernel_delay.model import SyscallEvent
from kernel_delay.recording.packed import PackedEvents
limit = 400 << 20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
events = PackedEvents()
events.extend(SyscallEvent(1, 202, "futex", at, at + 7, 0, None, at % 3) for at in range(10**6))
sample = test_recording.structs.replace(test_recording.many_events(0), syscall_events=events)
path = record_samples(Path({str(tmp_path / "million.kdr")!r}), sample)
del events, sample
(found,) = test_recording.read_samples(path)
assert sum(event.exit_ns - event.entry_ns for event in found.syscall_events) == 7 * 10**6
"""
    project = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_a_million_events_are_reported_while_they_come() -> None:
    """From a pipe, by a process that may have no more memory than so much."""
    limited = ["prlimit", f"--as={300 << 20}", sys.executable, "-m", "kernel_delay", "report", "-"]
    batch, behind = 10_000, 1000
    with subprocess.Popen(limited, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(header("bridge-loop")) + b"\n")
        lines = 0
        for first in range(0, 10**6, batch):
            hits = tuple(
                LoopHit(LoopEvent("poll_block" if at % 2 else "run_start", at * 1000, 7, "ovs"))
                for at in range(first, first + batch)
            )
            process.stdin.write(msgspec.json.encode(LoopEvents(hits)) + b"\n")
            process.stdin.flush()
            # All but what may be in its buffer, before the rest is written.
            while lines < first + batch - behind:
                assert process.stdout.readline()
                lines += 1
        process.stdin.write(msgspec.json.encode(RecordingTrailer("done", events=10**6)) + b"\n")
        process.stdin.close()
        assert b"500000 passes in " in process.stdout.read()
    assert process.returncode == 0


@pytest.mark.parametrize("name", ["cut.kdr", pytest.param("cut.jsonl", marks=pytest.mark.long)])
def test_file_cut_anywhere_is_read_up_to_the_cut(tmp_path: Path, name: str) -> None:
    written = [ACCOUNTED, bare_sample(bare_thread(1, "main")), ACCOUNTED]
    path = record_samples(tmp_path / name, *written)
    data = path.read_bytes()
    ends = record_ends(path)
    assert ends[-1] == len(data)
    cut = tmp_path / f"short-{name}"
    for length in range(len(data)):
        cut.write_bytes(data[:length])
        found, damage = until_damage(cut)
        whole = sum(end <= length for end in ends[1:-1])
        assert found == written[:whole]
        assert damage is not None
        assert damage.isprintable()
        expected = "was cut" if length >= ends[0] else "is not a recording"
        assert expected in damage


def record_ends(path: Path) -> list[int]:
    """Where each record of a file ends: found by writing it again."""
    if path.suffix == ".jsonl":
        return list(accumulate(len(line) for line in path.read_bytes().splitlines(keepends=True)))
    ends, rest = [0], path.read_bytes()
    while rest:
        one = zstandard.ZstdDecompressor().decompressobj()
        one.decompress(rest)
        ends.append(ends[-1] + len(rest) - len(one.unused_data))
        rest = one.unused_data
    return ends[1:]


@given(data=st.data())
def test_any_damage_gives_whole_samples_and_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    written = [ACCOUNTED, WITH_EVENTS]
    path = record_samples(tmp_path_factory.mktemp("damaged") / "samples.kdr", *written)
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    garbage = data.draw(st.binary(min_size=1, max_size=20))
    altered = whole[:at] + garbage + whole[at + len(garbage) :]
    path.write_bytes(altered)
    found, damage = until_damage(path)
    # Every frame has a checksum: no figure that was altered passes for one that was measured.
    samples = [json.render(sample) for sample in found if isinstance(sample, Sample)]
    assert samples == [json.render(sample) for sample in written[: len(samples)]]
    # A frame has bits that say nothing of what is in it (RFC 8878, 3.1.1.1.1.3 and 3.1.1.1.2).
    assert damage or len(samples) == len(written)
    assert damage is None or (altered != whole and damage.isprintable())


@given(data=st.data())
def test_damaged_plain_lines_still_give_reportable_samples(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    written = [ACCOUNTED, WITH_EVENTS, EVERYTHING]
    path = record_samples(tmp_path_factory.mktemp("damaged") / "samples.jsonl", *written)
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    garbage = data.draw(st.binary(max_size=3) | st.text("0123456789-,", max_size=6).map(str.encode))
    path.write_bytes(whole[:at] + garbage + whole[at + len(garbage) :])
    found, damage = until_damage(path)
    assert damage is None or damage.isprintable()
    for sample in found:
        assert isinstance(sample, Sample)
        for render in RENDERERS.values():
            render(sample)


def altered(change: Callable[[Sample], Sample], sample: Sample, path: Path) -> str | None:
    """Why a recording of a sample that was changed is not read whole."""
    found, damage = until_damage(record_samples(path, change(sample)))
    assert not found
    return damage


def test_a_round_without_its_thread_or_stacks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "impossible.kdr"
    known = Round(
        WITH_EVENTS.threads[0].tid, "x", 7, profile=(ProfiledStack(3, len(STACKS) - 1, 0),)
    )
    whole = structs.replace(WITH_EVENTS, round=known)
    (read,) = read_all(record_samples(path, whole))
    assert isinstance(read, Sample)
    assert read.round == known
    for change, why in (
        ({"threads": ()}, "a round has no thread"),
        ({"stacks": STACKS[:-1], "syscall_events": ()}, "a profile's stack does not exist"),
    ):
        found, damage = until_damage(record_samples(path, structs.replace(whole, **change)))
        assert not found
        assert why in (damage or "")


def test_figures_that_can_not_be_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "impossible.kdr"

    def refused(sample: Sample, **changes: object) -> str | None:
        return altered(lambda known: structs.replace(known, **changes), sample, path)

    longer = structs.replace(window(), duration_ns=1)
    assert "window's length" in (refused(EVERYTHING, window=longer) or "")
    late = structs.replace(window(), start_time=START_TIME.replace(year=9998))
    assert "year is out of range" in (refused(EVERYTHING, window=late) or "")
    half = structs.replace(ACCOUNTED.threads[0], time=ThreadTime(*(0,) * 9))
    assert "the account of thread 1" in (refused(ACCOUNTED, threads=(half,)) or "")
    negative = structs.replace(EVERYTHING.lost, dropped_records=-1)
    assert "dropped_records can't be -1" in (refused(EVERYTHING, lost=negative) or "")
    assert "stack does not exist" in (refused(WITH_EVENTS, stacks=STACKS[:1]) or "")
    for event in (
        SyscallEvent(1, 1, None, 5, 4, 0, None, None),
        SyscallEvent(1, 1, None, 5, 1 << 63, 0, None, None),
        SyscallEvent(-1, 1, None, 5, 6, 0, None, None),
        SyscallEvent(1, 1, None, 5, 6, 0, -2, None),
        SyscallEvent(1, 1, None, 5, 6, 0, None, None, None, -1),
        SyscallEvent(1, 1, None, 5, 6, 0, None, None, None, 2),
    ):
        assert "damaged" in (refused(WITH_EVENTS, syscall_events=(event,)) or "")
    known = HANDLER[0]
    for changes in (
        {"start_ns": known.start_ns - 1},
        {"start_ns": known.stop_ns},
        {"stop_ns": WITH_TIMELINE.window.stop_ns + 1},
        {"stop_ns": 1 << 63},
        {"tid": -1},
        {"cpu": -1},
        {"cpu": 1 << 31},
    ):
        slice_ = structs.replace(known, **changes)
        assert "damaged" in (refused(WITH_TIMELINE, timeline=(slice_,)) or ""), changes


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"time_ns": -1}, "time_ns can't be -1"),
        ({"time_ns": 1 << 80}, "time_ns can't be"),
        ({"error": 1 << 40}, "error can't be"),
        ({"packet_len": 1 << 32}, "packet_len can't be"),
    ],
)
def test_events_that_can_not_be_are_refused(
    tmp_path: Path, changes: dict[str, int], reason: str
) -> None:
    events, _ = World(seed=1).run([1])
    (sent,) = (event for event in events if isinstance(event, DpUpcall))
    path = tmp_path / "impossible.kdr"
    with RecordingWriter(path, header("upcall-monitor")) as writer:
        writer.events(UpcallEvents((structs.replace(sent, **changes),), 1))
        writer.finish("exit")
    found, damage = until_damage(path)
    assert found == []
    assert reason in (damage or "")


HEADER_LINE = msgspec.json.encode(HEADER) + b"\n"
BOMB = zstandard.ZstdCompressor(19).compress(b" " * (frames.MOST_RECORD_BYTES + 1))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"hello\n", "malformed"),
        (b"\xff\xfe\n", "is not a recording"),
        (b"\x28\xb5\x2f\xfd", "cut within its first record"),
        (b"\x28\xb5\x2f\xfd" + b"\xff" * 50, "is not a recording"),
        (b'{"record":"header","x":' + b"[" * 60000, "is not a recording"),
        (b"x" * (frames.MOST_RECORD_BYTES + 8), "too long"),
        (BOMB, "too large"),
        (zstandard.compress(b"no line"), "does not end with a record"),
        (HEADER_LINE.replace(b"recording/1", b"recording/9"), "kernel-delay-recording/9"),
        (HEADER_LINE.replace(b'"cpus":8', b'"cpus":-8'), "cpus can't be -8"),
        (HEADER_LINE.replace(b'"cpus":8', b'"cpus":"8"'), "Expected `int`, got `str`"),
        (HEADER_LINE.replace(b'"cpus":8', b'"cpus":NaN'), "malformed"),
        (HEADER_LINE.replace(b'"pid":27090', b'"pid":-1'), "pid can't be -1"),
        (HEADER_LINE.replace(b'"pid":27090', b'"pid":' + b"9" * 5000), "out of range"),
        (HEADER_LINE.replace(b'"realtime_ns":', b'"realtime_ns":9999'), "realtime_ns can't be"),
        (json.render(EVERYTHING).encode(), "samples of --json"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"'.*other' is not a recording of kernel-delay") as error:
        read_all(path)
    assert reason in str(error.value)
    assert str(error.value).isprintable()


def test_records_after_the_end_or_missing_before_are_reported(tmp_path: Path) -> None:
    path = record_samples(tmp_path / "a.jsonl", ACCOUNTED, EVERYTHING)
    lines = path.read_bytes().splitlines(keepends=True)
    for content, reason in (
        ([*lines, lines[0]], "follows the recording's end"),
        ([lines[0], lines[1], lines[3]], "not as many as its trailer says"),
    ):
        path.write_bytes(b"".join(content))
        _, damage = until_damage(path)
        assert damage is not None
        assert reason in damage


def test_two_recordings_in_one_file_are_not_one(tmp_path: Path) -> None:
    data = record_samples(tmp_path / "a.kdr", ACCOUNTED).read_bytes()
    path = tmp_path / "both.kdr"
    path.write_bytes(data + data)
    found, damage = until_damage(path)
    assert found == [ACCOUNTED]
    assert "record 4: it follows the recording's end" in (damage or "")


def test_counts_that_can_not_be_are_no_end(tmp_path: Path) -> None:
    path = tmp_path / "a.kdr"
    with RecordingWriter(path, header("flows")) as writer:
        writer.finish("done", {"flow_results": -1})
    assert "flow_results can't be -1" in (until_damage(path)[1] or "")


@pytest.mark.parametrize("option", [(), ("--json",), ("--perfetto", "trace"), ("--html", "page")])
def test_a_recording_of_nothing_is_said_to_be_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    record_samples(Path("empty.kdr"))
    assert main(["report", *option, "empty.kdr"]) == 66  # EX_NOINPUT
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "kernel-delay: 'empty.kdr' has no samples: it ended before the first\n"
    assert main(["report", "--header", "empty.kdr"]) == 0


def test_sample_with_missing_records_is_left_out(tmp_path: Path) -> None:
    path = record_samples(tmp_path / "a.jsonl", many_events(3 * EVENTS_AT_ONCE), ACCOUNTED)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    found, damage = until_damage(path)
    assert found == []
    assert "the sample before it is incomplete" in (damage or "")
    path.write_bytes(b"".join([lines[0], *lines[2:]]))
    assert "continues a sample that is missing" in (until_damage(path)[1] or "")


def test_an_endless_sample_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernel_delay.recording.sample_assembly.MOST_EVENTS", 1500)
    assert MOST_EVENTS > 1_000_000
    _, damage = until_damage(record_samples(tmp_path / "a.kdr", many_events(1600)))
    assert "a sample is too large" in (damage or "")


def test_recording_of_an_older_version_is_read_whole() -> None:
    """Written before there were rounds and several processes: as of 6383a4d."""
    assert len(read_samples(OLDER)) == 3
    decoder = msgspec.json.Decoder(Record)
    for line in OLDER.read_bytes().splitlines():
        line = renamed(line, "kernel-delay-recording/1")
        read = msgspec.json.decode(msgspec.json.encode(decoder.decode(line)))
        assert left_out(msgspec.json.decode(line), read) == []


def test_a_sample_that_format_1_continued_is_read_whole(tmp_path: Path) -> None:
    """With the names of that format: `to_come` in the sample, then a record called `more`."""
    first, line, *_ = map(msgspec.json.decode, OLDER.read_bytes().splitlines())
    whole = msgspec.json.encode(line)
    threads = line["sample"]["threads"] * 2
    line["sample"]["threads"], line["to_come"]["threads"] = threads[:1], len(threads) - 1
    continued = {"record": "more", "threads": threads[1:]}
    end = {"record": "trailer", "ended": "done", "samples": 1, "events": 0, "lost": {}}
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(map(msgspec.json.encode, (first, line, continued, end))) + b"\n")
    (sample,) = read_samples(path)
    alone = msgspec.json.decode(renamed(whole, first["format"]), type=SampleRecord).sample
    assert sample.threads == alone.threads * 2
    assert structs.replace(sample, threads=alone.threads) == alone


def left_out(written: object, read: object, place: str = "") -> list[str]:
    """What is not there any more, or another."""
    if isinstance(written, dict) and isinstance(read, dict):
        pairs = [(f"{place}.{name}", value, read.get(name)) for name, value in written.items()]
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        pairs = [(f"{place}[]", *pair) for pair in zip(written, read, strict=True)]
    else:
        return [] if written == read else [place]
    return [found for at, old, new in pairs for found in left_out(old, new, at)]


def test_lines_may_be_compressed_again_by_zstd(tmp_path: Path) -> None:
    plain = record_samples(tmp_path / "a.jsonl", ACCOUNTED, EVERYTHING).read_bytes()
    path = tmp_path / "a.kdr"
    path.write_bytes(zstandard.compress(plain))
    assert read_samples(path) == [ACCOUNTED, EVERYTHING]


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoInputError, match="No such file"):
        read_all(tmp_path / "none.kdr")
    with pytest.raises(NoInputError, match=r"is a folder: give the recordings in it, as .*/\*.kdr"):
        read_all(tmp_path)


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "samples.kdr"
    path.touch(mode=0o644)
    assert record_samples(path, EVERYTHING).stat().st_mode & 0o777 == 0o600


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / "link.kdr").symlink_to(tmp_path / "target")
    with pytest.raises(OutputError, match="can't write"):
        record_samples(tmp_path / "link.kdr", EVERYTHING)
    assert (tmp_path / "target").read_text() == "precious"


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No space left"):
        record_samples(Path("/dev/full"), EVERYTHING)
    with pytest.raises(OutputError, match="can't write"):
        record_samples(tmp_path / "missing" / "samples.kdr", EVERYTHING)


@pytest.mark.parametrize("name", ["samples.kdr", "samples.jsonl"])
def test_a_disk_that_gets_full_leaves_whole_samples(tmp_path: Path, name: str) -> None:
    """As with a file that may get no larger: of the last record the beginning is taken."""
    path = tmp_path / name
    script = f"""
from pathlib import Path
from tests.recordings import record_samples
from tests.unit.samples import EVERYTHING
record_samples(Path({str(path)!r}), *[EVERYTHING] * 1000)
"""
    limited = ["prlimit", f"--fsize={100_001}", sys.executable, "-c", script]
    done = subprocess.run(limited, cwd=SCHEMA.parents[2], capture_output=True, text=True)
    assert "WriteFailedError: can't write" in done.stderr
    assert "File too large" in done.stderr
    assert path.stat().st_size == 100_001
    found, damage = until_damage(path)
    assert 0 < len(found) < 1000
    assert all(sample == EVERYTHING for sample in found)
    assert "was cut" in (damage or "")


def test_an_error_on_the_way_is_the_recordings_end(tmp_path: Path) -> None:
    path = tmp_path / "samples.kdr"

    def fail() -> None:
        with RecordingWriter(path, HEADER) as writer:
            writer.sample(EVERYTHING)
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        fail()
    with open_recording(path) as recording:
        assert list(recording.read()) == [EVERYTHING]
        assert recording.trailer is not None
        assert recording.trailer.ended == "error"


def test_a_writer_that_is_killed_leaves_whole_samples(tmp_path: Path) -> None:
    path = tmp_path / "samples.kdr"
    script = f"""
from pathlib import Path
from kernel_delay.recording.writer import RecordingWriter
from tests.recordings import HEADER
from tests.unit.samples import EVERYTHING
with RecordingWriter(Path({str(path)!r}), HEADER) as writer:
    while True:
        writer.sample(EVERYTHING)
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=SCHEMA.parents[2]) as writing:
        while not path.exists() or path.stat().st_size < 100_000:
            assert writing.poll() is None
            time.sleep(0.01)
        os.kill(writing.pid, signal.SIGKILL)
    found, damage = until_damage(path)
    assert found
    assert all(sample == EVERYTHING for sample in found)
    assert damage is not None
    assert "was cut: its writer was killed" in damage
    assert f"{len(found):,} samples before that were read" in damage


def test_the_schema_in_the_docs_is_this_version_s() -> None:
    assert SCHEMA.read_text() == recording_schema(), "make reference"


def test_the_records_fit_the_schema(tmp_path: Path) -> None:
    events, _ = World(seed=1).run([3])
    path = tmp_path / "all.jsonl"
    with RecordingWriter(path, HEADER) as writer:
        writer.sample(many_events(EVENTS_AT_ONCE + 1))
        writer.note("note")
        writer.events(LoopEvents((LoopHit(LoopEvent("run_start", 5, 7, "ovs-vswitchd")),)))
        writer.events(UpcallEvents(tuple(events), 1))
        writer.finish("done")
    validator = jsonschema.Draft202012Validator(msgspec.json.decode(SCHEMA.read_bytes()))
    lines = path.read_bytes().splitlines()
    assert len(lines) == 7
    for line in lines:
        validator.validate(msgspec.json.decode(line))


def test_damage_behind_the_end_is_said_once(tmp_path: Path) -> None:
    path = record_samples(tmp_path / "a.kdr", ACCOUNTED)
    for behind in (path.read_bytes(), b"\x28\xb5\x2f\xfdrubbish"):
        whole = path.read_bytes()
        (tmp_path / "more.kdr").write_bytes(whole + behind)
        found, damage = until_damage(tmp_path / "more.kdr")
        assert len(found) == 1
        assert damage is not None
        assert damage.count("more.kdr") == 1
        assert damage.endswith("the sample before that was read")
