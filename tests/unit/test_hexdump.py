"""The hexadecimal dump of packets and keys."""

from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.openvswitch.packets import hex_lines


def test_a_dump_shows_offset_bytes_and_ascii() -> None:
    assert hex_lines(b"0123456789abcdef\x00\x1b\xff~") == [
        "0000  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  0123456789abcdef",
        "0010  00 1b ff 7e                                       ...~",
    ]


@given(st.binary(max_size=200))
def test_any_bytes_can_be_read_back_from_their_dump(data: bytes) -> None:
    lines = hex_lines(data)
    assert b"".join(bytes.fromhex(line[6:54]) for line in lines) == data
    assert all(line.isprintable() for line in lines)
