"""Which processes are followed, since when, and how many hops away each is."""

import os
from collections.abc import Iterable, Set
from contextlib import suppress

from kernel_delay.analysis.chain_roots import MOST_HOPS
from kernel_delay.capture.chains.programs import ChainPrograms
from kernel_delay.host.target import PROC
from kernel_delay.loader._records import lib as session

# What is followed besides the measured processes.
MOST_THREADS = 256

# Of those that followed processes fork, which count apart: so many threads between two times that
# something is forgotten.
MOST_FORKED = 1024


class Followed:
    """The processes: those that are measured, and whom they wait for.

    Attributes:
        hops: Each of them, and how many hops away it is; 0: it is measured.
        bounded_ns: When somebody was not followed last as there were too many, by the clock of the
            windows. 0: never.
    """

    hops: dict[int, int]
    bounded_ns: int

    def __init__(self, programs: ChainPrograms, pids: Iterable[int]) -> None:
        """Follow the measured processes."""
        self.hops = dict.fromkeys(pids, 0)
        self.bounded_ns = 0
        self._programs = programs
        # Children of measured processes, which are measured too.
        self._children: set[int] = set()
        # Of all others: their threads, and when one was in a chain. Of who was forked all threads
        # count in one sum.
        self._others: dict[int, int] = {}
        self._used_ns: dict[int, int] = {}
        self._forked = 0
        for pid in self.hops:
            programs.follow(pid)

    def follow_child(self, pid: int) -> bool:
        """Follow a process that is measured from now on; return whether that is new."""
        is_new = pid not in self.hops
        if self.hops.get(pid) == 0 or (is_new and not self._programs.follow(pid)):
            return False
        self.hops[pid] = 0
        self._others.pop(pid, None)
        self._children.add(pid)
        return is_new

    def follow(self, pid: int, hops: int, now_ns: int) -> bool:
        """Follow a process that is waited for; return whether that is new."""
        if pid in self.hops or not pid or pid == os.getpid() or _is_of_kernel(pid):
            return False
        count = max(1, len(threads_of(pid)))
        if hops > MOST_HOPS or sum(self._others.values()) + count > MOST_THREADS:
            self.bounded_ns = session.monotonic_ns()
            return False
        if not self._programs.follow(pid):
            return False
        self.hops[pid], self._others[pid], self._used_ns[pid] = hops, count, now_ns
        return True

    def adopt(self, pid: int, tgid: int, parent: int, now_ns: int) -> bool:
        """Take over a process that its parent forked; return whether it is followed.

        Args:
            pid: Its number. It may have been another's: that is to be dropped before.
            tgid: The same in the initial PID namespace.
            parent: The process that forked it.
            now_ns: When.
        """
        hops = self.hops.get(parent)
        if hops is None or hops == MOST_HOPS:
            self._programs.leave(tgid)
            self.bounded_ns = now_ns if hops else self.bounded_ns
            return False
        self._programs.adopt(pid, tgid)
        self.hops[pid], self._others[pid], self._used_ns[pid] = hops + 1, 0, now_ns
        return True

    def is_other(self, pid: int) -> bool:
        """Whether it is waited for, and was not forked by one that is followed."""
        return self._others.get(pid, 0) > 0

    def is_forked(self, pid: int) -> bool:
        """Whether it was, and is not measured."""
        return self._others.get(pid) == 0

    def count_forked(self) -> None:
        """Count a thread of such a process; if it is too many, no more are followed for a while."""
        self._forked += 1
        if self._forked >= MOST_FORKED:
            self.bounded_ns = session.monotonic_ns()
            self._programs.follow_forks(are_followed=False)

    def use(self, pids: Iterable[int], now_ns: int) -> None:
        """Note that processes were in a chain."""
        self._used_ns.update(dict.fromkeys(pids, now_ns))

    def forget_unused(self, now_ns: int, unused_ns: int, did: Set[int]) -> set[int]:
        """Follow nobody any more who has ended, or was in no chain for so long.

        Args:
            now_ns: What was over by then is of no chain any more.
            unused_ns: For how long.
            did: The processes that did something since.

        Returns:
            Those that are to be dropped.
        """
        unused = {pid for pid in self._others if now_ns - self._used_ns[pid] > unused_ns}
        ending = (self._others.keys() | self._children) - did
        unused |= {pid for pid in ending if not threads_of(pid)}
        for pid in unused:
            self._programs.forget(pid)
        self.drop(unused)
        self._used_ns = {pid: self._used_ns[pid] for pid in self._others}
        # There is room again.
        self._forked = 0
        self._programs.follow_forks(are_followed=True)
        return unused

    def drop(self, pids: Iterable[int]) -> None:
        """Keep nothing of processes that are not followed any more."""
        for pid in pids:
            self._children.discard(pid)
            self._others.pop(pid, None)
            del self.hops[pid]


def threads_of(pid: int) -> list[int]:
    """Return the threads of a process that are there."""
    with suppress(OSError):
        return [int(name) for name in os.listdir(PROC / str(pid) / "task")]
    return []


def _is_of_kernel(pid: int) -> bool:
    """Whether it is a thread of the kernel's, which has no program."""
    try:
        os.readlink(PROC / str(pid) / "exe")
    except OSError:
        return True
    return False
