"""What capture.bpf.c has by name: its programs, which stand in for others, and its counters.

And where it has the flags of system calls.
"""

from typing import TYPE_CHECKING, Literal

from kernel_delay.host.syscalls import X32_BIT, Syscall, syscall
from kernel_delay.loader._records import ffi, lib

if TYPE_CHECKING:
    from kernel_delay.loader._records import ControlPointer

ITERATORS = frozenset(
    {
        "register_threads",
        "dump_thread_states",
        "dump_rounds",
        "dump_totals",
        "note_futex_owners",
        "name_sleep_stacks",
        "find_children",
        "report_followed",
    }
)

# Those of chains alone, and their maps: see capture/chains/chains.h.
STATES_OF_FOLLOWED, STOPS_OF_ALL = "report_followed", "on_signal_generate"
CHAIN_PROGRAMS_APART = (STATES_OF_FOLLOWED, STOPS_OF_ALL)
# And all that report what threads do that are followed.
CHAIN_PROGRAMS = ("on_sched_switch", "on_sched_waking", *CHAIN_PROGRAMS_APART)
CHAIN_MAPS = FOLLOWED, CHAIN_EVENTS = "followed", "chain_events"


def preemptible(name: str) -> str:
    """Return the program that is loaded in place of `name` where it can be preempted."""
    return f"{name}_preemptible"


# Where programs at tracepoints can be preempted, those in whose place others are loaded.
PREEMPTIBLE = ("on_sys_enter", "on_sys_exit")

# Each of those that can be preempted, and its fallback: see take_over() in bpf/syscall.h.
FALLBACKS = {
    "on_sys_enter_preemptible": "on_sys_enter_fallback",
    "on_sys_exit_preemptible": "on_sys_exit_fallback",
    "on_task_newtask": "on_task_newtask_fallback",
    "on_task_rename": "on_task_rename_fallback",
    "on_sched_process_exit": "on_sched_process_exit_fallback",
}

# Where polls alone are hooked: at the entry of each call, or at the kernel's functions of polls.
# And while a round is old, at the return of each call.
POLL_ENTRY, POLL_FUNCTION = "on_sys_enter_poll", "on_sys_poll"
LATE_RETURN = "on_sys_exit_late"

# The exit first: without it a fault that was entered would never end.
FAULT_PROGRAMS = ("on_fault_exit", "on_fault_entry")
PREEMPTIBLE_FAULT_PROGRAMS = tuple(map(preemptible, FAULT_PROGRAMS))

# The exit first, as of faults: of a virtual machine that was entered.
GUEST_PROGRAMS = ("on_kvm_exit", "on_kvm_entry")

# The exit first: of x86's own interrupts. The end of any other has the exit's too.
VECTOR_EXIT, VECTOR_ENTRY = "on_irq_exit", "on_irq_vector_entry"

# Of a soft IRQ.
SOFT_IRQ_PROGRAMS = {"entry": "on_softirq_entry", "exit": "on_softirq_exit"}

# They are there only where stacks are walked: see bpf/walk.h.
WALK_MAPS = ("unwind_tables", "found_rules", "walked_stacks")

Counter = Literal[
    "clamped_lengths",
    "entries_taken_over",
    "epoch",
    "exits_taken_over",
    "long_rounds",
    "missed_calls",
    "missed_chain_events",
    "missed_ends",
    "missed_hits",
    "missed_others_switches",
    "missed_rounds",
    "missed_soft_irqs",
    "missed_stacks",
    "missed_switches",
    "missed_syscall_events",
    "missed_threads",
    "missed_totals",
    "missed_wakeups",
    "suppressed_rounds",
    "untraced",
    "untraced_seen",
    "untraced_switches",
]
"""Those of struct control that user space reads."""

# Where fallbacks count what they did.
TAKEN_OVER: dict[str, Counter] = {
    "on_sys_enter_preemptible": "entries_taken_over",
    "on_sys_exit_preemptible": "exits_taken_over",
}


def load_counter(control: "ControlPointer", name: Counter) -> int:
    """Return a counter of struct control as the programs have it now."""
    return lib.load_counter(ffi.addressof(control, name))


def flagged_syscalls() -> frozenset[Syscall]:
    """Return what has a place for flags, but for what shares one."""
    return frozenset(
        syscall(number, compat=bool(table))
        for table in range(lib.SYSCALL_TABLES)
        for number in range(lib.FLAGGED_SYSCALLS)
    )


def flags_place(call: Syscall) -> tuple[int, int]:
    """Return which of the tables of flags, and which place in it, is the call's: see bpf/."""
    return int(call.compat), call.number & ~X32_BIT
