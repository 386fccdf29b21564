"""A timeline's slices on the tracks of a Perfetto trace.

On a thread's own track are its calls and faults, and in each why it waited; below it are its
states, one behind the other, and the interrupts that came while it ran.
"""

from array import array
from collections.abc import Iterable, Iterator

from msgspec import Struct

from kernel_delay.analysis.timeline import INTERRUPTS, MODES
from kernel_delay.model import Slice, SliceKind, Window
from kernel_delay.reporters.trace_packets import Annotations, begin, end, value

RUNNABLE: tuple[SliceKind, ...] = ("ready_woken", "ready_preempted")

_WORDS: dict[SliceKind, str] = {
    "call": "a call whose entry was not seen",
    "fault": "page fault",
    "unknown_mode": "unknown: an event was missed",
    "lost_modes": "lost: no room",
    "lost_states": "lost: no room",
    "unknown": "unknown: an event was missed",
    "ready_woken": "runnable: woken",
    "ready_preempted": "runnable: preempted",
    "hard_irq": "hard IRQ",
    "soft_irq": "soft IRQ",
    "guest": "virtual machine",
}


class ThreadTracks(Struct, frozen=True):
    """Where a thread's slices go."""

    own: int
    states: int
    interrupts: int


def thread_slices(slices: Iterable[Slice], tracks: ThreadTracks) -> Iterator[bytes]:
    """The slices of one thread, in their order: those that hold others before these."""
    own, interrupts = _Nesting(tracks.own), _Nesting(tracks.interrupts)
    for each in slices:
        if each.kind in INTERRUPTS:
            yield from interrupts.begin(each)
            continue
        if each.kind not in MODES:
            yield begin(tracks.states, each.start_ns, _state_name(each), _annotations(each))
            yield end(tracks.states, each.stop_ns)
        if each.kind != "running" and each.kind != "absent":
            yield from own.begin(each)
    yield from own.finish()
    yield from interrupts.finish()


def runnable(slices: Iterable[Slice], window: Window, track: int) -> Iterator[bytes]:
    """How many threads could run and had no CPU, whenever that changes."""
    # Twice the time, and 1 where one more waits: a change of a thread's wait is no change.
    changes = array("q")
    for each in slices:
        if each.kind in RUNNABLE:
            changes.append(2 * each.start_ns + 1)
            changes.append(2 * each.stop_ns)
    yield value(track, window.start_ns, 0)
    waiting = 0
    for change in sorted(changes):
        waiting += 1 if change % 2 else -1
        yield value(track, change // 2, waiting)


class _Nesting:
    """Slices of one track, each of which ends before the one that it is in."""

    def __init__(self, track: int) -> None:
        self._track = track
        self._ends: list[int] = []

    def begin(self, each: Slice) -> Iterator[bytes]:
        yield from self._end_until(each.start_ns)
        # What goes on behind the one that it is in can't be: clocks of CPUs are some ns apart.
        self._ends.append(min([each.stop_ns, *self._ends[-1:]]))
        yield begin(self._track, each.start_ns, slice_name(each), _annotations(each))

    def finish(self) -> Iterator[bytes]:
        while self._ends:
            yield end(self._track, self._ends.pop())

    def _end_until(self, time_ns: int) -> Iterator[bytes]:
        while self._ends and self._ends[-1] <= time_ns:
            yield end(self._track, self._ends.pop())


def slice_name(each: Slice) -> str:
    """What a slice is called: what it is, and of a block what for."""
    word = _WORDS.get(each.kind, each.kind)
    if each.name is None:
        return word
    return each.name if each.kind == "call" else f"{word}: {each.name.replace('_', ' ')}"


def _state_name(each: Slice) -> str:
    if each.cpu is None:
        return slice_name(each)
    if each.kind == "running":
        return f"running on CPU {each.cpu}"
    return f"{slice_name(each)}, for CPU {each.cpu}"


def _annotations(each: Slice) -> Annotations:
    return {} if each.cpu is None else {"cpu": each.cpu}
