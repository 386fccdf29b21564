"""Who woke the threads, by the functions that they did so from, the longest waits first."""

from collections.abc import Iterator
from typing import NamedTuple

from kernel_delay.model import Sample, Sleep, Thread, Waker
from kernel_delay.printable import printable
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.syscall_events import frame_lines

COLUMNS = f"  {'WAITED ns':>16} {'COUNT':>10}  {'WHO WAITED':24} {'FOR':20} WOKEN BY"
LINE = f"  {'-' * 16} {'-' * 10}  {'-' * 24} {'-' * 20} {'-' * 24}"


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
    yield layout.headings(COLUMNS)
    yield layout.heading(LINE)
    for wakes in found[: layout.top]:
        yield _row(wakes, layout)
        for function in (*wakes.waker.kernel_stack, *wakes.waker.user_stack):
            yield from frame_lines(printable(function), layout)


def _row(wakes: _Wakes, layout: Layout) -> str:
    thread, sleep, waker = wakes
    who = f"{printable(thread.name)} ({thread.tid})"
    what = sleep.reason.replace("_", " ")
    by = f"{printable(waker.comm)} ({waker.tid})"
    return f"  {layout.time(waker.ns):>16} {waker.count:10}  {who:24} {what:20} {by}"
