"""The programs that measure processes: loaded, attached, and their memory.

It, program_names, program_options, trigger_programs, hooks and map_sizes alone know which programs
and maps capture.bpf.c has.
"""

import mmap
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from errno import EACCES, EPERM
from typing import TYPE_CHECKING, Literal, Self

from kernel_delay.capture import program_names
from kernel_delay.capture.hooks import Hooks
from kernel_delay.capture.map_sizes import RING_SIZES
from kernel_delay.capture.plan import Plan
from kernel_delay.capture.program_options import ProgramOptions
from kernel_delay.capture.syscall_events.user_stacks import LargeFrames, UnwindTables
from kernel_delay.capture.trigger_programs import attach_triggers, needed_program_names
from kernel_delay.errors import KernelDelayError
from kernel_delay.host.kernel_names import POLL_FUNCTIONS
from kernel_delay.host.target import PROC, read_comm
from kernel_delay.loader._records import ffi, lib
from kernel_delay.loader.base import BpfError
from kernel_delay.loader.features import kernel_functions
from kernel_delay.loader.maps import Map, Notices, Records
from kernel_delay.loader.objects import load_object, open_object, refusal, refusal_at_function
from kernel_delay.loader.programs import BpfObject, Link, Program
from kernel_delay.model import Lost, Unseen, Untraced

if TYPE_CHECKING:
    from kernel_delay.capture.chains.programs import ChainPrograms
    from kernel_delay.loader._records import ControlPointer

# One may have another reason.
LEAST_UNTRACED = 2


