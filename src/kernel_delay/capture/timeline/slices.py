"""A window's slices as they were kept: small, and made model.Slice when looked at."""

import struct
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, overload

from msgspec import Struct

from kernel_delay.capture.threads.counting import MODES, STATES, WORKER_MODES
from kernel_delay.capture.timeline._timeline import ffi, lib
from kernel_delay.host.kernel_names import irq_vector_name, soft_irq_name
from kernel_delay.host.syscalls import syscall
from kernel_delay.loader._records import ffi as records_ffi
from kernel_delay.loader._records import lib as records
from kernel_delay.model import SleepReason, Slice, SliceKind, SliceMode

if TYPE_CHECKING:
    from kernel_delay.capture.timeline._timeline import ShownSlicePointer
    from kernel_delay.cdata import Flat

KINDS: Mapping[int, SliceKind] = {
    **STATES,
    records.STATE_GUEST: "guest",
    records.SLICE_CALL: "call",
    records.SLICE_COMPAT_CALL: "call",
    records.SLICE_UNSEEN_CALL: "call",
    records.SLICE_FAULT: "fault",
    records.SLICE_UNKNOWN_MODE: "unknown_mode",
    records.SLICE_HARD_IRQ: "hard_irq",
    records.SLICE_SOFT_IRQ: "soft_irq",
    records.SLICE_LOST_STATES: "lost_states",
    records.SLICE_LOST_MODES: "lost_modes",
}

Row = tuple[int, int, int, int, int, int, int, int]
"""The fields of a struct shown_slice."""


class ThreadNames(Struct, frozen=True):
    """A thread's id, whether it is a kernel worker, and names of its interrupts' handlers.

    `process` is the id of its process, 0 where nobody asks for that.
    """

    tid: int
    kernel_worker: bool
    interrupts: Mapping[int, str]
    process: int = 0


class Slices(Sequence[Slice]):
    """Slices of 32 bytes each. A million of model.Slice would take five times that."""

    def __init__(
        self,
        slices: "Flat | bytes",
        threads: Sequence[ThreadNames],
        reasons: Mapping[int, SleepReason],
    ) -> None:
        """Take over the memory of struct shown_slice, of these threads by their places.

        `reasons` are those to sleep, by the places of stacks.
        """
        self._slices = slices
        self._threads = threads
        self._reasons = reasons
        self._format = struct.Struct(_struct_format())
        self._count = len(slices) // self._format.size
        self._names: dict[tuple[int, int, int], str | None] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return self._count

    @overload
    def __getitem__(self, index: int) -> Slice: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Slice, ...]: ...

    def __getitem__(self, index: "int | slice[int, int, int]") -> Slice | tuple[Slice, ...]:
        """Return a slice, or several."""
        if not isinstance(index, int):
            return tuple(self[at] for at in range(*index.indices(self._count)))
        at = range(self._count)[index] * self._format.size
        return next(self._made(self._slices[at : at + self._format.size]))

    def __iter__(self) -> Iterator[Slice]:
        """Yield all slices."""
        return self._made(self._slices)

    def by_process(self) -> dict[int, "Slices"]:
        """Return those of each process that has any: they come thread by thread, in their order."""
        size, memory = self._format.size, memoryview(self._slices)
        parts: defaultdict[int, list[memoryview]] = defaultdict(list)
        start = 0
        for place, names in enumerate(self._threads):
            stop = bisect_right(range(self._count), place, start, key=self._place_of_thread)
            if stop > start:
                parts[names.process].append(memory[start * size : stop * size])
            start = stop
        return {
            process: Slices(b"".join(found), self._threads, self._reasons)
            for process, found in parts.items()
        }

    def _place_of_thread(self, index: int) -> int:
        at = index * self._format.size
        return next(self._rows(self._slices[at : at + self._format.size]))[2]

    def _made(self, slices: "Flat | bytes") -> Iterator[Slice]:
        threads, no_cpu = self._threads, lib.NO_CPU
        for start_ns, stop_ns, thread, what, cpu, kind, mode, _ in self._rows(slices):
            of = threads[thread]
            modes: Mapping[int, SliceMode] = WORKER_MODES if of.kernel_worker else MODES
            yield Slice(
                of.tid,
                KINDS[kind],
                start_ns,
                stop_ns,
                modes[mode],
                self._name(thread, kind, what),
                None if cpu == no_cpu else cpu,
            )

    def _name(self, thread: int, kind: int, what: int) -> str | None:
        key = thread, kind, what
        if key not in self._names:
            self._names[key] = self._found_name(*key)
        return self._names[key]

    def _found_name(self, thread: int, kind: int, what: int) -> str | None:
        if kind in (records.SLICE_CALL, records.SLICE_COMPAT_CALL):
            return _call_name(what, compat=kind == records.SLICE_COMPAT_CALL)
        if kind == records.SLICE_HARD_IRQ:
            if what < records.IRQ_VECTORS:
                return irq_vector_name(what)
            return self._threads[thread].interrupts.get(what)
        if kind == records.SLICE_SOFT_IRQ:
            return soft_irq_name(what)
        if kind == records.STATE_BLOCKED:
            return self._reasons.get(what)
        return None

    def _rows(self, slices: "Flat | bytes") -> Iterator[Row]:
        # What a format stands for is not in the types of module struct.
        return self._format.iter_unpack(slices)  # type: ignore[misc]


def memory_of(slices: "ShownSlicePointer", count: int) -> "Flat":
    """Return the memory of `count` struct shown_slice, for as long as somebody has it."""
    return ffi.buffer(ffi.gc(slices, lib.free), count * ffi.sizeof("struct shown_slice"))


def _call_name(number: int, *, compat: bool) -> str:
    call = syscall(int(records_ffi.cast("int32_t", number)), compat=compat)
    name = call.name or str(call.number)
    return f"{call.abi}:{name}" if call.abi else name


def _struct_format() -> str:
    """Return struct shown_slice in the terms of Python's struct module, as cffi knows it."""
    codes = {"uint64_t": "Q", "uint32_t": "I", "uint16_t": "H", "uint8_t": "B"}
    return "".join(codes[field.type.cname] for _, field in ffi.typeof("struct shown_slice").fields)
