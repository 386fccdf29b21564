"""The main loop of ovs-vswitchd: its events, as a recording has them, and what they come to."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from msgspec import Struct

from kernel_delay.analysis.histogram import LinearHistogram, Log2Histogram, Quantiles
from kernel_delay.formatting import NS_PER_S, NS_PER_US
from kernel_delay.recording.records import Events

# The histograms' buckets, in microseconds: passes up to a second by the
# millisecond, waits up to 30 seconds by 30 milliseconds.
RUN_WIDTH_US, RUN_LIMIT_US = 1000, 1_000_000
WAIT_WIDTH_US, WAIT_LIMIT_US = 30_000, 30_000_000

Probe = Literal["run_start", "poll_block"]
Kind = Literal["run", "wait"]


class LoopEvent(Struct, frozen=True):
    """One hit of a probe in the main loop.

    Attributes:
        probe: The probe.
        time_ns: The time of the hit (CLOCK_MONOTONIC).
        tid: The thread that hit the probe.
        comm: The name of the thread.
    """

    probe: Probe
    time_ns: int
    tid: int
    comm: str


class Interval(Struct, frozen=True):
    """A pass that ended, or a wait: `duration_ns` up to `stop_ns`."""

    kind: Kind
    tid: int
    comm: str
    stop_ns: int
    duration_ns: int


class LoopTimes:
    """The runs, or the waits, of all passes: histograms in microseconds, quantiles in ns."""

    def __init__(self, width_us: int, limit_us: int) -> None:
        """Linear buckets of `width_us` up to `limit_us`."""
        self.linear = LinearHistogram(width_us, limit_us)
        self.log2 = Log2Histogram()
        self.quantiles = Quantiles()

    def add(self, duration_ns: int) -> None:
        """Count one."""
        self.linear.add(duration_ns // NS_PER_US)
        self.log2.add(duration_ns // NS_PER_US)
        self.quantiles.add(duration_ns)


class BridgeLoop:
    """Pairs the probes' hits as they come, in bounded memory.

    `unpaired` counts the hits that repeat the one before them in their thread,
    so that an interval is missing: 0 unless events were lost.
    """

    def __init__(self) -> None:
        """Start before the first event."""
        self.runs = LoopTimes(RUN_WIDTH_US, RUN_LIMIT_US)
        self.waits = LoopTimes(WAIT_WIDTH_US, WAIT_LIMIT_US)
        self.unpaired = 0
        self._last: dict[int, LoopEvent] = {}
        self._first_ns: int | None = None
        self._last_ns = 0

    def add(self, event: LoopEvent) -> Interval | None:
        """Take the next event of its thread; gives the interval it ends, if one."""
        if self._first_ns is None:
            self._first_ns = event.time_ns
        self._last_ns = max(self._last_ns, event.time_ns)
        before = self._last.get(event.tid)
        self._last[event.tid] = event
        if before is None:
            return None
        if before.probe == event.probe or event.time_ns < before.time_ns:
            self.unpaired += 1
            return None
        kind: Kind = "run" if event.probe == "poll_block" else "wait"
        duration_ns = event.time_ns - before.time_ns
        (self.runs if kind == "run" else self.waits).add(duration_ns)
        return Interval(kind, event.tid, event.comm, event.time_ns, duration_ns)

    def lost(self) -> None:
        """Events were lost before the next one: what they would have ended is not measured."""
        self._last.clear()

    @property
    def passes(self) -> int:
        """Passes that were seen from their start to their end."""
        return self.runs.quantiles.count

    @property
    def duration_ns(self) -> int:
        """From the first event to the last."""
        return 0 if self._first_ns is None else self._last_ns - self._first_ns

    @property
    def passes_per_second(self) -> Fraction | None:
        """Passes by duration_ns; None when no time went by."""
        return Fraction(self.passes * NS_PER_S, self.duration_ns) if self.duration_ns else None


class LoopHit(Struct, frozen=True):
    """An event of the main loop.

    Attributes:
        event: The event.
        lost_before: Events were lost between the previous event and this one.
    """

    event: LoopEvent
    lost_before: bool = False


class LoopEvents(Events, frozen=True, tag="loop_events"):
    """Events of the main loop of ovs-vswitchd, in order.

    Attributes:
        hits: The events.
    """

    hits: tuple[LoopHit, ...]

    def measured(self) -> Sequence[LoopEvent]:
        """The events."""
        return [hit.event for hit in self.hits]


RECORD = LoopEvents
