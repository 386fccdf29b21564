"""What Open vSwitch's log says of long rounds: its lines, and which round each is of."""

import datetime
import errno
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.errors import NoInputError
from kernel_delay.host.target import LONGEST_COMM
from kernel_delay.model import LogLine, LogMissing, RelatedLine, Round, Sample

PROC = Path("/proc")

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

ITERATION_MESSAGE = r"Suspicious iteration \((.{1,40})\): iter=\d{1,20} duration=(\d{1,15}) us$"
"""lib/dpif-netdev-perf.c:pmd_perf_end_iteration(), by a PMD thread, some iterations later. That is
on with `dpif-netdev/pmd-perf-log-set`."""

_LINE = re.compile(_HEAD.replace("|INFO", "") % "timeval" + LONG_MESSAGE)
_QUIESCE = re.compile(_HEAD % "ovs_rcu" + QUIESCE_MESSAGE)
_DUMP = re.compile(_HEAD % "ofproto_dpif_upcall" + DUMP_MESSAGE)
_ITERATION = re.compile(_HEAD % "pmd_perf" + ITERATION_MESSAGE)

ROUND_POLLS = ("poll", "ppoll")
"""What lib/timeval.c:time_poll() waits in. Handlers call epoll_wait(2) too, without waiting."""

PMD_NAME = b"pmd-c"
"""How the name of a PMD thread begins: lib/dpif-netdev.c:pmd_thread_main()."""

_PROGRAMS = frozenset({"ovs-vswitchd", "ovsdb-server", "ovn-controller", "ovn-northd"})

# One of them is in each line that is looked for. A log may grow by far more lines than these.
_IN_LINES = (b"nreasonably long ", b" to quiesce", b"uspicious iteration ")

# Of those that are looked for, "2026-11-21T21:12:20Z|7|ovs_rcu|WARN|blocked 1 ms waiting for a…".
SHORTEST_LINE = 60
LONGEST_LINE = 4096
MOST_READ_BYTES = 1 << 20
MOST_READS = 4
MOST_LINES_KEPT = 1000

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

# A line is written by another thread (lib/async-append-aio.c), which may be kept from it: when
# the process is stopped. Where there was none for a round, the next is not waited for as long.
LINE_DELAY_S = 3.0
SHORT_DELAY_S = 0.3
POLL_S = 0.01

# A PMD thread is off its CPU many times a second. Open vSwitch leaves out most lines of a storm.
ITERATION_DELAY_S = 0.03
ITERATION_DELAYS_EACH_S = 1.0


def is_open_vswitch(comm: str) -> bool:
    """Return whether a process of that name has Open vSwitch's main loop."""
    return comm in _PROGRAMS


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
        thread, us = iteration[2] or "", int(iteration[4])
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


def log_file_of(pid: int) -> Path | None:
    """Return the descriptor by which process `pid` has a file open that is called *.log.

    As /proc/PID/fd/N; None without one. The path that the process opened it by may lead elsewhere.
    """
    folder = PROC / str(pid) / "fd"
    try:
        for fd in sorted(folder.iterdir(), key=lambda path: int(path.name)):
            name = os.readlink(fd)
            if name.startswith("/") and name.endswith(".log"):
                return fd
    except OSError:
        return None
    return None


def _open(path: Path) -> BinaryIO:
    """Open a log to read; never wait for one who writes to it, should it be a FIFO."""
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))


class IterationsLeft(Struct, frozen=True):
    """How many suspicious iterations a PMD thread had that no record explains."""

    count: int
    longest_us: int


