"""What is set in the programs before they are loaded: options, sizes of maps, and which are.

Each is as it is for as long as the programs run, and a constant to the verifier.
"""

import mmap
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kernel_delay.capture.map_sizes import (
    ALL_SLICES,
    ENDED_TOTALS_BYTES,
    EVENT_BYTES,
    LEAST_SLICES,
    ROUND_NOTICES_BYTES,
    SLICE_BYTES,
    SLICES,
    doublings,
    ring_entries,
    slices_of_round,
    timelines_of_rounds,
)
from kernel_delay.capture.plan import COPYING, EXEC, WALKING, EventPlan, Plan, RoundPlan, WindowPlan
from kernel_delay.capture.program_names import (
    CHAIN_MAPS,
    CHAIN_PROGRAMS_APART,
    FALLBACKS,
    FAULT_PROGRAMS,
    GUEST_PROGRAMS,
    ITERATORS,
    LATE_RETURN,
    POLL_ENTRY,
    POLL_FUNCTION,
    PREEMPTIBLE,
    PREEMPTIBLE_FAULT_PROGRAMS,
    SOFT_IRQ_PROGRAMS,
    VECTOR_ENTRY,
    WALK_MAPS,
    flagged_syscalls,
    flags_place,
    preemptible,
)
from kernel_delay.capture.syscall_events.user_stacks import default_pages
from kernel_delay.capture.trigger_programs import (
    TriggerKinds,
    needed_program_names,
    trigger_kinds,
    trigger_program_names,
)
from kernel_delay.capture.windows import NEVER_NS
from kernel_delay.errors import KernelDelayError, UnavailableError
from kernel_delay.host.cgroups import may_be_frozen
from kernel_delay.host.kernel_names import (
    ARRAY_POLLS,
    FILE_CALLS,
    FUTEXES,
    HANDLERS_ENDS,
    POLLS,
    RESTARTS,
    RING_ENTRY,
    SET_POLLS,
)
from kernel_delay.host.syscalls import Syscall, native, syscalls
from kernel_delay.host.system_state import cpu_numbers
from kernel_delay.host.target import has_virtual_machines, thread_count
from kernel_delay.loader._records import ffi, lib
from kernel_delay.loader.base import BpfError, bpf_error
from kernel_delay.loader.features import KernelFeatures, read_kernel_features
from kernel_delay.loader.namespace import find_process
from kernel_delay.loader.objects import refusal, refusal_at_function
from kernel_delay.loader.programs import BpfObject
from kernel_delay.model import Unseen

if TYPE_CHECKING:
    from kernel_delay.loader._records import OptionsPointer

# From this length on it is noted where a thread slept and who woke it: that takes 0.8 us, 0.4 %.
SLEEP_NS = 200_000

STACK_MODES = {
    "auto": lib.STACK_COPY,
    "table": lib.STACK_WALK,
    "dwarf": lib.STACK_COPY,
    "fp": lib.STACK_FRAME_POINTERS,
    "none": lib.STACK_NONE,
}


def _kernel_features() -> KernelFeatures:
    try:
        return read_kernel_features()
    except BpfError as error:
        raise refusal(error) from error


