"""Operations that neither a program nor its fallback was run for."""

from typing import NamedTuple, cast

import pytest

from kernel_delay.loader.programs import Program
from kernel_delay.monitors.datapath_ops.probe import passed_over


class Hooked(NamedTuple):
    name: str
    misses: int

    def recursion_misses(self) -> int:
        return self.misses


def missed(program: int, fallback: int, by_programs: int, by_fallbacks: int) -> int:
    hooks = (Hooked("on_flow_new_exit", program), Hooked("on_flow_new_exit_fallback", fallback))
    return passed_over([cast(Program, hook) for hook in hooks], by_programs, by_fallbacks)


@pytest.mark.parametrize(
    ("program", "fallback", "by_programs", "by_fallbacks", "lost"),
    [
        (0, 0, 1000, 0, 0),
        # What the first was kept from the second told, ...
        (50, 0, 950, 50, 0),
        # ... and was itself kept from some that the first told, ...
        (50, 7, 950, 50, 0),
        # ... or that nobody told.
        (50, 7, 950, 47, 3),
        # Of another process's, which are none of ours, at most what the second was kept from.
        (50, 2, 950, 0, 2),
        # The kernel runs the fallback first.
        (7, 50, 50, 950, 0),
        (7, 50, 47, 950, 3),
    ],
)
def test_what_both_were_kept_from_is_lost(
    program: int, fallback: int, by_programs: int, by_fallbacks: int, lost: int
) -> None:
    assert missed(program, fallback, by_programs, by_fallbacks) == lost
