"""The processes of a session: which there are, what they are called, and what is around them."""

from collections.abc import Iterable, Mapping, Sequence

from kernel_delay.capture.threads.collector import NO_PROCESS, ThreadOf
from kernel_delay.host.containers import named_cgroup_of
from kernel_delay.host.surroundings import Snapshot
from kernel_delay.host.target import Targets, find_child
from kernel_delay.loader._records import ffi
from kernel_delay.model import Target, Thread


class Processes:
    """Those that were asked for, and with children what they fork."""

    def __init__(self, targets: Targets) -> None:
        """Know those that were asked for."""
        self._are_several = targets.are_several
        self._known = {
            each.pid: self._named(Target(each.pid, each.comm, each.exe))
            for each in targets.processes
        }
        self._asked = tuple(self._known)
        self._there = set(self._asked)

    def _named(self, target: Target) -> Target:
        if not self._are_several:
            return target
        _, container = named_cgroup_of(target.pid)
        return Target(target.pid, target.comm, target.exe, container)

    def note(self, states: bytes) -> None:
        """Note which are there, by a struct dumped_thread of each thread that is."""
        if self._are_several:
            dumped = ffi.from_buffer("struct dumped_thread[]", states)
            self._there = {thread.process for thread in dumped}
            self._look_up(self._there)

    def snapshots(self) -> dict[int, Snapshot]:
        """Read what is around those that are there."""
        return Snapshot.take_all(self._there)

    def _look_up(self, pids: Iterable[int]) -> None:
        for pid in set(pids) - self._known.keys() - {NO_PROCESS}:
            found = find_child(pid)
            if found is not None and found.pid == pid:
                self._known[pid] = self._named(Target(pid, found.comm, found.exe))

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

    def target(self, pid: int, threads: Iterable[Thread]) -> Target:
        """Return the process with these threads: of several, by the name that it had last."""
        known = self._known.get(pid, Target(pid, "", None))
        if not self._are_several:
            return known
        names = (thread.name for thread in threads if thread.tid == pid)
        comm = next(names, known.comm)
        return Target(pid, comm, known.exe, known.container)


def _place(pid: int) -> tuple[bool, int]:
    """Where a process stands: what is of none comes last."""
    return pid == NO_PROCESS, pid
