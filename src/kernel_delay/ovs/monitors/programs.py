"""What the programs that follow Open vSwitch have in common: see bpf/ovs/ovs_event.h."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kernel_delay.libbpf import Link, Program, Records
from kernel_delay.loader._records import lib as shared
from kernel_delay.loader.namespace import find_process
from kernel_delay.loader.objects import load_object, open_object
from kernel_delay.ovs.monitors._ovs_records import ffi

if TYPE_CHECKING:
    from kernel_delay.cdata import Array
    from kernel_delay.ovs.monitors._ovs_records import OvsControlPointer, OvsOptionsPointer

LARGEST_EVENT = 8192

MOST_BATCHES = 64
"""Of a mebibyte each: who writes faster than they are read must not keep us from all else."""


class OvsPrograms:
    """One of the objects, in the kernel from load() to close(), and its events."""

    def __init__(
        self, name: str, pid: int, ring_bytes: int, largest_event: int = LARGEST_EVENT
    ) -> None:
        """Open `name`.bpf.o for what the tool sees as process `pid`.

        `ring_bytes` is the size of the buffer between the programs and this
        process, a power of two; no event is of more than `largest_event` bytes.
        Raises UnavailableError where /proc is of another PID namespace.
        """
        self.closing = ExitStack()
        self._largest_event = largest_event
        with ExitStack() as failing:
            self.object = failing.enter_context(open_object(name))
            self.object.map("events").max_entries = ring_bytes
            process = find_process(pid)
            self.options.tgid = process.tgid
            self.options.pid_level = process.pid_level
            self.closing = failing.pop_all()

    def __enter__(self) -> Self:
        """Return the programs themselves."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Detach and unload."""
        self.closing.close()

    @property
    def options(self) -> "OvsOptionsPointer":
        """The options that the programs will have when they are loaded."""
        initial = self.object.map(".rodata.options").initial_values()
        return ffi.cast("struct ovs_options *", initial)

    def load(self) -> None:
        """Load the programs; raises as load_object() does."""
        load_object(self.object)
        memory = self.object.map(".data.control").mmap(writable=True)
        self._control = ffi.from_buffer("struct ovs_control *", memory)
        self._records = Records(self.object.map("events"), self._largest_event)
        self.closing.callback(self._records.close)

    @property
    def control(self) -> "OvsControlPointer":
        """What the loaded programs share with this process."""
        return self._control

    def attach(self, attach: Callable[[Program], Link], program: str) -> None:
        """Attach a program, until close(). Raises BpfError."""
        self.closing.callback(attach(self.object.program(program)).close)

    def records(self) -> Iterator[bytes]:
        """Take away and yield the events that are there, each as its struct's bytes."""
        return self._records.take()

    def all_records(self) -> Iterator[bytes]:
        """The same for more than records() takes at once, up to what came while it was taken."""
        for _ in range(MOST_BATCHES):
            found = False
            for data in self.records():
                found = True
                yield data
            if not found:
                return

    def lost(self, event_type: int) -> int:
        """Return how many events of that type found no room since the programs were attached."""
        return _counter(self._control.lost_of_type, event_type)

    def told_by_programs(self, event_type: int) -> int:
        """Return how many events of that type programs told that have stand-ins."""
        return _counter(self._control.by_program, event_type)

    def told_by_stand_ins(self, event_type: int) -> int:
        """Return how many events of that type stand-ins told in their programs' place."""
        return _counter(self._control.by_stand_in, event_type)


def _counter(counters: "Array[int]", event_type: int) -> int:
    return shared.load_counter(ffi.addressof(counters, event_type))


def text(array: "Array[bytes]") -> str:
    """A struct's string, of whatever bytes."""
    return ffi.string(array).decode(errors="backslashreplace")
