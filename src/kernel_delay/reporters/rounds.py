"""Long rounds as they come, a line each; and how all rounds went."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from kernel_delay.analysis.missed import missed_sentences
from kernel_delay.analysis.percentiles import is_longest, percentile
from kernel_delay.analysis.rounds import cause_name, main_cause, ran_functions, samples_of
from kernel_delay.analysis.verdict.formatting import length
from kernel_delay.formatting import printable
from kernel_delay.model import (
    LogLine,
    LogMissing,
    RelatedLine,
    Round,
    RoundTotals,
    Sample,
    ThreadRounds,
    WallClock,
)
from kernel_delay.reporters.grid import Column, Table, fitted
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.syscall_events import frame_lines, frame_text

if TYPE_CHECKING:
    from kernel_delay.analysis.verdict.gain import RoundGains
    from kernel_delay.openvswitch.log import IterationsLeft

MOST_OTHERS = 8

COLUMNS = tuple(Column(name) for name in ("NAME", "TID", "ROUNDS", "P50", "P99", "LONGEST"))


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def line(sample: Sample) -> str:
    """One long round: from when to when, whose it was, how long, and why; without a newline."""
    round_, window = sample.round, sample.window
    assert round_ is not None
    began = window.start_time.astimezone().replace(tzinfo=None)
    ended = began + timedelta(microseconds=window.duration_ns / 1000)
    when = f"{began.isoformat(' ', 'milliseconds')} to {ended.time().isoformat('milliseconds')}"
    who = f"{printable(round_.name)} ({round_.tid})"
    how_long = f"{length(window.duration_ns)}{_logged(round_)}"
    return f"{when}  {who}  {how_long}  {printable(main_cause(sample))}"


_HELD: Mapping[LogMissing, str] = MappingProxyType(
    {
        "stopped": "stopped",
        "frozen": "frozen",
        "throttled": "throttled",
        "ready": "without a CPU",
    }
)


def _logged(round_: Round) -> str:
    if round_.log is not None:
        return f" [log: {round_.log.length_ms} ms, {_utc(round_.log.time)}]"
    if round_.log_missing is None:
        return ""
    held = _HELD.get(round_.log_missing)
    return f" [log: no line; {held} as its poll returned]" if held else " [log: no line]"


def _utc(time: WallClock) -> str:
    return f"{time:%H:%M:%S.%f}"[:-3] + " UTC"


def _log_lines(sample: Sample, round_: Round) -> Iterator[str]:
    if round_.log is not None:
        log = round_.log
        user = "" if log.user_ms is None else f" ({log.user_ms} ms user, {log.system_ms} ms system)"
        yield f"Open vSwitch logged it at {_utc(log.time)}: {log.length_ms} ms{user}."
        if log.length_ms * 1_000_000 > sample.window.duration_ns + _SPLIT_NS:
            yield "This round is a part of those: Open vSwitch polled a descriptor in between."
    elif round_.log_missing is not None:
        held = _HELD.get(round_.log_missing)
        yield (
            f"Open vSwitch logged no line of it: the thread was {held} as its poll returned, and"
            " Open vSwitch measures from after that."
            if held
            else "No line of Open vSwitch's log was found for it."
        )


# Open vSwitch's length of a round differs from ours by less.
_SPLIT_NS = 50_000_000


def round_lines(sample: Sample) -> Iterator[str]:
    """What is to be said of a Sample's round beside its thread; nothing if it is no round."""
    round_ = sample.round
    if round_ is None:
        return
    way = way_of(sample)
    if sample.window.ended_by == "exit":
        way = f"{way.partition(' to ')[0]} to its end by a signal"
    what = "Round"
    if sample.window.ended_by == "switch":
        what, way = "Absence", "leaving its CPU to having one again"
    number = f" {round_.number:,}" if round_.number else ""
    if sample.window.ended_by == "iteration":
        what, way = "Iteration", "one look at its queues to the next, by its log"
    yield (
        f"{what}{number} of {printable(round_.name)} ({round_.tid}), from {way}:"
        f" {sample.window.duration_ns:,} ns."
    )
    yield f"Why: {printable(main_cause(sample))}"
    yield from _log_lines(sample, round_)
    for related in round_.related:
        yield f"It logged too: {_related(related)}"
    if round_.suppressed:
        yield (
            f"{_many(round_.suppressed, 'more round')} {_were(round_.suppressed)} long since the"
            " record before, and not recorded: too soon after one that was no shorter (--min-gap)."
        )
    yield from _steal_lines(sample)
    yield from _soft_irq_lines(sample, round_)
    yield from _unsplit_lines(sample)
    yield from _other_lines(round_)


