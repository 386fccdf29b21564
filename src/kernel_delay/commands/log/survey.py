"""Sums of the long rounds of logs: what a report says. Sums are exact, details are bounded."""

import datetime
import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from kernel_delay.commands.log.causes import Cause, Usage
from kernel_delay.commands.log.files import STDIN, LogFiles, Reader
from kernel_delay.commands.log.iterations import (
    Iteration,
    IterationGroup,
    IterationGroups,
    Iterations,
)
from kernel_delay.commands.log.lines import Zone, parse
from kernel_delay.commands.log.rounds import LongRound, Losses, Rounds, Stall
from kernel_delay.model import WallClock

MOST_NEIGHBOURS = 200
"""Rounds before and after one that are looked at for those in other threads."""


def with_others(rounds: Sequence[LongRound]) -> Iterator[LongRound]:
    """Yield the rounds, each with how many other threads of its log had one at the same time.

    Args:
        rounds: in the order of their time.
    """
    by_log: dict[str, list[LongRound]] = {}
    for round_ in rounds:
        if round_.time is not None:
            by_log.setdefault(round_.log, []).append(round_)
    places = dict.fromkeys(by_log, 0)
    for round_ in rounds:
        if round_.time is None:
            yield round_
            continue
        place = places[round_.log]
        places[round_.log] += 1
        yield replace(round_, together=len(_threads_around(by_log[round_.log], place)))


def _threads_around(rounds: Sequence[LongRound], place: int) -> set[str | None]:
    """Which other threads had a round that overlaps the one at `place` by half of the shorter."""
    one = rounds[place]
    around = rounds[max(0, place - MOST_NEIGHBOURS) : place + MOST_NEIGHBOURS]
    return {each.thread for each in around if each.thread != one.thread and _overlaps(one, each)}


def _overlaps(one: LongRound, other: LongRound) -> bool:
    if one.time is None or other.time is None:
        return False
    ends = one.time.timestamp() * 1000, other.time.timestamp() * 1000
    lengths = one.usage.length_ms, other.usage.length_ms
    since = max(end - length for end, length in zip(ends, lengths, strict=True))
    return min(ends) - since >= min(lengths) / 2


MOST_ROUNDS = 10_000
"""Rounds that are kept one by one: the longest."""

MOST_GROUPS = 5000
MOST_STALLS = 100
MOST_HOURS = 20_000
MOST_DUPLICATES = 200_000
"""Lines of rounds that are remembered, to know one that is in another log too."""

OTHERS = "others"

UNKNOWN_CLASS = "?"
"""Of a thread that its line does not name."""

# The same line has the same number wherever it went. Its time may be of another zone.
_QUARTER_S = 900
_CLOSE_S = 2
_ANY = -1.0

_PROGRAM = re.compile(
    r"ovs-vswitchd|ovsdb-server(?:[-_][ns]b)?|ovn-controller(?:-vtep)?|ovn-northd|ovn-ic"
)
# What OVN-Kubernetes and scripts of OVN call the containers and files of these.
_CALLED = (
    (re.compile(r"(?:^|[/_-])(?:nbdb|ovnnb_db|ovsdb-server-nb)\b"), "ovsdb-server-nb"),
    (re.compile(r"(?:^|[/_-])(?:sbdb|ovnsb_db|ovsdb-server-sb)\b"), "ovsdb-server-sb"),
    (re.compile(r"(?:^|/)northd\b"), "ovn-northd"),
)


class Sums(Struct):
    """Sums of the rounds of one cause, in one class of threads.

    rounds: how many.
    length_ms, user_ms, system_ms, off_ms: of rounds without figures the length alone.
    minor_faults … involuntary: as far as they are known.
    """

    rounds: int = 0
    length_ms: int = 0
    user_ms: int = 0
    system_ms: int = 0
    off_ms: int = 0
    minor_faults: int = 0
    major_faults: int = 0
    blocks_read: int = 0
    blocks_written: int = 0
    voluntary: int = 0
    involuntary: int = 0

    def add(self, usage: Usage, times: int) -> None:
        """Add rounds of that usage."""
        self.rounds += times
        self.length_ms += usage.length_ms * times
        if usage.off_ms is not None:
            self.user_ms += (usage.user_ms or 0) * times
            self.system_ms += (usage.system_ms or 0) * times
            self.off_ms += usage.off_ms * times
        self.minor_faults += (usage.minor_faults or 0) * times
        self.major_faults += (usage.major_faults or 0) * times
        self.blocks_read += (usage.blocks_read or 0) * times
        self.blocks_written += (usage.blocks_written or 0) * times
        self.voluntary += (usage.voluntary or 0) * times
        self.involuntary += (usage.involuntary or 0) * times


