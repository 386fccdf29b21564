"""How long a process's threads have waited for a CPU, by /proc: a glance while it is measured."""

import os
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")

MOST_THREADS = 128
"""A file is read for each: of more threads a glance would cost what it is to show."""


class RunDelays:
    """What the kernel itself counts of each thread, since this was first looked at."""

    def __init__(self, *pids: int) -> None:
        """Of these processes."""
        self._folders = [PROC / str(pid) / "task" for pid in pids]
        self._tasks: dict[str, Path] = {}
        self._before: dict[str, int] = {}

    def __call__(self) -> str:
        """How many threads there are, and which has waited longest for a CPU since the first call.

        The latter is left out where the kernel does not count it, and where they are many.
        """
        self._tasks = {}
        for folder in self._folders:
            with suppress(OSError):
                self._tasks |= dict.fromkeys(os.listdir(folder), folder)
        tids = list(self._tasks)
        if not tids:
            return "no threads"
        found = "1 thread" if len(tids) == 1 else f"{len(tids):,} threads"
        if len(tids) > MOST_THREADS:
            return found
        delays = {tid: ns for tid in tids if (ns := self._delay_ns(tid)) is not None}
        self._before = {**delays, **self._before}
        waited = {tid: ns - self._before[tid] for tid, ns in delays.items()}
        longest = max(waited, key=waited.__getitem__, default=None)
        if longest is None or not waited[longest]:
            return found
        ms = waited[longest] / 1e6
        return f"{found}; {self._name(longest)} ({longest}) waited {ms:,.0f} ms for a CPU"

    def _delay_ns(self, tid: str) -> int | None:
        """The second field of schedstat (Documentation/scheduler/sched-stats.rst)."""
        try:
            return int((self._tasks[tid] / tid / "schedstat").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return None

    def _name(self, tid: str) -> str:
        try:
            comm = self._tasks[tid] / tid / "comm"
            return comm.read_text(errors="backslashreplace").rstrip("\n")
        except OSError:
            return "a thread"
