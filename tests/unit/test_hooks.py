"""Which events are counted as missed, of programs that have stand-ins."""

from typing import cast

import pytest

from kernel_delay.capture.hooks import Hook, need_stand_ins
from kernel_delay.libbpf import Program


class Counted:
    """A program that says how often it was kept from an event."""

    def __init__(self) -> None:
        self.misses = 0

    def recursion_misses(self) -> int:
        return self.misses


def hook(
    program: Counted, stand_in: Counted | None = None, taken_over: list[int] | None = None
) -> Hook:
    taken = taken_over or [0]
    return Hook(cast("Program", program), cast("Program | None", stand_in), lambda: taken[0])


def test_without_a_stand_in_each_is_missed() -> None:
    program = Counted()
    alone = hook(program)
    program.misses = 3
    assert [alone.newly_missed(), alone.newly_missed()] == [3, 0]
    program.misses = 5
    assert alone.newly_missed() == 2


def test_what_a_stand_in_took_over_is_not_missed() -> None:
    program, stand_in, taken_over = Counted(), Counted(), [0]
    both = hook(program, stand_in, taken_over)
    program.misses, taken_over[0], stand_in.misses = 300, 300, 7
    assert both.newly_missed() == 0
    program.misses, taken_over[0], stand_in.misses = 310, 306, 9
    assert both.newly_missed() == 2


def test_what_only_one_of_the_two_was_kept_from_is_not_missed() -> None:
    program, stand_in = Counted(), Counted()
    both = hook(program, stand_in)
    program.misses = 12
    assert both.newly_missed() == 0
    stand_in.misses = 12
    assert both.newly_missed() == 0


def test_events_taken_over_between_two_readings_are_not_counted_negative() -> None:
    program, stand_in, taken_over = Counted(), Counted(), [0]
    both = hook(program, stand_in, taken_over)
    taken_over[0] = 1
    assert both.newly_missed() == 0
    program.misses = 1
    assert both.newly_missed() == 0


@pytest.mark.parametrize(
    ("release", "needed"),
    [
        ("5.14.0-427.el9.x86_64", False),
        ("6.19.2", False),
        ("7.0.0-rc1", True),
        ("7.2.13+deb14-amd64", True),
        ("10.1", True),
    ],
)
def test_stand_ins_are_for_kernels_that_preempt_programs(release: str, needed: bool) -> None:
    assert need_stand_ins(release) == needed
