"""From rings of records to a Thread; what these are read from, and the stacks that are kept."""

import mmap
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from kernel_delay.analysis.sleep_reasons import sleep_reason
from kernel_delay.model import Lost, SleepReason

if TYPE_CHECKING:
    from kernel_delay.loader._records import ControlPointer


class RecordSource(Protocol):
    """Programs that record: capture.programs.Programs, which says what each of these is."""

    accounting: bool
    sees_faults: bool
    control: "ControlPointer"
    freed_slots: mmap.mmap
    run_queues: mmap.mmap
    slices: mmap.mmap

    @property
    def slices_per_cpu(self) -> int:
        """How many slices are kept of each CPU."""

    def ring_memory(self, kind: str) -> mmap.mmap:
        """Return the memory of the ring of `struct kind`."""

    def thread_states(self) -> bytes:
        """Return a struct dumped_thread of each thread of the process that is there."""

    def sleep_stacks(self) -> bytes:
        """Return the functions of each stack that a thread slept with."""

    def newest_epoch(self) -> int:
        """Return the number of the newest window."""

    def missed(self) -> Lost:
        """Return how many events were missed since the programs were attached, at most, by kind."""

    def clamped_lengths(self) -> int:
        """Return how many intervals ended before they began, since the programs were attached."""

    def missed_hits(self) -> int:
        """Return how many hits of the start trigger opened no window."""


MOST_ASKED = 3
"""How often a stack's names are asked for: as it was made it may not have been written yet."""


class WakerStack(Struct, frozen=True):
    """Functions of the kernel's stack and of the program's, the innermost first."""

    kernel: tuple[str, ...] = ()
    user: tuple[str, ...] = ()


class SleepStacks:
    """The stacks of sleeping threads that the programs keep, by the kernel's functions.

    `name_waker` names the stack at a place of waker_stacks.
    """

    def __init__(
        self,
        read: Callable[[], bytes],
        name_waker: Callable[[int], WakerStack] = lambda place: WakerStack(),
    ) -> None:
        """Get them from `read`, which is Programs.sleep_stacks()."""
        self._read = read
        self._name_waker = name_waker
        self._names: dict[int, tuple[str, ...]] = {}
        self._asked: Counter[int] = Counter()

    def names(self, stack: int) -> tuple[str, ...]:
        """Return the functions of a struct sleep_record's stack, the innermost first.

        Empty where it is not known.
        """
        if stack and stack not in self._names and self._asked[stack] < MOST_ASKED:
            self._asked[stack] += 1
            self._names.update(stacks_in(self._read().decode(errors="backslashreplace")))
        return self._names.get(stack, ())

    def waker(self, place: int) -> WakerStack:
        """Return from where a struct sleep_record's waker woke; empty where it is not known."""
        return self._name_waker(place) if place else WakerStack()


def sleep_reasons_in(written: bytes) -> dict[int, SleepReason]:
    """Return what was slept for in each place, of what name_sleep_stacks() in the kernel wrote."""
    text = written.decode(errors="backslashreplace")
    return {place: sleep_reason(names) for place, names in stacks_in(text)}


def stacks_in(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield each stack that name_sleep_stacks() in the kernel wrote, and its place."""
    for line in text.splitlines():
        place, *names = line.split("\t")
        # "name [module]"
        yield int(place), tuple(name.partition(" ")[0] for name in names)
