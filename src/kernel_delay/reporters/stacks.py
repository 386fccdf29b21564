"""Single system calls by the functions that led to them, the worst ones first."""

from collections.abc import Iterator, Mapping, Sequence

from kernel_delay.analysis.call_stacks import CallsOfStack, calls_by_stack
from kernel_delay.model import Sample
from kernel_delay.printable import printable
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.syscall_events import frame_lines, frame_text
from kernel_delay.reporters.tables import call_name

COLUMNS = f"  {'TOTAL ns':>16} {'COUNT':>10} {'MAX ns':>15}  {'SYSCALL':16} THREAD"
NO_LONG_CALL = (
    "No system call of the round took a tenth of the threshold, and a millisecond at least: none is"
    " kept with its stack."
)
LINE = f"  {'-' * 16} {'-' * 10} {'-' * 15}  {'-' * 16} {'-' * 16}"

INNERMOST, OUTERMOST = 12, 3
"""How many functions of a deep stack are shown: who called, and where that thread began."""


def stack_lines(sample: Sample, layout: Layout) -> Iterator[str]:
    """The table, headings alone where there were no calls; nothing if they were not asked for.

    Of a round only long calls are kept: that there is none is a line.
    """
    if sample.syscall_events is None:
        return
    if sample.round is not None and not sample.syscall_events:
        yield ""
        yield from layout.comment(NO_LONG_CALL)
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
