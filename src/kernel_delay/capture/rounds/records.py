"""The records of long rounds: found in the rings' memory, copied, and their slots given back.

The other side is bpf/round.h: the programs leave the records of a long round, and
of a thread that ended, alone from then on.
"""

from collections.abc import Collection, Container
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kernel_delay.capture.programs import Programs
from kernel_delay.capture.threads.epochs import ThreadRecords
from kernel_delay.capture.threads.rings import RingMemory, places_in
from kernel_delay.loader._records import ffi, lib

if TYPE_CHECKING:
    from kernel_delay.cdata import Array
    from kernel_delay.loader._records import ThreadRecord


class _Part(Protocol):
    """A record of what a thread's record is of, whose number it has."""

    thread: int


Part = TypeVar("Part", bound=_Part)


class FreeList:
    """The slots of one ring that the programs can have for other records."""

    def __init__(self, programs: Programs, ring: int) -> None:
        """Have those of the ring of that index."""
        start, self.size = programs.freed_slots_of(ring)
        freed = ffi.from_buffer("uint64_t[]", programs.freed_slots)
        self.slots = freed[start : start + self.size]
        self.position = ffi.addressof(programs.control.rings, ring)

    def head(self) -> int:
        """Return how many slots were ever taken, but for those that were taken again."""
        return lib.load_counter(ffi.addressof(self.position, "head"))

    def full(self) -> int:
        """Return how many records had no room."""
        return lib.load_counter(ffi.addressof(self.position, "full"))

    def add(self, slot: int) -> None:
        """Let the programs have that slot."""
        lib.free_slot(self.position, self.slots, self.size, slot)


class _Parts(Generic[Part]):
    """The records of one ring, each of which is of a thread's."""

    def __init__(self, records: "Array[Part]", freed: FreeList) -> None:
        self._records = records
        self.freed = freed
        self._slots = places_in(records)
        self._bytes = ffi.sizeof(records) // len(records)
        self._found = ffi.new("uint32_t[]", self._slots)

    def of_round(self, number: int) -> list[Part]:
        """Return those of the thread_record of that number."""
        owner = number % lib.ROUND_SLOTS
        count = lib.find_parts(self._records, self._bytes, self._used(), owner, self._found)
        found = (self._records[self._found[index]] for index in range(count))
        return [record for record in found if record.thread == number]

    def free(self, is_owner: "Array[int]") -> None:
        """Give back the slots of all that are of a thread_record that is marked by its slot."""
        freed = self.freed
        lib.free_parts(
            self._records,
            self._bytes,
            self._used(),
            is_owner,
            freed.position,
            freed.slots,
            freed.size,
        )

    def _used(self) -> int:
        return min(self.freed.head() + 1, self._slots)


class RoundRecords:
    """The records in the programs' memory, by the number of the thread_record that they are of."""

    def __init__(self, programs: Programs) -> None:
        """Read the rings of programs that were loaded with rounds."""
        memory = RingMemory.of(programs.ring_memory)
        self._threads = memory.threads
        self._thread_slots = places_in(memory.threads)
        self._freed = FreeList(programs, lib.THREAD_RING)
        self._syscalls = _Parts(memory.syscalls, FreeList(programs, lib.SYSCALL_RING))
        self._hard_irqs = _Parts(memory.hard_irqs, FreeList(programs, lib.HARD_IRQ_RING))
        self._owners = _Parts(memory.owners, FreeList(programs, lib.OWNER_RING))
        self._sleeps = _Parts(memory.sleeps, FreeList(programs, lib.SLEEP_RING))

    def of_round(self, number: int, round_: int) -> ThreadRecords:
        """Return copies of a thread's records of that round; empty if there was no room."""
        record = self._thread(number)
        if record is None or record.epoch != round_:
            return ThreadRecords.none()
        return ThreadRecords(
            [record],
            self._syscalls.of_round(number),
            self._hard_irqs.of_round(number),
            self._owners.of_round(number),
            self._sleeps.of_round(number),
        ).copied()

    def _thread(self, number: int) -> "ThreadRecord | None":
        if not number:
            return None
        record = self._threads[number % lib.ROUND_SLOTS]
        return record if record.number == number else None

    def free(self, numbers: Collection[int]) -> None:
        """Give back the slots of these thread_records and of all records that are of them."""
        # Of a thread that was found to have ended the notice may come later.
        slots = {number % lib.ROUND_SLOTS for number in numbers if self._is_taken(number)}
        if not slots:
            return
        is_owner = ffi.new("uint8_t[]", self._thread_slots)
        for slot in slots:
            is_owner[slot] = 1
        self._syscalls.free(is_owner)
        self._hard_irqs.free(is_owner)
        self._owners.free(is_owner)
        self._sleeps.free(is_owner)
        for slot in slots:
            self._threads[slot].identity = 0
            self._freed.add(slot)

    def _is_taken(self, number: int) -> bool:
        record = self._thread(number)
        return record is not None and record.identity != 0

    def left_by(self, living: Container[int], newest: int) -> list[int]:
        """Return the thread_records, by number, of threads that have ended.

        `living` are the identities of those that are there, `newest` is the highest of them
        all: a thread that has a higher one has come since.
        """
        used = range(min(self._freed.head() + 1, self._thread_slots))
        found = []
        for slot in used:
            record = self._threads[slot]
            if 0 < record.identity <= newest and record.identity not in living:
                found.append(record.number)
        return found

    def dropped(self) -> int:
        """Return how many records had no room; what is summed up of others has none to drop."""
        parts = (self._freed, self._syscalls.freed, self._hard_irqs.freed)
        return sum(freed.full() for freed in parts)
