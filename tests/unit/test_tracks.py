"""Slices that were told, of which some were lost: what is shown is right, or said to be lost."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.loader._records import lib as records
from tests.unit import c_sources
from tests.unit.test_longest_events import c_free

THREAD = 7
START, STOP = 1000, 3000

STATE_KINDS = (records.STATE_RUNNING, records.STATE_BLOCKED, records.STATE_READY_WOKEN)
MODE_KINDS = (records.SLICE_PROGRAM, records.SLICE_CALL, records.SLICE_FAULT)
LOST = (records.SLICE_LOST_STATES, records.SLICE_LOST_MODES)


class Reported(NamedTuple):
    """A slice: as a program tells it, or as it is shown."""

    kind: int
    since: int
    until: int


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    return c_sources.build_timeline(tmp_path_factory.mktemp("timeline"))


class Store:
    """struct kept_slices and show_slices(), with Python's types."""

    def __init__(self, built: tuple[Any, Any], most: int = 1 << 20) -> None:
        self.ffi, self.lib = built
        self.kept = self.ffi.new("struct kept_slices *")
        self.kept.max = most

    def add(self, reported: Reported, order: int = 0, thread: int = THREAD) -> None:
        fields = {
            "kind": reported.kind,
            "since_ns": reported.since,
            "until_ns": reported.until,
            "order": order % (1 << 16),
            "thread": thread,
        }
        self.lib.kept_slices_add(self.kept, self.ffi.new("struct timeline_slice *", fields))

    def shown(self, state: Reported, mode: Reported, throttled_ns: int = 0) -> list[Reported]:
        """All slices, where these two go on at the window's end."""
        ended, taken = self.taken()
        last = self.ffi.new("struct last_slices *")
        last.thread = THREAD
        last.state, last.state_since_ns = state.kind, state.since
        last.throttled_ns = throttled_ns
        last.mode_kind, last.mode_since_ns = mode.kind, mode.since
        assert self.lib.show_slices(ended, START, STOP, last, 1, taken)
        self.lost = list(taken.lost)
        slices = self.ffi.gc(taken.slices, c_free(self.ffi))
        return [
            Reported(slices[at].kind, slices[at].start_ns, slices[at].stop_ns)
            for at in range(taken.count)
        ]

    def taken(self) -> tuple[Any, Any]:
        ended = self.ffi.new("struct kept_slices *")
        assert self.lib.kept_slices_move(self.kept, ended, STOP)
        taken = self.ffi.new("struct taken_timeline *")
        for place, count in enumerate(ended.lost):
            taken.lost[place] = count
        return ended, taken


def track(kinds: Sequence[int], lengths: Sequence[tuple[int, int]]) -> list[Reported]:
    """Slices one behind the other from before the window to behind it."""
    found, at = [], 0
    for kind, length in (*lengths, (0, 2 * STOP)):
        found.append(Reported(kinds[kind % len(kinds)], at, at + length))
        at += length
    return found


def clipped(slices: Sequence[Reported]) -> list[Reported]:
    cut = [Reported(kind, max(since, START), min(until, STOP)) for kind, since, until in slices]
    return [each for each in cut if each.since < each.until]


def at_each_ns(slices: Sequence[Reported]) -> dict[int, int]:
    return {ns: each.kind for each in slices for ns in range(each.since, each.until)}


LENGTHS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 400)), max_size=30)
KEPT = st.lists(st.booleans(), min_size=40, max_size=40)


@given(LENGTHS, LENGTHS)
def test_what_was_reported_is_shown_with_what_goes_on(
    built: tuple[Any, Any],
    state_lengths: list[tuple[int, int]],
    mode_lengths: list[tuple[int, int]],
) -> None:
    states, modes = track(STATE_KINDS, state_lengths), track(MODE_KINDS, mode_lengths)
    store = Store(built)
    tell(store, states, modes)
    last = next(each for each in states if each.until >= STOP)
    last_mode = next(each for each in modes if each.until >= STOP)
    shown = store.shown(last, last_mode)
    in_calls = [each for each in modes if each.kind != records.SLICE_PROGRAM]
    assert sorted(shown) == sorted(clipped(states) + clipped(in_calls))
    assert shown == sorted(shown, key=lambda each: (each.since, -each.until))
    assert store.lost == [0, 0, 0, 0]


