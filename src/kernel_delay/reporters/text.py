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
from kernel_delay.reporters.rounds import profile_lines, round_lines
from kernel_delay.reporters.sleepers import sleepers
from kernel_delay.reporters.stacks import stack_lines
from kernel_delay.reporters.tables import name_of, tables
from kernel_delay.reporters.timeline import timeline_remarks
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
    head = [*timestamps(sample.window, layout)]
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


def render_skipped(skipped: SkippedWindow) -> str:
    """The three lines of a window that was too short to be reported."""
    window = skipped.window
    read = f"Sample dump skipped, delta {window.duration_ns:,} ns"
    return "".join(f"{line}\n" for line in _timestamps(window, read, IN_A_PIPE))


def closing(sample: Sample, layout: Layout) -> Iterator[str]:
    """The verdict again, and the remarks, each behind an empty line."""
    for lines in (list(verdict(sample, layout)), list(remarks(sample, layout))):
        if lines:
            yield ""
        yield from lines


def timestamps(window: Window, layout: Layout) -> Iterator[str]:
    """The lines that say when the window opened, closed and was read."""
    read = "Sample dump"
    if window.start_trigger and window.stop_trigger:
        read = f"Triggered sample dump, stop-start delta {window.duration_ns:,} ns"
    return _timestamps(window, read, layout)


def _timestamps(window: Window, read: str, layout: Layout) -> Iterator[str]:
    duration = datetime.timedelta(microseconds=window.duration_ns // 1000)
    start = f" (trigger@{window.start_ns})" if window.start_trigger else ""
    stop = f" (trigger@{window.stop_ns})" if window.stop_trigger else ""
    yield from layout.comment(_timestamp(f"Start sampling{start}", window.start_time))
    yield from layout.comment(_timestamp(f"Stop sampling{stop}", window.start_time + duration))
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
        acquittal = "VERDICT: nothing kept a thread from its work for long."
        yield from layout.comment(acquittal, "acquittal")
    for finding in sample.verdict:
        kind, role = _KINDS[finding.remark]
        yield from layout.comment(f"{kind}: {printable(finding.text)}", role)


_KINDS: dict[bool, tuple[str, Role]] = {False: ("VERDICT", "verdict"), True: ("REMARK", "remark")}


def _without_entry(sample: Sample) -> int:
    return sum(call.without_entry for thread in sample.threads for call in thread.syscalls)


def remarks(sample: Sample, layout: Layout = IN_A_PIPE) -> Iterator[str]:
    """What the reader must know of how the window went; nothing if it went as asked."""
    duration = f"{sample.window.duration_ns:,} ns"
    lost = sample.lost
    found = []
    if not sample.threads:
        found.append("No thread began or ended anything: all slept, or ran, throughout.")
    if sample.window.ended_by == "interrupt":
        found.append(f"Interrupted: the window ended after {duration}.")
    if sample.window.ended_by == "exit":
        process = f"{sample.target.pid} ({printable(sample.target.comm)})"
        found.append(f"Process {process} exited: the window ended after {duration}.")
    if denied := _without_entry(sample):
        found.append(
            f"{denied:,} system calls had no entry: a seccomp filter or a tracer denied them, or it"
            ' was missed. How long they took is not known; what of it was on a CPU is in "user".'
        )
    if lost.dropped_records:
        found.append(
            f"WARNING: no room for {lost.dropped_records} records of threads, system calls"
            " or interrupts: they are missing."
        )
    if any(thread.threads > 1 for thread in sample.threads):
        found.append(
            "So many threads ended that those of one name are summed up;"
            " the verdict is not about them."
        )
    if sample.window.ended_by == "timeout":
        found.append(f"The stop trigger did not come: the window ended after {duration}.")
    if lost.missed_triggers:
        found.append(
            f"WARNING: {lost.missed_triggers} hits of the start trigger were missed:"
            " the windows before were not reported fast enough."
        )
    if lost.events:
        found.append(
            f"WARNING: no room for {lost.events} events in the buffer: they are missing"
            " (but not in the tables). A larger --buffer-page-count or a DURATION_NS helps."
        )
    if lost.shorter_events:
        found.append(
            f"WARNING: the longest events are here; {lost.shorter_events} shorter ones are not"
            " (--max-events)."
        )
    if lost.stacks:
        found.append(
            f"WARNING: no room for the stacks of {lost.stacks} events. A larger"
            " --buffer-page-count or --stack-trace-size, or a DURATION_NS, helps."
        )
    if lost.cut_stacks:
        found.append(
            f"WARNING: the user stacks of {lost.cut_stacks} events are not whole: the copies"
            " ended before. A larger --stack-bytes, of 1048576 at most, helps."
        )
    if lost.truncated_stacks > lost.cut_stacks:
        found.append(
            f"WARNING: the user stacks of {lost.truncated_stacks - lost.cut_stacks} events are not"
            " whole: parts of them could not be read, or are more than 1 MiB away."
        )
    if lost.failed_unwinds:
        found.append(
            f"WARNING: the user stacks of {lost.failed_unwinds} events are not whole: there is code"
            " on them that says nothing of its caller."
        )
    found += timeline_remarks(sample)
    if lost.upcalls:
        found.append(f"WARNING: no room to count {lost.upcalls} upcalls: they are missing.")
    if lost.missed_events:
        found.append(
            f"WARNING: {_events_were(lost.missed_events)} missed: counts may be too low,"
            " and what is not known for it is unaccounted."
        )
    if lost.clamped_lengths:
        found.append(
            f"WARNING: {_intervals_were(lost.clamped_lengths)} counted as 0 ns long: the clocks of"
            " two CPUs differ by more than that."
        )
    for remark in found:
        role: Role = "warning" if remark.startswith("WARNING") else "remark"
        yield from layout.comment(remark, role)


def _intervals_were(count: int) -> str:
    return "1 interval was" if count == 1 else f"{count} intervals were"


def _events_were(count: int) -> str:
    return "1 kernel event was" if count == 1 else f"{count} kernel events were"
