"""The table of single system calls, as kernel_delay.py prints it, with whole stacks."""

from collections.abc import Iterator

from kernel_delay.formatting import NS_PER_US, printable
from kernel_delay.model import Sample, StackFrame, SyscallEvent
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.tables import call_name

COLUMNS = (
    f"  {'ENTRY (ns)':>19} {'EXIT (ns)':>19} {'TID':>10} {'COMM':16} {'DELTA (us)':>10}  SYSCALL"
)
LINE = f"  {'-' * 19} {'-' * 19} {'-' * 10} {'-' * 16} {'-' * 10}  {'-' * 16}"
# A terminal has no room for all columns; the others show enough.
NARROW_COLUMNS = f"  {'ENTRY (ns)':>19} {'TID':>10} {'COMM':16} {'DELTA (us)':>10}  SYSCALL"
NARROW_LINE = f"  {'-' * 19} {'-' * 10} {'-' * 16} {'-' * 10}  {'-' * 16}"
FRAME_INDENT = " " * 6


def event_lines(sample: Sample, layout: Layout) -> Iterator[str]:
    """The lines of the table, headings alone where there were no events; none if not asked for.

    An event comes with the lines of its stacks, as one string.
    """
    if sample.syscall_events is None:
        return
    names = {thread.tid: printable(thread.name) for thread in sample.threads}
    stacks = [_stack_lines(stack, layout) for stack in sample.stacks]
    yield ""
    yield ""
    yield layout.heading("# SYSCALL EVENTS:")
    narrow = _narrow(layout)
    yield layout.heading(NARROW_COLUMNS if narrow else COLUMNS)
    yield layout.heading(NARROW_LINE if narrow else LINE)
    for event in sample.syscall_events:
        kernel = "" if event.kernel_stack is None else stacks[event.kernel_stack]
        user = "" if event.user_stack is None else stacks[event.user_stack]
        name = names.get(event.tid) or f"<unknown:{sample.target.pid}/{event.tid}>"
        yield _event(event, name, narrow) + kernel + user


def frame_lines(frame: str, layout: Layout) -> list[str]:
    """A frame's line below its call, or several of them where the terminal is not as wide."""
    return layout.wrapped(frame, FRAME_INDENT, FRAME_INDENT + "  ")


def _stack_lines(stack: tuple[StackFrame, ...], layout: Layout) -> str:
    lines = (line for frame in stack for line in frame_lines(frame_text(frame), layout))
    return "".join(f"\n{line}" for line in lines)


def _narrow(layout: Layout) -> bool:
    return layout.width is not None and layout.width < len(LINE)


def _event(event: SyscallEvent, comm: str, narrow: bool) -> str:
    delta_us = (event.exit_ns - event.entry_ns) // NS_PER_US
    times = f"{event.entry_ns:19}" + ("" if narrow else f" {event.exit_ns:19}")
    return f"  {times} {event.tid:10} {comm:16} {delta_us:10,}  {call_name(event)}"


def frame_text(frame: StackFrame) -> str:
    """One frame: `name+0xoffset [object]`, or its address where it has no name."""
    base = printable((frame.object or "").rpartition("/")[2])
    where = f" [{base.strip('[]')}]" if base else ""
    if frame.name is None:
        return f"[unknown] {frame.address:#x}{where}"
    source = f" at {printable(frame.source)}" if frame.source else ""
    inlined = " (inlined)" if frame.inlined else ""
    return f"{printable(frame.name)}+{frame.offset:#x}{where}{source}{inlined}"
