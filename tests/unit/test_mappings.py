"""Lines of /proc/PID/maps."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.symbols.mappings import Mapping, Ranges, parse_mapping, read_mappings


def test_a_file() -> None:
    line = "55d0c0a00000-55d0c0a21000 r-xp 00002000 fe:00 1234   /usr/bin/a b"
    assert parse_mapping(line.encode()) == Mapping(
        start=0x55D0C0A00000,
        end=0x55D0C0A21000,
        executable=True,
        writable=False,
        offset=0x2000,
        device="fe:00",
        inode=1234,
        path="/usr/bin/a b",
        deleted=False,
    )
    assert parse_mapping(line.encode()).range == "55d0c0a00000-55d0c0a21000"


@pytest.mark.parametrize(
    ("rest", "path", "deleted"),
    [
        ("rw-p 00000000 00:00 0", "", False),
        ("r-xp 00000000 00:00 0 [vdso]", "[vdso]", False),
        ("r-xp 00000000 fe:00 7 /lib/x.so (deleted)", "/lib/x.so", True),
        ("r-xp 00000000 fe:00 7 /lib/two\\012lines", "/lib/two\nlines", False),
        ("rw-s 00000000 00:01 9 /memfd:jit (deleted)", "/memfd:jit", True),
    ],
)
def test_paths(rest: str, path: str, deleted: bool) -> None:
    mapping = parse_mapping(f"7f0000000000-7f0000001000 {rest}".encode())
    assert (mapping.path, mapping.deleted) == (path, deleted)


def test_a_path_of_any_bytes_ends_no_line(tmp_path: Path) -> None:
    """The process chooses it; the kernel escapes a newline alone (fs/seq_file.c, seq_path())."""
    path = bytes(set(range(1, 256)) - set(b"\n/")).join([b"/tmp/", b"", b"7f0-7f1 r-xp 0 0:0 9 /x"])
    (tmp_path / "maps").write_bytes(
        b"7f0000000000-7f0000001000 r-xp 00002000 fe:00 7   " + path + b"\n"
        b"7f0000001000-7f0000002000 rw-p 00000000 00:00 0 \n"
    )
    first, second = read_mappings(tmp_path)
    assert os.fsencode(first.path) == path
    assert (second.start, second.path) == (0x7F0000001000, "")


ranges = st.lists(st.integers(0, 400), unique=True, max_size=40).map(
    lambda edges: [tuple(pair) for pair in batched(sorted(edges))]
)


def batched(edges: list[int]) -> list[list[int]]:
    return [edges[at : at + 2] for at in range(0, len(edges) - 1, 2)]


@given(ranges, st.integers(0, 400), st.integers(0, 400))
def test_ranges_are_found_as_by_looking_at_each(
    all_of: list[tuple[int, int]], start: int, end: int
) -> None:
    found = Ranges((begin, stop, (begin, stop)) for begin, stop in reversed(all_of))
    assert found.find(start) == next((r for r in all_of if r[0] <= start < r[1]), None)
    overlaps = any(start < stop and begin < end for begin, stop in all_of) and start < end
    assert found.overlap(start, end) == overlaps
