"""From the lines of one log to long rounds: each with its resource usage, and what else was logged.

lib/timeval.c:log_poll_interval() writes up to four lines, one after the other; other threads
may write lines between them. A thread numbers its lines, so that a missing one is noticed.
"""

import datetime
import re
from collections import deque
from collections.abc import Iterator

from msgspec import Struct, field

from kernel_delay.commands.log.causes import Cause, Usage, cause_of
from kernel_delay.commands.log.lines import Line
from kernel_delay.commands.log.meanwhile import (
    ORDER,
    Logged,
    LoggedKind,
    Noted,
    is_shown,
    noted_of,
    rcu_name,
)
from kernel_delay.model import WallClock
from kernel_delay.openvswitch.log_lines import LONG_MESSAGE

MOST_THREADS = 4096
"""Threads of a log that are followed at once; their names are the log's."""

MOST_BEFORE = 200
"""Lines that are kept until it is known whether a long round has them."""

FIRST_LINES = 100
"""A lower number after a higher one is of a new process, if it is one of that process's first."""

MOST_LOGGED = 6
"""Lines that a round has of what was logged in it."""

_LONG = re.compile(LONG_MESSAGE)

# Open vSwitch before 1.9, of a process of one thread.
_LONG_BEFORE_1_9 = re.compile(
    r"(\d{1,18}) ms poll interval \((-?\d{1,18}) ms user, (-?\d{1,18}) ms system\) is over "
)
_FAULTS = re.compile(r"faults: (\d{1,18}) minor, (\d{1,18}) major$")
_DISK = re.compile(r"disk: (\d{1,18}) reads, (\d{1,18}) writes$")
_SWITCHES = re.compile(r"context switches: (\d{1,18}) voluntary, (\d{1,18}) involuntary$")
_DROPPED = re.compile(r"Dropped (\d{1,10}) log messages in last (\d{1,10}) seconds")

# A longer round was not measured: what was logged in it is looked for in a day at most.
_LONGEST = datetime.timedelta(days=1)


class LongRound(Struct, frozen=True):
    """A round that the log calls unreasonably long.

    log: the log's path, without what rotation adds to it.
    time: when it ended, in UTC; None: the line does not say.
    number: of the line, as its thread counts them; None: it has none.
    thread: "" is the main one; None: not known.
    repeated: how often the line stands for (rsyslog).
    logged: what was logged while it lasted, the most telling lines; logged_lines: how many were.
    together: other threads of this log whose long rounds lay in the same time.
    """

    log: str
    program: str
    host: str
    thread: str | None
    time: WallClock | None
    number: int | None
    usage: Usage
    cause: Cause
    repeated: int = 1
    logged: tuple[Logged, ...] = ()
    logged_lines: int = 0
    together: int = 0


class Stall(Struct):
    """A thread that others waited for, without a line of a long round of its own behind that."""

    log: str
    program: str
    thread: str
    time: WallClock | None
    blocked_ms: int


class Losses(Struct):
    """What is known not to be in a log.

    dropped: lines that vlog's rate limit dropped, by module.
    unread: lines of long rounds in a form that is not known.
    without_time: lines of long rounds that say no time.
    without_zone: lines whose time has no zone.
    """

    dropped: dict[str, int] = field(default_factory=dict)
    unread: int = 0
    without_time: int = 0
    without_zone: int = 0


# A thread of a program on a host: who numbers lines.
_Writer = tuple[str, str, str | None]


class _Numbers(Struct):
    """What the numbers of a thread's lines say; `is_one`: they are of one process at a time."""

    last: int
    message: str
    missing: int = 0
    is_one: bool = True


class _Open(Struct):
    """A round whose further lines may come."""

    line: Line
    expected: int | None
    figures: dict[str, int]
    logged: tuple[Logged, ...]
    logged_lines: int


