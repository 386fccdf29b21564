"""What the programs that follow Open vSwitch have in common: see ovs_event.h."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from kernel_delay.host.target import living_thread
from kernel_delay.loader._records import lib as shared
from kernel_delay.loader.base import BpfError
from kernel_delay.loader.features import takes_perf_events
from kernel_delay.loader.maps import Records
from kernel_delay.loader.namespace import find_process
from kernel_delay.loader.objects import load_object, open_object, refusal
from kernel_delay.loader.programs import EVERY_PROCESS, Link, Program
from kernel_delay.openvswitch._ovs_records import ffi
from kernel_delay.openvswitch.probes import find_probe
from kernel_delay.probes import UserProbe
from kernel_delay.probes.in_use import in_use
from kernel_delay.probes.objects import process_objects
from kernel_delay.probes.triggers import UsdtTrigger

if TYPE_CHECKING:
    from kernel_delay.cdata import Array
    from kernel_delay.openvswitch._ovs_records import OvsControlPointer, OvsOptionsPointer

LARGEST_EVENT = 8192

MOST_BATCHES = 64
"""Of a mebibyte each: who writes faster than they are read must not keep us from all else."""


class OvsPrograms:
    """One of the objects, in the kernel from load() to close(), and its events."""

    def __init__(
        self,
        name: str,
        pid: int,
        ring_bytes: int,
        largest_event: int = LARGEST_EVENT,
    ) -> None:
        """Open `name`.bpf.o for what the tool sees as process `pid`.

        `ring_bytes` is the size of the buffer between the programs and this
        process, a power of two; no event is of more than `largest_event` bytes.
        Raises UnavailableError where /proc is of another PID namespace.
        """
        self.closing = ExitStack()
        self._largest_event = largest_event
        self._pid = pid
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

    def __exit__(self, *_: object) -> None:
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

    def attach_uprobe(self, program: str, place: UserProbe, name: str) -> None:
        """Attach a program to one place of a file, until close(); `name` is what is there.

        Raises UnavailableError or PermissionDeniedError where the kernel refuses.
        """
        try:
            self.attach(
                lambda each: each.attach_uprobe(
                    living_thread(self._pid) or self._pid,
                    place.path,
                    place.file_offset,
                    is_return=place.is_return,
                    semaphore_offset=place.semaphore_offset,
                ),
                program,
            )
        except BpfError as error:
            attached = self.object.program(program)
            reason = in_use(error, attached, self._pid, name, [place])
            raise reason or refusal(error, takes_perf_events) from error

    def attach_usdt(self, program: str, probe: UsdtTrigger, path: str) -> None:
        """Attach a program to all places of a USDT probe in a file, until close().

        Raises UnavailableError or PermissionDeniedError where the kernel refuses.
        """
        # Without its first thread, the kernel may not find the process's memory (uprobe_multi
        # links, which libbpf takes where it can): then all processes, the program knows its own.
        pid = self._pid if living_thread(self._pid) == self._pid else EVERY_PROCESS
        try:
            self.attach(
                lambda each: each.attach_usdt(pid, path, probe.provider, probe.probe), program
            )
        except BpfError as error:
            places = find_probe(probe, process_objects(self._pid))
            attached = self.object.program(program)
            reason = in_use(error, attached, self._pid, str(probe), places)
            raise reason or refusal(error, takes_perf_events) from error

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

    def reported_by_programs(self, event_type: int) -> int:
        """Return how many events of that type programs reported that have fallbacks."""
        return _counter(self._control.by_program, event_type)

    def reported_by_fallbacks(self, event_type: int) -> int:
        """Return how many events of that type fallbacks reported in their programs' place."""
        return _counter(self._control.by_fallback, event_type)


class Probes(ABC):
    """What a monitor follows of a process. Used as a context manager, it detaches at the end.

    `notes` say, a line each, what can't be seen here, and why.
    """

    _programs: OvsPrograms

    def __init__(self, pid: int) -> None:
        """Of process `pid`."""
        self.notes: list[str] = []
        self._pid = pid
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        """Load and attach; PermissionDeniedError or UnavailableError when the kernel refuses."""
        with ExitStack() as failing:
            self._programs = failing.enter_context(self._open())
            self._attach()
            self._closing = failing.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Detach and unload."""
        self._closing.close()

    @abstractmethod
    def _open(self) -> OvsPrograms:
        """Open the programs."""

    @abstractmethod
    def _attach(self) -> None:
        """Set their options, load and attach them."""

    @abstractmethod
    def missed(self) -> Mapping[str, int]:
        """How many events were not seen since the programs were attached, by what they are."""

    def _misses(self, program: str) -> int:
        """How often a program was not run, as it, or one like it, ran already."""
        return self._programs.object.program(program).recursion_misses()


def _counter(counters: "Array[int]", event_type: int) -> int:
    return shared.load_counter(ffi.addressof(counters, event_type))


def text(array: "Array[bytes]") -> str:
    """A struct's string, of whatever bytes."""
    return ffi.string(array).decode(errors="backslashreplace")


def room(size: int) -> int:
    """The bytes of an event that hold `size` captured ones: the next multiple of 8."""
    return -(-size // 8) * 8
