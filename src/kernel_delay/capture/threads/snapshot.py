"""What is known at one time of the threads of a window that is over."""

from collections.abc import Mapping

from msgspec import Struct

from kernel_delay.capture.threads.counting import DumpedThread, StateChanges
from kernel_delay.capture.threads.epochs import ThreadRecords
from kernel_delay.capture.threads.run_queues import CpuSlices


class ThreadSnapshot(Struct, frozen=True):
    """The records of the epoch's window [start_ns, stop_ns), and what its threads do since.

    `own` are copies of that epoch's records, and `newer` those of the first epoch after it that
    a thread has any of, as they are. `before` is what the threads did before these were read
    and copied, and `after` what they did then.
    `slices` are those of the CPUs that any of them waits for.
    """

    epoch: int
    start_ns: int
    stop_ns: int
    own: Mapping[int, ThreadRecords]
    newer: Mapping[int, ThreadRecords]
    slices: Mapping[int, CpuSlices]
    before: Mapping[int, DumpedThread]
    after: Mapping[int, StateChanges]
