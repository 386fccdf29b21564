"""A Sample as the text report of kernel_delay.py, so that its parsers keep working."""

import datetime
from collections.abc import Callable, Iterator

from kernel_delay.model import Sample, SkippedWindow, Thread, Window
from kernel_delay.printable import printable
from kernel_delay.reporters.accounting_tables import accounting_tables, percentile_table
from kernel_delay.reporters.events import event_lines
from kernel_delay.reporters.tables import name_of, tables
from kernel_delay.reporters.upcall_statistics import upcall_lines

Heading = Callable[[str], str]

INDENT = " " * 28


def render(sample: Sample, heading: Heading = str, *, percentiles: bool = False) -> str:
    """The report of one window; `heading` may add colour to a heading.

    With `percentiles` each thread has a table of them.
    """
    return "".join(chunks(sample, heading, percentiles=percentiles))


def chunks(sample: Sample, heading: Heading = str, *, percentiles: bool = False) -> Iterator[str]:
    """The same in pieces, each of whole lines: a million events are gigabytes of text."""
    return (f"{lines}\n" for lines in _report(sample, heading, percentiles))


def _report(sample: Sample, heading: Heading, percentiles: bool) -> Iterator[str]:
    yield from timestamps(sample.window)
    yield heading(f"{'TID':10} {'THREAD':16} <RESOURCE SPECIFIC>")
    yield heading(f"{'-' * 10} {'-' * 16} {'-' * 76}")
    for position, thread in enumerate(sorted(sample.threads, key=lambda t: (t.name, t.tid))):
        if position > 0:
            yield ""
        yield from _thread(thread, heading, percentiles)
    yield from upcall_lines(sample)
    yield from event_lines(sample, heading)
    yield from verdict(sample)
    yield from remarks(sample)


def render_skipped(skipped: SkippedWindow) -> str:
    """The three lines of a window that was too short to be reported."""
    window = skipped.window
    read = f"Sample dump skipped, delta {window.duration_ns:,} ns"
    return "".join(f"{line}\n" for line in _timestamps(window, read))


def timestamps(window: Window) -> Iterator[str]:
    """The lines that say when the window opened, closed and was read."""
    read = "Sample dump"
    if window.start_trigger and window.stop_trigger:
        read = f"Triggered sample dump, stop-start delta {window.duration_ns:,} ns"
    return _timestamps(window, read)


def _timestamps(window: Window, read: str) -> Iterator[str]:
    duration = datetime.timedelta(microseconds=window.duration_ns // 1000)
    start = f" (trigger@{window.start_ns})" if window.start_trigger else ""
    stop = f" (trigger@{window.stop_ns})" if window.stop_trigger else ""
    yield _timestamp(f"Start sampling{start}", window.start_time)
    yield _timestamp(f"Stop sampling{stop}", window.start_time + duration)
    yield _timestamp(read, window.collected_time)


def _timestamp(what: str, when: datetime.datetime) -> str:
    local = when.astimezone().replace(tzinfo=None).isoformat(timespec="microseconds")
    utc = when.astimezone(datetime.UTC)
    return f"# {what} @{local} ({utc:%H:%M:%S} UTC)"


def _thread(thread: Thread, heading: Heading, percentiles: bool) -> Iterator[str]:
    before_title = f"{thread.tid:10} {name_of(thread):16} "
    shown = (*tables(thread), *accounting_tables(thread))
    if percentiles:
        shown = (*shown, percentile_table(thread))
    for table in shown:
        if not (table.rows or table.always):
            continue
        yield before_title + heading(table.title)
        yield INDENT + heading(table.columns)
        yield from (INDENT + row for row in table.rows)
        before_title = f"\n{INDENT}"


def verdict(sample: Sample) -> Iterator[str]:
    """Whether the kernel is to blame, with the evidence; nothing without accounting."""
    if not any(thread.time for thread in sample.threads):
        return
    yield ""
    if all(finding.remark for finding in sample.verdict):
        yield "# VERDICT: nothing kept a thread from its work for long."
    for finding in sample.verdict:
        yield f"# {'REMARK' if finding.remark else 'VERDICT'}: {printable(finding.text)}"


def _without_entry(sample: Sample) -> int:
    return sum(call.without_entry for thread in sample.threads for call in thread.syscalls)


def remarks(sample: Sample) -> Iterator[str]:
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
    if lost.upcalls:
        found.append(f"WARNING: no room to count {lost.upcalls} upcalls: they are missing.")
    if lost.missed_events:
        found.append(
            f"WARNING: {_events_were(lost.missed_events)} missed: counts may be too low,"
            " and what is not known for it is unaccounted."
        )
    if found:
        yield ""
    yield from (f"# {remark}" for remark in found)


def _events_were(count: int) -> str:
    return "1 kernel event was" if count == 1 else f"{count} kernel events were"
