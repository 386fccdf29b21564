"""Who had the CPU that a thread waited for: tasks one by one, or those of a name together."""

from collections.abc import Sequence

from msgspec import Struct

from kernel_delay.analysis.verdict.formatting import share
from kernel_delay.model import CpuTaker, Sample, Who

# A task that had the CPU for a smaller part of a wait did not cause it.
TAKER_SHARE = 0.1

# More of one name are named together, as a crowd's single tasks say little.
NAMED_SINGLY = 3

REAL_TIME = frozenset(("FIFO", "RR", "DEADLINE"))


class Takers(Struct, frozen=True):
    """A task, or several of one name or of the target, and how long they had the CPU.

    `worst` is the one that had it longest.
    """

    worst: CpuTaker
    tasks: int
    ns: int
    own: bool

    def text(self, ready_ns: int) -> str:
        """What they did, as a part of the wait."""
        part = share(self.ns, ready_ns)
        if is_idle(self.worst):
            return f"the CPU idled or woke up for {part}"
        return f"{self.named()} ran for {part}"

    def named(self, *, whose: bool = True) -> str:
        """Who they are; with `whose`, whether one is a thread of the same process."""
        worst = self.worst
        how = f", SCHED_{worst.policy}," if worst.policy in REAL_TIME else ""
        if worst.is_tool:
            return "kernel-delay itself"
        if self.own and self.tasks > 1:
            return f"{self.tasks} threads of the same process"
        if self.tasks > 1:
            return f"{self.tasks} tasks called {worst.comm}{how}"
        task = f"{worst.comm} ({worst.tid})"
        return f"{task} of the same process{how}" if self.own and whose else f"{task}{how}"

    @property
    def who(self) -> Who:
        """Who or what caused the delay."""
        if self.own:
            return "program"
        if self.worst.is_tool:
            return "tool"
        return "kernel" if self.worst.kernel_thread or is_idle(self.worst) else "other-process"

    @property
    def evidence(self) -> dict[str, int]:
        """The figures."""
        which = {"taker_tid": self.worst.tid} if self.tasks == 1 else {"takers": self.tasks}
        return {**which, "taker_ns": self.ns}


def is_idle(taker: CpuTaker) -> bool:
    """Whether it is no task: the CPU idled."""
    return taker.comm == "idle" and not taker.tid


def named_takers(sample: Sample, takers: Sequence[CpuTaker], ready_ns: int) -> tuple[Takers, ...]:
    """Return who had the CPU for a part that matters, longest first."""
    least_ns = TAKER_SHARE * ready_ns
    alike: dict[tuple[str, bool, bool, bool], list[CpuTaker]] = {}
    for taker in takers:
        own = _is_own(sample, taker)
        key = ("" if own or taker.is_tool else taker.comm, own, is_idle(taker), taker.is_tool)
        alike.setdefault(key, []).append(taker)
    found = []
    for (_, own, _, is_tool), tasks in alike.items():
        singly = [taker for taker in tasks if taker.ns >= least_ns]
        ns = sum(taker.ns for taker in tasks)
        rest_ns = ns - sum(taker.ns for taker in singly)
        is_crowd = len(singly) > NAMED_SINGLY or rest_ns >= least_ns or is_tool
        if is_crowd and len(tasks) > 1:
            worst = max(tasks, key=lambda each: each.ns)
            found.append(Takers(worst, len(tasks), ns, own))
        else:
            found += [Takers(taker, 1, taker.ns, own) for taker in singly]
    return tuple(sorted(found, key=lambda each: (-each.ns, each.worst.tid)))


def _is_own(sample: Sample, taker: CpuTaker) -> bool:
    """Whether it is a thread of the process, which may be gone by now."""
    if taker.pid:
        return taker.pid == sample.target.pid
    return bool(taker.tid) and any(taker.tid == own.tid for own in sample.threads)
