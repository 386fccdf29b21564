"""Lines of Open vSwitch's log that say of long rounds, and which round each is of."""

import datetime
import re

from kernel_delay.host.target import LONGEST_COMM
from kernel_delay.model import LogLine, LogMissing, RelatedLine, Round, Sample

# The form that vlog gives to a line of a file (lib/vlog.c, 2.17 to 4.0); a thread's name is
# missing for the main one.
_HEAD = r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?)Z\|\d+\|%s(?:\(([^|)]*)\))?\|(?:WARN|INFO)\|"

LONG_MESSAGE = (
    r"Unreasonably long (\d{1,12})ms poll interval"
    r"(?: \((-?\d{1,12})ms user, (-?\d{1,12})ms system\))?"
)
"""lib/timeval.c:log_poll_interval()"""

QUIESCE_MESSAGE = r"blocked (\d{1,12}) ms waiting for (.{0,15}) to quiesce$"
"""lib/ovs-rcu.c:ovsrcu_synchronize(); the main thread is called "main" there."""

DUMP_MESSAGE = r"Spent an unreasonably long (\d{1,12})ms dumping flows$"
"""ofproto/ofproto-dpif-upcall.c:udpif_revalidator(), by the thread that leads the others."""

ITERATION_MESSAGE = r"Suspicious iteration \((.{1,40})\): iter=(\d{1,18}) duration=(\d{1,15}) us$"
"""lib/dpif-netdev-perf.c:pmd_perf_end_iteration(), by a PMD thread, some iterations later. That is
on with `dpif-netdev/pmd-perf-log-set`."""

_LINE = re.compile(_HEAD.replace("|INFO", "") % "timeval" + LONG_MESSAGE)
_QUIESCE = re.compile(_HEAD % "ovs_rcu" + QUIESCE_MESSAGE)
_DUMP = re.compile(_HEAD % "ofproto_dpif_upcall" + DUMP_MESSAGE)
_ITERATION = re.compile(_HEAD % "pmd_perf" + ITERATION_MESSAGE)

SHORTEST_LOGGED_MS = 1000
"""Of a round that is logged: lib/timeval.c:log_poll_interval(), all versions."""

# A round's length in the log is of two readings of a clock in ms, and from a little after the
# poll's return to a little before the next one. The line has the time of the second. A thread that
# is kept from its CPU just there has a longer round, by what kept it at most.
TOLERANCE_MS = 50
TOLERANCE = datetime.timedelta(milliseconds=TOLERANCE_MS)

# The line has whole milliseconds, and comes when some more iterations are over, which take
# microseconds. It may say too short a length: without DPDK Open vSwitch takes for the rate of the
# CPU's cycle counter what it counted in a sleep of 100 ms, which is longer on a busy machine.
ITERATION_TOLERANCE = datetime.timedelta(milliseconds=2)


def parse_line(line: str) -> LogLine | None:
    """Return what a line of the log says of a round; None if it is of anything else."""
    match = _LINE.match(line)
    time_ = match and _time(match[1])
    if match is None or time_ is None:
        return None
    _, thread, length, user, system = match.groups()
    return LogLine(
        time=time_,
        thread=thread or "",
        length_ms=int(length),
        user_ms=None if user is None else int(user),
        system_ms=None if system is None else int(system),
    )


