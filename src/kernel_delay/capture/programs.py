"""The programs that measure one process: set up, loaded, attached, and their memory.

The one place that knows which programs and maps capture.bpf.c has.
"""

import mmap
import os
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from kernel_delay.capture.hooks import Hook, need_stand_ins
from kernel_delay.capture.plan import EventPlan, RoundPlan, WindowPlan
from kernel_delay.capture.syscall_events.buffer_size import default_pages
from kernel_delay.capture.syscall_events.large_frames import LargeFrames
from kernel_delay.capture.windows.control import NEVER_NS
from kernel_delay.capture.windows.trigger_programs import (
    attach_triggers,
    needed_program_names,
    trigger_program_names,
)
from kernel_delay.host.cpus import cpu_numbers
from kernel_delay.host.irq_vectors import TRACEPOINTS
from kernel_delay.host.syscalls import X32_BIT, Syscall, syscall, syscalls
from kernel_delay.host.target import has_virtual_machines, thread_count
from kernel_delay.host.waiting_calls import FUTEXES, HANDLERS_ENDS, POLLS, RESTARTS, RING_ENTRY
from kernel_delay.libbpf import (
    BpfError,
    BpfObject,
    Link,
    Notices,
    Program,
    Records,
    per_cpu_distance,
)
from kernel_delay.loader._records import ffi, lib
from kernel_delay.loader.namespace import find_process
from kernel_delay.loader.objects import is_loadable, load_object, open_object, refusal

if TYPE_CHECKING:
    from kernel_delay.loader._records import ControlPointer, OptionsPointer

Counter = Literal[
    "clamped_lengths",
    "entries_taken_over",
    "epoch",
    "exits_taken_over",
    "long_rounds",
    "missed_ends",
    "missed_events",
    "missed_hits",
    "missed_rounds",
    "missed_stacks",
    "missed_syscall_events",
]
"""Those of struct control that user space reads."""

# Sizes of the record rings, powers of two. Two windows' worth is needed, as
# one is read while the next is open: 5,000 threads with a handful of syscalls
# each fit, in 23 + 16 + 0.4 + 1 MiB of the kernel's memory. A process of few
# threads has half of that, as those that end make room for more.
RING_SIZES = {
    "thread_records": 1 << 14,
    "syscall_records": 1 << 16,
    "hard_irq_records": 1 << 12,
    "owner_records": 1 << 14,
    "sleep_records": 1 << 14,
}
FEW_THREADS = 1000

# Slices of each CPU: a second of waiting with 2,000 switches in it, in 128 KiB.
# Machines of many CPUs have fewer of each, so that all are 16 MiB at most.
SLICES = 1 << 11
ALL_SLICES = 1 << 18

# From this length on it is noted where a thread slept and who woke it: that takes 0.8 us, 0.4 %.
SLEEP_NS = 200_000

# Of a timeline; of each CPU's ring at least so many, as some programs may be in it at once.
SLICE_BYTES = ffi.sizeof("struct timeline_slice")
LEAST_SLICES = 1024

ITERATORS = frozenset(
    {
        "register_threads",
        "dump_thread_states",
        "dump_rounds",
        "note_futex_owners",
        "name_sleep_stacks",
    }
)

# Of the buffer that says of rounds which were long: some 3,000 of them, a power of two.
ROUND_NOTICES_BYTES = 1 << 20

# Each of those that can be preempted, and its stand-in: see bpf/threads/stand_in.h.
STAND_INS = {
    "on_sys_enter": "on_sys_enter_stand_in",
    "on_sys_exit": "on_sys_exit_stand_in",
    "on_task_newtask": "on_task_newtask_stand_in",
    "on_task_rename": "on_task_rename_stand_in",
    "on_sched_process_exit": "on_sched_process_exit_stand_in",
}

# Where stand-ins count what they did.
TAKEN_OVER: dict[str, Counter] = {
    "on_sys_enter": "entries_taken_over",
    "on_sys_exit": "exits_taken_over",
}

# The exit first: without it a fault that was entered would never end.
FAULT_PROGRAMS = ("on_fault_exit", "on_fault_entry")

# As above, of a virtual machine that was entered.
GUEST_PROGRAMS = ("on_kvm_exit", "on_kvm_entry")

# As above, of an interrupt; and the tracepoints of each.
VECTOR_PROGRAMS = {"on_irq_vector_exit": "exit", "on_irq_vector_entry": "entry"}

