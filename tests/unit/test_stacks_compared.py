"""Two captures' events of the same calls, and what is said of stacks that differ."""

import pytest

from kernel_delay.model import StackFrame
from tests.stacks.captured import TABLES, TakenEvent, TakenStack
from tests.stacks.compared import Compared, difference, pairs
from tests.stacks.elfutils import Found

READ, WRITE = 0, 1


def event(tid: int, start_ns: int, end_ns: int, stack: int, number: int = READ) -> TakenEvent:
    return TakenEvent(tid, number, start_ns, end_ns, stack)


def test_events_of_the_same_call_overlap() -> None:
    walked = [event(1, 10, 20, 0), event(2, 12, 40, 1), event(1, 30, 35, 2)]
    copied = [event(2, 11, 41, 7), event(1, 11, 19, 8), event(1, 29, 36, 9)]
    assert list(pairs(walked, copied)) == [(1, 0, 8), (2, 1, 7), (1, 2, 9)]


def test_a_call_that_one_capture_lacks_is_left_out() -> None:
    first, lost, last = event(1, 10, 20, 0), event(1, 21, 30, 1), event(1, 31, 40, 2)
    assert list(pairs([first, lost, last], [first, last])) == [(1, 0, 0), (1, 2, 2)]
    assert list(pairs([first, last], [first, lost, last])) == [(1, 0, 0), (1, 2, 2)]
    assert list(pairs([lost], [first, last])) == []
    assert list(pairs([first], [])) == []


def test_another_call_at_the_same_time_is_none() -> None:
    assert list(pairs([event(1, 10, 20, 0, READ)], [event(1, 10, 20, 0, WRITE)])) == []


def stack(*addresses: int, elfutils: Found | None = None) -> TakenStack:
    frames = tuple(StackFrame(at, f"f{at}", 0, "/program") for at in addresses)
    return TakenStack(frames, TABLES, "whole", elfutils)


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ((1, 2), "elfutils ends at f2, ours (tables) is whole"),
        ((1, 2, 3, 4), "ours (tables) ends at f3"),
        ((1, 5, 3), "ours (tables) goes from f1 to f2, elfutils elsewhere"),
        ((), "elfutils ends at nothing, ours (tables) is whole"),
    ],
)
def test_where_stacks_go_apart_is_said(theirs: tuple[int, ...], said: str) -> None:
    assert difference(stack(1, 2, 3), theirs) == said


def test_only_what_elfutils_finds_whole_can_be_wrong() -> None:
    found = Compared()
    for theirs in (Found((1, 2), whole=True), Found((1, 3), whole=True), Found((1, 3), False)):
        found.add(stack(1, 2), stack(1, 2, elfutils=theirs))
    assert (found.events, found.same, found.same_as_copy, found.wrong) == (3, 1, 3, 1)
    assert list(found.stacks.values()) == [True, False]
