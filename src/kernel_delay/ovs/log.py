"""What Open vSwitch's log says of long rounds: its lines, and which round each is of."""

import datetime
import os
import re
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from kernel_delay.errors import NoInputError
from kernel_delay.model import LogLine, Sample

PROC = Path("/proc")

# lib/timeval.c:log_poll_interval(), in the form that vlog gives to a file
# (lib/vlog.c, 2.17 to 3.7); a thread's name is missing for the main one.
_LINE = re.compile(
    r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?)Z\|\d+\|timeval(?:\(([^|)]*)\))?\|WARN\|"
    r"Unreasonably long (\d{1,18})ms poll interval"
    r"(?: \((-?\d{1,18})ms user, (-?\d{1,18})ms system\))?"
)

ROUND_POLLS = ("poll", "ppoll")
"""What lib/timeval.c:time_poll() waits in. Handlers call epoll_wait(2) too, without waiting."""

_PROGRAMS = frozenset({"ovs-vswitchd", "ovsdb-server", "ovn-controller", "ovn-northd"})

LONGEST_LINE = 4096
MOST_READ_BYTES = 1 << 20
MOST_LINES_KEPT = 1000

SHORTEST_LOGGED_MS = 1000
"""Of a round that is logged: lib/timeval.c:log_poll_interval(), all versions."""

# A round's length in the log is of two readings of a clock in ms, and from a little after the
# poll's return to a little before the next one.
LENGTH_TOLERANCE_MS = 50

# How far the line's time is from the round's end: the line is written just before that.
TIME_TOLERANCE_S = 2.0

# A line is written by another thread (lib/async-append-aio.c), which may be kept from it: when
# the process is stopped. Where there was none for a round, the next is not waited for as long.
LINE_DELAY_S = 3.0
SHORT_DELAY_S = 0.3
POLL_S = 0.01

# TASK_COMM_LEN: what a thread is called has no more.
COMM_LENGTH = 15


def is_open_vswitch(comm: str) -> bool:
    """Return whether a process of that name has Open vSwitch's main loop."""
    return comm in _PROGRAMS


def parse_line(line: str) -> LogLine | None:
    """Return what a line of the log says of a round; None if it is of anything else."""
    match = _LINE.match(line)
    if match is None:
        return None
    when, thread, length, user, system = match.groups()
    return LogLine(
        time=datetime.datetime.fromisoformat(when).replace(tzinfo=datetime.UTC),
        thread=thread or "",
        length_ms=int(length),
        user_ms=None if user is None else int(user),
        system_ms=None if system is None else int(system),
    )


def log_file_of(pid: int) -> Path | None:
    """Return the file that process `pid` has open and that is called *.log; None without one."""
    folder = PROC / str(pid) / "fd"
    try:
        for fd in sorted(folder.iterdir(), key=lambda path: int(path.name)):
            name = os.readlink(fd)
            if name.startswith("/") and name.endswith(".log"):
                return PROC / str(pid) / "root" / name.removeprefix("/")
    except OSError:
        return None
    return None


class OvsLog:
    """A log file from its present end on, also after it was rotated."""

    def __init__(self, path: Path) -> None:
        """Follow `path`; NoInputError if it can't be read."""
        self._path = path
        self._rest = b""
        self._patience_s = LINE_DELAY_S
        self._lines: deque[LogLine] = deque(maxlen=MOST_LINES_KEPT)
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise NoInputError(f"can't read {path}: {error.strerror}") from None
        self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        """Read no more."""
        self._file.close()

    def with_line(self, sample: Sample) -> Sample:
        """Return the Sample of a round with the log's line of it, if there is to be one."""
        round_ = sample.round
        if round_ is None or sample.window.duration_ns < (SHORTEST_LOGGED_MS - 1) * 1_000_000:
            return sample
        deadline = time.monotonic() + self._patience_s
        while (line := self._line_of(sample)) is None:
            if time.monotonic() > deadline:
                self._patience_s = SHORT_DELAY_S
                return sample
            time.sleep(POLL_S)
        self._patience_s = LINE_DELAY_S
        self._lines.remove(line)
        return replace(sample, round=replace(round_, log=line))

    def left(self) -> tuple[LogLine, ...]:
        """Return the lines that no round was found for."""
        self._read()
        return tuple(self._lines)

    def _line_of(self, sample: Sample) -> LogLine | None:
        self._read()
        found = [line for line in self._lines if is_of(line, sample)]
        return min(found, key=lambda line: abs(_excess_ms(line, sample)), default=None)

    def _read(self) -> None:
        for line in self._new_lines():
            parsed = parse_line(line.decode(errors="replace"))
            if parsed is not None:
                self._lines.append(parsed)

    def _new_lines(self) -> Iterator[bytes]:
        yield from self._complete_lines(self._file)
        if self._was_rotated():
            self._file.close()
            self._file = self._path.open("rb")
            self._rest = b""
            yield from self._complete_lines(self._file)

    def _complete_lines(self, file: BinaryIO) -> Iterator[bytes]:
        text = self._rest + file.read(MOST_READ_BYTES)
        *lines, self._rest = text.split(b"\n")
        self._rest = self._rest[-LONGEST_LINE:]
        yield from lines

    def _was_rotated(self) -> bool:
        try:
            now = os.stat(self._path)
        except OSError:
            return False
        mine = os.fstat(self._file.fileno())
        return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino) or (
            now.st_size < self._file.tell()
        )


def is_of(line: LogLine, sample: Sample) -> bool:
    """Return whether the line can be of the Sample's round: its thread, length and time."""
    if sample.round is None:
        return False
    is_main = sample.round.tid == sample.target.pid
    if line.thread[:COMM_LENGTH] != ("" if is_main else sample.round.name):
        return False
    if abs(_excess_ms(line, sample)) > LENGTH_TOLERANCE_MS:
        return False
    window = sample.window
    end = window.start_time + datetime.timedelta(microseconds=window.duration_ns / 1000)
    return abs((line.time - end).total_seconds()) <= TIME_TOLERANCE_S


def _excess_ms(line: LogLine, sample: Sample) -> float:
    return line.length_ms - sample.window.duration_ns / 1e6
