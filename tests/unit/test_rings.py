"""A ring of records in this process's memory, which the test writes as the programs do."""

from typing import TYPE_CHECKING

import pytest

from kernel_delay.capture.threads.rings import Ring
from kernel_delay.loader._records import ffi, lib

if TYPE_CHECKING:
    from kernel_delay.cdata import Array
    from kernel_delay.loader._records import HardIrqRecord

SIZE = 64


class NothingSummedUp:
    """No thread that ended was summed up."""

    def __bool__(self) -> bool:
        return False

    def has(self, ring: int, number: int) -> bool:
        raise AssertionError("nothing is")

    def reused(self, ring: int, places: int) -> list[int]:
        raise AssertionError("nothing is")


class Programs:
    """The other side of a ring: take_record() in bpf/window.h."""

    def __init__(self) -> None:
        """Have an empty ring."""
        self.position = ffi.new("struct ring_position *")
        self.records: Array[HardIrqRecord] = ffi.new("struct hard_irq_record[]", SIZE)

    def record(self, finished: bool = True) -> None:
        """Make a record; one that is not finished has no number."""
        if self.position.head - self.position.tail >= SIZE:
            self.position.full += 1
            return
        self.position.head += 1
        number = self.position.head
        self.records[number % SIZE].number = number if finished else 0


@pytest.fixture
def programs() -> Programs:
    return Programs()


@pytest.fixture
def ring(programs: Programs) -> "Ring[HardIrqRecord]":
    return Ring(lib.HARD_IRQ_RING, programs.records, programs.position, NothingSummedUp())


def numbers(ring: "Ring[HardIrqRecord]") -> list[int]:
    return [record.number for record in ring.read_to(ring.head())]


def test_each_record_is_read_once(programs: Programs, ring: "Ring[HardIrqRecord]") -> None:
    assert numbers(ring) == []
    programs.record()
    programs.record()
    assert numbers(ring) == [1, 2]
    programs.record()
    assert numbers(ring) == [3]
    assert numbers(ring) == []


def test_a_record_that_was_not_finished_is_left_out(
    programs: Programs, ring: "Ring[HardIrqRecord]"
) -> None:
    for finished in (True, False, True):
        programs.record(finished)
    assert numbers(ring) == [1, 3]


def test_what_is_released_is_room_for_others(
    programs: Programs, ring: "Ring[HardIrqRecord]"
) -> None:
    found = []
    for _ in range(5 * SIZE // 8):
        for _ in range(8):
            programs.record()
        found += numbers(ring)
        ring.release(ring.next_number)
    assert found == list(range(1, 5 * SIZE + 1))
    assert ring.newly_full() == 0


def test_records_without_room_are_counted_once(
    programs: Programs, ring: "Ring[HardIrqRecord]"
) -> None:
    for _ in range(SIZE + 3):
        programs.record()
    assert (ring.newly_full(), ring.newly_full()) == (3, 0)
    assert numbers(ring) == list(range(1, SIZE + 1))
    ring.release(ring.next_number)
    programs.record()
    assert numbers(ring) == [SIZE + 1]
    assert ring.newly_full() == 0
