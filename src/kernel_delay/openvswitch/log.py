"""Open vSwitch's log while it is written: rounds of its threads get the lines that are of them."""

import datetime
import errno
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.errors import NoInputError
from kernel_delay.model import LogLine, RelatedLine, Round, Sample
from kernel_delay.openvswitch.log_lines import (
    end_of,
    explains,
    had_absence,
    has_most_of,
    is_expected,
    is_of,
    parse_line,
    parse_related,
    why_missing,
)

PROC = Path("/proc")

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
        may_come = is_expected(sample)
        log = self._wait_for_line(sample, meanwhile) if may_come else None
        missing = why_missing(sample) if may_come and log is None else None
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

    def kept_iterations(
        self, sample_of: Callable[[RelatedLine], Sample | None], least_age_s: float
    ) -> Iterator[Sample]:
        """Yield Samples of suspicious iterations that no time off the CPU explains.

        Of those that were logged so long ago: a record may yet explain a newer one. Where
        `sample_of` has none, the iteration is counted as left.
        """
        self.follow()
        age = datetime.timedelta(seconds=least_age_s)
        while self._iterations and self._iterations[0].time <= datetime.datetime.now(UTC) - age:
            sample = sample_of(self._iterations[0])
            if sample is None:
                self._leave_iteration()
            else:
                self._iterations.popleft()
                yield sample

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
        end = end_of(sample)
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
