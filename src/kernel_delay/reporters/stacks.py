"""By stack, the worst first: single system calls, sleeps in the kernel, and who woke threads."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from kernel_delay.formatting import printable
from kernel_delay.model import Sample, Sleep, StackFrame, SyscallEvent, Thread, Waker
from kernel_delay.reporters.accounting_tables import sleep_place
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.syscall_events import frame_lines, frame_text
from kernel_delay.reporters.tables import call_name


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


COLUMNS = f"  {'TOTAL ns':>16} {'COUNT':>10} {'MAX ns':>15}  {'SYSCALL':16} THREAD"
NO_CALL = "No system call that -s asks for was seen to begin and end in the window."
NO_LONG_CALL = (
    "No system call of the round took a tenth of the threshold, and a millisecond at least: none is"
    " kept with its stack."
)
LINE = f"  {'-' * 16} {'-' * 10} {'-' * 15}  {'-' * 16} {'-' * 16}"

INNERMOST, OUTERMOST = 12, 3
"""How many functions of a deep stack are shown: who called, and where that thread began."""


def stack_lines(sample: Sample, layout: Layout) -> Iterator[str]:
    """The table, a line where there were no calls; nothing if they were not asked for.

    Of a round only long calls are kept.
    """
    if sample.syscall_events is None:
        return
    if not sample.syscall_events:
        yield ""
        yield from layout.comment(NO_CALL if sample.round is None else NO_LONG_CALL)
        return
    stacks = calls_by_stack(sample)
    shown, others = stacks[: layout.top], stacks[layout.top :]
    names = {thread.tid: printable(thread.name) for thread in sample.threads}
    yield ""
    yield ""
    of = f", THE WORST {layout.top:,} OF {len(stacks):,}" if others else ""
    yield layout.heading(f"# SYSTEM CALLS BY STACK{of}:")
    yield layout.headings(COLUMNS)
    yield layout.heading(LINE)
    for each in shown:
        yield _row(layout, (each,), call_name(each.call), _who(each, names))
        yield from _stack(each, layout)
    if others:
        yield _row(layout, others, "OTHERS:")
    if len(stacks) > 1:
        yield _row(layout, stacks, "TOTAL:")


def _row(layout: Layout, stacks: Sequence[CallsOfStack], call: str, who: str = "") -> str:
    total = layout.time(sum(each.total_ns for each in stacks))
    longest = layout.time(max(each.max_ns for each in stacks))
    count = sum(each.count for each in stacks)
    return f"  {total:>16} {count:10} {longest:>15}  {call:16} {who}".rstrip()


def _who(calls: CallsOfStack, names: Mapping[int, str]) -> str:
    """The thread's name, that of all of them, or how many they are."""
    found = {names.get(tid, str(tid)) for tid in calls.tids}
    many = f"{len(calls.tids):,} threads"
    if len(found) > 1:
        return many
    return found.pop() if len(calls.tids) == 1 else f"{found.pop()} ({many})"


def _stack(calls: CallsOfStack, layout: Layout) -> Iterator[str]:
    frames = [frame_text(frame) for frame in calls.stack]
    hidden = len(frames) - INNERMOST - OUTERMOST
    if hidden > 1:
        frames[INNERMOST:-OUTERMOST] = [f"… {hidden} more …"]
    for text in frames:
        yield from frame_lines(text, layout)


SLEEP_COLUMNS = f"  {'TOTAL ns':>16} {'COUNT':>10} {'MAX ns':>15}  FOR"
SLEEP_LINE = f"  {'-' * 16} {'-' * 10} {'-' * 15}  {'-' * 24}"

LEAST_SLEEP_SHARE = 0.01
"""Of the round: less is not why it was long."""

MOST_SLEEPS = 5


def sleep_lines(sample: Sample, layout: Layout) -> Iterator[str]:
    """The table; nothing where it is no round, or where the thread slept next to nothing.

    The calls that are kept of a round are those that took long; many short ones are here alone.
    """
    if sample.round is None:
        return
    least_ns = LEAST_SLEEP_SHARE * sample.window.duration_ns
    sleeps = [sleep for thread in sample.threads for sleep in thread.sleeps if sleep.stack]
    telling = sorted(
        (sleep for sleep in sleeps if sleep.ns >= least_ns), key=lambda sleep: -sleep.ns
    )
    if not telling:
        return
    of = f", THE LONGEST {MOST_SLEEPS} OF {len(telling)}" if len(telling) > MOST_SLEEPS else ""
    yield ""
    yield ""
    yield layout.heading(f"# SLEEPS BY STACK, IN THE KERNEL{of}:")
    yield layout.headings(SLEEP_COLUMNS)
    yield layout.heading(SLEEP_LINE)
    for sleep in telling[:MOST_SLEEPS]:
        total, longest = layout.time(sleep.ns), layout.time(sleep.max_ns)
        yield f"  {total:>16} {sleep.count:10,} {longest:>15}  {sleep_place(sleep)}"
        for function in sleep.stack:
            yield from frame_lines(printable(function), layout)


WAKER_COLUMNS = f"  {'WAITED ns':>16} {'COUNT':>10}  {'WHO WAITED':24} {'FOR':20} WOKEN BY"
WAKER_LINE = f"  {'-' * 16} {'-' * 10}  {'-' * 24} {'-' * 20} {'-' * 24}"


class _Wakes(NamedTuple):
    """All of one waker, from one place, of a thread that slept in one place."""

    thread: Thread
    sleep: Sleep
    waker: Waker


def waker_lines(sample: Sample, layout: Layout) -> Iterator[str]:
    """The table; nothing if no stack was taken."""
    found = [
        _Wakes(thread, sleep, waker)
        for thread in sample.threads
        for sleep in thread.sleeps
        for waker in sleep.wakers
        if waker.kernel_stack or waker.user_stack
    ]
    if not found:
        return
    found.sort(key=lambda wakes: (-wakes.waker.ns, wakes.thread.tid, wakes.waker.tid))
    yield ""
    yield ""
    of = f", THE LONGEST {layout.top:,} OF {len(found):,}" if len(found) > layout.top else ""
    yield layout.heading(f"# WAKERS BY STACK{of}:")
    yield layout.headings(WAKER_COLUMNS)
    yield layout.heading(WAKER_LINE)
    for wakes in found[: layout.top]:
        yield _waker_row(wakes, layout)
        for function in (*wakes.waker.kernel_stack, *wakes.waker.user_stack):
            yield from frame_lines(printable(function), layout)


def _waker_row(wakes: _Wakes, layout: Layout) -> str:
    thread, sleep, waker = wakes
    who = f"{printable(thread.name)} ({thread.tid})"
    what = sleep.reason.replace("_", " ")
    by = f"{printable(waker.comm)} ({waker.tid})"
    return f"  {layout.time(waker.ns):>16} {waker.count:10}  {who:24} {what:20} {by}"