class Programs:
    """capture.bpf.c in the kernel for one process or several, from construction to close().

    `control` is the shared struct control, `freed_slots` the lists of its rings,
    `run_queues` and `slices` are each CPU's struct run_queue and struct slices, read-only.
    There is a notice in `notices` when a trigger opened or closed a window, and
    when a ring has little room. `large_frames` is what to leave out of stacks,
    `unwind_tables` by what to walk them, if they do.
    `accounting`: all of a window is accounted for; `sees_faults`: the kernel
    separates page faults from the program's own time. `unseen`: what of the accounting this
    kernel refuses, and why.
    """

    accounting: bool
    sees_faults: bool
    unseen: Mapping[Unseen, KernelDelayError]
    control: "ControlPointer"
    freed_slots: mmap.mmap
    run_queues: mmap.mmap
    slices: mmap.mmap
    large_frames: LargeFrames
    unwind_tables: UnwindTables | None = None
    notices: Notices

    def __init__(
        self,
        pids: Sequence[int],
        plan: Plan,
        *,
        children: bool = False,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Load and attach to what the tool sees as processes `pids`, with the plan's triggers.

        With `children` also to what all of these have forked, or do from now on, and so forth.
        Triggers in user code are those of the first process. `meanwhile` is called while the
        kernel verifies the programs.
        Raises PermissionDeniedError or UnavailableError when the kernel refuses.
        """
        self.accounting = plan.accounting
        self._closing = ExitStack()
        self._plan = plan
        with ExitStack() as failing:
            failing.callback(self.close)
            self._object = self._closing.enter_context(open_object("capture", built_in=True))
            self._options = ProgramOptions(self._object, pids, plan, children=children)
            self._unseen = self.unseen = self._options.unseen
            load_object(self._object, meanwhile)
            self._map_memory()
            self._hooks = Hooks(
                self._object, self._closing, self.counter, fallbacks=self._options.has_fallbacks
            )
            self._attach(children=children)
            kinds = self._options.trigger_kinds
            for link in attach_triggers(self._object, pids[0], plan.windows, kinds):
                self._closing.callback(link.close)
            failing.pop_all()

    def __enter__(self) -> Self:
        """Return the programs themselves."""
        return self

    def __exit__(self, *_: object) -> None:
        """Detach and unload."""
        self.close()

    def close(self) -> None:
        """Detach and unload."""
        self._closing.close()

    def _map_memory(self) -> None:
        memory = self._object.map(".data.control").mmap(writable=True)
        self.control = ffi.from_buffer("struct control *", memory)
        lib.free_windows(self.control, 0)
        # The records of a long round are user space's to give back.
        writable = self._plan.rounds is not None
        self._rings = {name: self._object.map(name).mmap(writable=writable) for name in RING_SIZES}
        self.freed_slots = self._object.map("freed_slots").mmap(writable=True)
        self.run_queues = self._object.map("run_queues").mmap()
        self.slices = self._object.map("slices").mmap()
        self.large_frames = LargeFrames(self._object.map("large_frames").mmap(writable=True))
        if self._options.walks_stacks:
            self.unwind_tables = UnwindTables(self._object.map("unwind_tables"))
        if self._options.tgids:
            self._targets = self._object.map(".bss").mmap(writable=True)
            words = ffi.from_buffer("uint64_t[]", self._targets)
            for tgid in self._options.tgids:
                lib.mark_process(words, tgid, True)
        self.notices = Notices(self._object.map("notices"))
        self._closing.callback(self.notices.close)

    def _attach(self, *, children: bool) -> None:
        """Attach all programs, and then register the threads that are there already.

        They are registered twice, see bpf/iterators.h.
        """
        register_threads = self._object.program("register_threads")
        try:
            for program in self._object.programs():
                if program.name not in self._options.apart and program.autoload:
                    self._hooks.attach(program)
            if self.polls_only:
                self._attach_to_polls()
            if (error := self._hooks.attach_all(self._options.fault_programs)) is not None:
                self._unseen["page_faults"] = refusal_at_function(error)
            is_refused = "page_faults" in self.unseen or self.polls_only
            self.sees_faults = self.accounting and not is_refused
            self._hooks.attach_all(program_names.GUEST_PROGRAMS)
            if self.accounting:
                self._hooks.attach_to_vectors()
            if not self.soft_irqs_attached:
                self._hooks.count(program_names.SOFT_IRQ_PROGRAMS.values())
            if (late := self._loaded(program_names.LATE_RETURN)) is not None:
                self._hooks.count((late.name,))
            while children and self._object.program("find_children").iterate():
                pass
            register_threads.iterate()
            register_threads.iterate()
            note_owners = self._object.program("note_futex_owners")
            if note_owners.autoload:
                note_owners.iterate()
        except BpfError as error:
            raise refusal(error) from error

    def _attach_to_polls(self) -> None:
        """Attach to the kernel's functions of polls, or else to the entry of each call."""
        if (entry := self._loaded(program_names.POLL_ENTRY)) is None:
            return
        by_functions = self._object.program(program_names.POLL_FUNCTION).autoload
        if not by_functions or not self._hooks.attach_functions(
            program_names.POLL_FUNCTION, kernel_functions(POLL_FUNCTIONS)
        ):
            self._hooks.attach(entry)

    def _loaded(self, name: str) -> Program | None:
        """Return the program of that name, or the one in its place; None if none is loaded."""
        for each in (name, program_names.preemptible(name)):
            program = self._object.program(each)
            if program.autoload:
                return program
        return None

    @property
    def polls_only(self) -> bool:
        """Whether of all system calls polls alone are hooked."""
        return self._options.polls_only

    @property
    def soft_irqs_attached(self) -> bool:
        """Whether all soft IRQs are reported; if not, attach_soft_irq() is to be called."""
        return self._options.soft_irqs_attached

    def attach_returns(self) -> Link:
        """Have calls that slept long be events as they return. Raises a BpfError.

        Where `hooks_returns` says so. set_returns_hooked() is to be called behind it.
        """
        program = self._loaded(program_names.LATE_RETURN)
        assert program is not None
        return program.attach()

    @property
    def hooks_returns(self) -> bool:
        """Whether calls are events only if their returns are hooked."""
        return self._loaded(program_names.LATE_RETURN) is not None

    def set_returns_hooked(self, since_ns: int) -> None:
        """Say since when returns of calls are hooked, 0: they are not."""
        lib.store_counter(ffi.addressof(self.control, "returns_hooked_ns"), since_ns)

    def attach_soft_irq(self, end: Literal["entry", "exit"]) -> Link:
        """Have one end of soft IRQs reported from now on. Raises a BpfError where it is refused."""
        return self._object.program(program_names.SOFT_IRQ_PROGRAMS[end]).attach()

    def ring_memory(self, kind: str) -> mmap.mmap:
        """Return the memory of the ring of `struct kind`: read-only, unless there are rounds."""
        return self._rings[f"{kind}s"]

    @property
    def slices_per_cpu(self) -> int:
        """How many slices are kept of each CPU."""
        return int(self._options.struct().slices)

    def targets(self) -> set[int]:
        """Return the numbers of the processes that are measured, if several.

        That of one that has ended is there until another process has it.
        """
        return {
            place * 64 + bit
            for place, word in enumerate(ffi.from_buffer("uint64_t[]", self._targets))
            if word
            for bit in range(64)
            if word >> bit & 1
        }

    def thread_states(self) -> bytes:
        """Return a struct dumped_thread of each thread of the process that is there."""
        return self._iterate("dump_thread_states")

    def thread_rounds(self) -> bytes:
        """Return a struct thread_rounds of each thread of the process that is there."""
        return self._iterate("dump_rounds")

    def totals(self) -> bytes:
        """Return a struct reported_totals of each thread of the process that is there."""
        return self._iterate("dump_totals")

    def ended_totals(self) -> Records:
        """Return what reads the struct reported_totals of each thread that ended, once."""
        records = Records(self._object.map("ended_totals"), ffi.sizeof("struct reported_totals"))
        self._closing.callback(records.close)
        return records

    def syscall_totals(self) -> mmap.mmap:
        """Return the memory, read-only, of each CPU's SYSCALL_TOTALS struct syscall_totals."""
        return self._object.map("syscall_totals").mmap()

    def round_notices(self) -> Records:
        """Return what reads each struct round_notice, once."""
        records = Records(self._object.map("round_notices"), ffi.sizeof("struct round_notice"))
        self._closing.callback(records.close)
        return records

    def profile(self, tid: int, frequency: int) -> Link | None:
        """Report what that thread runs, so often in a second, while a round of it is open.

        Each is an event of no system call. None where the thread has ended, or where the kernel
        does not let that be: then `unseen` has it.
        """
        program = self._object.program("on_profile")
        if not program.autoload:
            return None
        try:
            link = program.attach_task_clock(tid, frequency)
        except BpfError as error:
            # Tried again and again while a round is long: why it is refused is looked up once.
            if error.errno in (EACCES, EPERM) and "samples" not in self._unseen:
                self._unseen["samples"] = refusal(error)
            return None
        # The setting that forbade it may be another by now.
        self._unseen.pop("samples", None)
        return link

    def freed_slots_of(self, ring: int) -> tuple[int, int]:
        """Return where in `freed_slots` the list of the ring of that index is, and its size."""
        size = int(self._options.struct().freed_slots)
        return ring * size, size

    def sleep_stacks(self) -> bytes:
        """Return the functions of each stack that a thread slept with: see name_sleep_stacks()."""
        return self._iterate("name_sleep_stacks", self._object.map("sleep_stacks"))

    def _iterate(self, program: str, of: Map | None = None) -> bytes:
        try:
            return self._object.program(program).iterate(of)
        except BpfError as error:
            raise refusal(error) from error

    def waker_stacks(self) -> mmap.mmap:
        """Return the memory, read-only, of the struct waker_stacks."""
        return self._object.map("waker_stacks").mmap()

    def chains(self) -> "ChainPrograms":
        """Return what follows threads, of a plan with chains. Raises as it does."""
        from kernel_delay.capture.chains.programs import ChainPrograms

        return ChainPrograms(self._object, self.control)

    def share_windows(self, other: BpfObject) -> None:
        """Give another object, before it is loaded, the windows of these programs."""
        other.map(".data.control").share(self._object.map(".data.control"))

    def newest_epoch(self) -> int:
        """Return the number of the newest window."""
        return self.counter("epoch")

    def missed(self) -> Lost:
        """Return how many events were missed since the programs were attached, at most, by kind.

        The kernel counts what it kept the programs from, and the programs what did not fit: an
        event may be counted by both.
        """
        kept = self._hooks.missed()
        calls = kept["calls"] + self.counter("missed_calls")
        wakeups = kept["wakeups"] + self.counter("missed_wakeups")
        switches = kept["switches"] + self.counter("missed_switches")
        others_switches = self.counter("missed_others_switches")
        scheduler = kept["scheduler"] + wakeups + switches + others_switches
        interrupts = kept["interrupts"] + self.counter("missed_soft_irqs")
        threads = self.counter("missed_threads")
        return Lost(
            missed_events=calls + scheduler + interrupts + threads,
            missed_calls=calls,
            missed_switches=scheduler,
            missed_interrupts=interrupts,
            missed_wakeups=wakeups,
            missed_context_switches=switches,
            missed_others_switches=others_switches,
            missed_threads=threads,
            missed_by_recursion=kept.total(),
            untraced=self._untraced(),
        )

    def _untraced(self) -> Untraced | None:
        """Return the process that no program runs beside, if the programs have seen enough of it.

        The other side is note_untraced() of bpf/run_queue.h.
        """
        pid, missed = self.counter("untraced") - 1, self.counter("untraced_switches")
        if missed < LEAST_UNTRACED or self.counter("untraced_seen"):
            return None
        comm = ""
        # In another PID namespace the number may be another process's.
        if not self._options.struct().pid_level:
            with suppress(OSError):
                comm = read_comm(PROC / str(pid))
        return Untraced(pid, comm, missed)

    def missed_hits(self) -> int:
        """Return how many hits found no room for a window, or their program could not run."""
        needed = needed_program_names(self._plan.windows, self._options.trigger_kinds)
        misses = sum(self._object.program(name).recursion_misses() for name in needed)
        return misses + self.counter("missed_hits")

    def clamped_lengths(self) -> int:
        """Return how many intervals ended before they began, and count as 0 ns long."""
        return self.counter("clamped_lengths")

    def counter(self, name: program_names.Counter) -> int:
        """Return what the programs counted since they were attached: records.h describes each."""
        return program_names.load_counter(self.control, name)

    def round_timeline_memory(self) -> tuple[mmap.mmap, mmap.mmap, int]:
        """Return the memory of all struct round_timeline, which is written too.

        And that of their slices, and room for how many slices each has.
        """
        rounds = self._object.map("round_timelines").mmap(writable=True)
        return rounds, self._object.map("timeline").mmap(), self._options.struct().timeline_slices

    def round_timelines(self) -> int:
        """Return how many threads may have a timeline of their rounds at once."""
        return int(self._options.struct().round_timelines)

    def report_no_timelines(self) -> None:
        """Keep no timelines of rounds any more."""
        lib.store_counter(ffi.addressof(self.control, "without_timeline"), 1)

    def timeline_memory(self) -> tuple[mmap.mmap, mmap.mmap, int, int]:
        """Return the rings' memory, which is written too, and their slices'.

        And how many rings there are, and room for how many slices in each.
        """
        options = self._options.struct()
        rings = self._object.map("timeline_rings").mmap(writable=True)
        slices = self._object.map("timeline").mmap()
        return rings, slices, options.cpus, options.timeline_slices

    def events(self) -> Map:
        """Return the buffer that events come through."""
        return self._object.map("events")