def tell(
    store: Store,
    states: Sequence[Reported],
    modes: Sequence[Reported],
    kept: Sequence[bool] = (True,) * 40,
) -> None:
    """Tell those that end before the last one, but not all."""
    order = 0
    for track_, class_ in ((states, records.SLICE_OF_STATE), (modes, records.SLICE_OF_MODE)):
        for each, is_kept in zip(track_, kept, strict=False):
            if each.until >= 2 * STOP or each.kind == records.SLICE_PROGRAM:
                continue
            if each.until <= START or each.since >= STOP:
                continue
            order += 1
            if is_kept:
                store.add(each, order)
            else:
                store.kept.lost[class_] += 1


@given(LENGTHS, LENGTHS, KEPT)
def test_where_some_were_lost_it_is_said(
    built: tuple[Any, Any],
    state_lengths: list[tuple[int, int]],
    mode_lengths: list[tuple[int, int]],
    kept: list[bool],
) -> None:
    states, modes = track(STATE_KINDS, state_lengths), track(MODE_KINDS, mode_lengths)
    store = Store(built)
    tell(store, states, modes, kept)
    last = next(each for each in states if each.until >= STOP)
    last_mode = next(each for each in modes if each.until >= STOP)
    shown = store.shown(last, last_mode)
    in_states = [each for each in shown if each.kind in (*STATE_KINDS, LOST[0])]
    in_modes = [each for each in shown if each.kind in (*MODE_KINDS, LOST[1])]
    assert [each.since for each in in_states[1:]] == [each.until for each in in_states[:-1]]
    assert (in_states[0].since, in_states[-1].until) == (START, STOP)
    for found, truth, lost in (
        (at_each_ns(in_states), at_each_ns(clipped(states)), LOST[0]),
        (at_each_ns(in_modes), at_each_ns(clipped(modes)), LOST[1]),
    ):
        for ns in range(START, STOP):
            # Nothing is claimed that was not, not even to be in the program.
            assert found.get(ns, records.SLICE_PROGRAM) in (truth[ns], lost)


def test_full_store_drops_interrupts_then_states_then_newest(built: tuple[Any, Any]) -> None:
    store = Store(built, most=10)
    for at in range(4):
        since = START + 100 * at
        store.add(Reported(records.SLICE_HARD_IRQ, since, since + 10))
        store.add(Reported(records.STATE_RUNNING, since, since + 50))
        store.add(Reported(records.SLICE_CALL, since, since + 50), at)
    # Two too many: all interrupts are gone, and nothing else.
    assert list(store.kept.lost) == [4, 0, 0, 0]
    assert store.kept.count == 8
    for at in range(4, 20):
        store.add(Reported(records.SLICE_CALL, START + 100 * at, START + 100 * at + 50), at)
    assert list(store.kept.lost) == [4, 4, 10, 0]
    assert {store.kept.slices[at].kind for at in range(store.kept.count)} == {records.SLICE_CALL}
    # In the next window there is room again.
    store.taken()
    store.add(Reported(records.SLICE_HARD_IRQ, STOP + 1, STOP + 2))
    assert store.kept.count == 1
    assert list(store.kept.lost) == [0, 0, 0, 0]


def test_slices_of_other_threads_are_counted_as_lost(built: tuple[Any, Any]) -> None:
    store = Store(built)
    for thread in (3, THREAD, 900):
        store.add(Reported(records.STATE_RUNNING, START, START + 50), thread=thread)
        store.add(Reported(records.SLICE_SOFT_IRQ, START, START + 20), thread=thread)
    going_on = Reported(records.STATE_BLOCKED, START + 50, STOP)
    shown = store.shown(going_on, Reported(records.SLICE_PROGRAM, START, STOP))
    assert [each.kind for each in shown] == [
        records.STATE_RUNNING,
        records.SLICE_SOFT_IRQ,
        records.STATE_BLOCKED,
    ]
    assert store.lost == [2, 2, 0, 0]


def test_thread_that_begins_behind_the_window_lost_nothing(built: tuple[Any, Any]) -> None:
    store = Store(built)
    store.add(Reported(records.STATE_NOT_ALIVE, 0, STOP + 50), thread=900)
    store.add(Reported(records.STATE_BLOCKED, 0, START), thread=901)
    store.shown(Reported(records.STATE_RUNNING, START, STOP), IN_PROGRAM)
    assert store.lost == [0, 0, 0, 0]


