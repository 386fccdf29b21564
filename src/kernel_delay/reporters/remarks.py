"""What a report says in sentences: the verdict, and remarks on what was not measured."""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kernel_delay.analysis.missed import missed_sentences, say_unseen
from kernel_delay.analysis.states import states
from kernel_delay.analysis.timeline import whole_parts
from kernel_delay.analysis.verdict import is_wait
from kernel_delay.analysis.verdict.asleep import slept_long
from kernel_delay.analysis.verdict.formatting import in_percent, length, share
from kernel_delay.analysis.verdict.stopped_or_frozen import FROZEN
from kernel_delay.formatting import printable
from kernel_delay.model import EndedBy, Finding, Lost, Round, Sample, Thread
from kernel_delay.reporters.layout import IN_A_PIPE, Layout, Role

Count = Callable[[Sample], int]

_PAIR = re.compile(r"\[([^|\]]+)\|([^]]+)\]")


class Remark(NamedTuple):
    """Made of a Sample if `number_of` finds any; `text` gets the number as `n`.

    Of a pair in brackets, as in [call|calls], the first is of one, and the second of several.
    """

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
        lambda sample: not sample.threads and sample.window.ended_by != "exit",
        "No thread began or ended anything: all slept, or ran, throughout.",
    ),
    Remark(_ended_by("interrupt"), "Interrupted: the window ended after {duration}."),
    Remark(
        lambda sample: bool(sample.threads) and sample.window.ended_by == "exit",
        "{process} exited: the window ended after {duration}.",
    ),
    Remark(
        # One that ends within a window has a thread in it that runs.
        lambda sample: not sample.threads and sample.window.ended_by == "exit",
        "{process} had exited before the window began.",
    ),
    Remark(
        _without_entry,
        "{n:,} system [call|calls] had no entry: a seccomp filter or a tracer denied [it|them],"
        " or the entry was missed. How long [it|they] took is not known; what of it was on a CPU"
        ' is in "user".',
    ),
    Remark(
        _lost(lambda lost: lost.dropped_records),
        "WARNING: no room for {n:,} [record|records] of threads, system calls"
        " or interrupts: [it is|they are] missing.",
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
        "WARNING: {n:,} [hit|hits] of the start trigger [was|were] missed:"
        " the windows before were not reported fast enough.",
    ),
)

EVENTS_AND_STACKS = (
    Remark(
        _lost(lambda lost: lost.events),
        "WARNING: no room for {n:,} [event|events] in the buffer: [it is|they are] missing"
        " (but not in the tables). A larger --buffer-page-count or a DURATION_NS helps.",
    ),
    Remark(
        _lost(lambda lost: lost.shorter_events),
        "WARNING: the longest events are here; {n:,} shorter [one is|ones are] not (--max-events).",
    ),
    Remark(
        _lost(lambda lost: lost.stacks),
        "WARNING: no room for the stacks of {n:,} [event|events]. A larger"
        " --buffer-page-count or --stack-trace-size, or a DURATION_NS, helps.",
    ),
    Remark(
        _lost(lambda lost: lost.cut_stacks),
        "WARNING: the user stacks of {n:,} [event|events] are not whole: the copies"
        " ended before. A larger --stack-bytes, of 1048576 at most, helps.",
    ),
    Remark(
        _lost(lambda lost: max(0, lost.truncated_stacks - lost.cut_stacks)),
        "WARNING: the user stacks of {n:,} [event|events] are not"
        " whole: parts of them could not be read, or are more than 1 MiB away.",
    ),
    Remark(
        _lost(lambda lost: lost.failed_unwinds),
        "WARNING: the user stacks of {n:,} [event|events] are not whole: there is code"
        " on them that says nothing of its caller.",
    ),
)

COUNTS = (
    Remark(
        _lost(lambda lost: lost.upcalls),
        "WARNING: no room to count {n:,} [upcall|upcalls]: [it is|they are] missing.",
    ),
    Remark(
        _lost(lambda lost: lost.clamped_lengths),
        "WARNING: {n:,} [interval was|intervals were] counted as 0 ns long: the clocks of"
        " two CPUs differ by more than that.",
    ),
)


