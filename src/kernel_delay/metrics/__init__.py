"""What a monitoring system receives from a watch: counters and gauges, as they are at one time."""

from collections.abc import Mapping

from msgspec import Struct

from kernel_delay.model import Histogram, Losses, Upcalls


class Lengths(Struct, frozen=True):
    """How many intervals had which length, as a model Histogram, and their sum in ns."""

    counts: Histogram = ()
    total_ns: int = 0

    def __add__(self, more: "Lengths") -> "Lengths":
        """Return both together."""
        return Lengths(added(self.counts, more.counts), self.total_ns + more.total_ns)


def added(one: Histogram, more: Histogram) -> Histogram:
    """Return what two histograms, of any lengths, count together."""
    longer, shorter = (one, more) if len(one) >= len(more) else (more, one)
    return tuple(
        count + (shorter[bucket] if bucket < len(shorter) else 0)
        for bucket, count in enumerate(longer)
    )


class ClassFigures(Struct, frozen=True):
    """Of one class of threads: how many there are, and what all that ever were did, in ns."""

    threads: int = 0
    state_ns: Mapping[str, int] = {}
    rounds: Lengths = Lengths()
    waits: Lengths = Lengths()


class CallFigures(Struct, frozen=True):
    """Of one system call."""

    count: int = 0
    total_ns: int = 0


class OwnCost(Struct, frozen=True):
    """What the tool itself took: CPU time since it was started, and memory now."""

    cpu_ns: int
    resident_bytes: int


class Snapshot(Struct, frozen=True):
    """All that is exported.

    `causes` are of long rounds. `upcalls` is None where the kernel does not say. `is_watching`:
    the process is there. The figures are of `read_time`, in seconds since 1970.
    """

    comm: str
    read_time: float
    is_watching: bool
    classes: Mapping[str, ClassFigures]
    calls: Mapping[str, CallFigures]
    causes: Mapping[str, int]
    losses: Losses
    own: OwnCost
    upcalls: Upcalls | None = None
