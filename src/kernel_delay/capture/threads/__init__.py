"""From rings of records to a Thread; and what the records are read from."""

import mmap
from typing import TYPE_CHECKING, Protocol

from kernel_delay.model import Lost

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
