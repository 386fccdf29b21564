"""The timelines of long rounds, from the memory in which the programs keep each thread's.

The other side is bpf/timeline.h.
"""

from collections.abc import Collection, Container, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kernel_delay.capture.programs import Programs
from kernel_delay.capture.rounds.records import FreeList
from kernel_delay.capture.threads import sleep_reasons_in
from kernel_delay.capture.threads.epochs import ThreadRecords
from kernel_delay.capture.threads.thread_stats import hard_irq_names
from kernel_delay.capture.timeline._timeline import ffi, lib
from kernel_delay.capture.timeline.slices import Slices, ThreadNames, memory_of
from kernel_delay.loader._records import ffi as records_ffi
from kernel_delay.loader._records import lib as records
from kernel_delay.model import Slice

if TYPE_CHECKING:
    from kernel_delay.loader._records import RoundNotice

SLICE_WORDS = records_ffi.sizeof("struct timeline_slice") // 8


class TimelineOfRound(Struct, frozen=True):
    """A round's slices, and how many between its first and its last are not kept."""

    slices: Sequence[Slice]
    left_out: int


NO_ROOM = TimelineOfRound((), 0)


class RoundTimelines:
    """The timelines of all threads, of which those of long rounds are read and given back."""

    def __init__(self, programs: Programs) -> None:
        """Read those of programs that were loaded with timelines of rounds."""
        rounds, slices, self._room = programs.round_timeline_memory()
        self._rounds = records_ffi.from_buffer("struct round_timeline[]", rounds)
        # The C side reads this.
        self._slices = ffi.from_buffer("uint64_t[]", slices)
        self._freed = FreeList(programs, records.TIMELINE_RING)
        self._count = programs.round_timelines()
        self._sleep_stacks = programs.sleep_stacks

    def of_round(self, notice: "RoundNotice", parts: ThreadRecords) -> TimelineOfRound:
        """Return what is kept of the round of that notice, whose records are `parts`."""
        if not notice.timeline:
            return NO_ROOM
        slot = notice.timeline % self._count
        own = self._rounds[slot]
        if own.number != notice.timeline:
            # The slot is another thread's by now: its slices are not of this round.
            return NO_ROOM
        kept = ffi.new("struct kept_round *")
        kept.slices = ffi.addressof(self._slices, slot * self._room * SLICE_WORDS)
        kept.room = self._room
        kept.reported, kept.modes_before = own.reported, own.modes_before
        last = ffi.new("struct last_slices *")
        last.thread = notice.identity
        # It calls the next poll, or comes by the stop trigger.
        last.state, last.mode = records.STATE_RUNNING, records.MODE_USER
        last.mode_kind = records.SLICE_PROGRAM
        last.state_since_ns = notice.running_since_ns
        taken = ffi.new("struct taken_timeline *")
        if lib.round_timeline_show(kept, notice.start_ns, notice.stop_ns, last, taken):
            raise MemoryError
        names = ThreadNames(notice.tid, False, hard_irq_names(parts.hard_irqs))
        reasons = sleep_reasons_in(self._sleep_stacks())
        slices = Slices(memory_of(taken.slices, taken.count), [names], reasons)
        return TimelineOfRound(slices, max(0, own.reported - self._room))

    def free(self, numbers: Collection[int]) -> None:
        """Let the programs have these for other threads."""
        for number in numbers:
            slot = number % self._count
            # Of a thread that was found to have ended the notice may come later.
            if number and self._rounds[slot].number == number:
                self._rounds[slot].number = 0
                self._freed.add(slot)

    def left_by(self, living: Container[int], newest: int) -> list[int]:
        """Return those of threads that have ended, as RoundRecords.left_by()."""
        used = range(min(self._freed.head() + 1, self._count))
        taken = (self._rounds[slot] for slot in used if self._rounds[slot].number)
        return [own.number for own in taken if own.thread <= newest and own.thread not in living]
