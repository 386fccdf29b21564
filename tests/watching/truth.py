"""What a long round was long of: by the kernel's own counts, and the log's line of it."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

# What the main thread ran itself; what the stage's own hog, or other processes, had its CPU for
# while it waited for that; and what it slept or was stopped.
Share = Literal["own", "hog", "others", "off"]

# Two shares that differ by less of the round are equal: the counts are of somewhat more than it.
TIE = 0.05


class SchedStat(Struct, frozen=True):
    """What a thread ran and waited for a CPU, since it was made."""

    ran_ns: int
    waited_ns: int

    def since(self, earlier: "SchedStat") -> "SchedStat":
        return SchedStat(self.ran_ns - earlier.ran_ns, self.waited_ns - earlier.waited_ns)


def schedstat(tid: int) -> SchedStat:
    """Of a process's first thread (Documentation/scheduler/sched-stats.rst)."""
    ran_ns, waited_ns, _ = Path(f"/proc/{tid}/schedstat").read_text().split()
    return SchedStat(int(ran_ns), int(waited_ns))


class Truth(Struct, frozen=True):
    """How much of a round went where."""

    length_ns: int
    shares_ns: dict[Share, int]

    def __str__(self) -> str:
        """It, in ms."""
        shares = [f"{share} {ns // 1_000_000}" for share, ns in self.shares_ns.items()]
        return f"{self.length_ns // 1_000_000} ms, {', '.join(shares)}"

    def may_be(self, share: Share) -> bool:
        """Whether none is larger, or not by much."""
        largest_ns = max(self.shares_ns.values())
        return self.shares_ns[share] >= largest_ns - TIE * self.length_ns

    def largest(self) -> Share:
        return max(self.shares_ns, key=lambda share: self.shares_ns[share])


def truth_of(length_ns: int, thread: SchedStat, hog: SchedStat) -> Truth:
    """Of a round of that length, by what its thread and the hog had meanwhile."""
    by_hog_ns = min(hog.ran_ns, thread.waited_ns)
    by_others_ns = thread.waited_ns - by_hog_ns
    off_ns = max(0, length_ns - thread.ran_ns - thread.waited_ns)
    return Truth(
        length_ns,
        {"own": thread.ran_ns, "hog": by_hog_ns, "others": by_others_ns, "off": off_ns},
    )