def remarks(sample: Sample, layout: Layout = IN_A_PIPE) -> Iterator[str]:
    """What the reader must know of how the window went; nothing if it went as asked."""
    found = [*_made(HOW_IT_WENT, sample), *_made(EVENTS_AND_STACKS, sample)]
    found += timeline_remarks(sample)
    if missed := " ".join(missed_sentences(sample.lost)):
        found.append(f"WARNING: {missed}")
    found += _unaccounted(sample)
    found += _made(COUNTS, sample)
    found += (f"{say_unseen(part)}." for part in sample.unseen)
    if sample.packet_losses is not None:
        found += (f"Not read: {printable(each)}." for each in sample.packet_losses.unread)
    if sample.coverage is not None and sample.coverage.unread is not None:
        found.append(f"Not read: coverage counters: {printable(sample.coverage.unread)}.")
    for remark in found:
        role: Role = "warning" if remark.startswith("WARNING") else "remark"
        yield from layout.comment(remark, role)


# Less of a window is not worth a line.
_UNACCOUNTED_SHARE = 0.1


def _unaccounted(sample: Sample) -> Iterator[str]:
    """Whose time is not known, though no event is known to be missed and no finding says so."""
    lost, window_ns = sample.lost, sample.window.duration_ns
    explained = any(finding.rule == FROZEN.name for finding in sample.verdict)
    if explained or lost.missed_events or lost.dropped_records:
        return
    found = _have_gaps(sample)
    if not found:
        return
    (ns, thread), others = found[0], len(found) - 1
    also = f"; {others:,} other thread{'s' if others > 1 else ''} alike" if others else ""
    yield (
        f"What {printable(thread.name)} ({thread.tid}) did for {length(ns)},"
        f" {share(ns, window_ns)} of the window, is not known{also}. A cgroup v1 freezer that froze"
        " and thawed it leaves such a gap."
    )


def _have_gaps(sample: Sample) -> list[tuple[int, Thread]]:
    """How much of a thread's time is unaccounted, where it is worth a line; the most first."""
    least_ns = _UNACCOUNTED_SHARE * sample.window.duration_ns
    found = [
        (thread.time.unaccounted_ns, thread)
        for thread in sample.threads
        if thread.time is not None
        and thread.tid
        and thread.threads == 1
        and thread.time.unaccounted_ns >= least_ns
    ]
    return sorted(found, key=lambda each: -each[0])


def _made(table: tuple[Remark, ...], sample: Sample) -> Iterator[str]:
    for number_of, text in table:
        if number := number_of(sample):
            # Before there are names in it.
            text = _PAIR.sub(r"\1" if number == 1 else r"\2", text)
            yield text.format(
                n=number, duration=length(sample.window.duration_ns), process=_who(sample)
            )


def _who(sample: Sample) -> str:
    """Whose exit ends a window."""
    if sample.processes > 1:
        return "All processes that were asked for"
    return f"Process {sample.target.pid} ({printable(sample.target.comm)})"


def timeline_remarks(sample: Sample) -> Iterator[str]:
    """The remarks; one on what is missing begins with WARNING.

    Without the timeline, which the page has elsewhere, only that one. Of threads that were summed
    up, of all processes, there is none.
    """
    if not sample.target.pid:
        return
    if sample.round is not None:
        if sample.timeline is not None:
            yield from _round_remarks(sample, sample.round)
        return
    if sample.timeline is not None:
        yield (
            f"The timeline has {len(sample.timeline):,} slices of time, thread by thread: --json"
            " prints them, and of a recording (-o) `report --perfetto` and --html draw them."
        )
    lost = sample.lost
    parts = (
        (lost.timeline_interrupts, "interrupt", "interrupts"),
        (lost.timeline_states, "state", "states"),
        (lost.timeline_modes, "call or page fault", "calls and page faults"),
    )
    missing = [f"{n:,} {one if n == 1 else several}" for n, one, several in parts if n]
    if missing:
        yield (
            f"WARNING: the timeline had no room for {', '.join(missing)}: its slices do not add up"
            " to the tables, which have all. A shorter window or a larger --max-slices helps."
        )


