"""The table of single system calls, as kernel_delay.py prints it, with whole stacks."""

from collections.abc import Callable, Iterator

from kernel_delay.model import Sample, StackFrame, SyscallEvent
from kernel_delay.printable import printable
from kernel_delay.reporters.tables import call_name

COLUMNS = (
    f"  {'ENTRY (ns)':>19} {'EXIT (ns)':>19} {'TID':>10} {'COMM':16} {'DELTA (us)':>10}  SYSCALL"
)
LINE = f"  {'-' * 19} {'-' * 19} {'-' * 10} {'-' * 16} {'-' * 10}  {'-' * 16}"
FRAME_INDENT = " " * 6
NS_PER_US = 1000


def event_lines(sample: Sample, heading: Callable[[str], str]) -> Iterator[str]:
    """The lines of the table, headings alone where there were no events; none if not asked for.

    An event comes with the lines of its stacks, as one string.
    """
    if sample.syscall_events is None:
        return
    names = {thread.tid: printable(thread.name) for thread in sample.threads}
    stacks = [_stack_lines(stack) for stack in sample.stacks]
    yield ""
    yield ""
    yield heading("# SYSCALL EVENTS:")
    yield heading(COLUMNS)
    yield heading(LINE)
    for event in sample.syscall_events:
        kernel = "" if event.kernel_stack is None else stacks[event.kernel_stack]
        user = "" if event.user_stack is None else stacks[event.user_stack]
        name = names.get(event.tid) or f"<unknown:{sample.target.pid}/{event.tid}>"
        yield _event(event, name) + kernel + user


def _stack_lines(stack: tuple[StackFrame, ...]) -> str:
    return "".join(f"\n{FRAME_INDENT}{frame_text(frame)}" for frame in stack)


def _event(event: SyscallEvent, comm: str) -> str:
    delta_us = (event.exit_ns - event.entry_ns) // NS_PER_US
    times = f"{event.entry_ns:19} {event.exit_ns:19}"
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