class Group(Sums):
    """The long rounds of one class of threads in one log: their sums, whatever their cause.

    threads: the class: names without their numbers; "" is the main thread.
    causes: how many of each cause; by_cause: the sums of these alone.
    longest_ms: of one round.
    first, last: when one ended, in UTC.
    hours: in how many hours there was one; peak_hour: when most were, peak_rounds: how many.
    """

    log: str = ""
    program: str = ""
    threads: str = ""
    causes: dict[Cause, int] = field(default_factory=dict)
    by_cause: dict[Cause, Sums] = field(default_factory=dict)
    longest_ms: int = 0
    first: WallClock | None = None
    last: WallClock | None = None
    hours: int = 0
    peak_hour: WallClock | None = None
    peak_rounds: int = 0


class Log(Struct):
    """What was read of a log.

    lines: how many vlog wrote; first, last: their earliest and latest time, in UTC.
    missing: lines that are not there by the threads' numbers: rotated away, lost, or cut out.
    """

    name: str
    files: int
    lines: int
    first: WallClock | None
    last: WallClock | None
    losses: Losses
    missing: int


class LogSurvey(Struct):
    """All that is known of the logs that were read.

    rounds: the longest ones, in the order of time; all_rounds: how many there were.
    duplicates: rounds and iterations whose line was there twice, as in a journal too; they are
        counted once.
    iterations: suspicious iterations by PMD thread and reason, those with the longest sum first.
    stalls: threads that others waited for, without a long round behind it.
    left_out: files and folders that were not read whole, and why.
    cut_lines: lines that were too long to be read whole.
    """

    logs: list[Log]
    groups: list[Group]
    rounds: list[LongRound]
    all_rounds: int
    duplicates: int
    iterations: list[IterationGroup]
    stalls: list[Stall]
    left_out: list[str]
    cut_lines: int
    read_bytes: int


