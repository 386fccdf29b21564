"""What the reader must know of how a window went: how it ended, and what was lost."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kernel_delay.analysis.missed import missed_sentences, say_unseen
from kernel_delay.model import EndedBy, Lost, Sample
from kernel_delay.printable import printable
from kernel_delay.reporters.layout import IN_A_PIPE, Layout, Role
from kernel_delay.reporters.timeline import timeline_remarks

Count = Callable[[Sample], int]


class Remark(NamedTuple):
    """Made of a Sample if `number_of` finds any; `text` gets the number as `n`."""

    number_of: Count
    text: str


def _lost(count: Callable[[Lost], int]) -> Count:
    return lambda sample: count(sample.lost)


def _ended_by(what: EndedBy) -> Count:
    return lambda sample: sample.window.ended_by == what


def _without_entry(sample: Sample) -> int:
    return sum(call.without_entry for thread in sample.threads for call in thread.syscalls)


def _are_summed_up(sample: Sample) -> int:
    return sum(thread.threads > 1 for thread in sample.threads)


HOW_IT_WENT = (
    Remark(
        lambda sample: not sample.threads,
        "No thread began or ended anything: all slept, or ran, throughout.",
    ),
    Remark(_ended_by("interrupt"), "Interrupted: the window ended after {duration}."),
    Remark(_ended_by("exit"), "{process} exited: the window ended after {duration}."),
    Remark(
        _without_entry,
        "{n:,} system calls had no entry: a seccomp filter or a tracer denied them, or it"
        ' was missed. How long they took is not known; what of it was on a CPU is in "user".',
    ),
    Remark(
        _lost(lambda lost: lost.dropped_records),
        "WARNING: no room for {n} records of threads, system calls"
        " or interrupts: they are missing.",
    ),
    Remark(
        _are_summed_up,
        "So many threads ended that those of one name are summed up;"
        " the verdict is not about them.",
    ),
    Remark(
        _ended_by("timeout"),
        "The stop trigger did not come: the window ended after {duration}.",
    ),
    Remark(
        _lost(lambda lost: lost.missed_triggers),
        "WARNING: {n} hits of the start trigger were missed:"
        " the windows before were not reported fast enough.",
    ),
)

EVENTS_AND_STACKS = (
    Remark(
        _lost(lambda lost: lost.events),
        "WARNING: no room for {n} events in the buffer: they are missing"
        " (but not in the tables). A larger --buffer-page-count or a DURATION_NS helps.",
    ),
    Remark(
        _lost(lambda lost: lost.shorter_events),
        "WARNING: the longest events are here; {n} shorter ones are not (--max-events).",
    ),
    Remark(
        _lost(lambda lost: lost.stacks),
        "WARNING: no room for the stacks of {n} events. A larger"
        " --buffer-page-count or --stack-trace-size, or a DURATION_NS, helps.",
    ),
    Remark(
        _lost(lambda lost: lost.cut_stacks),
        "WARNING: the user stacks of {n} events are not whole: the copies"
        " ended before. A larger --stack-bytes, of 1048576 at most, helps.",
    ),
    Remark(
        _lost(lambda lost: max(0, lost.truncated_stacks - lost.cut_stacks)),
        "WARNING: the user stacks of {n} events are not"
        " whole: parts of them could not be read, or are more than 1 MiB away.",
    ),
    Remark(
        _lost(lambda lost: lost.failed_unwinds),
        "WARNING: the user stacks of {n} events are not whole: there is code"
        " on them that says nothing of its caller.",
    ),
)

COUNTS = (
    Remark(
        _lost(lambda lost: lost.upcalls),
        "WARNING: no room to count {n} upcalls: they are missing.",
    ),
    Remark(
        _lost(lambda lost: lost.clamped_lengths),
        "WARNING: {n} {intervals} counted as 0 ns long: the clocks of"
        " two CPUs differ by more than that.",
    ),
)


def remarks(sample: Sample, layout: Layout = IN_A_PIPE) -> Iterator[str]:
    """What the reader must know of how the window went; nothing if it went as asked."""
    found = [*_made(HOW_IT_WENT, sample), *_made(EVENTS_AND_STACKS, sample)]
    found += timeline_remarks(sample)
    if missed := " ".join(missed_sentences(sample.lost)):
        found.append(f"WARNING: {missed}")
    found += _made(COUNTS, sample)
    found += (f"{say_unseen(part)}." for part in sample.unseen)
    for remark in found:
        role: Role = "warning" if remark.startswith("WARNING") else "remark"
        yield from layout.comment(remark, role)


def _made(table: tuple[Remark, ...], sample: Sample) -> Iterator[str]:
    for number_of, text in table:
        if number := number_of(sample):
            yield text.format(
                n=number,
                duration=f"{sample.window.duration_ns:,} ns",
                process=_who(sample),
                intervals="interval was" if number == 1 else "intervals were",
            )


def _who(sample: Sample) -> str:
    """Whose exit ends a window."""
    if sample.processes > 1:
        return "All processes that were asked for"
    return f"Process {sample.target.pid} ({printable(sample.target.comm)})"