def way_of(sample: Sample) -> str:
    """Say from where to where rounds like a Sample's go."""
    start, stop = sample.window.start_trigger, sample.window.stop_trigger
    if start and stop:
        return f"{printable(start.trigger)} to {printable(stop.trigger)}"
    return "a poll's return to the next poll"


# Less of a round that the hypervisor took is next to nothing.
STOLEN_SHARE = 0.01


def _steal_lines(sample: Sample) -> Iterator[str]:
    (thread, *_) = sample.threads
    stolen_ns = (thread.task_times.steal_ns or 0) if thread.task_times else 0
    if stolen_ns >= STOLEN_SHARE * sample.window.duration_ns:
        yield f"The hypervisor took {length(stolen_ns)} of its time on CPUs, in user and kernel."


# A thread that ran for less has next to nothing that could be of soft IRQs.
RAN_SHARE = 0.01


def _soft_irq_lines(sample: Sample, round_: Round) -> Iterator[str]:
    """From when on they are measured, where that matters."""
    if round_.soft_irqs_start_ns is None:
        return
    times = (thread.time for thread in sample.threads if thread.time is not None)
    if sum(time.user_ns + time.kernel_ns for time in times) < RAN_SHARE * sample.window.duration_ns:
        return
    late_ns = max(0, round_.soft_irqs_start_ns - sample.window.start_ns)
    yield (
        f"Soft IRQs are measured from {late_ns / 1e6:,.1f} ms of the round on; before that they are"
        " in user and kernel."
    )


def _unsplit_lines(sample: Sample) -> Iterator[str]:
    """How much of the program's time may have been calls', if that is not next to nothing."""
    unsplit_ns = sum(thread.unsplit_ns for thread in sample.threads)
    if unsplit_ns >= RAN_SHARE * sample.window.duration_ns:
        yield (
            f"Of user, {unsplit_ns / 1e6:,.1f} ms have no sample: some of that may be in system"
            " calls."
        )


def _related(line: RelatedLine) -> str:
    who = printable(line.thread) or "the main thread"
    when = _utc(line.time)
    if line.length_us is not None:
        took = length(1000 * line.length_us)
        return f"{who} took {took} for an iteration, until {when}: {printable(line.reason)}."
    if line.what == "dump":
        return f"{who} took {line.length_ms:,} ms to dump flows, until {when}."
    return f"{who} was blocked for {line.length_ms:,} ms, until {when}, by this thread."


def left_lines(lines: Iterable[LogLine], related: Iterable[RelatedLine]) -> Iterator[str]:
    """What Open vSwitch logged and no record explains."""
    for line in lines:
        who = printable(line.thread) or "its main thread"
        yield (
            f"Open vSwitch logged a round of {line.length_ms} ms of {who} at {line.time:%H:%M:%S}"
            " UTC: there is no record of that"
        )
    for other in related:
        slow = printable(other.slow) or "the main thread"
        what = f"took {other.length_ms} ms to dump flows"
        if other.what == "quiesce":
            what = f"kept {printable(other.thread) or 'the main thread'} for {other.length_ms} ms"
        yield (
            f"Open vSwitch logged that {slow} {what} at {other.time:%H:%M:%S} UTC: no record"
            " explains that"
        )


