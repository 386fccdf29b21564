"""A Sample as the text report of kernel_delay.py, so that its parsers keep working."""

import datetime
from collections.abc import Callable, Iterator

from kernel_delay.model import Sample, Thread, Window
from kernel_delay.printable import printable
from kernel_delay.reporters.events import event_lines
from kernel_delay.reporters.tables import tables

Heading = Callable[[str], str]

INDENT = " " * 28


def render(sample: Sample, heading: Heading = str) -> str:
    """The report of one window; `heading` may add colour to a heading."""
    return "".join(chunks(sample, heading))


def chunks(sample: Sample, heading: Heading = str) -> Iterator[str]:
    """The same in pieces, each of whole lines: a million events are gigabytes of text."""
    return (f"{lines}\n" for lines in _report(sample, heading))


def _report(sample: Sample, heading: Heading) -> Iterator[str]:
    yield from _timestamps(sample.window)
    if sample.window.skipped:
        return
    yield heading(f"{'TID':10} {'THREAD':16} <RESOURCE SPECIFIC>")
    yield heading(f"{'-' * 10} {'-' * 16} {'-' * 76}")
    for position, thread in enumerate(sorted(sample.threads, key=lambda t: (t.name, t.tid))):
        if position > 0:
            yield ""
        yield from _thread(thread, heading)
    yield from event_lines(sample, heading)
    yield from _remarks(sample)


def _timestamps(window: Window) -> Iterator[str]:
    duration = datetime.timedelta(microseconds=window.duration_ns // 1000)
    start = f" (trigger@{window.start_ns})" if window.start_trigger else ""
    stop = f" (trigger@{window.stop_ns})" if window.stop_trigger else ""
    yield _timestamp(f"Start sampling{start}", window.start_time)
    yield _timestamp(f"Stop sampling{stop}", window.start_time + duration)
    yield _timestamp(_dump(window), window.collected_time)


def _dump(window: Window) -> str:
    if window.skipped:
        return f"Sample dump skipped, delta {window.duration_ns:,} ns"
    if window.start_trigger and window.stop_trigger:
        return f"Triggered sample dump, stop-start delta {window.duration_ns:,} ns"
    return "Sample dump"


def _timestamp(what: str, when: datetime.datetime) -> str:
    local = when.astimezone().replace(tzinfo=None).isoformat(timespec="microseconds")
    utc = when.astimezone(datetime.UTC)
    return f"# {what} @{local} ({utc:%H:%M:%S} UTC)"


def _thread(thread: Thread, heading: Heading) -> Iterator[str]:
    before_title = f"{thread.tid:10} {printable(thread.name):16} "
    for table in tables(thread):
        if not (table.rows or table.always):
            continue
        yield before_title + heading(table.title)
        yield INDENT + heading(table.columns)
        yield from (INDENT + row for row in table.rows)
        before_title = f"\n{INDENT}"


def _remarks(sample: Sample) -> Iterator[str]:
    """What the reader must know of how the window went; nothing if it went as asked."""
    duration = f"{sample.window.duration_ns:,} ns"
    lost = sample.lost
    remarks = []
    if not sample.threads:
        remarks.append("No thread began or ended anything: all slept, or ran, throughout.")
    if sample.window.ended_by == "interrupt":
        remarks.append(f"Interrupted: the window ended after {duration}.")
    if sample.window.ended_by == "exit":
        process = f"{sample.target.pid} ({printable(sample.target.comm)})"
        remarks.append(f"Process {process} exited: the window ended after {duration}.")
    if lost.map_entries:
        remarks.append(
            f"WARNING: no room for {lost.map_entries} records of threads, system calls"
            " or interrupts: they are missing above."
        )
    if sample.window.ended_by == "timeout":
        remarks.append(f"The stop trigger did not come: the window ended after {duration}.")
    if lost.missed_triggers:
        remarks.append(
            f"WARNING: {lost.missed_triggers} hits of the start trigger were missed:"
            " the windows before were not reported fast enough."
        )
    if lost.events:
        remarks.append(
            f"WARNING: no room for {lost.events} events in the buffer: they are missing above"
            " (but not in the tables). A larger --buffer-page-count or a DURATION_NS helps."
        )
    if lost.shorter_events:
        remarks.append(
            f"WARNING: the longest events are above; {lost.shorter_events} shorter ones are not"
            " (--max-events)."
        )
    if lost.stacks:
        remarks.append(
            f"WARNING: no room for the stacks of {lost.stacks} events. A larger"
            " --buffer-page-count or --stack-trace-size, or a DURATION_NS, helps."
        )
    if lost.short_stacks:
        remarks.append(
            f"WARNING: the user stacks of {lost.short_stacks} events are not whole: the copies"
            " ended before. A larger --stack-bytes helps."
        )
    if lost.broken_stacks:
        remarks.append(
            f"WARNING: the user stacks of {lost.broken_stacks} events are not whole: there is code"
            " on them that says nothing of its caller."
        )
    if lost.missed_events:
        remarks.append(
            f"WARNING: {lost.missed_events} kernel events were missed:"
            " counts and times above may be too low."
        )
    if remarks:
        yield ""
    yield from (f"# {remark}" for remark in remarks)
