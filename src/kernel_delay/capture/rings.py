"""The rings of records: read where they are, and given back.

The other side is take_record() in bpf/window.h.
"""

import mmap
from typing import Any

from kernel_delay.capture._records import ffi, lib


class Ring:
    """One ring of records, from the oldest that was not released on."""

    def __init__(self, kind: str, memory: mmap.mmap, position: Any) -> None:
        """Read `memory` as records of `struct kind`.

        `position` is the ring's struct ring_position, whose head the programs
        move on, and whose tail release() does.
        """
        self._records = ffi.from_buffer(f"struct {kind}[]", memory)
        self._size = len(memory) // ffi.sizeof(f"struct {kind}")
        self._size = 1 << (self._size.bit_length() - 1)
        self._position = position
        self._head = 0
        self._full = 0

    def read(self) -> list[Any]:
        """Return the records made until now that are not released.

        They stay in the ring's memory: copy what is needed before release().
        """
        tail = int(self._position.tail)
        self._head = min(self._load("head"), tail + self._size)
        records = (self._records[number % self._size] for number in range(tail + 1, self._head + 1))
        return [
            record for number, record in enumerate(records, tail + 1) if record.number == number
        ]

    @property
    def next_number(self) -> int:
        """Number of the first record that the last read() did not see."""
        return self._head + 1

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