def test_slice_across_the_end_is_in_both_windows(built: tuple[Any, Any]) -> None:
    store = Store(built)
    store.add(Reported(records.STATE_BLOCKED, START, STOP + 500))
    running = Reported(records.STATE_RUNNING, STOP + 500, STOP + 600)
    shown = store.shown(running, Reported(records.SLICE_PROGRAM, START, STOP))
    assert shown == [Reported(records.STATE_BLOCKED, START, STOP)]
    assert store.kept.count == 1


IN_PROGRAM = Reported(records.SLICE_PROGRAM, START, STOP)
WAIT, THROTTLED = records.STATE_READY_PREEMPTED, records.STATE_THROTTLED


@pytest.mark.parametrize(
    ("reported", "shown"),
    [
        ((1500, 1900), [(1500, WAIT), (1600, THROTTLED), (1900, records.STATE_RUNNING)]),
        # All of what lies in the window.
        ((900, 1300), [(START, THROTTLED), (1300, records.STATE_RUNNING)]),
    ],
)
def test_what_of_a_wait_was_throttling_is_its_end(
    built: tuple[Any, Any], reported: tuple[int, int], shown: list[tuple[int, int]]
) -> None:
    store = Store(built)
    since, until = reported
    if since > START:
        store.add(Reported(records.STATE_RUNNING, START, since))
        shown = [(START, records.STATE_RUNNING), *shown]
    store.add(Reported(WAIT, since, until))
    store.add(Reported(THROTTLED, until - 300, until))
    found = store.shown(Reported(records.STATE_RUNNING, until, STOP), IN_PROGRAM)
    assert [(each.since, each.kind) for each in found] == shown
    assert [each.since for each in found[1:]] == [each.until for each in found[:-1]]


def test_so_it_is_of_one_that_goes_on(built: tuple[Any, Any]) -> None:
    store = Store(built)
    store.add(Reported(records.STATE_RUNNING, START, 2000))
    found = store.shown(Reported(WAIT, 2000, STOP), IN_PROGRAM, throttled_ns=400)
    assert found == [
        Reported(records.STATE_RUNNING, START, 2000),
        Reported(WAIT, 2000, STOP - 400),
        Reported(THROTTLED, STOP - 400, STOP),
    ]
    # Told by now, as it ended behind the window.
    store = Store(built)
    store.add(Reported(records.STATE_RUNNING, START, 2000))
    store.add(Reported(WAIT, 2000, STOP + 100))
    store.add(Reported(THROTTLED, STOP - 400, STOP))
    assert found == store.shown(Reported(WAIT, 2000, STOP), IN_PROGRAM, throttled_ns=400)


@pytest.mark.parametrize("reported", [0, 1, 7, 8, 9, 16, 17, 60, 70_000])
def test_first_and_last_slices_of_a_round_are_shown(built: tuple[Any, Any], reported: int) -> None:
    """Calls of 2 ns, each 4 ns after the one before, in a ring of 16 slices."""
    ffi, lib = built
    room = 16
    ring = ffi.new("struct timeline_slice[]", room)
    calls = [
        Reported(records.SLICE_CALL, START + 4 * at, START + 4 * at + 2) for at in range(reported)
    ]
    for at, call in enumerate(calls):
        place = at if at < room // 2 else room // 2 + at % (room // 2)
        ring[place] = {
            "kind": call.kind,
            "since_ns": call.since,
            "until_ns": call.until,
            "order": (at + 1) % (1 << 16),
            "thread": THREAD,
        }
    kept = ffi.new("struct kept_round *")
    kept.slices = ffi.cast("uint64_t *", ring)
    kept.room, kept.reported = room, reported
    last = ffi.new("struct last_slices *")
    last.thread, last.state, last.mode_kind = THREAD, records.STATE_RUNNING, records.SLICE_PROGRAM
    taken = ffi.new("struct taken_timeline *")
    stop = START + 4 * reported + 4
    assert lib.round_timeline_show(kept, START, stop, last, taken) == 0
    slices = ffi.gc(taken.slices, c_free(ffi))
    shown = [
        Reported(slices[at].kind, slices[at].start_ns, slices[at].stop_ns)
        for at in range(taken.count)
    ]
    modes = [each for each in shown if each.kind != records.STATE_RUNNING]
    if reported <= room:
        assert modes == calls
        return
    head, tail = calls[: room // 2], calls[-room // 2 :]
    assert modes == [
        *head,
        Reported(records.SLICE_LOST_MODES, head[-1].until, tail[0].since),
        *tail,
    ]
    assert list(taken.lost) == [0, 0, 0, 0]
