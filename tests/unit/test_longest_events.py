"""Of any number of events, exactly the longest are kept, and the others are counted."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit import c_sources

Event = tuple[int, int, int]
"""entry_ns, exit_ns, tid"""

WHOLE_WINDOW = 1 << 63


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    return c_sources.build(tmp_path_factory.mktemp("events"))


class Longest:
    """struct longest_events, with Python's types."""

    def __init__(self, built: tuple[Any, Any], most: int) -> None:
        self.ffi, self.lib = built
        self.events = self.ffi.new("struct longest_events *")
        assert self.lib.longest_events_open(self.events, most)

    def __enter__(self) -> "Longest":
        return self

    def __exit__(self, *_: object) -> None:
        self.lib.longest_events_close(self.events)

    def add(self, events: Iterable[Event]) -> None:
        kept = self.ffi.new("struct kept_event *")
        for kept.entry_ns, kept.exit_ns, kept.tid in events:
            self.lib.longest_events_add(self.events, kept)

    def take(self, stop_ns: int) -> tuple[list[Event], int]:
        taken = self.ffi.new("struct taken_events *")
        assert self.lib.longest_events_take(self.events, stop_ns, taken)
        events = self.ffi.gc(taken.events, c_free(self.ffi))
        found = self.ffi.unpack(events, taken.count)
        return [(event.entry_ns, event.exit_ns, event.tid) for event in found], taken.shorter


def c_free(ffi: Any) -> Callable[[Any], None]:
    ffi.cdef("void free(void *memory);", override=True)
    return ffi.dlopen(None).free  # type: ignore[no-any-return]


def lengths(events: Iterable[Event]) -> list[int]:
    return sorted((exit_ns - entry_ns for entry_ns, exit_ns, _ in events), reverse=True)


SHAPES: dict[str, Callable[[random.Random, int], int]] = {
    "any": lambda chance, i: chance.randrange(1 << 40),
    "few": lambda chance, i: chance.randrange(5),
    "same": lambda chance, i: 7,
    "rising": lambda chance, i: i,
    "falling": lambda chance, i: 1 << 20 >> (i % 20) or 30_000 - i,
    "organ pipe": lambda chance, i: min(i, abs(10_000 - i)),
}


def made(shape: str, seed: int, count: int) -> list[Event]:
    """Events whose ends come one after the other, as those of one thread."""
    chance = random.Random(seed)
    length_ns = SHAPES[shape]
    return [((end := (1 << 41) + 2 * i) - length_ns(chance, i), end, i) for i in range(count)]


@settings(max_examples=60)
@given(
    shape=st.sampled_from(sorted(SHAPES)),
    seed=st.integers(0, 1 << 32),
    # There is room for 4,096 events before any is thrown out.
    count=st.integers(0, 10) | st.integers(4_000, 16_000),
    most=st.integers(1, 10) | st.integers(1, 20_000),
)
def test_the_longest_are_kept(
    built: tuple[Any, Any], shape: str, seed: int, count: int, most: int
) -> None:
    events = made(shape, seed, count)
    with Longest(built, most) as longest:
        longest.add(events)
        kept, shorter = longest.take(WHOLE_WINDOW)
        assert lengths(kept) == lengths(events)[:most]
        assert not Counter(kept) - Counter(events)
        assert len(kept) + shorter == count
        assert longest.take(WHOLE_WINDOW) == ([], 0)


@settings(max_examples=30)
@given(
    shape=st.sampled_from(sorted(SHAPES)),
    seed=st.integers(0, 1 << 32),
    count=st.integers(0, 12_000),
    stop=st.integers(0, 12_000),
    most=st.integers(1, 14_000),
)
def test_events_after_the_stop_stay_for_the_next_window(
    built: tuple[Any, Any], shape: str, seed: int, count: int, stop: int, most: int
) -> None:
    events = made(shape, seed, count)
    stop_ns = (1 << 41) + 2 * stop
    before = [event for event in events if event[1] < stop_ns]
    with Longest(built, most) as longest:
        longest.add(events)
        first, shorter_first = longest.take(stop_ns)
        second, shorter_second = longest.take(WHOLE_WINDOW)
    assert all(exit_ns < stop_ns for _, exit_ns, _ in first)
    assert all(exit_ns >= stop_ns for _, exit_ns, _ in second)
    assert len(first) + len(second) + shorter_first + shorter_second == count
    if count <= most:
        assert Counter(first) == Counter(before)
        assert Counter(second) == Counter(events) - Counter(before)


@given(
    entries=st.lists(
        st.integers(0, (1 << 64) - 1) | st.integers(1 << 50, (1 << 50) + 3000), max_size=200
    )
)
def test_they_are_sorted_by_the_time_they_began(built: tuple[Any, Any], entries: list[int]) -> None:
    ffi, lib = built
    events = ffi.new("struct kept_event[]", [{"entry_ns": at} for at in entries])
    for place, event in enumerate(events):
        event.tid = place
    assert lib.sort_by_entry(events, len(entries))
    # Those of the same time stay in order.
    assert [(event.entry_ns, event.tid) for event in events] == sorted(
        (at, place) for place, at in enumerate(entries)
    )
