"""Where in the kernel the thread of a round slept, the longest sleeps first."""

from collections.abc import Iterator

from kernel_delay.model import Sample
from kernel_delay.printable import printable
from kernel_delay.reporters.accounting_tables import sleep_place
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.syscall_events import frame_lines

COLUMNS = f"  {'TOTAL ns':>16} {'COUNT':>10} {'MAX ns':>15}  FOR"
LINE = f"  {'-' * 16} {'-' * 10} {'-' * 15}  {'-' * 24}"

LEAST_SHARE = 0.01
"""Of the round: less is not why it was long."""

MOST = 5


def sleep_lines(sample: Sample, layout: Layout) -> Iterator[str]:
    """The table; nothing where it is no round, or where the thread slept next to nothing.

    The calls that are kept of a round are those that took long; many short ones are here alone.
    """
    if sample.round is None:
        return
    least_ns = LEAST_SHARE * sample.window.duration_ns
    sleeps = [sleep for thread in sample.threads for sleep in thread.sleeps if sleep.stack]
    telling = sorted(
        (sleep for sleep in sleeps if sleep.ns >= least_ns), key=lambda sleep: -sleep.ns
    )
    if not telling:
        return
    of = f", THE LONGEST {MOST} OF {len(telling)}" if len(telling) > MOST else ""
    yield ""
    yield ""
    yield layout.heading(f"# SLEEPS BY STACK, IN THE KERNEL{of}:")
    yield layout.headings(COLUMNS)
    yield layout.heading(LINE)
    for sleep in telling[:MOST]:
        total, longest = layout.time(sleep.ns), layout.time(sleep.max_ns)
        yield f"  {total:>16} {sleep.count:10,} {longest:>15}  {sleep_place(sleep)}"
        for function in sleep.stack:
            yield from frame_lines(printable(function), layout)
