"""Lines of /proc/PID/maps."""

import pytest

from kernel_delay.symbols.mappings import Mapping, parse_mapping


def test_a_file() -> None:
    line = "55d0c0a00000-55d0c0a21000 r-xp 00002000 fe:00 1234   /usr/bin/a b"
    assert parse_mapping(line) == Mapping(
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
    assert parse_mapping(line).range == "55d0c0a00000-55d0c0a21000"


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
    mapping = parse_mapping(f"7f0000000000-7f0000001000 {rest}")
    assert (mapping.path, mapping.deleted) == (path, deleted)


def test_overlap() -> None:
    first, next_to_it, across = (
        parse_mapping(f"{start:x}-{end:x} r-xp 0 0:0 0")
        for start, end in ((0x1000, 0x2000), (0x2000, 0x3000), (0x1800, 0x2800))
    )
    assert not first.overlaps([next_to_it])
    assert first.overlaps([next_to_it, across])