class ProgramOptions:
    """capture.bpf.c as it is to be loaded, set in an object that is open.

    Attributes:
        apart: the programs that are not attached with all others.
        fault_programs: those of them that see page faults.
        has_fallbacks: some programs have fallbacks.
        trigger_kinds: which programs triggers have.
        soft_irqs_attached: soft IRQs are counted all the time.
        walks_stacks: the programs walk stacks by tables.
        tgids: the targets', where these are several.
        unseen: what of the accounting this kernel lets no program see, and why.
        polls_only: of all system calls polls alone are hooked.
    """

    apart: frozenset[str]
    fault_programs: tuple[str, ...]
    has_fallbacks: bool
    trigger_kinds: TriggerKinds
    soft_irqs_attached: bool
    walks_stacks: bool
    tgids: Sequence[int]
    unseen: dict[Unseen, KernelDelayError]
    polls_only: bool

    def __init__(
        self,
        bpf_object: BpfObject,
        pids: Sequence[int],
        plan: Plan,
        *,
        children: bool,
    ) -> None:
        """Set all; the arguments are those of capture.programs.Programs."""
        events, rounds = plan.events, plan.rounds
        self._object = bpf_object
        self._plan = plan.windows
        self._rounds, self._events = rounds, events
        self._accounting = plan.accounting
        self._kernel = _kernel_features()
        self.has_fallbacks = self._kernel.preempts_tracepoints
        self.unseen = {}
        self.apart = frozenset(trigger_program_names() | ITERATORS | {"on_profile"})
        self._set_processes(pids, children=children)
        self._set_accounting(pids)
        self._set_faults()
        self._set_waker_stacks(are_taken=plan.accounting and plan.waker_stacks)
        self._set_chains(are_followed=plan.follows)
        self._set_fallbacks()
        self._set_calls(totals=plan.totals)
        self._set_sizes(pids, to_come=children or plan.windows.start is EXEC)
        self._set_plan(plan.windows)
        self._set_triggers(plan.windows)
        self._set_rounds(rounds, events)
        self._set_totals(are_kept=plan.totals)
        are_late = rounds is not None and rounds.soft_irqs_are_late
        self._set_soft_irqs(are_late=are_late and not plan.totals)
        self._set_events(events)
        self._set_timeline(plan.timeline)
        self._set_round_timelines(pids[0], rounds)

    def struct(self) -> "OptionsPointer":
        """Return the struct options that the programs will have when they are loaded."""
        initial = self._object.map(".rodata.options").initial_values()
        return ffi.cast("struct options *", initial)

    def _set_processes(self, pids: Sequence[int], *, children: bool) -> None:
        options = self.struct()
        processes = [find_process(pid) for pid in pids]
        options.pid_level = processes[0].pid_level
        several = children or len(processes) > 1
        # One alone is a constant to the programs: nothing is looked up.
        self.tgids = [process.tgid for process in processes] if several else []
        options.tgid = 0 if several else processes[0].tgid
        options.children = children
        self._object.program("find_children").autoload = children
        for name in POLLS:
            if self._rounds is None or name in self._rounds.polls:
                self._set_flag(lib.SYSCALL_IS_POLL, syscalls(name))
                if name in ARRAY_POLLS:
                    self._set_flag(lib.SYSCALL_POLLS_ARRAY, native(name))
        for name in FUTEXES:
            self._set_flag(lib.SYSCALL_IS_FUTEX, syscalls(name))
        for name in HANDLERS_ENDS:
            self._set_flag(lib.SYSCALL_ENDS_HANDLER, syscalls(name))
        # The number of bits of a select shows whether it waits for any descriptor.
        for name in (*FILE_CALLS, *SET_POLLS):
            self._set_flag(lib.SYSCALL_HAS_FILE, native(name))

    def _set_flag(self, flag: int, calls: Iterable[Syscall]) -> None:
        flags = self.struct().syscall_flags
        for table, number in map(flags_place, calls):
            if number < lib.FLAGGED_SYSCALLS:
                flags[table][number] |= flag

    def _set_accounting(self, pids: Iterable[int]) -> None:
        options = self.struct()
        options.accounting = self._accounting
        options.freezer = self._accounting and any(map(may_be_frozen, pids))
        self._object.program("dump_thread_states").autoload = self._accounting
        for name in ("on_sched_migrate_task", "on_sched_waking", "name_sleep_stacks"):
            self._object.program(name).autoload = self._accounting
        options.sleep_ns = SLEEP_NS
        options.contexts_distance = self._kernel.contexts_distance if self._accounting else 0
        reads_owners = self._accounting and self._kernel.reads_other_processes
        self._object.program("note_futex_owners").autoload = reads_owners
        if self._accounting and not reads_owners:
            self.unseen["futex_owners"] = UnavailableError(
                "the kernel has no helper bpf_copy_from_user_task()"
            )
        if self._accounting:
            self._need_registers("earlier_calls", "files_of_sleeps")
        # What is still to be executed, or forked, may get some.
        to_come = self._plan.start is EXEC or bool(self.struct().children)
        options.guests = self._accounting and (to_come or any(map(has_virtual_machines, pids)))
        self._set_apart(GUEST_PROGRAMS, bool(options.guests))
        self._set_apart((VECTOR_ENTRY,), self._accounting)

    def _need_registers(self, *parts: Unseen) -> None:
        """Note that these are not seen if no program reads other threads' registers."""
        if not self._kernel.knows_earlier_calls:
            self.unseen |= dict.fromkeys(
                parts, UnavailableError("the kernel has no helper bpf_task_pt_regs()")
            )

    def _set_faults(self) -> None:
        self._set_apart(FAULT_PROGRAMS + PREEMPTIBLE_FAULT_PROGRAMS, are_loaded=False)
        # Any kernel preempts them. The newer ones let them switch that off.
        newer = self._kernel.calls_unpreempted
        self.fault_programs = PREEMPTIBLE_FAULT_PROGRAMS if newer else FAULT_PROGRAMS
        self._set_apart(self.fault_programs, self._accounting and self._kernel.sees_faults)
        if self._accounting and not self._kernel.sees_faults:
            error = bpf_error("a program at handle_mm_fault()", self._kernel.faults_errno)
            self.unseen["page_faults"] = refusal_at_function(error)

    def _set_waker_stacks(self, *, are_taken: bool) -> None:
        if are_taken:
            self._need_registers("stacks_of_wakers")
        self.struct().waker_stacks = are_taken
        self._object.map("waker_stacks").max_entries = lib.WAKER_STACKS if are_taken else 1

    def _set_chains(self, *, are_followed: bool) -> None:
        self.struct().chains = are_followed
        self._set_apart(CHAIN_PROGRAMS_APART, are_followed)
        for name in () if are_followed else CHAIN_MAPS:
            self._object.map(name).leave_out()

    def _set_apart(self, names: Iterable[str], are_loaded: bool) -> None:
        """Say whether these are loaded; they are attached apart from the others."""
        for name in names:
            self._object.program(name).autoload = are_loaded
            self.apart |= {name}

    def _set_fallbacks(self) -> None:
        self._set_apart(FALLBACKS.values(), self.has_fallbacks)
        for name in PREEMPTIBLE:
            self._object.program(name).autoload = not self.has_fallbacks
            self._object.program(preemptible(name)).autoload = self.has_fallbacks

    def _set_calls(self, *, totals: bool) -> None:
        """Say whether all system calls are hooked, as totals need them, or polls alone."""
        wanted = self._rounds is not None and not self._rounds.calls and not totals
        self.polls_only = wanted and self._kernel.knows_earlier_calls and not self.struct().guests
        self.struct().polls_only = self.polls_only
        by_poll = self.polls_only and self._plan.start is None
        has_events = self.polls_only and self._events is not None
        # Both take the kernel's function tracer.
        self._set_apart((POLL_FUNCTION,), by_poll and self._kernel.sees_faults)
        for name, is_loaded in ((POLL_ENTRY, by_poll), (LATE_RETURN, has_events)):
            self._set_apart((name,), is_loaded and not self.has_fallbacks)
            self._set_apart((preemptible(name),), is_loaded and self.has_fallbacks)
        if not self.polls_only:
            return
        for name in PREEMPTIBLE:
            self._set_apart((name, preemptible(name), FALLBACKS[preemptible(name)]), False)
        self._set_apart(self.fault_programs, False)
        self.unseen = {"calls": UnavailableError("polls alone are hooked")}

    def _set_sizes(self, pids: Iterable[int], *, to_come: bool = False) -> None:
        room = self._rounds.record_bytes if self._rounds else None
        threads = sum(map(thread_count, pids))
        sizes = ring_entries(doublings(threads, to_come=to_come, room=room))
        for ring, entries in sizes.items():
            setattr(self.struct(), ring, entries - 1)
            self._object.map(ring).max_entries = entries
        most = max(sizes.values())
        self.struct().freed_slots = most
        self._object.map("freed_slots").max_entries = most * lib.RECORD_RINGS
        cpus = cpu_numbers()
        slices = min(SLICES, 1 << (ALL_SLICES // cpus).bit_length() - 1)
        self.struct().cpus = cpus
        self.struct().slices = slices
        self._object.map("run_queues").max_entries = cpus
        self._object.map("slices").max_entries = cpus * slices if self._accounting else 1

    def _set_plan(self, plan: WindowPlan) -> None:
        options = self.struct()
        options.window_ns = plan.sample_time_ns
        options.interval_ns = plan.interval_ns
        options.shortest_ns = plan.shortest_ns
        options.window_count = plan.count
        if plan.stop:
            options.trigger_options |= lib.TRIGGER_STOP
        if plan.same_thread:
            options.trigger_options |= lib.TRIGGER_SAME_THREAD
        self._object.program("on_sched_process_exec").autoload = plan.start is EXEC

    def _set_triggers(self, plan: WindowPlan) -> None:
        self.trigger_kinds = trigger_kinds(
            has_rounds=self._rounds is not None, preempted=self._kernel.preempts_tracepoints
        )
        needed = needed_program_names(plan, self.trigger_kinds)
        for name in trigger_program_names():
            self._object.program(name).autoload = name in needed

    def _set_rounds(self, plan: RoundPlan | None, events: EventPlan | None) -> None:
        self._object.program("dump_rounds").autoload = plan is not None
        samples = events is not None or self.polls_only
        has_registers = self._kernel.knows_earlier_calls
        self._object.program("on_profile").autoload = has_registers and bool(plan and samples)
        if plan is None:
            return
        if samples or not plan.calls:
            self._need_registers("samples")
        options = self.struct()
        by_trigger = self._plan.start is not None
        options.rounds = lib.ROUNDS_BY_TRIGGER if by_trigger else lib.ROUNDS_BY_POLL
        options.round_ns = plan.threshold_ns
        options.round_gap_ns = plan.gap_ns
        if plan.off_cpu_round_ns is not None:
            beginning = plan.off_cpu_name
            options.off_cpu_round_ns = plan.off_cpu_round_ns
            options.off_cpu_name = int.from_bytes(beginning, sys.byteorder)
            options.off_cpu_name_mask = int.from_bytes(b"\xff" * len(beginning), sys.byteorder)
        self._object.map("round_notices").max_entries = ROUND_NOTICES_BYTES
        flags: dict[int, Iterable[str]] = {
            lib.SYSCALL_MAY_POLL: {RING_ENTRY}.intersection(plan.polls),
            lib.SYSCALL_RESTARTS: RESTARTS,
        }
        for flag, names in flags.items():
            for name in names:
                self._set_flag(flag, syscalls(name))

    def _set_totals(self, *, are_kept: bool) -> None:
        self._object.program("dump_totals").autoload = are_kept
        if are_kept:
            self.struct().totals = 1
            self._object.map("ended_totals").max_entries = ENDED_TOTALS_BYTES
            self._object.map("syscall_totals").max_entries = self.struct().cpus * lib.SYSCALL_TOTALS

    def _set_soft_irqs(self, *, are_late: bool) -> None:
        self.soft_irqs_attached = not are_late
        if are_late:
            self._set_apart(SOFT_IRQ_PROGRAMS.values(), are_loaded=True)

    def _set_events(self, plan: EventPlan | None) -> None:
        options = self.struct()
        self.walks_stacks = plan is not None and plan.stack_mode in WALKING
        if not self.walks_stacks:
            for name in WALK_MAPS:
                self._object.map(name).leave_out()
        if plan is None:
            options.event_ns = NEVER_NS
            return
        options.walks_stacks = self.walks_stacks
        options.event_ns = plan.shortest_ns
        options.other_events = plan.syscalls is None
        asked = flagged_syscalls() if plan.syscalls is None else plan.syscalls
        self._set_flag(lib.SYSCALL_HAS_EVENTS, asked - plan.skipped)
        options.stack_mode = STACK_MODES[plan.stack_mode]
        options.stack_bytes = plan.stack_bytes if plan.stack_mode in COPYING else 0
        options.event_bytes = (plan.buffer_pages or default_pages()) * mmap.PAGESIZE
        self._object.map("events").max_entries = options.event_bytes
        if plan.stack_mode in COPYING or plan.stack_mode == "fp":
            scratch = self._object.map("scratch_events")
            scratch.value_size = EVENT_BYTES + (
                plan.stack_bytes + lib.STACK_PAGE
                if plan.stack_mode in COPYING
                else lib.USER_FRAMES * ffi.sizeof("uint64_t")
            )
            scratch.max_entries = options.cpus

    def _set_timeline(self, is_reported: bool) -> None:
        if not is_reported:
            return
        options = self.struct()
        room = default_pages() * mmap.PAGESIZE // SLICE_BYTES // options.cpus
        options.timeline_slices = max(1 << room.bit_length() - 1, LEAST_SLICES)
        self._object.map("timeline_rings").max_entries = options.cpus
        self._object.map("timeline").max_entries = options.cpus * options.timeline_slices

    def _set_round_timelines(self, pid: int, plan: RoundPlan | None) -> None:
        if plan is None or plan.max_slices is None:
            return
        options = self.struct()
        options.timeline_slices = slices_of_round(plan.max_slices)
        options.round_timelines = timelines_of_rounds(
            thread_count(pid), plan.max_slices, plan.timeline_bytes
        )
        self._object.map("round_timelines").max_entries = options.round_timelines
        entries = options.round_timelines * options.timeline_slices
        self._object.map("timeline").max_entries = entries
