"""Timelines for the page: the longest slices, by columns."""

from operator import itemgetter

from msgspec import Struct

from kernel_delay.formatting import printable
from kernel_delay.model import Sample, Slice, SliceKind
from kernel_delay.reporters.page.calls import Places
from kernel_delay.reporters.perfetto_timeline import slice_name

SHOWN_SLICES = 200_000
"""A browser draws as many in a second."""

NO_CPU = -1

MODES_TRACK, STATES_TRACK, SOFT_IRQ_TRACK, HARD_IRQ_TRACK = range(4)
"""What of a thread's is drawn below what: in a track no two slices overlap."""

# The track of a kind, and as which part of an account it is coloured.
_TRACKS: dict[SliceKind, tuple[int, str]] = {
    "call": (MODES_TRACK, ""),
    "fault": (MODES_TRACK, ""),
    "unknown_mode": (MODES_TRACK, "unaccounted"),
    "lost_modes": (MODES_TRACK, "unaccounted"),
    "running": (STATES_TRACK, "user"),
    "ready_woken": (STATES_TRACK, "ready"),
    "ready_preempted": (STATES_TRACK, "ready"),
    "unknown": (STATES_TRACK, "unaccounted"),
    "lost_states": (STATES_TRACK, "unaccounted"),
    "soft_irq": (SOFT_IRQ_TRACK, "irq"),
    "hard_irq": (HARD_IRQ_TRACK, "irq"),
    "guest": (HARD_IRQ_TRACK, "guest"),
}


class Slices(Struct, frozen=True):
    """Slices by columns, in the order of `since_ns`, which is from the first window's start.

    `cpus` has -1 where there is none, or it is not known.
    """

    threads: list[int]
    whats: list[int]
    cpus: list[int]
    since_ns: list[int]
    lengths_ns: list[int]
    left_out: int


class PageTimeline(Struct, frozen=True):
    """A timeline. What a slice is are its name, its track and the part that it is coloured as.

    A thread is its tid and its name.
    """

    threads: list[tuple[int, str]]
    whats: list[tuple[str, int, str]]
    slices: Slices


class Timeline:
    """The timelines of Samples, as these come."""

    def __init__(self) -> None:
        """Begin with none."""
        self._threads = Places()
        self._whats = Places()
        self._slices: list[tuple[int, ...]] = []
        self._left_out = 0
        self._least_ns = 0

    def add(self, sample: Sample, first_ns: int) -> None:
        """Count a Sample's in; `first_ns` is when the first window began."""
        names = {thread.tid: printable(thread.name) for thread in sample.threads}
        for each in sample.timeline or ():
            thread = self._threads[each.tid, names.get(each.tid, str(each.tid))]
            self._add(each, thread, first_ns)

    def _add(self, each: Slice, thread: int, first_ns: int) -> None:
        length_ns = each.stop_ns - each.start_ns
        track, part = _TRACKS.get(each.kind, (STATES_TRACK, each.kind))
        what = self._whats[printable(slice_name(each)), track, part]
        if length_ns < self._least_ns:
            self._left_out += 1
            return
        cpu = NO_CPU if each.cpu is None else each.cpu
        self._slices.append((each.start_ns - first_ns, length_ns, thread, what, cpu))
        if len(self._slices) > 2 * SHOWN_SLICES:
            self._leave_out()

    def _leave_out(self) -> None:
        """Keep the longest; there will be no use for one that is shorter than all of them."""
        self._slices.sort(key=itemgetter(1), reverse=True)
        if len(self._slices) > SHOWN_SLICES:
            self._left_out += len(self._slices) - SHOWN_SLICES
            del self._slices[SHOWN_SLICES:]
            self._least_ns = self._slices[-1][1]

    def page(self) -> PageTimeline | None:
        """What the page has of them; None where there were none."""
        if not self._slices:
            return None
        self._leave_out()
        self._slices.sort()
        since_ns, lengths_ns, threads, whats, cpus = map(list, zip(*self._slices, strict=True))
        return PageTimeline(
            threads=list(self._threads),  # type: ignore[arg-type]
            whats=list(self._whats),  # type: ignore[arg-type]
            slices=Slices(threads, whats, cpus, since_ns, lengths_ns, self._left_out),
        )