class _Groups:
    """Groups by log and class of threads, of rounds as these come."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str, str], Group] = {}
        self._hours: dict[tuple[str, str, str], Counter[int]] = {}

    def add(self, round_: LongRound) -> None:
        key = (round_.log, round_.program, class_of(round_.thread))
        if key not in self._groups and len(self._groups) >= MOST_GROUPS:
            key = ("", OTHERS, OTHERS)
        log, program, threads = key
        group = self._groups.setdefault(key, Group(log=log, program=program, threads=threads))
        usage, times = round_.usage, round_.repeated
        group.add(usage, times)
        group.by_cause.setdefault(round_.cause, Sums()).add(usage, times)
        group.causes[round_.cause] = group.by_cause[round_.cause].rounds
        group.longest_ms = max(group.longest_ms, usage.length_ms)
        if round_.time is not None:
            group.first = round_.time if group.first is None else min(group.first, round_.time)
            group.last = round_.time if group.last is None else max(group.last, round_.time)
            hours = self._hours.setdefault(key, Counter())
            hour = int(round_.time.timestamp()) // 3600
            if hour in hours or len(hours) < MOST_HOURS:
                hours[hour] += times

    def all(self) -> list[Group]:
        """The groups, the one with the longest sum first."""
        for key, hours in self._hours.items():
            group = self._groups[key]
            hour, group.peak_rounds = hours.most_common(1)[0]
            group.peak_hour = datetime.datetime.fromtimestamp(hour * 3600, datetime.UTC)
            group.hours = len(hours)
        return sorted(self._groups.values(), key=lambda group: -group.length_ms)


class _Longest:
    """The longest rounds, and how many there were."""

    def __init__(self) -> None:
        self.count = 0
        self._added = 0
        self._heap: list[tuple[int, int, LongRound]] = []

    def add(self, round_: LongRound) -> None:
        self.count += round_.repeated
        self._added += 1
        item = (round_.usage.length_ms, -self._added, round_)
        if len(self._heap) < MOST_ROUNDS:
            heapq.heappush(self._heap, item)
        else:
            heapq.heappushpop(self._heap, item)

    def in_order(self) -> list[LongRound]:
        """Those kept, by their time; those without a time last."""
        latest = datetime.datetime.max.replace(tzinfo=datetime.UTC)
        rounds = [round_ for _, _, round_ in self._heap]
        return sorted(rounds, key=lambda each: (each.time or latest, each.log))


class _Duplicates:
    """Knows a line that was read before, as one that is in a journal too."""

    def __init__(self) -> None:
        self.count = 0
        self._seen: dict[int, float] = {}

    def has(self, line: tuple[object, ...], time: WallClock | None) -> bool:
        """Whether it is there again; `line` is what it says, written at that time."""
        key = hash(line)
        place_s = None if time is None else time.timestamp() % _QUARTER_S
        known = self._seen.get(key)
        if known is None:
            if len(self._seen) < MOST_DUPLICATES:
                self._seen[key] = place_s if place_s is not None else _ANY
            return False
        if place_s is not None and known != _ANY:
            distance_s = abs(place_s - known)
            if min(distance_s, _QUARTER_S - distance_s) > _CLOSE_S:
                return False
        self.count += 1
        return True

    def has_round(self, round_: LongRound) -> bool:
        if round_.number is None:
            return False
        usage = round_.usage
        figures = usage.length_ms, usage.user_ms, usage.system_ms
        return self.has((round_.thread, round_.number, *figures), round_.time)


def survey(
    logs: Sequence[LogFiles], left_out: Iterable[str], timezone: datetime.tzinfo
) -> LogSurvey:
    """Read the logs, each from its oldest file to its newest.

    Args:
        logs: what files.find() returned.
        left_out: what could not be read of it.
        timezone: of times that say no zone.
    """
    reader = Reader()
    groups, longest, duplicates = _Groups(), _Longest(), _Duplicates()
    iteration_groups = IterationGroups()
    read: list[Log] = []
    stalls: list[Stall] = []
    # Programs' own logs first: of a line that is in a journal too they have its zone and all of it.
    for log in sorted(logs, key=lambda each: program_of(each.name) == ""):
        rounds = Rounds(log.name, program_of(log.name))
        iterations = Iterations(log.name, program_of(log.name))
        for found in _found_in(log, rounds, iterations, reader, timezone):
            if isinstance(found, Iteration):
                line = found.thread, found.number, found.length_us
                if not duplicates.has(line, found.time):
                    iteration_groups.add(found)
            elif not duplicates.has_round(found):
                groups.add(found)
                longest.add(found)
        if rounds.lines:
            read.append(
                Log(
                    log.name,
                    len(log.paths),
                    rounds.lines,
                    rounds.first,
                    rounds.last,
                    rounds.losses,
                    rounds.missing(),
                )
            )
        stalls = heapq.nlargest(
            MOST_STALLS, [*stalls, *rounds.stalls()], key=lambda each: each.blocked_ms
        )
    return LogSurvey(
        logs=read,
        groups=groups.all(),
        rounds=list(with_others(longest.in_order())),
        all_rounds=longest.count,
        duplicates=duplicates.count,
        iterations=iteration_groups.all(),
        stalls=stalls,
        left_out=[*left_out, *reader.left_out],
        cut_lines=reader.cut_lines,
        read_bytes=reader.read_bytes,
    )


def _found_in(
    log: LogFiles,
    rounds: Rounds,
    iterations: Iterations,
    reader: Reader,
    timezone: datetime.tzinfo,
) -> Iterator[LongRound | Iteration]:
    for path in log.paths:
        zone = Zone(timezone, _modified(path))
        for raw in reader.lines(path, path in log.listed):
            line = parse(raw, zone)
            if line is not None:
                yield from rounds.take(line)
                yield from iterations.take(line)
            elif b"Unreasonably long" in raw:
                rounds.losses.unread += 1
            else:
                iterations.take_row(raw)
    yield from rounds.rest()
    yield from iterations.rest()


def program_of(name: str) -> str:
    """Return which program's log it is by its path, as must-gather and sos have it; "": unknown."""
    for part in reversed(Path(name).parts[-6:]):
        for pattern, program in _CALLED:
            if pattern.search(part):
                return program
        if match := _PROGRAM.search(part):
            return match[0]
    return ""


def class_of(thread: str | None) -> str:
    """Return a thread's class: its name without what numbers it."""
    if thread is None:
        return UNKNOWN_CLASS
    name = re.sub(r"\d+$", "", thread.partition("/")[0])
    return "pmd" if name.startswith("pmd") else name


def _modified(path: Path) -> datetime.datetime:
    """When the file was written last: of times without a year the latest."""
    try:
        if str(path) != STDIN:
            return datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
    except (OSError, OverflowError, ValueError):
        pass
    return datetime.datetime.now(datetime.UTC)
