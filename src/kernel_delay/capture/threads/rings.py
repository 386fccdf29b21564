"""The rings of records: read where they are, and given back.

The other side is take_record() in bpf/thread_record.h.
"""

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, Protocol, TypeVar

from kernel_delay.loader._records import ffi, lib

if TYPE_CHECKING:
    from mmap import mmap

    from kernel_delay.cdata import Array
    from kernel_delay.loader._records import (
        Control,
        HardIrqRecord,
        OwnerRecord,
        RingPosition,
        SleepRecord,
        SyscallRecord,
        ThreadRecord,
    )


class Numbered(Protocol):
    """A record of any ring. Its number says where in the ring it is, 0 until it is made."""

    number: int


Record = TypeVar("Record", bound=Numbered)


class RingMemory(NamedTuple):
    """The memory of each ring, in the order of THREAD_RING and so on."""

    threads: "Array[ThreadRecord]"
    syscalls: "Array[SyscallRecord]"
    hard_irqs: "Array[HardIrqRecord]"
    owners: "Array[OwnerRecord]"
    sleeps: "Array[SleepRecord]"

    @classmethod
    def of(cls, memory: "Callable[[str], mmap]") -> "RingMemory":
        """Return what `memory` has, by the name of a ring's struct."""
        return cls(
            ffi.from_buffer("struct thread_record[]", memory("thread_record")),
            ffi.from_buffer("struct syscall_record[]", memory("syscall_record")),
            ffi.from_buffer("struct hard_irq_record[]", memory("hard_irq_record")),
            ffi.from_buffer("struct owner_record[]", memory("owner_record")),
            ffi.from_buffer("struct sleep_record[]", memory("sleep_record")),
        )


def places_in(records: Sized) -> int:
    """Return how many records a ring in that memory has room for, a power of two."""
    return 1 << (len(records).bit_length() - 1)


class SummedUp(Protocol):
    """The records that need not be read any more: EndedThreads."""

    def __bool__(self) -> bool:
        """Return whether there are any."""

    def has(self, ring: int, number: int) -> bool:
        """Return whether the record of that number in that ring is one."""

    def reused(self, ring: int, places: int) -> Iterable[int]:
        """Return the numbers of records that were made in the places of others."""


class Ring(Generic[Record]):
    """One ring of records; `index` is its place among them all."""

    def __init__(
        self, index: int, records: "Array[Record]", position: "RingPosition", ended: SummedUp
    ) -> None:
        """Read `records`, which are the ring's memory.

        `position` is the ring's struct ring_position, whose head the programs
        move on, and whose tail release() does. Records in `ended` are left out.
        """
        self.index = index
        self._records = records
        self._size = places_in(records)
        self._position = position
        self._ended = ended
        self._reused: set[int] = set()
        self._full = 0
        self.next_number = 1

    def head(self) -> int:
        """Return the number of the newest record, which may still be being made."""
        return self._load("head")

    def read_to(self, head: int) -> Iterator[Record]:
        """Yield the records after the last one read, up to number `head`.

        All programs that were running when `head` was taken must have ended:
        then a number without a record is one that found no room. The records
        stay in the ring's memory until they are released.
        """
        numbers = range(self.next_number, min(head, self._position.tail + self._size) + 1)
        self.next_number = max(self.next_number, head + 1)
        records, size = self._records, self._size
        any_ended = bool(self._ended)
        for number in numbers:
            record = records[number % size]
            if record.number == number and not (any_ended and self._ended.has(self.index, number)):
                yield record
        if any_ended:
            yield from self._read_reused()

    def _read_reused(self) -> Iterator[Record]:
        """Yield the records in freed places; there are no new ones once the window is over."""
        for number in self._ended.reused(self.index, self._size):
            if number not in self._reused:
                self._reused.add(number)
                yield self._records[number % self._size]

    def read_again(self) -> None:
        """Forget what was read and is not released: read_to() yields it again."""
        self.next_number = self._position.tail + 1

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

    def _load(self, counter: Literal["head", "full"]) -> int:
        return lib.load_counter(ffi.addressof(self._position, counter))


class Rings(NamedTuple):
    """All rings, in the order of THREAD_RING and so on."""

    threads: "Ring[ThreadRecord]"
    syscalls: "Ring[SyscallRecord]"
    hard_irqs: "Ring[HardIrqRecord]"
    owners: "Ring[OwnerRecord]"
    sleeps: "Ring[SleepRecord]"

    @classmethod
    def of(cls, memory: RingMemory, control: "Control", ended: SummedUp) -> "Rings":
        """Return those in `memory`, whose positions are in `control`."""
        position = control.rings
        return cls(
            Ring(lib.THREAD_RING, memory.threads, position[lib.THREAD_RING], ended),
            Ring(lib.SYSCALL_RING, memory.syscalls, position[lib.SYSCALL_RING], ended),
            Ring(lib.HARD_IRQ_RING, memory.hard_irqs, position[lib.HARD_IRQ_RING], ended),
            Ring(lib.OWNER_RING, memory.owners, position[lib.OWNER_RING], ended),
            Ring(lib.SLEEP_RING, memory.sleeps, position[lib.SLEEP_RING], ended),
        )
