"""A Sample as the text report of kernel_delay.py, so that its parsers keep working."""

import datetime
from collections.abc import Iterator

from kernel_delay.analysis.losses import by_name, slept_throughout, worst_first
from kernel_delay.model import Sample, SkippedWindow, Thread, Window
from kernel_delay.printable import printable
from kernel_delay.reporters.accounting_tables import accounting_tables, percentile_table
from kernel_delay.reporters.block import block
from kernel_delay.reporters.events import event_lines
from kernel_delay.reporters.grid import as_upstream
from kernel_delay.reporters.layout import IN_A_PIPE, SCREEN, Layout, Role
from kernel_delay.reporters.recording_header import short_container
from kernel_delay.reporters.remarks import remarks
from kernel_delay.reporters.rounds import profile_lines, round_lines
from kernel_delay.reporters.sleepers import sleepers
from kernel_delay.reporters.stacks import stack_lines
from kernel_delay.reporters.tables import name_of, tables
from kernel_delay.reporters.upcall_statistics import upcall_lines
from kernel_delay.reporters.waker_stacks import waker_lines

HEADINGS = (
    f"{'TID':10} {'THREAD':16} <RESOURCE SPECIFIC>",
    f"{'-' * 10} {'-' * 16} {'-' * 76}",
)
INDENT = " " * 28

HEAD_LINES = 5
"""About as many lines say on a terminal, before the report, what is measured."""

LEAST_LINES = 20
"""Of a thread's tables, however long the verdict is."""


def render(sample: Sample, layout: Layout = IN_A_PIPE) -> str:
    """The report of one window."""
    return "".join(chunks(sample, layout))


def chunks(sample: Sample, layout: Layout = IN_A_PIPE) -> Iterator[str]:
    """The same in pieces, each of whole lines: a million events are gigabytes of text."""
    return (f"{lines}\n" for lines in _report(sample, layout))


def _report(sample: Sample, layout: Layout) -> Iterator[str]:
    head = [*timestamps(sample, layout), *process_lines(sample, layout)]
    head += [comment for line in round_lines(sample) for comment in layout.comment(line)]
    head += verdict(sample, layout)
    lines = max(SCREEN - HEAD_LINES - len(head), LEAST_LINES)
    yield from head
    if layout.width is None:
        yield from map(layout.heading, HEADINGS)
    sleeping = frozenset[int]() if layout.all_threads else slept_throughout(sample)
    threads = by_name(sample) if layout.order == "name" else worst_first(sample)
    shown = [thread for thread in threads if thread.tid not in sleeping]
    for position, thread in enumerate(shown):
        if position > 0:
            yield ""
        if layout.width is None:
            yield from _as_upstream(thread, layout)
        else:
            yield from block(thread, layout, layout.width, SCREEN if position else lines)
    yield from sleepers(sample, sleeping, layout)
    yield from upcall_lines(sample)
    yield from profile_lines(sample, layout)
    yield from stack_lines(sample, layout)
    yield from waker_lines(sample, layout)
    if layout.events:
        yield from event_lines(sample, layout)
    yield from closing(sample, layout)


def process_lines(sample: Sample, layout: Layout) -> Iterator[str]:
    """Which process it is of, where several were measured, or could have been."""
    if sample.processes == 1 and not layout.named:
        return
    target = sample.target
    if target.pid:
        text = f"Process {target.pid} ({printable(target.comm)})"
        if target.container is not None:
            text += f", container {printable(short_container(target.container))}"
    else:
        text = "Threads that ended, of all processes"
    yield from layout.comment(text)


def render_skipped(skipped: SkippedWindow) -> str:
    """The three lines of a window that was too short to be reported."""
    window = skipped.window
    read = f"Sample dump skipped, delta {window.duration_ns:,} ns"
    return "".join(f"{line}\n" for line in _timestamps(window, (*_SAMPLING, read), IN_A_PIPE))


def closing(sample: Sample, layout: Layout) -> Iterator[str]:
    """The verdict again, and the remarks, each behind an empty line."""
    for lines in (list(verdict(sample, layout)), list(remarks(sample, layout))):
        if lines:
            yield ""
        yield from lines


def timestamps(sample: Sample, layout: Layout) -> Iterator[str]:
    """The lines that say when the window opened, closed and was read; or the round."""
    window, read = sample.window, "Sample dump"
    if sample.round is not None:
        return _timestamps(window, ("Round began", "Round ended", "Recorded"), layout)
    if window.start_trigger and window.stop_trigger:
        read = f"Triggered sample dump, stop-start delta {window.duration_ns:,} ns"
    return _timestamps(window, (*_SAMPLING, read), layout)


_SAMPLING = ("Start sampling", "Stop sampling")


def _timestamps(window: Window, what: tuple[str, str, str], layout: Layout) -> Iterator[str]:
    began, ended, read = what
    duration = datetime.timedelta(microseconds=window.duration_ns // 1000)
    start = f" (trigger@{window.start_ns})" if window.start_trigger else ""
    stop = f" (trigger@{window.stop_ns})" if window.stop_trigger else ""
    yield from layout.comment(_timestamp(f"{began}{start}", window.start_time))
    yield from layout.comment(_timestamp(f"{ended}{stop}", window.start_time + duration))
    yield from layout.comment(_timestamp(read, window.collected_time))


def _timestamp(what: str, when: datetime.datetime) -> str:
    local = when.astimezone().replace(tzinfo=None).isoformat(timespec="microseconds")
    utc = when.astimezone(datetime.UTC)
    return f"{what} @{local} ({utc:%H:%M:%S} UTC)"


def _as_upstream(thread: Thread, layout: Layout) -> Iterator[str]:
    """The tables to the right of the thread's name, as kernel_delay.py has them."""
    shown = (*tables(thread), *accounting_tables(thread))
    if layout.percentiles:
        shown = (*shown, percentile_table(thread))
    before_title = f"{thread.tid:10} {name_of(thread):16} "
    for table in shown:
        if not (table.rows or table.always):
            continue
        columns, *rows = as_upstream(table)
        yield before_title + layout.heading(table.title)
        yield INDENT + layout.heading(columns)
        yield from (INDENT + row for row in rows)
        before_title = f"\n{INDENT}"


def verdict(sample: Sample, layout: Layout) -> Iterator[str]:
    """Whether the kernel is to blame, with the evidence; nothing without accounting."""
    if not any(thread.time for thread in sample.threads):
        return
    # In a round there was time lost, whoever is to blame.
    if sample.round is None and all(finding.remark for finding in sample.verdict):
        # Whether who waited had work is not known, or known: what is told of it says which.
        waited = any(finding.rule.startswith("wait_") for finding in sample.verdict)
        unless = ", but for the waits below, if it had any." if waited else "."
        acquittal = f"VERDICT: nothing kept a thread from its work for long{unless}"
        yield from layout.comment(acquittal, "acquittal")
    for finding in sample.verdict:
        kind, role = _KINDS[finding.remark]
        yield from layout.comment(f"{kind}: {printable(finding.text)}", role)


_KINDS: dict[bool, tuple[str, Role]] = {False: ("VERDICT", "verdict"), True: ("REMARK", "remark")}
