"""The rings of records: read where they are, and given back.

The other side is take_record() in bpf/record_ring.h.
"""

import mmap
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from kernel_delay.loader._records import ffi, lib

# In the order of THREAD_RING and so on: what each has records of.
RINGS = ("thread_record", "syscall_record", "hard_irq_record", "holder_record")


def places_in(kind: str, memory: mmap.mmap) -> int:
    """Return how many records a ring of `struct kind` has room for, a power of two."""
    fitting: int = len(memory) // ffi.sizeof(f"struct {kind}")
    return 1 << (fitting.bit_length() - 1)


class SummedUp(Protocol):
    """The records that need not be read any more: EndedThreads."""

    def __bool__(self) -> bool:
        """Return whether there are any."""

    def has(self, ring: int, number: int) -> bool:
        """Return whether the record of that number in RINGS[ring] is one."""

    def reused(self, ring: int, places: int) -> Iterable[int]:
        """Return the numbers of records that were made in the places of others."""


class Ring:
    """One ring of records."""

    def __init__(self, index: int, memory: mmap.mmap, position: Any, ended: SummedUp) -> None:
        """Read `memory` as records of the struct that RINGS has at `index`.

        `position` is the ring's struct ring_position, whose head the programs
        move on, and whose tail release() does. Records in `ended` are left out.
        """
        self._records = ffi.from_buffer(f"struct {RINGS[index]}[]", memory)
        self._size = places_in(RINGS[index], memory)
        self._index = index
        self._position = position
        self._ended = ended
        self._reused: set[int] = set()
        self._full = 0
        self.next_number = 1

    def head(self) -> int:
        """Return the number of the newest record, which may still be being made."""
        return self._load("head")

    def read_to(self, head: int) -> Iterator[Any]:
        """Yield the records after the last one read, up to number `head`.

        All programs that were running when `head` was taken must have ended:
        then a number without a record is one that found no room. The records
        stay in the ring's memory until they are released.
        """
        numbers = range(self.next_number, min(head, self._position.tail + self._size) + 1)
        self.next_number = max(self.next_number, head + 1)
        for number in numbers:
            record = self._records[number % self._size]
            if record.number == number and not self._is_summed_up(number):
                yield record
        if self._ended:
            yield from self._read_reused()

    def _is_summed_up(self, number: int) -> bool:
        return bool(self._ended) and self._ended.has(self._index, number)

    def _read_reused(self) -> Iterator[Any]:
        """Yield the records in freed places; there are no new ones once the window is over."""
        for number in self._ended.reused(self._index, self._size):
            if number not in self._reused:
                self._reused.add(number)
                yield self._records[number % self._size]

    def read_again(self) -> None:
        """Forget what was read and is not released: read_to() yields it again."""
        self.next_number = self._position.tail + 1

    def copy(self) -> "RingCopy":
        """Copy the records that are read and not released."""
        first = self._position.tail + 1
        count = self.next_number - first
        data = ffi.new(ffi.typeof(self._records), count)
        begin = first % self._size
        before_end = min(count, self._size - begin)
        data[0:before_end] = self._records[begin : begin + before_end]
        data[before_end:count] = self._records[0 : count - before_end]
        return RingCopy(data, first, self._size)

    def release(self, until: int) -> None:
        """Give what is before record number `until` back to the programs."""
        lib.store_counter(ffi.addressof(self._position, "tail"), until - 1)
        self._reused.clear()

    def pass_over(self, head: int) -> None:
        """Give back all up to record number `head`, unread."""
        self.next_number = head + 1
        self.release(self.next_number)

    def newly_full(self) -> int:
        """Return how many records had no room since the last call."""
        full = self._load("full")
        new, self._full = full - self._full, full
        return new

    def _load(self, counter: str) -> int:
        return int(lib.load_counter(ffi.addressof(self._position, counter)))


class RingCopy:
    """Records as they were when they were copied; they are gone when this is."""

    def __init__(self, data: Any, first: int, size: int) -> None:
        """Give those in `data`, the first of which has that number, of a ring of that size."""
        self._data = data
        self._first = first
        self._size = size

    def record(self, number: int) -> Any:
        """Return the record of that number."""
        # In a place that was freed it is not of the order.
        return self._data[(number - self._first) % self._size]