def left_iteration_lines(left: "Mapping[str, IterationsLeft]") -> Iterator[str]:
    """The suspicious iterations of PMD threads that Open vSwitch logged and no record explains."""
    for thread, iterations in left.items():
        many = _many(iterations.count, "suspicious iteration")
        yield (
            f"Open vSwitch logged {many} of {printable(thread)}, up to"
            f" {length(1000 * iterations.longest_us)}: no record explains them. The thread worked"
            " in the kernel or was off its CPU, or --pmd-gap or --min-gap left the record out"
        )


def _other_lines(round_: Round) -> Iterator[str]:
    if not round_.others:
        return
    around_ns = round_.others_stop_ns - round_.others_start_ns
    yield f"Other threads, in the {length(around_ns)} around it:"
    for other in round_.others[:MOST_OTHERS]:
        yield (
            f"  {printable(other.name)} ({other.tid}) ran {length(other.ran_ns)}, waited"
            f" {length(other.runnable_ns)} for a CPU; then: {printable(other.activity)}"
        )
    left = round_.others[MOST_OTHERS:]
    if left:
        ran_ns = sum(other.ran_ns for other in left)
        yield f"  and {len(left)} more, which ran {length(ran_ns)} together"


MOST_FUNCTIONS, MOST_FRAMES = 5, 12


def profile_lines(sample: Sample, layout: Layout) -> Iterator[str]:
    """What the thread of a round ran since it was long already; nothing without samples."""
    round_ = sample.round
    if round_ is None or not round_.profile or round_.profile_start_ns is None:
        return
    samples = samples_of(round_)
    late_ns = max(0, round_.profile_start_ns - sample.window.start_ns)
    yield ""
    yield ""
    yield layout.heading(
        f"# WHAT IT RAN: {samples:,} SAMPLES, {round_.profile_hz} IN A SECOND ON A CPU, FROM"
        f" {late_ns / 1e6:,.1f} ms OF THE ROUND ON:"
    )
    yield layout.heading(f"  {'SAMPLES':>10} {'%':>7}  FUNCTION")
    yield layout.heading(f"  {'-' * 10} {'-' * 7}  {'-' * 16}")
    for function in ran_functions(sample)[:MOST_FUNCTIONS]:
        share = 100 * function.samples / samples
        yield f"  {function.samples:10,} {share:7.3f}  {printable(function.name)}"
        for frame in sample.stacks[function.stack][:MOST_FRAMES]:
            yield from frame_lines(frame_text(frame), layout)


NO_ROUNDS = (
    "No thread had a round: none polled. Measure threads that do not poll with `kernel-delay -p`,"
    " or give their rounds with --start-trigger and --stop-trigger."
)


def summary_lines(totals: RoundTotals, unwritten: int = 0) -> Iterator[str]:
    """How all rounds of a process went, and what of the long ones is not recorded."""
    lines = list(table(totals.threads))
    yield from lines if len(lines) > 1 else [NO_ROUNDS]
    if totals.suppressed:
        yield (
            f"{totals.suppressed:,} of {_many(totals.long, 'long round')}"
            f" {_were(totals.suppressed)} not recorded: within --min-gap of one of the same thread"
            " that was no shorter, or of eight records."
        )
    if totals.missed:
        yield f"WARNING: no room for {_many(totals.missed, 'long round')}: not recorded."
    if totals.left:
        yield (
            f"{_many(totals.left, 'long round')} {_were(totals.left)} not recorded any more when it"
            " was ended."
        )
    if unwritten:
        yield f"WARNING: {_many(unwritten, 'recording')} could not be written."
    if missed := " ".join(missed_sentences(totals.lost)):
        yield f"WARNING: {missed}"


CAUSE_COLUMNS = tuple(Column(name) for name in ("CAUSE", "COUNT", "LONGEST", "TOTAL"))


