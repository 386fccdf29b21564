"""What the system and others did to each process of a window: what may be to blame beside it."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from kernel_delay.capture.boundaries import Readings
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.stops import stopper_in_window, tracer_in_window
from kernel_delay.capture.threads.task_times import processes_with_uprobes, weights_of_takers
from kernel_delay.host.file_locks import LockOwner, lock_owner
from kernel_delay.host.system_state import Snapshot, between, call_cost, cpu_uses, tracer
from kernel_delay.model import SystemState, Thread

if TYPE_CHECKING:
    from kernel_delay.host.polled_locks import PolledLock

Snapshots = dict[int, Snapshot]
"""By process, at one boundary of a window."""


class SystemStates:
    """The system's state in one window, as each of the processes that were measured had it."""

    def __init__(
        self,
        programs: Programs,
        window: tuple[int, int],
        snapshots: Readings[Snapshots],
        states: bytes,
        *,
        are_several: bool,
    ) -> None:
        """Use what was read at the boundaries of `window`; `states` at its end.

        `are_several`: several processes may be measured.
        """
        self._programs = programs
        self._start_ns, self._stop_ns = window
        self._snapshots = snapshots
        self._uprobed = processes_with_uprobes(states)
        # The same around each process.
        before, after = (
            next(iter(each.values()), None) for each in (snapshots.before, snapshots.after)
        )
        self._cpus = cpu_uses(before, after) if before and after else ()
        self._are_several = are_several

    def of(self, pid: int, threads: Sequence[Thread], *, is_one: bool) -> SystemState | None:
        """Return the state of process `pid`, whose threads these are; None where it is not known.

        `is_one`: only that one was measured in the window.
        """
        from kernel_delay.analysis.verdict.lock_polls import polled_kinds
        from kernel_delay.analysis.verdict.user_work import has_cheap_calls

        if pid not in self._snapshots.after:
            return None
        # Of one process all threads are.
        uprobed = next(iter(self._uprobed.values()), None) if is_one else self._uprobed.get(pid)
        around = self._around(pid, uprobed)
        traces_now = tracer(pid, _stopped(threads)) or around.tracer
        stopped_it = tracer_in_window(self._programs, pid, self._start_ns)
        holder: LockOwner | None = lock_owner(pid) if _waited_for_file_lock(threads) else None
        kinds = polled_kinds(threads)
        polled = _polled_lock(pid, kinds) if holder is None and kinds else None
        holder = polled.owner if polled else holder
        return structs.replace(
            around,
            tracer=traces_now or stopped_it,
            tracer_left=traces_now is None and stopped_it is not None,
            weights=weights_of_takers(pid, threads, self._stop_ns - self._start_ns),
            lock_holder=(holder.comm, holder.pid) if holder else None,
            lock_shared=holder is not None and holder.shared,
            polled_lock=polled.path if polled else None,
            call_cost=call_cost() if has_cheap_calls(threads) else None,
        )

    def _around(self, pid: int, uprobed: bool | None) -> SystemState:
        before, after = self._snapshots.before, self._snapshots.after
        # Of one that came since only the machine is known.
        began = before.get(pid) or structs.replace(next(iter(before.values())), cgroups=None)
        around = between(began, after[pid], pid, uprobed, self._cpus)
        if self._snapshots.is_late:
            around = structs.replace(around, cpus=(), memory=None, is_late=True)
        several = self._are_several
        found = stopper_in_window(self._programs, pid, self._start_ns, are_several=several)
        return structs.replace(around, stopper=found)


def _stopped(threads: Iterable[Thread]) -> list[int]:
    """The ids of those that were stopped, the longest first."""
    times = [(thread.time.stopped_ns, thread.tid) for thread in threads if thread.time is not None]
    return [tid for ns, tid in sorted(times, reverse=True) if ns]


def _waited_for_file_lock(threads: Iterable[Thread]) -> bool:
    return any(sleep.reason == "file_lock" for thread in threads for sleep in thread.sleeps)


def _polled_lock(pid: int, kinds: frozenset[str]) -> "PolledLock | None":
    # Few processes poll a lock.
    from kernel_delay.host.polled_locks import polled_lock

    return polled_lock(pid, kinds)
