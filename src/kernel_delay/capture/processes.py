"""The processes of a session: which there are, what they are called, and what is around them."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from kernel_delay.capture.threads.collector import NO_PROCESS, ThreadOf
from kernel_delay.host.containers import named_cgroup_of
from kernel_delay.host.system_state import Snapshot
from kernel_delay.host.target import ProcessTarget, Targets, command_line, find_child
from kernel_delay.loader._records import ffi
from kernel_delay.model import Target, Thread

MOST_COMMAND_LINE_BYTES = 256


class Processes:
    """Those that were asked for, and with children what they fork."""

    def __init__(self, targets: Targets) -> None:
        """Know those that were asked for."""
        self._are_several = targets.are_several
        self._known = {each.pid: self._described(each) for each in targets.processes}
        self._titled: set[int] = set()
        self._asked = tuple(self._known)
        self._there = set(self._asked)

    def _described(self, found: ProcessTarget) -> Target:
        words = found.command_line  # of one that has yet to be executed
        if words is None:
            words = command_line(found.pid, MOST_COMMAND_LINE_BYTES)
        _, container = named_cgroup_of(found.pid) if self._are_several else (None, None)
        return Target(found.pid, found.comm, found.exe, container, words)

    def note(self, states: bytes) -> None:
        """Note which are there, by a struct dumped_thread of each thread that is."""
        if self._are_several:
            dumped = ffi.from_buffer("struct dumped_thread[]", states)
            self._there = {thread.process for thread in dumped}
            self._look_up(self._there)

    @property
    def there(self) -> frozenset[int]:
        """Those that are there, as far as it was noted."""
        return frozenset(self._there)

    def snapshots(self) -> dict[int, Snapshot]:
        """Read what is around those that are there."""
        return Snapshot.take_all(self._there)

    def _look_up(self, pids: Iterable[int]) -> None:
        for pid in set(pids) - self._known.keys() - {NO_PROCESS}:
            found = find_child(pid)
            if found is not None and found.pid == pid:
                self._known[pid] = self._described(found)

    def sorted_out(self, threads: Sequence[ThreadOf]) -> Mapping[int, tuple[Thread, ...]]:
        """Return the threads of each process, by its PID; those that were summed up by 0.

        One that was asked for alone has all, and those that were are there without any too.
        """
        if not self._are_several:
            return {self._asked[0]: tuple(thread for _, thread in threads)}
        found: dict[int, list[Thread]] = {pid: [] for pid in self._asked if pid in self._there}
        for pid, thread in threads:
            found.setdefault(pid, []).append(thread)
        self._look_up(found)
        return {pid: tuple(found[pid]) for pid in sorted(found, key=_place)}

    def target(self, pid: int, threads: Sequence[Thread]) -> Target:
        """Return the process with these threads, as it is called now; of several, or was last."""
        known = self._known.get(pid, Target(pid, "", None))
        if pid == NO_PROCESS:
            return known
        names = (thread.name for thread in threads if thread.tid == pid)
        comm = next(names, known.comm)
        if pid in self._titled and comm == known.comm and not any(map(_has_run, threads)):
            # Only a process that runs gives itself another title.
            return known
        words = command_line(pid, MOST_COMMAND_LINE_BYTES)
        # Of one that is gone what was known, unless it has executed something since.
        if not words and comm == known.comm:
            words = known.command_line
        if not self._are_several:
            comm = known.comm
        self._titled.add(pid)
        found = self._known[pid] = structs.replace(known, comm=comm, command_line=words)
        return found


def _has_run(thread: Thread) -> bool:
    return thread.time is None or thread.time.user_ns > 0 or thread.time.kernel_ns > 0


def _place(pid: int) -> tuple[bool, int]:
    """Where a process stands: what is of none comes last."""
    return pid == NO_PROCESS, pid
