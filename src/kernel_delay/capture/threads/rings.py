"""The rings of records: read where they are, and given back.

The other side is take_record() in bpf/window.h.
"""

import mmap
from collections.abc import Iterator
from typing import Any

from kernel_delay.loader._records import ffi, lib


class Ring:
    """One ring of records."""

    def __init__(self, kind: str, memory: mmap.mmap, position: Any) -> None:
        """Read `memory` as records of `struct kind`.

        `position` is the ring's struct ring_position, whose head the programs
        move on, and whose tail release() does.
        """
        self._records = ffi.from_buffer(f"struct {kind}[]", memory)
        fitting = len(memory) // ffi.sizeof(f"struct {kind}")
        self._size = 1 << (fitting.bit_length() - 1)
        self._position = position
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
            if record.number == number:
                yield record

    def copy(self) -> "RingCopy":
        """Copy the records that are read and not released."""
        first = self._position.tail + 1
        count = self.next_number - first
        data = ffi.new(ffi.typeof(self._records), count)
        begin = first % self._size
        before_end = min(count, self._size - begin)
        data[0:before_end] = self._records[begin : begin + before_end]
        data[before_end:count] = self._records[0 : count - before_end]
        return RingCopy(data, first)

    def release(self, until: int) -> None:
        """Give what is before record number `until` back to the programs."""
        lib.store_counter(ffi.addressof(self._position, "tail"), until - 1)

    def newly_full(self) -> int:
        """Return how many records had no room since the last call."""
        full = self._load("full")
        new, self._full = full - self._full, full
        return new

    def _load(self, counter: str) -> int:
        return int(lib.load_counter(ffi.addressof(self._position, counter)))


class RingCopy:
    """Records as they were when they were copied; they are gone when this is."""

    def __init__(self, data: Any, first: int) -> None:
        """Give those in `data`, the first of which has that number."""
        self._data = data
        self._first = first

    def record(self, number: int) -> Any:
        """Return the record of that number."""
        return self._data[number - self._first]