STACK_MODES = {
    "dwarf": lib.STACK_COPY,
    "fp": lib.STACK_FRAME_POINTERS,
    "none": lib.STACK_NONE,
}

# Of an event with stacks, but for the copy of the user's.
EVENT_BYTES = ffi.sizeof("struct syscall_event") + ffi.sizeof("struct event_stacks")


def _flagged_syscalls() -> frozenset[Syscall]:
    """Return what has a place for flags, but for what shares one."""
    return frozenset(
        syscall(number, compat=bool(table))
        for table in range(lib.SYSCALL_TABLES)
        for number in range(lib.FLAGGED_SYSCALLS)
    )


def _flags_place(call: Syscall) -> tuple[int, int]:
    """Return which of the tables of flags, and which place in it, is the call's: see bpf/."""
    return int(call.compat), call.number & ~X32_BIT


def _contexts_distance() -> int:
    """Return how far what counts a CPU's contexts is behind its run queue; 0 if that is not known.

    See read_contexts() in bpf/threads/sleep.h.
    """
    for variable in ("__preempt_count", "pcpu_hot"):
        distance = per_cpu_distance("runqueues", variable)
        if distance is not None:
            return distance
    return 0


class Programs:
    """capture.bpf.c in the kernel for one process, from construction to close().

    `control` is the shared struct control, `freed_slots` the lists of its rings,
    `run_queues` and `slices` are each CPU's struct run_queue and struct slices, read-only.
    There is a notice in `notices` when a trigger opened or closed a window, and
    when a ring has little room. `large_frames` tells the programs what to leave out of stacks.
    `accounting`: all of a window is accounted for; `sees_faults`: the kernel
    lets page faults be told from the program's own time.
    """

    accounting: bool
    sees_faults: bool
    control: "ControlPointer"
    freed_slots: mmap.mmap
    run_queues: mmap.mmap
    slices: mmap.mmap
    large_frames: LargeFrames
    notices: Notices

    def __init__(
        self,
        pid: int,
        plan: WindowPlan,
        events: EventPlan | None = None,
        *,
        accounting: bool = True,
        timeline: bool = False,
        waker_stacks: bool = False,
        rounds: RoundPlan | None = None,
    ) -> None:
        """Load and attach to what the tool sees as process `pid`, with the plan's triggers.

        `timeline` takes accounting, as `waker_stacks`: it is noted from where threads are woken.
        With `rounds` each thread's records are of its rounds, and there are no other windows: from
        poll to poll, or from the plan's start trigger to its stop trigger, both in user code.
        Raises PermissionDeniedError or UnavailableError when the kernel refuses.
        """
        self.accounting = accounting
        self._closing = ExitStack()
        self._plan = plan
        self._rounds = rounds
        self._hooks: list[Hook] = []
        self._attached_apart = trigger_program_names() | ITERATORS | {"on_profile"}
        self._missed_by_hooks = 0
        with ExitStack() as failing:
            failing.callback(self.close)
            self._object = self._closing.enter_context(open_object("capture"))
            self._set_process(pid)
            self._set_accounting(pid)
            self._set_waker_stacks(are_taken=accounting and waker_stacks)
            self._set_stand_ins()
            self._set_sizes(pid)
            self._set_plan(plan)
            self._set_rounds(rounds, events)
            self._set_events(events)
            self._set_timeline(timeline)
            load_object(self._object)
            self._map_memory()
            self._attach()
            for link in attach_triggers(self._object, pid, plan):
                self._closing.callback(link.close)
            failing.pop_all()

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
        self.close()

    def close(self) -> None:
        """Detach and unload."""
        self._closing.close()

    def _map_memory(self) -> None:
        memory = self._object.map(".data.control").mmap(writable=True)
        self.control = ffi.from_buffer("struct control *", memory)
        lib.free_windows(self.control, 0)
        # The records of a long round are user space's to give back.
        writable = self._rounds is not None
        self._rings = {name: self._object.map(name).mmap(writable=writable) for name in RING_SIZES}
        self.freed_slots = self._object.map("freed_slots").mmap(writable=True)
        self.run_queues = self._object.map("run_queues").mmap()
        self.slices = self._object.map("slices").mmap()
        self.large_frames = LargeFrames(self._object.map("large_frames").mmap(writable=True))
        self.notices = Notices(self._object.map("notices"))
        self._closing.callback(self.notices.close)

    def _attach(self) -> None:
        """Attach all programs, and then register the threads that are there already.

        They are registered twice, see capture.bpf.c.
        """
        register_threads = self._object.program("register_threads")
        try:
            for program in self._object.programs():
                if program.name not in self._attached_apart and program.autoload:
                    self._hooks.append(self._attach_hook(program))
            self.sees_faults = self.accounting and self._attach_all(FAULT_PROGRAMS)
            self._attach_all(GUEST_PROGRAMS)
            if self.accounting:
                self._attach_to_vectors()
            register_threads.iterate()
            register_threads.iterate()
            note_owners = self._object.program("note_futex_owners")
            if note_owners.autoload:
                note_owners.iterate()
        except BpfError as error:
            raise refusal(error) from error

    def _attach_hook(self, program: Program) -> Hook:
        """Attach a program and, behind it, its stand-in if that is loaded."""
        self._attach_program(program)
        if not self._has_stand_ins or program.name not in STAND_INS:
            return Hook(program)
        stand_in = self._object.program(STAND_INS[program.name])
        self._attach_program(stand_in)
        if program.name not in TAKEN_OVER:
            return Hook(program, stand_in)
        counter = TAKEN_OVER[program.name]
        return Hook(program, stand_in, lambda: self._counter(counter))

    def _attach_program(self, program: Program) -> None:
        self._closing.callback(program.attach().close)

    def _attach_all(self, names: tuple[str, ...]) -> bool:
        """Attach these, if they are to be; False where this kernel does not let programs do so."""
        programs = [self._object.program(name) for name in names]
        if not all(program.autoload for program in programs):
            return False
        with ExitStack() as links:
            try:
                for program in programs:
                    link = program.attach()
                    links.callback(link.close)
            except BpfError:
                return False
            self._closing.push(links.pop_all())
        self._hooks.extend(Hook(program) for program in programs)
        return True

    def _attach_to_vectors(self) -> None:
        """Attach to those of x86's own interrupts that this kernel has tracepoints of."""
        programs = [(self._object.program(name), edge) for name, edge in VECTOR_PROGRAMS.items()]
        for interrupt in TRACEPOINTS:
            with ExitStack() as links, suppress(BpfError):
                for program, edge in programs:
                    link = program.attach_raw_tracepoint(f"{interrupt}_{edge}")
                    links.callback(link.close)
                self._closing.push(links.pop_all())
        self._hooks.extend(Hook(program) for program, _ in programs)

    def ring_memory(self, kind: str) -> mmap.mmap:
        """Return the memory of the ring of `struct kind`: read-only, unless there are rounds."""
        return self._rings[f"{kind}s"]

    @property
    def slices_per_cpu(self) -> int:
        """How many slices are kept of each CPU."""
        return int(self._options().slices)

    def thread_states(self) -> bytes:
        """Return a struct dumped_thread of each thread of the process that is there."""
        try:
            return self._object.program("dump_thread_states").iterate()
        except BpfError as error:
            raise refusal(error) from error

    def thread_rounds(self) -> bytes:
        """Return a struct thread_rounds of each thread of the process that is there."""
        try:
            return self._object.program("dump_rounds").iterate()
        except BpfError as error:
            raise refusal(error) from error

    def round_notices(self) -> Records:
        """Return what reads each struct round_notice, once."""
        records = Records(self._object.map("round_notices"), ffi.sizeof("struct round_notice"))
        self._closing.callback(records.close)
        return records

    def profile(self, tid: int, frequency: int) -> Link | None:
        """Report what that thread runs, so often in a second, while a round of it is open.

        Each is an event of no system call. None where the kernel does not let that be.
        """
        program = self._object.program("on_profile")
        try:
            return program.attach_task_clock(tid, frequency) if program.autoload else None
        except BpfError:
            return None

    def long_rounds(self) -> int:
        """Return how many rounds were long, told or not."""
        return self._counter("long_rounds")

    def missed_rounds(self) -> int:
        """Return how many found no room in the buffer of notices."""
        return self._counter("missed_rounds")

    def missed_ends(self) -> int:
        """Return how many threads ended for whose notice there was no room in that buffer."""
        return self._counter("missed_ends")

    def freed_slots_of(self, ring: int) -> tuple[int, int]:
        """Return where in `freed_slots` the list of the ring of that index is, and its size."""
        size = int(self._options().freed_slots)
        return ring * size, size

    def sleep_stacks(self) -> bytes:
        """Return the functions of each stack that a thread slept with: see name_sleep_stacks()."""
        try:
            return self._object.program("name_sleep_stacks").iterate(
                self._object.map("sleep_stacks")
            )
        except BpfError as error:
            raise refusal(error) from error

    def waker_stacks(self) -> mmap.mmap:
        """Return the memory, read-only, of the struct waker_stacks."""
        return self._object.map("waker_stacks").mmap()

    def _trigger_programs(self) -> list[Program]:
        return [self._object.program(name) for name in needed_program_names(self._plan)]

    def share_windows(self, other: BpfObject) -> None:
        """Give another object, before it is loaded, the windows of these programs."""
        other.map(".data.control").share(self._object.map(".data.control"))

    def newest_epoch(self) -> int:
        """Return the number of the newest window."""
        return self._counter("epoch")

    def missed_events(self) -> int:
        """Return how many events were missed since the programs were attached, at most."""
        self._missed_by_hooks += sum(hook.newly_missed() for hook in self._hooks)
        return self._missed_by_hooks + self._counter("missed_events")

    def missed_hits(self) -> int:
        """Return how many hits found no room for a window, or their program could not run."""
        misses = sum(program.recursion_misses() for program in self._trigger_programs())
        return misses + self._counter("missed_hits")

    def stop_signal(self) -> tuple[int, int] | None:
        """Return the signal that stopped the process last, and the PID that sent it, or 0.

        That is in the process's own PID namespace. None: there was no signal yet.
        """
        signal, sender = int(self.control.stop_signal), int(self.control.stop_sender)
        return (signal, sender) if signal else None

    def clamped_lengths(self) -> int:
        """Return how many intervals ended before they began, and count as 0 ns long."""
        return self._counter("clamped_lengths")

    def _counter(self, name: Counter) -> int:
        """Return a counter of struct control as the programs have it now."""
        return lib.load_counter(ffi.addressof(self.control, name))

    def _options(self) -> "OptionsPointer":
        """Return the struct options that the programs will have when they are loaded."""
        initial = self._object.map(".rodata.options").initial_values()
        return ffi.cast("struct options *", initial)

    def _set_process(self, pid: int) -> None:
        options = self._options()
        process = find_process(pid)
        options.tgid = process.tgid
        options.pid_level = process.pid_level
        for name in POLLS:
            if self._rounds is None or name in self._rounds.polls:
                self._set_flag(lib.SYSCALL_IS_POLL, syscalls(name))
        for name in FUTEXES:
            self._set_flag(lib.SYSCALL_IS_FUTEX, syscalls(name))

    def _set_flag(self, flag: int, calls: Iterable[Syscall]) -> None:
        flags = self._options().syscall_flags
        for table, number in map(_flags_place, calls):
            if number < lib.FLAGGED_SYSCALLS:
                flags[table][number] |= flag

    def _set_accounting(self, pid: int) -> None:
        options = self._options()
        options.accounting = self.accounting
        self._object.program("dump_thread_states").autoload = self.accounting
        for name in ("on_sched_migrate_task", "on_sched_waking", "name_sleep_stacks"):
            self._object.program(name).autoload = self.accounting
        options.sleep_ns = SLEEP_NS
        options.contexts_distance = _contexts_distance() if self.accounting else 0
        reads_owners = self.accounting and is_loadable("futex_owner")
        self._object.program("note_futex_owners").autoload = reads_owners
        sees_faults = self.accounting and is_loadable("fault")
        self._set_apart(FAULT_PROGRAMS, sees_faults)
        has_machines = self.accounting and has_virtual_machines(pid)
        self._set_apart(GUEST_PROGRAMS, has_machines)
        self._set_apart(VECTOR_PROGRAMS, self.accounting)

    def _set_waker_stacks(self, *, are_taken: bool) -> None:
        self._options().waker_stacks = are_taken
        self._object.map("waker_stacks").max_entries = lib.WAKER_STACKS if are_taken else 1

    def _set_apart(self, names: Iterable[str], are_loaded: bool) -> None:
        """Say whether these are loaded; they are attached apart from the others."""
        for name in names:
            self._object.program(name).autoload = are_loaded
            self._attached_apart |= {name}

    def _set_stand_ins(self) -> None:
        self._has_stand_ins = need_stand_ins(os.uname().release)
        self._set_apart(STAND_INS.values(), self._has_stand_ins)

    def _set_sizes(self, pid: int) -> None:
        halved = thread_count(pid) <= FEW_THREADS
        for ring, entries in RING_SIZES.items():
            setattr(self._options(), ring, entries >> halved)
            self._object.map(ring).max_entries = entries >> halved
        most = max(RING_SIZES.values()) >> halved
        self._options().freed_slots = most
        self._object.map("freed_slots").max_entries = most * lib.RECORD_RINGS
        cpus = cpu_numbers()
        slices = min(SLICES, 1 << (ALL_SLICES // cpus).bit_length() - 1)
        self._options().cpus = cpus
        self._options().slices = slices
        self._object.map("run_queues").max_entries = cpus
        self._object.map("slices").max_entries = cpus * slices if self.accounting else 1

    def _set_plan(self, plan: WindowPlan) -> None:
        options = self._options()
        options.window_ns = plan.sample_time_ns
        options.interval_ns = plan.interval_ns
        options.shortest_ns = plan.shortest_ns
        options.window_count = plan.count
        if plan.stop:
            options.trigger_options |= lib.TRIGGER_STOP
        if plan.same_thread:
            options.trigger_options |= lib.TRIGGER_SAME_THREAD
        for name in trigger_program_names() - needed_program_names(plan):
            self._object.program(name).autoload = False

    def _set_rounds(self, plan: RoundPlan | None, events: EventPlan | None) -> None:
        self._object.program("dump_rounds").autoload = plan is not None
        self._object.program("on_profile").autoload = plan is not None and events is not None
        if plan is None:
            return
        options = self._options()
        by_trigger = self._plan.start is not None
        options.rounds = lib.ROUNDS_BY_TRIGGER if by_trigger else lib.ROUNDS_BY_POLL
        options.round_ns = plan.threshold_ns
        options.round_gap_ns = plan.gap_ns
        self._object.map("round_notices").max_entries = ROUND_NOTICES_BYTES
        flags: dict[int, Iterable[str]] = {
            lib.SYSCALL_MAY_POLL: {RING_ENTRY}.intersection(plan.polls),
            lib.SYSCALL_RESTARTS: RESTARTS,
            lib.SYSCALL_ENDS_HANDLER: HANDLERS_ENDS,
        }
        for flag, names in flags.items():
            for name in names:
                self._set_flag(flag, syscalls(name))

    def _set_events(self, plan: EventPlan | None) -> None:
        options = self._options()
        if plan is None:
            options.event_ns = NEVER_NS
            return
        options.event_ns = plan.shortest_ns
        options.other_events = plan.syscalls is None
        asked = _flagged_syscalls() if plan.syscalls is None else plan.syscalls
        self._set_flag(lib.SYSCALL_HAS_EVENTS, asked - plan.skipped)
        options.stack_mode = STACK_MODES[plan.stack_mode]
        options.stack_bytes = plan.stack_bytes if plan.stack_mode == "dwarf" else 0
        options.event_bytes = (plan.buffer_pages or default_pages()) * mmap.PAGESIZE
        self._object.map("events").max_entries = options.event_bytes
        if plan.stack_mode == "dwarf":
            deep = self._object.map("deep_events")
            deep.value_size = EVENT_BYTES + plan.stack_bytes + lib.STACK_PAGE
            deep.max_entries = options.cpus

    def _set_timeline(self, is_told: bool) -> None:
        if not is_told:
            return
        options = self._options()
        room = default_pages() * mmap.PAGESIZE // SLICE_BYTES // options.cpus
        options.timeline_slices = max(1 << room.bit_length() - 1, LEAST_SLICES)
        self._object.map("timeline_rings").max_entries = options.cpus
        self._object.map("timeline").max_entries = options.cpus * options.timeline_slices

    def timeline_memory(self) -> tuple[mmap.mmap, mmap.mmap, int, int]:
        """Return the rings' memory, which is written too, and their slices'.

        And how many rings there are, and room for how many slices in each.
        """
        options = self._options()
        rings = self._object.map("timeline_rings").mmap(writable=True)
        slices = self._object.map("timeline").mmap()
        return rings, slices, options.cpus, options.timeline_slices

    def events_fd(self) -> int:
        """Return the descriptor of the buffer that events come through."""
        return self._object.map("events").fd

    def events_bytes(self) -> int:
        """Return the size of that buffer."""
        return self._object.map("events").max_entries

    def missed_syscall_events(self) -> int:
        """Return how many events found no room in the buffer since the programs were attached."""
        return self._counter("missed_syscall_events")

    def missed_stacks(self) -> int:
        """Return how many events found no room for their stacks in the buffer."""
        return self._counter("missed_stacks")
