"""A Sample as the text report of kernel_delay.py, so that its parsers keep working."""

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence

from kernel_delay.analysis.states import by_name, slept_throughout, worst_first
from kernel_delay.formatting import printable
from kernel_delay.model import Sample, SkippedWindow, Target, Thread, UpcallStats, Window
from kernel_delay.reporters.accounting_tables import accounting_tables, percentile_table
from kernel_delay.reporters.block import block
from kernel_delay.reporters.grid import as_upstream
from kernel_delay.reporters.layout import IN_A_PIPE, SCREEN, Layout, unstyled
from kernel_delay.reporters.overview import overview, sleepers
from kernel_delay.reporters.processes import ONE, Processes, title_of
from kernel_delay.reporters.recording_header import short_container
from kernel_delay.reporters.remarks import remarks, verdict
from kernel_delay.reporters.rounds import profile_lines, round_lines
from kernel_delay.reporters.stacks import sleep_lines, stack_lines, waker_lines
from kernel_delay.reporters.syscall_events import event_lines
from kernel_delay.reporters.tables import name_of, tables

HEADINGS = (
    f"{'TID':10} {'THREAD':16} <RESOURCE SPECIFIC>",
    f"{'-' * 10} {'-' * 16} {'-' * 76}",
)
_INDENTED = "\n" + " " * 28

HEAD_LINES = 5
"""About as many lines say on a terminal, before the report, what is measured."""

LEAST_LINES = 20
"""Of a thread's tables, however long the verdict is."""


def render(sample: Sample, layout: Layout = IN_A_PIPE, processes: Processes = ONE) -> str:
    """The report of one window; of several `processes`, as together() has them."""
    return "".join(chunks(sample, layout, processes))


def chunks(sample: Sample, layout: Layout = IN_A_PIPE, processes: Processes = ONE) -> Iterator[str]:
    """The same in pieces, each of whole lines: a million events are gigabytes of text."""
    return (f"{lines}\n" for lines in _report(sample, layout, processes))


def _report(sample: Sample, layout: Layout, processes: Processes) -> Iterator[str]:
    shown, sleeping = in_order(sample, layout)
    head = [*timestamps(sample, layout), *process_lines(sample, layout, processes)]
    head += [comment for line in round_lines(sample) for comment in layout.comment(line)]
    if processes and any(thread.time for thread in shown):
        head += [*overview(shown, layout, processes, sample.window.duration_ns), ""]
    head += verdict(sample, layout)
    lines = max(SCREEN - HEAD_LINES - len(head), LEAST_LINES)
    yield from head
    if layout.width is None:
        yield from map(layout.heading, HEADINGS)
    above: Target | None = None
    for position, thread in enumerate(shown):
        if position > 0:
            yield ""
        target = processes.of(thread)
        if target is not None and target is not above:
            yield from layout.comment(_process(target))
        above = target
        if layout.width is None:
            yield _as_upstream(thread, layout)
        else:
            yield from block(thread, layout, layout.width, SCREEN if position else lines)
    yield from sleepers(sample, sleeping, layout, processes)
    yield from upcall_lines(sample)
    yield from profile_lines(sample, layout)
    if sample.coverage is not None:
        # As of a PMD: most reports have none.
        from kernel_delay.reporters.coverage import coverage_lines

        yield from coverage_lines(sample.coverage, layout)
    yield from stack_lines(sample, layout)
    yield from sleep_lines(sample, layout)
    yield from waker_lines(sample, layout)
    if layout.events:
        yield from event_lines(sample, layout)
    yield from closing(sample, layout)


def in_order(sample: Sample, layout: Layout) -> tuple[list[Thread], frozenset[int]]:
    """The threads to show, in the order that was asked for, and the ids of those left to a line."""
    sleeping = frozenset[int]() if layout.all_threads else slept_throughout(sample)
    threads = by_name(sample) if layout.order == "name" else worst_first(sample)
    return [thread for thread in threads if thread.tid not in sleeping], sleeping


def process_lines(sample: Sample, layout: Layout, processes: Processes) -> Iterator[str]:
    """Which process it is of, where several were measured, or could have been."""
    if processes:
        yield from processes.head(layout)
        return
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


def _process(target: Target) -> str:
    text, title = f"Process {target.pid} ({printable(target.comm)})", title_of(target)
    return text if title == printable(target.comm) else f"{text}: {title}"


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


def _as_upstream(thread: Thread, layout: Layout) -> str:
    """The tables to the right of the thread's name, as kernel_delay.py has them."""
    shown = (*tables(thread), *accounting_tables(thread))
    if thread.pmd is not None:
        # Most processes have none.
        from kernel_delay.reporters.pmd_tables import pmd_tables

        shown = (*shown, *pmd_tables(thread.pmd))
    if layout.percentiles:
        shown = (*shown, percentile_table(thread))
    parts, times = [], layout.times
    heading = str if layout.style is unstyled else layout.heading
    for table in shown:
        if table.rows or table.always:
            columns, *rows = as_upstream(table, times)
            parts.append(_INDENTED.join((heading(table.title), heading(columns), *rows)))
    return f"{thread.tid:10} {name_of(thread):16} " + f"\n{_INDENTED}".join(parts)


def upcall_lines(sample: Sample) -> Iterator[str]:
    """The section; nothing where no upcall was counted."""
    if not sample.upcalls:
        return
    failed = [stats for stats in sample.upcalls if stats.error]
    yield "\n\n# UPCALL STATISTICS (TOTAL [CPU_ID: N_UPCALLS_PER_CPU, ...]):"
    yield f"  Total upcalls       : {_counts(sample.upcalls)}"
    if not failed:
        return
    yield f"  Successfull upcalls : {_counts([s for s in sample.upcalls if not s.error])}"
    yield f"  Failed upcalls      : {_counts(failed)}"
    for stats in failed:
        yield f"    {stats.error:3}, {stats.name or 'unknown':13}: {_counts([stats])}"


def _counts(all_stats: Sequence[UpcallStats]) -> str:
    cpus: Counter[int] = Counter()
    for stats in all_stats:
        cpus.update({cpu.cpu: cpu.count for cpu in stats.cpus})
    each = ",".join(f" {cpu}: {count}" for cpu, count in sorted(cpus.items()))
    return f"{cpus.total()} [{each.strip()}]"


def render_summary(sample: Sample, layout: Layout = IN_A_PIPE, processes: Processes = ONE) -> str:
    """The summary of one window; of several `processes`, as together() has them."""
    return "".join(f"{line}\n" for line in _summary(sample, layout, processes))


def _summary(sample: Sample, layout: Layout, processes: Processes) -> Iterator[str]:
    is_each = processes or layout.all_threads
    if not is_each and any(thread.exited for thread in sample.threads):
        # Most reports are of threads that live on.
        from kernel_delay.analysis.ended import with_threads_together

        shown, sleeping = in_order(with_threads_together(sample), layout)
    else:
        shown, sleeping = in_order(sample, layout)
    yield from timestamps(sample, layout)
    yield from process_lines(sample, layout, processes)
    if not processes:
        yield from verdict(sample, layout)
    yield from overview(shown, layout, processes, sample.window.duration_ns)
    yield from sleepers(sample, sleeping, layout, processes)
    yield from closing(sample, layout)
