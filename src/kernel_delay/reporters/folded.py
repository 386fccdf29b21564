"""Stacks of system calls weighted by the time they took, one folded stack a line.

The form is that of flame graph tools: names from the thread down to the call
itself, joined by semicolons, a space, and the weight, here in nanoseconds. The
call ends in `_[k]`, by which those tools colour what the kernel did. Functions
without a name that call each other are one `[object]`.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from kernel_delay.formatting import printable
from kernel_delay.model import Sample, StackFrame
from kernel_delay.reporters.tables import call_name


def render(sample: Sample) -> str:
    """The folded stacks of the sample's events, the heaviest first."""
    return "".join(lines(sample))


def lines(sample: Sample) -> Iterator[str]:
    """The same, line by line."""
    names = {thread.tid: thread.name for thread in sample.threads}
    stacks = [";".join(_names(stack)) for stack in sample.stacks]
    weights: Counter[str] = Counter()
    for event in sample.syscall_events or ():
        user = [] if event.user_stack is None else [stacks[event.user_stack]]
        call = f"{call_name(event)}_[k]"
        folded = ";".join([_plain(names.get(event.tid, str(event.tid))), *user, call])
        weights[folded] += event.exit_ns - event.entry_ns
    return (f"{folded} {weight}\n" for folded, weight in weights.most_common())


def _names(stack: tuple[StackFrame, ...]) -> Iterator[str]:
    """A stack's functions from the first on; a run without names in one object as one."""
    for place, run in groupby(reversed(stack), key=_object_without_name):
        yield from (_name(frame) for frame in run) if place is None else (place,)


def _object_without_name(frame: StackFrame) -> str | None:
    return None if frame.name is not None else _name(frame)


def _name(frame: StackFrame) -> str:
    if frame.name is not None:
        return _plain(frame.name)
    base = (frame.object or "unknown").rpartition("/")[2].strip("[]")
    return _plain(f"[{base}]")


def _plain(text: str) -> str:
    return printable(text).replace(";", ":")
