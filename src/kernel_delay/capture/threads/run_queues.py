"""Who had the CPUs that threads wait for at a window's boundary, from the slices of these CPUs.

The programs charge a wait when it ends; what is still going on then, user
space does, in the same way: bpf/owner.h, charge_wait().
"""

import mmap
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

from kernel_delay.loader._records import ffi, lib

if TYPE_CHECKING:
    from kernel_delay.cdata import Array
    from kernel_delay.loader._records import Slice as SliceRecord
    from kernel_delay.loader._records import TaskInfo


class Taker(NamedTuple):
    """A task that had a CPU, as struct task_info has it; `task` 0 is idle."""

    task: int
    tid: int
    process: int
    policy: int
    rt_priority: int
    nice: int
    kernel_thread: bool
    comm: str


class Slice(NamedTuple):
    """Until when a task had a CPU; unless `known`, others too since the slice before.

    `group` is by which it is throttled, 0 if it is by itself. `throttled`: the group had used
    up its quota then.
    """

    end_ns: int
    taker: Taker
    known: bool
    group: int = 0
    throttled: bool = False


class Running(NamedTuple):
    """The task that has a CPU now: whose the slice of that number will be."""

    number: int
    taker: Taker
    group: int = 0


class CpuWait(Struct, frozen=True, gc=False):
    """A thread's wait for a CPU, which is charged for up to `since_ns`.

    `cpu` is None where it is not known. `first_slice` is the number of the
    first slice that ended since. `ready_since_ns`, when all of the wait began,
    distinguishes it from the thread's others. `group` is by which it is throttled, 0 if
    that is not known, or it is by itself.
    """

    cpu: int | None
    first_slice: int
    since_ns: int
    ready_since_ns: int
    running: Running | None = None
    group: int = 0


class Slices(Protocol):
    """Several, by their place."""

    def __len__(self) -> int:
        """Return how many there are."""

    def __getitem__(self, place: int, /) -> Slice:
        """Return one."""


class CpuSlices(NamedTuple):
    """Slices of one CPU, one after the other; `oldest` is the first one's number."""

    oldest: int
    slices: Slices


class Waited(NamedTuple):
    """What a wait for a CPU was: how long each task had the CPU, and how long it was throttled.

    None stands for what is not known: slices that are gone, and those in which
    the program was not run on a switch.
    """

    taken_ns: Mapping[Taker | None, int]
    throttled_ns: int = 0


def waited(wait: CpuWait, cpu: CpuSlices, start_ns: int, stop_ns: int) -> Waited:
    """Return what the wait was in the window [start_ns, stop_ns).

    A group is throttled from the end of a slice of its own on, until it has one again.
    """
    found: defaultdict[Taker | None, int] = defaultdict(int)
    charged_ns = max(wait.since_ns, start_ns)
    known = wait.first_slice >= cpu.oldest
    throttled, throttled_ns = False, 0
    for place in range(max(0, wait.first_slice - cpu.oldest), len(cpu.slices)):
        if charged_ns >= stop_ns:
            break
        slice_ = cpu.slices[place]
        is_own = wait.group and slice_.group == wait.group
        end_ns = min(slice_.end_ns, stop_ns)
        if end_ns > charged_ns:
            if throttled and not is_own:
                throttled_ns += end_ns - charged_ns
            else:
                found[slice_.taker if known and slice_.known else None] += end_ns - charged_ns
            charged_ns = end_ns
        if is_own:
            throttled = slice_.throttled
        known = True
    if charged_ns < stop_ns:
        last = None
        if wait.running and wait.running.number == cpu.oldest + len(cpu.slices):
            last = wait.running
        if throttled and (last is None or last.group != wait.group):
            throttled_ns += stop_ns - charged_ns
        else:
            found[last.taker if known and last else None] += stop_ns - charged_ns
    return Waited(found, throttled_ns)


def taker(struct: "TaskInfo") -> Taker:
    """Return a struct task_info."""
    comm = ffi.string(struct.comm).decode(errors="backslashreplace")
    return Taker(
        struct.task,
        struct.tid,
        struct.process,
        struct.policy,
        struct.rt_priority,
        struct.nice,
        bool(struct.kernel_thread),
        comm if struct.task else "idle",
    )


class _Copied:
    """Slices of those numbers in an array of struct slice, made when they are looked at."""

    def __init__(self, data: "Array[SliceRecord]", numbers: range) -> None:
        self._data = data
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: int) -> Slice:
        struct = self._data[self._numbers[place] % len(self._data)]
        return Slice(
            struct.end_ns,
            taker(struct.prev),
            bool(struct.known),
            struct.group,
            bool(struct.throttled),
        )


class RunQueues:
    """The slices of all CPUs, where the programs write them."""

    def __init__(self, run_queues: mmap.mmap, slices: mmap.mmap, kept: int) -> None:
        """Read the memory of both maps; `kept` slices are kept of each CPU."""
        self._run_queues = ffi.from_buffer("struct run_queue[]", run_queues)
        self._slices = ffi.from_buffer("struct slice[]", slices)
        self._kept = kept

    def copy(self, waits: Iterable[CpuWait]) -> dict[int, CpuSlices]:
        """Return what slices there are of the CPUs of these waits."""
        cpus = {wait.cpu for wait in waits}
        return {cpu: self._copy(cpu) for cpu in cpus if cpu is not None}

    def _copy(self, cpu: int) -> CpuSlices:
        newest = self._newest(cpu)
        begin = cpu * self._kept
        data = ffi.new("struct slice[]", self._kept)
        data[0 : self._kept] = self._slices[begin : begin + self._kept]
        # The one after the newest may be about to be written over the oldest.
        oldest = max(1, self._newest(cpu) + 2 - self._kept)
        return CpuSlices(oldest, _Copied(data, range(oldest, newest + 1)))

    def _newest(self, cpu: int) -> int:
        return lib.load_counter(ffi.addressof(self._run_queues[cpu], "slices"))
