"""How much room maps have, by threads and memory."""

import pytest

from kernel_delay.capture import map_sizes
from kernel_delay.capture.map_sizes import (
    RING_SIZES,
    SLICE_BYTES,
    doublings,
    ring_bytes,
    ring_entries,
    timelines_of_rounds,
)
from kernel_delay.capture.syscall_events.user_stacks import available_bytes

MIB = 1 << 20


def thread_records(threads: int, *, to_come: bool = False, room: int | None = None) -> int:
    return ring_entries(doublings(threads, to_come=to_come, room=room))["thread_records"]


@pytest.fixture
def much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_sizes, "memory_room", lambda: 4096 * MIB)


@pytest.mark.usefixtures("much_memory")
@pytest.mark.parametrize("threads", [5_000, 10_000, 20_000, 131_072, 174_762])
def test_each_thread_has_room_in_two_windows_and_more(threads: int) -> None:
    assert thread_records(threads) >= 3 * threads
    assert thread_records(threads) < max(6 * threads, RING_SIZES["thread_records"] + 1)


def test_few_threads_have_half_unless_others_are_to_come() -> None:
    assert thread_records(1000) == RING_SIZES["thread_records"] // 2
    assert thread_records(1000, to_come=True) == thread_records(1001) == 1 << 14


def test_rings_take_a_part_of_the_memory_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_sizes, "memory_room", lambda: 200 * MIB)
    assert thread_records(131_072) == 2 * RING_SIZES["thread_records"]
    monkeypatch.setattr(map_sizes, "memory_room", lambda: 1)
    assert thread_records(131_072) == RING_SIZES["thread_records"]


@pytest.mark.usefixtures("much_memory")
@pytest.mark.parametrize("room", [1 * MIB, 8 * MIB, 100 * MIB])
def test_rings_take_no_more_than_they_are_given(room: int) -> None:
    assert ring_bytes(doublings(20_000, to_come=False, room=room)) <= room


def test_all_sizes_are_powers_of_two() -> None:
    for doubled in range(-6, 7):
        assert all(entries.bit_count() == 1 for entries in ring_entries(doubled).values())


def test_memory_room_is_a_part_of_what_is_available() -> None:
    assert 0 < map_sizes.memory_room() < available_bytes()


@pytest.mark.parametrize(
    ("threads", "room", "timelines"),
    [(1, None, 64), (31, None, 64), (32, None, 128), (10_000, None, 1024), (10_000, 0, 64)],
)
def test_rounds_have_two_timelines_for_each_thread(
    threads: int, room: int | None, timelines: int
) -> None:
    assert timelines_of_rounds(threads, 1024, room) == timelines
    exactly = timelines * 1024 * SLICE_BYTES
    assert timelines_of_rounds(threads, 1024, exactly) == timelines
    assert timelines_of_rounds(10_000, 1000, exactly) == timelines