class Causes:
    """How many of some records each cause has, and how long their rounds were."""

    def __init__(self) -> None:
        """Know of none."""
        self._lengths: dict[str, list[int]] = {}

    def add(self, sample: Sample) -> None:
        """Count a record in."""
        self._lengths.setdefault(cause_name(sample), []).append(sample.window.duration_ns)

    def lines(self, width: int = 100) -> Iterator[str]:
        """A table, with what took most first; nothing without records."""
        listed = sorted(self._lengths.items(), key=lambda each: -sum(each[1]))
        rows = [
            (name, f"{len(lengths):,}", length(max(lengths)), length(sum(lengths)))
            for name, lengths in listed
        ]
        if rows:
            yield ""
            for part in fitted(Table("RECORDS BY", CAUSE_COLUMNS, rows), width):
                yield from part


MOST_CAUSES = 3

# A rate of less time says little of an hour.
LEAST_RATE_NS = 600 * 10**9
_HOUR_NS = 3600 * 10**9


def gain_lines(gains: "RoundGains", threshold_ns: int, watched_ns: int) -> Iterator[str]:
    """How many of the recorded rounds would have been short without each cause."""
    for cause in list(gains.causes())[:MOST_CAUSES]:
        rate = ""
        if watched_ns >= LEAST_RATE_NS:
            each_hour = cause.rounds * _HOUR_NS / watched_ns
            rate = f", {each_hour:,.{0 if each_hour >= 10 else 1}f} an hour"
        most = "up to " if cause.is_most else ""
        of = _many(gains.rounds, "recorded round")
        yield (
            f"Without {cause.rule}, {most}{cause.rounds:,} of {of} would have been below"
            f" {length(threshold_ns)}{rate}."
        )


def open_lines(totals: RoundTotals, threshold_ns: int) -> Iterator[str]:
    """Which rounds are long already and not over: of these there is no record."""
    for each in totals.threads:
        if each.open_since_ns is None:
            continue
        open_ns = totals.time_ns - each.open_since_ns
        if open_ns >= max(threshold_ns, 1):
            who = f"{printable(each.name)} ({each.tid})"
            now = printable(each.activity)
            since = f"a round has been open for {length(open_ns)}"
            yield f"{who}: {since}, and has no record; now: {now}"


def dump_lines(totals: RoundTotals) -> Iterator[str]:
    """What each thread does now, and since when its round is open."""
    living = sum(each.tid != 0 for each in totals.threads)
    yield f"{_many(living, 'thread')}, {_many(totals.long, 'long round')}"
    for each in totals.threads:
        if each.tid:
            yield f"{printable(each.name)} ({each.tid}): {_now(each, totals.time_ns)}"


def _now(thread: ThreadRounds, time_ns: int) -> str:
    rounds = f"{printable(thread.activity)}; {_many(sum(thread.lengths), 'round')}"
    if thread.open_since_ns is None:
        return rounds
    return f"{rounds}, one open for {length(max(0, time_ns - thread.open_since_ns))}"


def table(threads: Iterable[ThreadRounds], width: int = 100) -> Iterator[str]:
    """How many rounds there were and how long; the threads with the longest first."""
    listed = sorted(threads, key=lambda each: -each.longest_ns)
    rows = [
        (
            printable(each.name),
            str(each.tid) if each.tid else "ended",
            f"{sum(each.lengths):,}",
            percentile_text(each, 0.5),
            percentile_text(each, 0.99),
            length(each.longest_ns),
        )
        for each in listed
        if any(each.lengths)
    ]
    for part in fitted(Table("THREAD", COLUMNS, rows), width):
        yield from part


def percentile_text(thread: ThreadRounds, fraction: float) -> str:
    """A percentile of a thread's rounds, of which there are some: with ~ where it is estimated."""
    about = "" if is_longest(thread.lengths, fraction) else "~"
    return f"{about}{length(percentile(thread.lengths, fraction, thread.longest_ns))}"
