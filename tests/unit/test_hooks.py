"""Which events are counted as missed, of programs that have fallbacks."""

from typing import cast

import pytest

from kernel_delay.capture.hooks import Hook
from kernel_delay.loader.programs import Program


class Counted:
    """A program that says how often it was kept from an event."""

    def __init__(self, name: str = "on_sched_switch") -> None:
        self.name = name
        self.misses = 0

    def recursion_misses(self) -> int:
        return self.misses


def hook(
    program: Counted, fallback: Counted | None = None, taken_over: list[int] | None = None
) -> Hook:
    taken = taken_over or [0]
    return Hook(cast("Program", program), cast("Program | None", fallback), lambda: taken[0])


def test_without_a_fallback_each_is_missed() -> None:
    program = Counted()
    alone = hook(program)
    program.misses = 3
    assert [alone.newly_missed(), alone.newly_missed()] == [3, 0]
    program.misses = 5
    assert alone.newly_missed() == 2


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("on_sys_exit", "calls"),
        ("on_fault_entry", "calls"),
        ("on_irq_exit", "interrupts"),
        ("on_softirq_entry", "interrupts"),
        ("on_sched_waking", "wakeups"),
        ("on_sched_wakeup_new", "wakeups"),
        ("on_sched_switch", "switches"),
        ("on_task_newtask", "scheduler"),
    ],
)
def test_kind_of_a_missed_event_is_its_programs(program: str, kind: str) -> None:
    assert hook(Counted(program)).kind == kind


def test_what_a_fallback_took_over_is_not_missed() -> None:
    program, fallback, taken_over = Counted(), Counted(), [0]
    both = hook(program, fallback, taken_over)
    program.misses, taken_over[0], fallback.misses = 300, 300, 7
    assert both.newly_missed() == 0
    program.misses, taken_over[0], fallback.misses = 310, 306, 9
    assert both.newly_missed() == 2


def test_event_missed_by_only_one_program_is_not_missed() -> None:
    program, fallback = Counted(), Counted()
    both = hook(program, fallback)
    program.misses = 12
    assert both.newly_missed() == 0
    fallback.misses = 12
    assert both.newly_missed() == 0


def test_events_taken_over_are_never_negative_misses() -> None:
    program, fallback, taken_over = Counted(), Counted(), [0]
    both = hook(program, fallback, taken_over)
    taken_over[0] = 1
    assert both.newly_missed() == 0
    program.misses = 1
    assert both.newly_missed() == 0