class OvsLog:
    """A log file from its present end on, also after it was rotated."""

    def __init__(self, path: Path, pid: int | None = None) -> None:
        """Follow `path`; NoInputError if it can't be read.

        `pid`: it is what log_file_of() found of that process. Nothing but a file that is stored is
        opened then, by no process (FUSE); one that is empty has nothing yet.
        """
        self._path = path
        self._pid = pid
        self._file: BinaryIO | None = None
        self._rest = b""
        self._patience_s = LINE_DELAY_S
        self._lines: deque[LogLine] = deque(maxlen=MOST_LINES_KEPT)
        self._related: deque[RelatedLine] = deque(maxlen=MOST_LINES_KEPT)
        self._iterations: deque[RelatedLine] = deque(maxlen=MOST_LINES_KEPT)
        self._iterations_left: dict[str, IterationsLeft] = {}
        self._shortest_us: int | None = None
        self._waits_again_s = 0.0
        try:
            self._file = self._open()
        except OSError as error:
            if pid is None or error.errno != errno.EINVAL:
                raise NoInputError(f"can't read {path}: {error.strerror}") from None
        if self._file is not None and self._file.seekable():
            self._file.seek(0, os.SEEK_END)

    def _open(self) -> BinaryIO:
        if self._pid is None:
            return _open(self._path)
        # Recordings and logs are read without extensions.
        from kernel_delay.host.stored_files import open_stored

        return os.fdopen(open_stored(self._path).fd, "rb")

    def close(self) -> None:
        """Read no more."""
        if self._file is not None:
            self._file.close()

    def with_line(self, sample: Sample, meanwhile: Callable[[], None] = lambda: None) -> Sample:
        """Return the Sample of a round with the log's line of it, if there is to be one.

        And with those lines that it explains. `meanwhile` is called often while it waits.
        """
        round_ = sample.round
        if round_ is None:
            return sample
        is_expected = _is_expected(sample)
        log = self._wait_for_line(sample, meanwhile) if is_expected else None
        missing = _why_missing(sample) if is_expected and log is None else None
        related = self._related_to(sample, round_)
        if (iteration := self._iteration_of(sample, meanwhile)) is not None:
            related = (*related, iteration)
        return replace(sample, round=replace(round_, log=log, log_missing=missing, related=related))

    def _wait_for_line(self, sample: Sample, meanwhile: Callable[[], None]) -> LogLine | None:
        deadline = time.monotonic() + self._patience_s
        while (line := self._line_of(sample)) is None:
            if time.monotonic() > deadline:
                self._patience_s = SHORT_DELAY_S
                return None
            meanwhile()
            time.sleep(POLL_S)
        self._patience_s = LINE_DELAY_S
        self._lines.remove(line)
        return line

    def _related_to(self, sample: Sample, round_: Round) -> tuple[RelatedLine, ...]:
        """Take those that were written in the round and say of a time in it."""
        self.follow()
        found = [line for line in self._related if explains(sample, round_, line)]
        for line in found:
            self._related.remove(line)
        return tuple(found)

    def _iteration_of(self, sample: Sample, meanwhile: Callable[[], None]) -> RelatedLine | None:
        """Take the line of the iteration in which a PMD thread was off its CPU."""
        if sample.window.ended_by != "switch" or self._shortest_us is None:
            return None
        may_come = sample.window.duration_ns >= 1000 * self._shortest_us
        until = time.monotonic() + (ITERATION_DELAY_S if may_come else 0.0)
        while True:
            self.follow()
            found = [line for line in self._iterations if had_absence(line, sample)]
            if found:
                line = min(found, key=lambda line: line.time)
                self._iterations.remove(line)
                return line
            now = time.monotonic()
            if now >= until or now < self._waits_again_s:
                break
            meanwhile()
            time.sleep(POLL_S)
        if may_come:
            self._waits_again_s = max(self._waits_again_s, now + ITERATION_DELAYS_EACH_S)
        return None

    def left_iterations(self) -> Mapping[str, IterationsLeft]:
        """Return how many suspicious iterations of each PMD thread no record explains."""
        self.follow()
        while self._iterations:
            self._leave_iteration()
        return self._iterations_left

    def _leave_iteration(self) -> None:
        line = self._iterations.popleft()
        known = self._iterations_left.get(line.thread, IterationsLeft(0, 0))
        if known.count or len(self._iterations_left) < MOST_LINES_KEPT:
            longest_us = max(known.longest_us, line.length_us or 0)
            self._iterations_left[line.thread] = IterationsLeft(known.count + 1, longest_us)

    def left(self) -> tuple[LogLine, ...]:
        """Return the lines that no round was found for."""
        self.follow()
        return tuple(self._lines)

    def left_related(self) -> tuple[RelatedLine, ...]:
        """Return those of threads that others waited for, and of dumps, that are left."""
        self.follow()
        return tuple(self._related)

    def _line_of(self, sample: Sample) -> LogLine | None:
        """The one that is next to the round's end in time: rounds in a row can be as long."""
        self.follow()
        end = _end_of(sample)
        found = [line for line in self._lines if is_of(line, sample)]
        found = found or [line for line in self._lines if has_most_of(line, sample)]
        return min(found, key=lambda line: abs(line.time - end), default=None)

    def follow(self) -> None:
        """Take in what was written since, so that no file is rotated away unread; now and then."""
        for line in self._new_lines():
            text = line.decode(errors="replace")
            if (parsed := parse_line(text)) is not None:
                self._lines.append(parsed)
            elif (related := parse_related(text)) is None:
                continue
            elif related.length_us is None:
                self._related.append(related)
            else:
                shortest_us = self._shortest_us
                self._shortest_us = min(related.length_us, shortest_us or related.length_us)
                if len(self._iterations) == MOST_LINES_KEPT:
                    self._leave_iteration()
                self._iterations.append(related)

    def _new_lines(self) -> Iterator[bytes]:
        if self._file is not None:
            yield from self._complete_lines(self._file)
        if self._file is None or (
            _is_read_to_its_end(self._file) and self._was_rotated(self._file)
        ):
            try:
                newer = self._open()
            except OSError:
                # It was moved away again, or is empty: the next look finds what comes there.
                return
            self.close()
            self._file, self._rest = newer, b""
            yield from self._complete_lines(self._file)

    def _complete_lines(self, file: BinaryIO) -> Iterator[bytes]:
        for _ in range(MOST_READS):
            # None, and no bytes, of a FIFO that has nothing.
            read = file.read(MOST_READ_BYTES) or b""
            lines, _, rest = (self._rest + read).rpartition(b"\n")
            self._rest = rest[-LONGEST_LINE:]
            yield from (line for line in _likely(lines) if len(line) >= SHORTEST_LINE)
            if len(read) < MOST_READ_BYTES:
                return

    def _was_rotated(self, file: BinaryIO) -> bool:
        mine = os.fstat(file.fileno())
        now = self._status()
        if self._pid is not None and (now is None or not os.path.samestat(now, mine)):
            # Whoever opens its log anew has another descriptor of it.
            self._path = log_file_of(self._pid) or self._path
            now = self._status()
        return now is not None and (not os.path.samestat(now, mine) or now.st_size < file.tell())

    def _status(self) -> os.stat_result | None:
        try:
            if self._pid is None:
                return os.stat(self._path)
            from kernel_delay.host.stored_files import find_stored

            found = find_stored(self._path)
            try:
                return os.fstat(found)
            finally:
                os.close(found)
        except OSError:
            return None


