"""Small files that are made to take memory and time: refused before that is taken."""

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from msgspec import structs

from kernel_delay.cli import main
from kernel_delay.errors import InputError
from kernel_delay.model import Sample, SyscallStats
from kernel_delay.recording.frames import FREE_BYTES, MOST_RATIO, MOST_RECORD_BYTES, lines
from kernel_delay.recording.reader import IntactRecords, open_recording
from kernel_delay.recording.sample_assembly import MOST_EMPTY_STACKS
from kernel_delay.recording.validation import MOST_BUCKETS, check_sample
from tests.recordings import HEADER, read_all, record_samples
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window

SMALL_BYTES = 100_000
RECORD_BYTES = MOST_RECORD_BYTES - 10_000
RECORDS = 16
"""Of RECORD_BYTES: 256 MiB, which are some KB when they are compressed."""

EVENT = (
    b'{"tid":7,"number":1,"name":"a","entry_ns":1,"exit_ns":2,"ret":0,"kernel_stack":null,'
    b'"user_stack":null}'
)
THREAD = (
    b'{"tid":7,"name":"a","exited":false,"syscalls":[],"long_poll":null,"run":null,"ready":null,'
    b'"stopped":null,"hard_irqs":[],"soft_irqs":[]}'
)
FRAME = b'[{"address":1,"name":"f","offset":0,"object":null}]'
SLICE = b'[7,"running",1,2,"user"]'


def encoded(*threads: Any) -> dict[str, Any]:
    """A sample as JSON has it."""
    sample = bare_sample(*threads, window=window(duration_ns=TIMED_WINDOW_NS))
    found: dict[str, Any] = json.loads(msgspec.json.encode(sample))
    return found


def record(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def continued(field: str, item: bytes) -> list[bytes]:
    """A sample without that, and so many records of it as would fill memory."""
    count = RECORD_BYTES // (len(item) + 1)
    items = b",".join([item] * count)
    line = b'{"record":"continuation","' + field.encode() + b'":[' + items + b"]}\n"
    sample = encoded(timed_thread(7, "a")) | {"syscall_events": [], "timeline": []}
    first = record(record="sample", sample=sample, remaining={field: count * RECORDS})
    return [first, *[line] * RECORDS]


def samples() -> list[bytes]:
    line = record(record="sample", sample=encoded(timed_thread(7, "a")))
    return [line * (RECORD_BYTES // len(line))] * RECORDS


def notes() -> list[bytes]:
    return [record(record="note", text="x" * RECORD_BYTES)] * RECORDS


BOMBS: dict[str, Callable[[], list[bytes]]] = {
    "empty stacks": lambda: continued("stacks", b"[]"),
    "stacks": lambda: continued("stacks", FRAME),
    "events": lambda: continued("syscall_events", EVENT),
    "slices": lambda: continued("timeline", SLICE),
    "threads": lambda: continued("threads", THREAD),
    "samples": samples,
    "notes": notes,
}


def written(path: Path, *records: bytes) -> Path:
    """A recording of these, a frame each."""
    compressor = zstandard.ZstdCompressor(level=19, write_checksum=True)
    known: dict[bytes, bytes] = {}
    with path.open("wb") as file:
        for line in (msgspec.json.encode(HEADER) + b"\n", *records):
            known.setdefault(line, b"")
            known[line] = known[line] or compressor.compress(line)
            file.write(known[line])
    return path


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_stands_for_little(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What of it is looked at is bounded by what was read, not by what it says."""
    path = written(tmp_path / "a.kdr", *BOMBS[name]())
    size = path.stat().st_size
    assert size < SMALL_BYTES
    seen = 0

    def read() -> None:
        nonlocal seen
        for line in lines(io.BytesIO(path.read_bytes())):
            seen += len(line)

    with pytest.raises(InputError, match="more than 256 times its size"):
        read()
    assert seen <= FREE_BYTES + MOST_RATIO * size
    assert main(["report", str(path)]) == 65
    assert "give the output of `zstd -d`" in capsys.readouterr().err


def test_what_is_not_compressed_is_bounded_by_its_length(tmp_path: Path) -> None:
    """Records are: one that has no end is not read to that."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(msgspec.json.encode(HEADER) + b"\n" + notes()[0] * 2)
    with open_recording(path) as recording:
        assert len(list(IntactRecords(recording))) == 2
    path.write_bytes(msgspec.json.encode(HEADER) + b"\n" + b" " * MOST_RECORD_BYTES * 2)
    with pytest.raises(InputError, match="a line is too long"):
        read_all(path)


def test_stacks_without_a_frame_are_few(tmp_path: Path) -> None:
    sample = encoded(timed_thread(7, "a")) | {"stacks": [[]] * (MOST_EMPTY_STACKS + 1)}
    path = tmp_path / "a.jsonl"
    header = msgspec.json.encode(HEADER) + b"\n"
    path.write_bytes(header + record(record="sample", sample=sample))
    with pytest.raises(InputError, match="too many stacks without a frame"):
        read_all(path)


@pytest.mark.parametrize("where", ["run", "ready", "stopped", "long_poll", "syscalls"])
def test_a_histogram_has_a_bucket_for_each_bit(where: str, tmp_path: Path) -> None:
    """A bound of a million bits takes minutes to print."""
    lengths: dict[str, object] = {"count": 1, "total_ns": 1, "max_ns": 1}
    lengths["histogram"] = [1] * (MOST_BUCKETS + 1)
    sample = encoded(timed_thread(7, "a"))
    if where == "syscalls":
        sample["threads"][0]["syscalls"] = [lengths | {"number": 1, "name": "write"}]
    else:
        sample["threads"][0][where] = lengths | {"min_ns": 1}
    path = tmp_path / "a.jsonl"
    header = msgspec.json.encode(HEADER) + b"\n"
    path.write_bytes(header + record(record="sample", sample=sample))
    with pytest.raises(InputError, match=f"more than {MOST_BUCKETS} buckets"):
        read_all(path)


def test_many_idle_threads_are_no_reason_to_refuse(tmp_path: Path) -> None:
    """Recordings of ours that have least bytes for what they stand for."""
    threads = [timed_thread(1000 + number, f"worker-{number}") for number in range(20_000)]
    sample = bare_sample(*threads, window=window(duration_ns=TIMED_WINDOW_NS))
    path = record_samples(tmp_path / "a.kdr", sample)
    assert read_all(path) == [sample]


CALL = SyscallStats(-1, None, 1, 7, 7, histogram=(0, 0, 1))


def with_call(call: SyscallStats, name: str = "a") -> Sample:
    thread = structs.replace(timed_thread(7, name), syscalls=(call,))
    return bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS))


@pytest.mark.parametrize("name", ["a", "a,-5", 'a":-5', "0" * 30])
def test_numbers_are_reported_from_names_and_from_signed_fields(name: str) -> None:
    check_sample(with_call(CALL, name))


@pytest.mark.parametrize("name", ["a", "a,-5"])
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"count": -1}, "count can't be -1"),
        ({"histogram": (0, -3)}, "histogram can't be -3"),
        ({"total_ns": (1 << 64) + 1}, f"total_ns can't be {(1 << 64) + 1}"),
        ({"number": 1 << 70}, f"number can't be {1 << 70}"),
    ],
)
def test_a_number_that_no_sample_has_is_named(
    name: str, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        check_sample(with_call(structs.replace(CALL, **changed), name))
