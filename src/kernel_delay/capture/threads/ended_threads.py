"""Threads that end within a window, summed up by name where there is no room to keep each.

Their records' places are then free for those of other threads. ended_threads.c
does it, as there may be tens of thousands a second.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from kernel_delay.capture.threads import RecordSource
from kernel_delay.capture.threads.epochs import ThreadRecords
from kernel_delay.capture.threads.rings import RingMemory, places_in
from kernel_delay.capture.threads.thread_stats import text_of
from kernel_delay.capture.windows import wait_for_programs
from kernel_delay.loader._records import ffi, lib

if TYPE_CHECKING:
    from kernel_delay.loader._records import EndedName


class EndedOfName(Struct, frozen=True):
    """The threads of one name that ended: how many, and what all their records add up to.

    What is charged in it is of `threads` windows, one after the other.
    """

    threads: int
    parts: ThreadRecords


class EndedThreads:
    """The ended threads of one epoch after the other."""

    def __init__(self, source: RecordSource, memory: RingMemory) -> None:
        """Sum up those in the programs' rings; MemoryError where there is no room for that."""
        # The C side reads both as long as it lives.
        self._memory = memory
        self._freed = ffi.from_buffer("uint64_t[]", source.freed_slots)
        places = [places_in(records) for records in memory]
        handle = lib.ended_threads_open(
            source.control,
            *memory,
            ffi.new("uint32_t[]", places),
            self._freed,
            max(places),
        )
        if handle == ffi.NULL:
            raise MemoryError
        self._handle = ffi.gc(handle, lib.ended_threads_close)
        lib.ended_threads_set_notices(self._handle)

    def __bool__(self) -> bool:
        """Return whether any were summed up."""
        return bool(lib.ended_threads_names(self._handle))

    def are_wanted(self) -> bool:
        """Return whether places are so short that there was a notice."""
        return bool(lib.ended_threads_noticed(self._handle))

    def sum_up(self, epoch: int, start_ns: int, stop_ns: int) -> None:
        """Sum up what ended in the window [start_ns, stop_ns) by now, for its room.

        The epochs before must be released.
        """
        self._sum_up(epoch, start_ns, stop_ns, reuse=True)
        lib.ended_threads_set_notices(self._handle)

    def finish(self, epoch: int, start_ns: int, stop_ns: int) -> None:
        """Sum up the rest of a window that is over: from now on no place is used again."""
        lib.ended_threads_stop(self._handle)
        wait_for_programs()
        self._sum_up(epoch, start_ns, stop_ns, reuse=False)

    def _sum_up(self, epoch: int, start_ns: int, stop_ns: int, *, reuse: bool) -> None:
        if lib.ended_threads_sum_up(self._handle, epoch, start_ns, stop_ns, reuse) < 0:
            raise MemoryError

    def forget(self) -> None:
        """Forget them all, now that the epoch's records are released."""
        lib.ended_threads_forget(self._handle)
        lib.ended_threads_set_notices(self._handle)

    def name_of(self, own_tid: int) -> str | None:
        """Return the name of the thread that was summed up, None if none was.

        `own_tid` is its id in its own PID namespace.
        """
        index = lib.ended_threads_name_of(self._handle, own_tid)
        return (
            None if index < 0 else text_of(lib.ended_threads_name(self._handle, index).thread.comm)
        )

    def has(self, ring: int, number: int) -> bool:
        """Return whether the record of that number was summed up."""
        return bool(lib.ended_threads_has(self._handle, ring, number))

    def reused(self, ring: int, places: int) -> list[int]:
        """Return the numbers of the records that are where one was summed up."""
        numbers = ffi.new("uint64_t[]", places)
        count = lib.ended_threads_reused(self._handle, ring, numbers, places)
        return ffi.unpack(numbers, count) if count else []

    def by_name(self, window_ns: int) -> Iterator[EndedOfName]:
        """Yield those of each name, in windows of that length, until forget()."""
        for index in range(lib.ended_threads_names(self._handle)):
            name = lib.ended_threads_name(self._handle, index)
            if name.threads:
                yield _of_name(name, window_ns)


def _of_name(name: "EndedName", window_ns: int) -> EndedOfName:
    # In a copy: what comes after the end of each is not yet in there.
    thread = ffi.new("struct thread_record *", name.thread)
    thread.account.not_alive_ns += name.threads * window_ns - name.after_start_ns
    parts = ThreadRecords(
        [thread],
        [name.syscalls[index] for index in range(name.syscall_count)],
        [name.hard_irqs[index] for index in range(name.hard_irq_count)],
        [name.owners[index] for index in range(name.owner_count)],
        [name.sleeps[index] for index in range(name.sleep_count)],
    )
    return EndedOfName(name.threads, parts)