def parse_related(line: str) -> RelatedLine | None:
    """Return what a line says of a thread that others waited for, a dump, or an iteration."""
    quiesce, dump, iteration = _QUIESCE.match(line), _DUMP.match(line), _ITERATION.match(line)
    match = quiesce or dump or iteration
    when = match and _time(match[1])
    if match is None or when is None:
        return None
    if iteration:
        thread, us = iteration[2] or "", int(iteration[5])
        return RelatedLine(when, thread, "iteration", us // 1000, thread, us, iteration[3])
    thread, length = match[2] or "", int(match[3])
    if quiesce:
        slow = "" if quiesce[4] == "main" else quiesce[4]
        return RelatedLine(when, thread, "quiesce", length, slow)
    return RelatedLine(when, thread, "dump", length, thread)


def _time(when: str) -> datetime.datetime | None:
    """None for what is no time, or of no time in which this may be read."""
    try:
        time_ = datetime.datetime.fromisoformat(when).replace(tzinfo=datetime.UTC)
    except ValueError:
        return None
    return time_ if 2000 <= time_.year < 9000 else None


def is_of(line: LogLine, sample: Sample) -> bool:
    """Return whether the line can be of the Sample's round: its thread, and its time in the round.

    The rest of the round is what kept the thread as its poll returned, or before the next one.
    """
    if not _is_of_thread(line, sample):
        return False
    if _start_of(line) < sample.window.start_time - TOLERANCE:
        return False
    if line.time > end_of(sample) + TOLERANCE:
        return False
    return sample.window.duration_ns / 1e6 - line.length_ms <= TOLERANCE_MS + _held_ms(sample)


def has_most_of(line: LogLine, sample: Sample) -> bool:
    """Return whether the Sample's round is most of what the line is of.

    Open vSwitch also polls a descriptor without waiting: the RCU thread in
    lib/latch-unix.c:latch_is_set(). A round ends there, and that of the line goes on.
    """
    if not _is_of_thread(line, sample):
        return False
    if sample.window.start_time < _start_of(line) - TOLERANCE:
        return False
    if end_of(sample) > line.time + TOLERANCE:
        return False
    return 2 * sample.window.duration_ns >= line.length_ms * 1_000_000


def is_expected(sample: Sample) -> bool:
    """Return whether Open vSwitch logs a line of such a round: of none of a PMD thread."""
    is_of_pmd = sample.window.ended_by in ("switch", "iteration")
    return not is_of_pmd and sample.window.duration_ns >= (SHORTEST_LOGGED_MS - 1) * 1_000_000


def why_missing(sample: Sample) -> LogMissing:
    """Say why there is no line: Open vSwitch takes the time when its poll has returned.

    What held the thread before is in the round, and not in what Open vSwitch measures.
    """
    time_ = sample.threads[0].time
    if time_ is None:
        return "not_found"
    held: dict[LogMissing, int] = {
        "stopped": time_.stopped_ns,
        "frozen": time_.frozen_ns,
        "throttled": time_.throttled_ns,
        "ready": time_.ready_ns,
    }
    why = max(held, key=lambda each: held[each])
    is_short = sample.window.duration_ns - held[why] < SHORTEST_LOGGED_MS * 1_000_000
    return why if is_short else "not_found"


def explains(sample: Sample, round_: Round, line: RelatedLine) -> bool:
    """Return whether the Sample's round is why the line was written.

    What the line is about lies in the round: a thread quiesces when it polls, and a dump of flows
    begins and ends between two polls.
    """
    if line.slow[:LONGEST_COMM] != _name_in_log(sample, round_):
        return False
    starts_within = sample.window.start_time <= _start_of(line) + TOLERANCE
    return starts_within and line.time <= end_of(sample) + TOLERANCE


def had_absence(line: RelatedLine, sample: Sample) -> bool:
    """Return whether a PMD thread was off its CPU for half of the line's iteration, or more."""
    round_, window = sample.round, sample.window
    if round_ is None or line.length_us is None:
        return False
    if line.thread[:LONGEST_COMM] != round_.name:
        return False
    away = datetime.timedelta(microseconds=window.duration_ns / 1000)
    length = datetime.timedelta(microseconds=line.length_us)
    rest = max(length - away, datetime.timedelta())
    since = line.time - end_of(sample)
    if not -ITERATION_TOLERANCE <= since <= rest + ITERATION_TOLERANCE:
        return False
    return length <= 2 * away


def _start_of(line: LogLine | RelatedLine) -> datetime.datetime:
    return line.time - datetime.timedelta(milliseconds=line.length_ms)


def _is_of_thread(line: LogLine, sample: Sample) -> bool:
    round_ = sample.round
    return round_ is not None and line.thread[:LONGEST_COMM] == _name_in_log(sample, round_)


def _name_in_log(sample: Sample, round_: Round) -> str:
    return "" if round_.tid == sample.target.pid else round_.name


def end_of(sample: Sample) -> datetime.datetime:
    """Return when the Sample's window ended."""
    window = sample.window
    return window.start_time + datetime.timedelta(microseconds=window.duration_ns / 1000)


def _held_ms(sample: Sample) -> float:
    time = sample.threads[0].time
    if time is None:
        return 0.0
    return (time.ready_ns + time.throttled_ns + time.stopped_ns + time.frozen_ns) / 1e6
