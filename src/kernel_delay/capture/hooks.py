"""Which events no program was run on, of a hook that has one program, or two.

The other side is take_over() in bpf/threads/thread.h.
"""

from collections.abc import Callable
from typing import Literal

from kernel_delay.libbpf import Program

Kind = Literal["calls", "wakeups", "switches", "scheduler", "interrupts"]
"""Of events: system calls and page faults; wake-ups; context switches; what else the scheduler
does, and threads' lives; hard and soft IRQs.
"""

_KINDS: tuple[tuple[str, Kind], ...] = (
    ("on_sys_", "calls"),
    ("on_fault_", "calls"),
    ("on_kvm_", "calls"),
    ("on_sched_wak", "wakeups"),
    ("on_sched_switch", "switches"),
    ("on_irq_", "interrupts"),
    ("on_softirq_", "interrupts"),
)


def kind_of(program: str) -> Kind:
    """Return which events a program of capture.bpf.c is run on, by its name."""
    return next((kind for prefix, kind in _KINDS if program.startswith(prefix)), "scheduler")


class Hook:
    """A program that is attached, and perhaps a fallback for what it is kept from."""

    def __init__(
        self,
        program: Program,
        fallback: Program | None = None,
        taken_over: Callable[[], int] = lambda: 0,
    ) -> None:
        """Count from now on; `taken_over` returns how many events the fallback handled."""
        self.kind = kind_of(program.name)
        self._program = program
        self._fallback = fallback
        self._taken_over = taken_over
        self._left, self._missed = self._counters()

    def newly_missed(self) -> int:
        """Return how many events had neither of the two since the last call, at most.

        The kernel counts what each was kept from, in any process, but not whether these
        were the same events.
        """
        left, missed = self._counters()
        new_left, new_missed = left - self._left, missed - self._missed
        self._left, self._missed = left, missed
        return max(0, min(new_left, new_missed))

    def _counters(self) -> tuple[int, int]:
        """Return what the program left to its fallback in vain, and what that was kept from."""
        left = self._program.recursion_misses()
        if self._fallback is None:
            return left, left
        return left - self._taken_over(), self._fallback.recursion_misses()
