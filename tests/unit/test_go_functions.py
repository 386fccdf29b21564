"""A table of Go's functions may be anything, too."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.symbols.go_functions import GoFunctions

NAMES = b"main.main\0main.(*T).Call\0"
TEXT = 0x401000


def table(magic: int = 0xFFFFFFF1, reported: int = 0) -> bytes:
    """Two functions, of 0x20 and 0x40 bytes."""
    head = 72
    functions = head + len(NAMES)
    places = struct.pack("<IIIII", 0, 24, 0x20, 32, 0x60) + bytes(4)
    entries = struct.pack("<IiIi", 0, 0, 0x20, NAMES.index(b"main.(")) + bytes(8)
    words = struct.pack("<8Q", 2, 0, reported, head, 0, 0, 0, functions)
    return struct.pack("<IHBB", magic, 0, 1, 8) + words + NAMES + places + entries


@pytest.mark.parametrize(
    ("address", "found"),
    [
        (TEXT - 1, None),
        (TEXT, ("main.main", 0)),
        (TEXT + 0x1F, ("main.main", 0x1F)),
        (TEXT + 0x20, ("main.(*T).Call", 0)),
        (TEXT + 0x5F, ("main.(*T).Call", 0x3F)),
        (TEXT + 0x60, None),
    ],
)
@pytest.mark.parametrize("reported", [0, TEXT])
def test_an_address_is_in_its_function(
    address: int, found: tuple[str, int] | None, reported: int
) -> None:
    assert GoFunctions(table(reported=reported), TEXT).find(address) == found


@given(
    changes=st.lists(st.tuples(st.integers(0, 150), st.binary(min_size=1, max_size=8)), max_size=5),
    cut=st.integers(0, 200),
    address=st.integers(0, (1 << 64) - 1) | st.integers(TEXT, TEXT + 0x100),
)
def test_any_bytes_are_read(changes: list[tuple[int, bytes]], cut: int, address: int) -> None:
    content = bytearray(table())
    for place, change in changes:
        content[place : place + len(change)] = change
    try:
        functions = GoFunctions(bytes(content[:cut]), TEXT)
    except ValueError:
        return
    found = functions.find(address)
    assert found is None or (found[0] and found[1] >= 0)
