"""Which events no program was run on, of a hook that has one program, or two.

The other side is bpf/threads/stand_in.h.
"""

from collections.abc import Callable

from kernel_delay.libbpf import Program


def need_stand_ins(release: str) -> bool:
    """Return whether tracepoints' programs can be preempted on the kernel of that release.

    From 7.0 on they can (include/linux/tracepoint.h:__DO_TRACE_CALL()).
    """
    return int(release.partition(".")[0]) >= 7


class Hook:
    """A program that is attached, and perhaps a stand-in for what it is kept from."""

    def __init__(
        self,
        program: Program,
        stand_in: Program | None = None,
        taken_over: Callable[[], int] = lambda: 0,
    ) -> None:
        """Count from now on; `taken_over` returns how many events the stand-in handled."""
        self._program = program
        self._stand_in = stand_in
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
        """Return what the program left to its stand-in in vain, and what that was kept from."""
        left = self._program.recursion_misses()
        if self._stand_in is None:
            return left, left
        return left - self._taken_over(), self._stand_in.recursion_misses()
