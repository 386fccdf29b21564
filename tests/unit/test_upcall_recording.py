"""The recording of events: whole, cut anywhere, or not one at all."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.errors import InputError, NoInputError, OutputError
from kernel_delay.ovs.upcalls import Event, RecordingWriter, read_recording
from tests.unit.upcall_trips import World

MISSED = {"recv_upcall": 3}


def recorded(path: Path, seed: int = 1, size: int = 4) -> list[Event]:
    events, _ = World(seed).run([size])
    with RecordingWriter(path, host="box", kernel="6.18.0") as writer:
        for event in events:
            writer.write(event)
        writer.finish(MISSED)
    return events


@given(st.integers(0, 1 << 32), st.integers(1, 20))
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, seed: int, size: int
) -> None:
    path = tmp_path_factory.mktemp("whole") / "events"
    events = recorded(path, seed, size)
    recording = read_recording(path)
    assert recording.events == tuple(events)
    assert recording.missed == MISSED
    assert recording.cut is None
    assert (recording.host, recording.kernel) == ("box", "6.18.0")


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    recorded(tmp_path / "events")
    assert (tmp_path / "events").stat().st_mode & 0o777 == 0o600


def test_a_file_cut_anywhere_is_read_up_to_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "events"
    events = recorded(path)
    data = path.read_bytes()
    header_len = data.index(b"\n") + 1
    ends = [at for at in range(len(data)) if data[at : at + 1] == b"\n"]
    for length in range(header_len, len(data) - 1):
        path.write_bytes(data[:length])
        recording = read_recording(path)
        # A line of which only the newline is missing is whole.
        whole = sum(end <= length for end in ends) - 1
        assert recording.events == tuple(events)[: min(whole, len(events))]
        assert recording.cut is not None
        assert "cut" in recording.cut


def test_a_file_without_its_newline_alone_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "events"
    events = recorded(path)
    path.write_bytes(path.read_bytes()[:-1])
    recording = read_recording(path)
    assert recording.cut is None
    assert recording.events == tuple(events)


def test_a_damaged_line_ends_the_reading_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "events"
    events = recorded(path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = b'{"event":"recv_upcall","time_ns":"soon"}\n'
    path.write_bytes(b"".join(lines))
    recording = read_recording(path)
    assert recording.events == tuple(events[:2])
    assert recording.cut is not None
    assert recording.cut.startswith("line 4 is damaged")


@given(data=st.data())
def test_any_damage_gives_events_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "events"
    recorded(path)
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole)))
    garbage = data.draw(st.binary(max_size=20))
    path.write_bytes(whole[:at] + garbage + whole[at + len(garbage) :])
    try:
        recording = read_recording(path)
    except InputError as error:
        text = str(error)
    else:
        text = recording.cut or ""
        assert len(recording.events) <= whole.count(b"\n") + len(garbage)
    assert text.isprintable()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello\n",
        b"\xff\xfe\n",
        b'{"event":"header","schema":"kernel-delay-upcalls/2","host":"","kernel":""}\n',
        b"x" * (1 << 20),
        b'{"event":"header","x":' + b"[" * 60000,
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a recording"):
        read_recording(path)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoInputError, match="No such file"):
        read_recording(tmp_path / "events")


def test_a_file_that_can_not_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="can't write"):
        RecordingWriter(tmp_path / "missing" / "events", host="", kernel="")
    with pytest.raises(OutputError, match="No space left"):
        RecordingWriter(Path("/dev/full"), host="", kernel="")