def _round_remarks(sample: Sample, round_: Round) -> Iterator[str]:
    slices = sample.timeline or ()
    if not slices:
        yield "WARNING: there was no room for a timeline of this round."
        return
    reported = f"The timeline has {len(slices):,} slices of time"
    where = "of a recording (-o) `report --perfetto` and --html draw them, and --json prints them"
    if not round_.slices_left_out:
        yield f"{reported}, of all of the round: {where}."
        return
    parts = whole_parts(slices, sample.window)
    left_out = f"{round_.slices_left_out:,} between are left out (--max-slices)"
    if parts is None:
        yield f"{reported}: {left_out}, all of them interrupts; {where}."
        return
    first, last = map(length, parts)
    yield f"{reported}, of the first {first} of the round and its last {last}: {left_out}; {where}."


_KINDS: dict[bool, tuple[str, Role]] = {False: ("VERDICT", "verdict"), True: ("REMARK", "remark")}


def verdict(sample: Sample, layout: Layout) -> Iterator[str]:
    """Whether the kernel is to blame, with the evidence; without accounting only what was lost."""
    is_accounted = any(thread.time for thread in sample.threads)
    acquitted = all(finding.remark for finding in sample.verdict)
    waited = any(map(is_wait, sample.verdict))
    # In a round there was time lost, whoever is to blame.
    if is_accounted and sample.round is None and acquitted and not waited:
        yield from _acquittal(sample, layout)
    for position, finding in enumerate(sample.verdict):
        kind, role = _KINDS[finding.remark]
        if position == 0 and acquitted and waited:
            # Of who waited nobody knows whether it was kept from work: no other line comes first.
            kind = "VERDICT"
        yield from _finding(kind, finding, role, layout)


def doubt(sample: Sample) -> str | None:
    """Why it is not known whether a thread was kept from its work; None: nothing speaks against it.

    It stands at the end of a sentence.
    """
    for ns, thread in _have_gaps(sample):
        part = share(ns, sample.window.duration_ns)
        return f"{part} of the window is unaccounted for {printable(thread.name)} ({thread.tid})"
    if sample.lost.dropped_records:
        return "records of threads, system calls or interrupts are missing"
    timed = [thread for thread in sample.threads if thread.time is not None]
    for thread in (each for each in timed if not each.tid):
        there_ns, lost_ns = _time_of_ended(thread)
        # Of very short threads the sum is little, too.
        if lost_ns >= _UNACCOUNTED_SHARE * max(there_ns, sample.window.duration_ns):
            many = f" ({thread.threads:,} threads that ended)" if thread.threads > 1 else ""
            return (
                f"{printable(thread.name)}{many} was ready, held or unaccounted"
                f" for {share(lost_ns, there_ns)} of its time"
            )
    if timed and all(thread.threads > 1 for thread in timed):
        return "all threads ended, and those of one name are summed up"
    return None


def _time_of_ended(thread: Thread) -> tuple[int, int]:
    """How long those that ended were there, and for how much of that they may have been delayed."""
    if thread.time is None:
        return 0, 0
    part = states(thread.time)
    lost = ("ready", "stopped", "throttled", "frozen", "unaccounted")
    return sum(part.values()) - part["absent"], sum(part[state] for state in lost)


def _acquittal(sample: Sample, layout: Layout) -> Iterator[str]:
    """That nothing was found; a thread that slept for long may not be called fine."""
    if unknown := doubt(sample):
        text = f"VERDICT: whether anything kept a thread from its work is not known: {unknown}."
        yield from layout.comment(text, "remark")
        return
    slept = slept_long(sample)
    if not slept:
        text = "VERDICT: nothing kept a thread from its work for long."
        yield from layout.comment(text, "acquittal")
        return
    (thread, ns), *others = slept
    part = share(ns, sample.window.duration_ns)
    also = f" ({len(others):,} other thread{'s' if len(others) > 1 else ''} too)" if others else ""
    text = (
        "VERDICT: no cause of a delay was found."
        f" {printable(thread.name)} ({thread.tid}) slept for {part} of the window{also}."
    )
    yield from layout.comment(text, "remark")


def _finding(kind: str, finding: Finding, role: Role, layout: Layout) -> Iterator[str]:
    """A finding: on a terminal its share first, and each sentence in lines of its own."""
    if layout.width is None or not finding.sentence:
        yield from layout.comment(f"{kind}: {printable(finding.text)}", role)
        return
    advice = (finding.advice,) if finding.advice else ()
    first, *others = map(printable, (finding.sentence, *finding.details, *advice))
    # Who lost packets need not have lost time.
    head = f"{kind} {in_percent(finding.share)}" if finding.share else kind
    yield from layout.item(f"{head}: {first}", others, role)
