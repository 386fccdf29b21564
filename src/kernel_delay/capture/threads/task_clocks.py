"""What the kernel itself counts of each thread, from a window's start to its end.

An oracle for the account: it is read as a window opens and as it is over, and told of only if
that was at the window's edges.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kernel_delay.loader._records import ffi, lib
from kernel_delay.model import TaskTimes

if TYPE_CHECKING:
    from kernel_delay.loader._records import TaskTimes as Counted

# The times come in ticks of up to 10 ms: of a shorter window they say nothing.
SHORTEST_NS = 100_000_000

# How far from a window's edges, as a share of it, they may be read and still be the window's.
TOLERANCE = 0.05


class TaskClocks:
    """Reads them by `states`, which gives a struct thread_standing of each thread."""

    def __init__(self, states: Callable[[], bytes]) -> None:
        """Nothing is read yet."""
        self._states = states
        self._opened: dict[int, tuple[int, bytes]] = {}

    def open(self, epoch: int, duration_ns: int) -> None:
        """Note the counts as the epoch's window opens, which is to last so long."""
        if duration_ns >= SHORTEST_NS:
            self._opened[epoch] = lib.monotonic_ns(), self._states()

    def close(self, epoch: int, start_ns: int, stop_ns: int) -> Mapping[int, TaskTimes]:
        """Return what was counted in the epoch's window, which is over, by thread id.

        Threads that ended are not among them; none is where it was read too early or late.
        """
        opened = self._opened.pop(epoch, None)
        if opened is None:
            return {}
        read_ns, data = opened
        now = self._states()
        tolerance_ns = TOLERANCE * (stop_ns - start_ns)
        if abs(read_ns - start_ns) + abs(lib.monotonic_ns() - stop_ns) > tolerance_ns:
            return {}
        before = {
            state.identity: state.times
            for state in ffi.from_buffer("struct thread_standing[]", data)
        }
        newest = max(before, default=0)
        found = {}
        for state in ffi.from_buffer("struct thread_standing[]", now):
            # Identities grow: one that is not known is of a thread that came since, or was not met.
            if state.identity in before or state.identity > newest:
                found[state.tid] = _since(before.get(state.identity), state.times)
        return found


def _since(before: "Counted | None", now: "Counted") -> TaskTimes:
    if before is None:
        return TaskTimes(now.user_ns, now.system_ns, now.minor_faults, now.major_faults)
    return TaskTimes(
        user_ns=now.user_ns - before.user_ns,
        system_ns=now.system_ns - before.system_ns,
        minor_faults=now.minor_faults - before.minor_faults,
        major_faults=now.major_faults - before.major_faults,
    )