def _likely(lines: bytes) -> Iterator[bytes]:
    """Yield the lines that may be among those that are looked for, in time linear in their size."""
    at = 0
    places = [lines.find(part) for part in _IN_LINES]
    while (found := min((place for place in places if place >= 0), default=-1)) >= 0:
        start = lines.rfind(b"\n", at, found) + 1 or at
        stop = lines.find(b"\n", found)
        if stop < 0:
            stop = len(lines)
        yield lines[start:stop]
        at = stop
        places = [
            lines.find(part, at) if 0 <= place < at else place
            for part, place in zip(_IN_LINES, places, strict=True)
        ]


def _is_read_to_its_end(file: BinaryIO) -> bool:
    return file.seekable() and file.tell() >= os.fstat(file.fileno()).st_size


def is_of(line: LogLine, sample: Sample) -> bool:
    """Return whether the line can be of the Sample's round: its thread, and its time in the round.

    The rest of the round is what kept the thread as its poll returned, or before the next one.
    """
    if not _is_of_thread(line, sample):
        return False
    if _start_of(line) < sample.window.start_time - TOLERANCE:
        return False
    if line.time > _end_of(sample) + TOLERANCE:
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
    if _end_of(sample) > line.time + TOLERANCE:
        return False
    return 2 * sample.window.duration_ns >= line.length_ms * 1_000_000


def _is_expected(sample: Sample) -> bool:
    """Whether Open vSwitch logs a line of such a round: of none of a PMD thread."""
    is_off_cpu = sample.window.ended_by == "switch"
    return not is_off_cpu and sample.window.duration_ns >= (SHORTEST_LOGGED_MS - 1) * 1_000_000


def _why_missing(sample: Sample) -> LogMissing:
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
    return starts_within and line.time <= _end_of(sample) + TOLERANCE


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
    since = line.time - _end_of(sample)
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


def _end_of(sample: Sample) -> datetime.datetime:
    window = sample.window
    return window.start_time + datetime.timedelta(microseconds=window.duration_ns / 1000)


def _held_ms(sample: Sample) -> float:
    time = sample.threads[0].time
    if time is None:
        return 0.0
    return (time.ready_ns + time.throttled_ns + time.stopped_ns + time.frozen_ns) / 1e6
