"""What keeps a thread from its work that no thread ends: who stopped it, its cgroups, a disk."""

import os
from contextlib import suppress

from kernel_delay.host.cgroups import CgroupState, read_hierarchy
from kernel_delay.host.open_files import MINOR_BITS
from kernel_delay.host.system_state import tracer
from kernel_delay.model import ChainState, ChainThread, SleepReason

# Waits for the device of the file's system.
OF_DISKS: frozenset[SleepReason] = frozenset(("disk", "page_cache"))

# Processes whose stopper is known: a stop is rare.
MOST_STOPPED = 4096


class HeldBy:
    """Who and what holds processes, as it was seen while it did."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._senders: dict[int, ChainThread] = {}
        self._tracers: dict[int, ChainThread] = {}
        self._freezers: dict[int, tuple[str, ...]] = {}
        self._levels: dict[int, tuple[CgroupState, ...]] = {}
        self._throttlers: dict[int, str] = {}

    def signalled(self, pid: int, sender: ChainThread | None) -> None:
        """Note who sent a process the signal that stops it; None: not known."""
        self._senders.pop(pid, None)
        if sender is not None and sender.pid != pid and len(self._senders) < MOST_STOPPED:
            self._senders[pid] = sender

    def begin(self, pid: int) -> None:
        """Note how often the cgroups of a process were throttled when it began to be followed."""
        hierarchy = read_hierarchy(pid)
        self._levels[pid] = hierarchy.levels if hierarchy is not None else ()

    def begin_as(self, pid: int, parent: int) -> None:
        """Note the same of a process that is new, of its parent."""
        self.end(pid)
        self._levels[pid] = self._levels.get(parent, ())

    def look(self, pid: int, state: ChainState) -> None:
        """Look once at what holds a process that is stopped, frozen or throttled now."""
        if state == "stopped" and pid not in self._tracers:
            found = tracer(pid, (pid,))
            if found is not None:
                self._tracers[pid] = ChainThread(found[1], found[1], found[0])
        elif state == "frozen" and pid not in self._freezers:
            hierarchy = read_hierarchy(pid)
            if hierarchy is not None and hierarchy.freezers:
                self._freezers[pid] = hierarchy.freezers
        elif state == "throttled" and pid not in self._throttlers:
            throttler = self.cgroup(pid, state)
            if throttler is not None:
                self._throttlers[pid] = throttler

    def stopper(self, pid: int) -> ChainThread | None:
        """Return who stopped a process, by a signal or as its tracer."""
        return self._senders.get(pid) or self._tracers.get(pid)

    def is_traced(self, pid: int) -> bool:
        """Return whether who stopped it did so as its tracer, which sends it a SIGSTOP too."""
        tracer = self._tracers.get(pid)
        return tracer is not None and self._senders.get(pid, tracer).pid == tracer.pid

    def cgroup(self, pid: int, state: ChainState) -> str | None:
        """Return the cgroup that throttled or froze a process."""
        if state == "frozen":
            files = self.freezers(pid, state)
            return os.path.dirname(files[0]) if files else None
        if state != "throttled":
            return None
        hierarchy = read_hierarchy(pid)
        if hierarchy is None:
            # It has ended.
            return self._throttlers.get(pid)
        limits = [level for level in hierarchy.levels if level.quota_ns]
        before = {level.path: level.throttled_ns for level in self._levels.get(pid, ())}
        # One that a child was moved to is not known of before.
        gained = [
            (level.throttled_ns - before.get(level.path, level.throttled_ns), level.path)
            for level in limits
        ]
        return max(gained)[1] if gained else None

    def freezers(self, pid: int, state: ChainState) -> tuple[str, ...]:
        """Return the files that kept the cgroups of a process frozen; none if it was not frozen."""
        return self._freezers.get(pid, ()) if state == "frozen" else ()

    def forget(self) -> None:
        """A window is over: whoever holds a process by the next is looked at again."""
        self._tracers.clear()
        self._freezers.clear()
        self._throttlers.clear()

    def end(self, pid: int) -> None:
        """A process is not followed any more."""
        self._levels.pop(pid, None)
        self._senders.pop(pid, None)


def device_name(number: int) -> str | None:
    """Return the name of a block device by the kernel's number; None: it is none, or is gone."""
    major, minor = number >> MINOR_BITS, number & (1 << MINOR_BITS) - 1
    with suppress(OSError):
        return os.path.basename(os.readlink(f"/sys/dev/block/{major}:{minor}"))
    return None
