"""Stacks of system calls weighted by the time they took, one folded stack a line.

The form is that of flame graph tools: names from the thread down to the call
itself, joined by semicolons, a space, and the weight, here in nanoseconds. The
call ends in `_[k]`, by which those tools colour what the kernel did.
"""

from collections import Counter
from collections.abc import Iterator

from kernel_delay.model import Sample, StackFrame
from kernel_delay.printable import printable


def render(sample: Sample) -> str:
    """The folded stacks of the sample's events, the heaviest first."""
    return "".join(lines(sample))


def lines(sample: Sample) -> Iterator[str]:
    """The same, line by line."""
    names = {thread.tid: thread.name for thread in sample.threads}
    stacks = [";".join(_name(frame) for frame in reversed(stack)) for stack in sample.stacks]
    weights: Counter[str] = Counter()
    for event in sample.syscall_events or ():
        user = [] if event.user_stack is None else [stacks[event.user_stack]]
        call = f"{event.name or event.number}_[k]"
        folded = ";".join([_plain(names.get(event.tid, str(event.tid))), *user, call])
        weights[folded] += event.exit_ns - event.entry_ns
    return (f"{folded} {weight}\n" for folded, weight in weights.most_common())


def _name(frame: StackFrame) -> str:
    if frame.name is not None:
        return _plain(frame.name)
    base = (frame.object or "unknown").rpartition("/")[2].strip("[]")
    return _plain(f"[{base}]")


def _plain(text: str) -> str:
    return printable(text).replace(";", ":")
