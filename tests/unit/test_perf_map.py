"""Perf maps: files that the measured process writes, so anything may be in them."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.symbols import perf_map
from kernel_delay.symbols.bounds import Bounds
from kernel_delay.symbols.perf_map import PerfMap, parse

LINES = b"7f00 20 first\n7f40 10 second with spaces\n"


def process(tmp_path: Path, content: bytes | None = None) -> Path:
    """What /proc has of a process that is number 7 in a PID namespace of its own."""
    folder = tmp_path / "123"
    (folder / "root/tmp").mkdir(parents=True)
    uid = os.getuid()
    status = f"Name:\t\\n\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNStgid:\t123\t7\nNSpid:\t124\t8\n"
    (folder / "status").write_bytes(status.encode() + b"Odd\t\xff\n")
    if content is not None:
        (folder / "root/tmp/perf-7.map").write_bytes(content)
    return folder


def test_a_function_is_found_by_any_address_of_it(tmp_path: Path) -> None:
    known = PerfMap(process(tmp_path, LINES), Bounds())
    known.refresh()
    assert known.path == "/tmp/perf-7.map"
    assert known.find(0x7EFF) is None
    assert known.find(0x7F00) == ("first", 0)
    assert known.find(0x7F1F) == ("first", 0x1F)
    assert known.find(0x7F20) is None
    assert known.find(0x7F41) == ("second with spaces", 1)
    known.close()


def test_what_is_written_later_is_taken_up_and_holds(tmp_path: Path) -> None:
    folder = process(tmp_path)
    known = PerfMap(folder, Bounds())
    known.refresh()
    assert known.find(0x7F00) is None
    (folder / "root/tmp/perf-7.map").write_bytes(LINES + b"7f00 8 moved\n7f80 8 not who")
    known.refresh()
    assert known.find(0x7F00) == ("moved", 0)
    assert known.find(0x7F08) is None
    assert known.find(0x7F80) is None
    known.close()


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "other user"])
def test_perf_map_that_is_no_regular_file_is_ignored(tmp_path: Path, kind: str) -> None:
    folder = process(tmp_path)
    path = folder / "root/tmp/perf-7.map"
    outside = tmp_path / "outside"
    outside.write_bytes(LINES)
    if kind == "link":
        path.symlink_to(outside)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        if os.geteuid():
            pytest.skip("giving a file away needs root")
        path.write_bytes(LINES)
        os.chown(path, 12345, 12345)
    known = PerfMap(folder, Bounds())
    known.refresh()
    assert known.find(0x7F00) is None
    known.close()


def test_lines_and_functions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"".join(b"%x 1 f\n" % start for start in range(10))
    monkeypatch.setattr(perf_map, "MOST_FUNCTIONS", 4)
    assert list(parse(content)) == [0, 1, 2, 3]
    monkeypatch.setattr(perf_map, "MOST_LINES", 2)
    assert list(parse(content)) == [0, 1]


@pytest.mark.parametrize("bound", ["LARGEST_BYTES", "MOST_FUNCTIONS"])
def test_what_is_not_read_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(perf_map, bound, {"LARGEST_BYTES": 16, "MOST_FUNCTIONS": 1}[bound])
    bounds = Bounds()
    known = PerfMap(process(tmp_path, LINES), bounds)
    known.refresh()
    assert known.find(0x7F00) == ("first", 0)
    assert known.find(0x7F41) is None
    known.refresh()
    assert bounds.take_remarks() == (
        "/tmp/perf-7.map is too large: of its functions the first are named",
    )
    known.close()


def test_trampolines_of_cpython_are_reported(tmp_path: Path) -> None:
    content = b"20 10 py::g:/a.py\n10 10 py::f:/a.py\n80 10 jit\n40 8 py::h:/a.py\n"
    known = PerfMap(process(tmp_path, content), Bounds())
    known.refresh()
    assert known.trampolines == (0x10, 0x30, 0x40, 0x48)
    known.close()


WORDS = st.sampled_from(
    [
        b"7f00",
        b"0x7f00",
        b"-1",
        b"f" * 16,
        b"f" * 17,
        b"1_0",
        b"",
        b"name",
        b"py::f",
        b"\xff\0",
        b"\r",
    ]
)


@given(
    content=st.binary(max_size=200)
    | st.lists(st.lists(WORDS, max_size=5).map(b" ".join), max_size=20).map(b"\n".join)
)
def test_any_bytes_are_read(content: bytes) -> None:
    for start, (size, name) in parse(content + b"\n").items():
        assert 0 <= start < 1 << 64
        assert 0 < size < 1 << 64
        assert name
        assert "\n" not in name
