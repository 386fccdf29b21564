"""Single system calls summed up: by what was called, and by the functions that led to it."""

from collections.abc import Hashable

from msgspec import Struct

from kernel_delay.model import Sample, StackFrame, SyscallEvent


class CallsOfStack(Struct):
    """The calls of one system call that one chain of functions led to.

    `stack` is that of the first of them, empty where none was taken: the addresses in the same
    functions may differ. `tids` are the threads that made them.
    """

    call: SyscallEvent
    stack: tuple[StackFrame, ...]
    total_ns: int
    count: int
    max_ns: int
    tids: set[int]


def calls_by_stack(sample: Sample) -> list[CallsOfStack]:
    """All of the sample's calls, those together first that took longest.

    The stacks are the program's: the kernel's is that of a call's return, alike for all.
    """
    chains = [_functions(stack) for stack in sample.stacks]
    found: dict[Hashable, CallsOfStack] = {}
    for event in sample.syscall_events or ():
        place = event.user_stack
        key = (event.abi, event.number, None if place is None else chains[place])
        took_ns = event.exit_ns - event.entry_ns
        known = found.get(key)
        if known is None:
            stack = () if place is None else sample.stacks[place]
            found[key] = CallsOfStack(event, stack, took_ns, 1, took_ns, {event.tid})
            continue
        known.total_ns += took_ns
        known.count += 1
        known.max_ns = max(known.max_ns, took_ns)
        known.tids.add(event.tid)
    return sorted(found.values(), key=lambda each: (-each.total_ns, each.call.number))


def _functions(stack: tuple[StackFrame, ...]) -> Hashable:
    """What two stacks have in common that lead through the same functions."""
    return tuple(
        (frame.address if frame.name is None else frame.name, frame.object, frame.source)
        for frame in stack
    )
