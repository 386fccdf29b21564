"""How much is read on behalf of a process, whose files may be anything.

What goes beyond is passed over, and the report says so.
"""

import time

from kernel_delay.host.file_copies import FileCopies
from kernel_delay.host.process_memory import Patience
from kernel_delay.symbols.elf import is_excessive

CHECKED_BYTES = 4 << 30
"""What is read in all to check debug files that have no build-id, by their CRC-32."""

CHECKED_NS = 5_000_000_000
"""The time that this may take in all."""

HELD_BYTES = 128 << 20
"""Memory that holds copies of a process's code, at any time, where the files are out of reach."""

COPIED_BYTES = 1 << 30
"""What is copied in all, of what comes and goes."""

TABLES_BYTES = 256 << 20
"""What is kept of Go programs' tables of their functions; large ones have some 50 MiB."""

FRAMES_NS = 1_000_000_000
"""The time that one search for functions with large frames may take; it takes some 50 ms."""

ROWS_NS = 1_000_000_000
"""The time that it may take to make the kernel's rows of all files; large ones take 5 ms each."""

UNWIND_ROWS = 8 << 20
"""Of all files together: 64 MiB. A browser has some 5 million, others 300,000."""

ANSWER_S = 10
"""The CPU time that an answer of the process which parses may take: of a stack, or all rows."""

ANSWERS_S = 120
"""How long the tool waits for its answers in one window, on a busy machine too."""

MAX_OBJECTS = 4096
"""Executables, libraries and the like whose functions are named; large programs have some 1,000."""

MAX_REMARKS = 4
"""How many remarks a reader is given one by one."""


class Bounds:
    """What reading for one process may still cost."""

    def __init__(self) -> None:
        """Begin with all of it left."""
        self.memory = Patience(self._without_memory)
        self.files = FileCopies(self.room, self._without_files)
        self.held_bytes = 0
        self.table_bytes = 0
        self._copied_bytes = 0
        self._checked_bytes = 0
        self._checked_ns = 0
        self._remarks: dict[str, None] = {}

    def _without_memory(self, why: str) -> None:
        self.pass_over(
            "the process's memory is not read, and names, stacks and objects of calls may be"
            f" missing: {why}"
        )

    def _without_files(self, why: str) -> None:
        self.pass_over(
            "files of the process that are on a FUSE file system are not read, and names may be"
            f" missing: {why}"
        )

    def renew(self) -> None:
        """Begin a window."""
        self.memory.renew()
        self.files.renew()

    def pass_over(self, remark: str) -> None:
        """Note, once, that something was passed over; of many remarks the first."""
        if len(self._remarks) < MAX_REMARKS:
            self._remarks.setdefault(remark)
        else:
            self._remarks.setdefault("more files of the process are passed over for their size")

    def take_remarks(self) -> tuple[str, ...]:
        """Return what was noted since the last time."""
        remarks, self._remarks = tuple(self._remarks), {}
        return remarks

    def may_read(self, fd: int, path: str) -> bool:
        """Whether the open file is small enough to be read as a program's or a debug file."""
        if not is_excessive(fd):
            return True
        self.pass_over(
            f"{path} is not used: it is too large, or its section headers claim too much"
        )
        return False

    def may_check(self, size: int) -> bool:
        """Whether `size` bytes more may be read for a checksum, and there is time left."""
        return self._checked_bytes + size <= CHECKED_BYTES and self._checked_ns < CHECKED_NS

    def checked(self, size: int, since_ns: int) -> None:
        """Count bytes that were read for a checksum since that time.monotonic_ns()."""
        self._checked_bytes += size
        self._checked_ns += time.monotonic_ns() - since_ns

    def may_keep_table(self, size: int) -> bool:
        """Whether there is room for `size` bytes more of tables; then they are counted."""
        if self.table_bytes + size > TABLES_BYTES:
            return False
        self.table_bytes += size
        return True

    def room(self) -> int:
        """Return how many bytes more may be copied."""
        return max(0, min(HELD_BYTES - self.held_bytes, COPIED_BYTES - self._copied_bytes))

    def may_copy(self, size: int) -> bool:
        """Whether `size` bytes more may be copied; then they are counted.

        Who keeps the copy adds it to `held_bytes`.
        """
        if size > self.room():
            return False
        self.count_copy(size)
        return True

    def count_copy(self, size: int) -> None:
        """Count bytes that were copied."""
        self._copied_bytes += size
