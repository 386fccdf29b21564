"""How large the events' buffer is by what a machine has."""

import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.capture.syscall_events import user_stacks

MIB = 1 << 20
GIB = 1 << 30


@pytest.mark.parametrize(
    ("cpus", "available", "size"),
    [
        (2, 24 * GIB, 32 * MIB),
        (1, 24 * GIB, 16 * MIB),
        (3, 24 * GIB, 32 * MIB),
        (4, 2 * GIB, 32 * MIB),
        (4, GIB, 16 * MIB),
        (8, 100 * MIB, 4 * MIB),
        (256, 512 * GIB, 256 * MIB),
    ],
)
def test_sizes(cpus: int, available: int, size: int) -> None:
    assert user_stacks.buffer_pages(cpus, available) * mmap.PAGESIZE == size


@given(cpus=st.integers(1, 8192), available=st.integers(0, 1 << 50))
def test_it_is_bounded_and_a_power_of_two(cpus: int, available: int) -> None:
    size = user_stacks.buffer_pages(cpus, available) * mmap.PAGESIZE
    assert size.bit_count() == 1
    assert 4 * MIB <= size <= 256 * MIB
    assert size == 4 * MIB or size <= available // 64


def test_of_this_machine() -> None:
    assert user_stacks.available_bytes() > 0
    assert user_stacks.default_pages() * mmap.PAGESIZE >= 4 * MIB