class Rounds:
    """Takes the lines of a log in their order, and makes long rounds of them."""

    def __init__(self, log: str, program: str) -> None:
        """Start before the first line; `program` where the lines do not name it."""
        self.losses = Losses()
        self.lines = 0
        self.first: datetime.datetime | None = None
        self.last: datetime.datetime | None = None
        self._log = log
        self._program = program
        self._open: dict[_Writer, _Open] = {}
        self._numbers: dict[_Writer, _Numbers] = {}
        self._before: deque[Noted] = deque(maxlen=MOST_BEFORE)
        self._blocked: dict[str, Stall] = {}

    def take(self, line: Line) -> Iterator[LongRound]:
        """Take a line; yield the rounds that are whole by it."""
        self.lines += 1
        if line.time is not None:
            self.first = line.time if self.first is None else min(self.first, line.time)
            self.last = line.time if self.last is None else max(self.last, line.time)
            self.losses.without_zone += not line.has_zone
        writer = _writer(line)
        if self._is_twice(writer, line):
            return
        if writer in self._open:
            if _add_figures(self._open[writer], line):
                return
            yield self._ended(writer, line)
        if line.module == "timeval" and (usage := _usage(line.message)):
            if len(self._open) >= MOST_THREADS:
                yield self._ended(next(iter(self._open)), None)
            self._begin(writer, line, usage)
            return
        if match := _DROPPED.match(line.message):
            self._add_dropped(line.module, int(match[1]))
            return
        if line.module == "timeval" and "poll interval" in line.message:
            self.losses.unread += 1
        self._note(line)

    def rest(self) -> Iterator[LongRound]:
        """Yield the rounds of which no further lines came."""
        while self._open:
            yield self._ended(next(iter(self._open)), None)

    def stalls(self) -> list[Stall]:
        """Return the threads that others waited for in the end, the longest first."""
        return sorted(self._blocked.values(), key=lambda each: -each.blocked_ms)

    def _is_twice(self, writer: _Writer, line: Line) -> bool:
        """Whether it is the thread's last line again, elsewhere; count those that are missing."""
        if line.number is None:
            return False
        known = self._numbers.get(writer)
        if known is None:
            if len(self._numbers) < MOST_THREADS:
                self._numbers[writer] = _Numbers(line.number, line.message)
            return False
        if (line.number, line.message) == (known.last, known.message):
            return True
        # Of syslog not all lines have to be there: it has levels of its own.
        if line.number > known.last and line.has_zone:
            known.missing += line.number - known.last - line.repeated
        elif FIRST_LINES < line.number < known.last:
            known.is_one = False
        known.last, known.message = line.number, line.message
        return False

    def missing(self) -> int:
        """Return how many lines are missing by their numbers."""
        return sum(each.missing for each in self._numbers.values() if each.is_one)

    def _add_dropped(self, module: str, count: int) -> None:
        if module in self.losses.dropped or len(self.losses.dropped) < MOST_THREADS:
            self.losses.dropped[module] = self.losses.dropped.get(module, 0) + count

    def _begin(self, writer: _Writer, line: Line, figures: dict[str, int]) -> None:
        if line.time is None:
            self.losses.without_time += 1
        expected = None if line.number is None else line.number + 1
        logged, count = self._logged_in(line, figures["length_ms"])
        self._open[writer] = _Open(line, expected, figures, logged, count)
        self._blocked.pop(rcu_name(line.thread), None)

    def _ended(self, writer: _Writer, following: Line | None) -> LongRound:
        """The round; what was not written was 0 if the thread's next line shows that."""
        open_ = self._open.pop(writer)
        figures = open_.figures
        is_next = following is not None and following.number == open_.expected is not None
        if is_next or "voluntary" in figures:
            for name in ("minor_faults", "major_faults", "blocks_read", "blocks_written"):
                figures.setdefault(name, 0)
            figures.setdefault("voluntary", 0)
            figures.setdefault("involuntary", 0)
        usage = Usage(**figures)
        line = open_.line
        return LongRound(
            log=self._log,
            program=line.program or self._program,
            host=line.host,
            thread=line.thread,
            time=line.time,
            number=line.number,
            usage=usage,
            cause=cause_of(usage),
            repeated=line.repeated,
            logged=open_.logged,
            logged_lines=open_.logged_lines,
        )

    def _note(self, line: Line) -> None:
        """Keep what may be of a round that is still to be logged."""
        if line.level == "DBG" or line.module in ("timeval", "coverage"):
            return
        noted = noted_of(line)
        self._before.append(noted)
        if noted.waits_for:
            self._add_stall(noted)

    def _add_stall(self, noted: Noted) -> None:
        line, thread = noted.line, noted.waits_for
        known = self._blocked.get(thread)
        if known is not None and known.blocked_ms > noted.waited_ms:
            return
        if known is not None or len(self._blocked) < MOST_THREADS:
            program = line.program or self._program
            self._blocked[thread] = Stall(self._log, program, thread, line.time, noted.waited_ms)

    def _logged_in(self, line: Line, length_ms: int) -> tuple[tuple[Logged, ...], int]:
        """What was logged from the round's begin on, the most telling lines in their order."""
        if line.time is None:
            return (), 0
        try:
            begin = line.time - min(datetime.timedelta(milliseconds=length_ms), _LONGEST)
        except OverflowError:
            return (), 0
        found: dict[tuple[LoggedKind, object], Logged] = {}
        count = 0
        for noted in reversed(self._before):
            each, kind = noted.line, noted.kind
            if each.time is None or each.time > line.time:
                continue
            if each.time < begin:
                break
            count += 1
            if not is_shown(noted, line):
                continue
            # Of those that wait for the same the last one says for how long.
            key = (kind, each.thread if kind == "quiesce" else count)
            logged = Logged(
                kind, each.time, each.thread or "", each.module, each.level, each.message
            )
            found.setdefault(key, logged)
        chosen = sorted(found.values(), key=lambda each: ORDER.index(each.kind))[:MOST_LOGGED]
        return tuple(sorted(chosen, key=lambda each: each.time)), count


def _add_figures(open_: _Open, line: Line) -> bool:
    """Whether it is a further line of the same round."""
    if line.module != "timeval" or line.number != open_.expected:
        return False
    for pattern, names in (
        (_FAULTS, ("minor_faults", "major_faults")),
        (_DISK, ("blocks_read", "blocks_written")),
        (_SWITCHES, ("voluntary", "involuntary")),
    ):
        if match := pattern.match(line.message):
            open_.figures |= zip(names, map(int, match.groups()), strict=True)
            open_.expected = None if line.number is None else line.number + 1
            return True
    return False


def _usage(message: str) -> dict[str, int] | None:
    """The figures of a round's first line; None if it is none."""
    match = _LONG.match(message) or _LONG_BEFORE_1_9.match(message)
    if match is None:
        return None
    length, user, system = match.groups()
    figures = {"length_ms": int(length)}
    if user is not None:
        figures |= {"user_ms": int(user), "system_ms": int(system)}
    return figures


def _writer(line: Line) -> _Writer:
    return line.program, line.host, line.thread
