"""Names of code that a process generates: the perf map that it writes itself.

/tmp/perf-PID.map is perf's interface for JIT compilers (tools/perf/Documentation/
jit-interface.txt, Linux 6.18): a line `START SIZE NAME` for each function, in
hexadecimal; what is written later holds. The file is the process's: it may be
anything.
"""

import os
from bisect import bisect_right
from io import BytesIO
from itertools import islice
from pathlib import Path

from kernel_delay.host.stored_files import Root, Status
from kernel_delay.symbols.bounds import Bounds

LARGEST_BYTES = 32 << 20
MOST_FUNCTIONS = 200_000
MOST_LINES = 1_000_000
ADDRESSES = (1 << 64) - 1
TRAMPOLINE = "py::"
"""What CPython calls the code that it calls each function through, with `-X perf` (3.12)."""

LONGEST_NAME = 1024
"""Bytes; what is longer is cut."""


class PerfFunctions:
    """The functions of one perf map.

    `trampolines` are start and end of each range of code that only calls a
    function of CPython's interpreter, sorted.
    """

    def __init__(self, path: str, bounds: Bounds) -> None:
        """Know none yet of the map that is `path`; `bounds` counts what was passed over."""
        self.path = path
        self._bounds = bounds
        self._starts: list[int] = []
        self._functions: list[tuple[int, str]] = []
        self.trampolines: tuple[int, ...] = ()

    def read(self, fd: int) -> None:
        """Read them from the open map, which is closed."""
        with open(fd, "rb") as file:
            functions = parse(file.read(LARGEST_BYTES))
            size = os.fstat(fd).st_size
        if size > LARGEST_BYTES or len(functions) == MOST_FUNCTIONS:
            self._bounds.pass_over(
                f"{self.path} is too large: of its functions the first are named"
            )
        self._starts = sorted(functions)
        self._functions = [functions[start] for start in self._starts]
        self.trampolines = trampolines(functions)

    def find(self, address: int) -> tuple[str, int] | None:
        """Return the function at an address: its name, and the offset in it."""
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        offset = address - self._starts[at]
        size, name = self._functions[at]
        return (name, offset) if offset < size else None


class PerfMap(PerfFunctions):
    """The perf map of one process, where and as it sees it itself, also after its exit."""

    def __init__(self, process: Path, bounds: Bounds) -> None:
        """Take note of the process, a directory such as /proc/123; OSError when it has exited."""
        lines = (process / "status").read_bytes().split(b"\n")
        fields = {
            name: value.split() for name, _, value in (line.partition(b":") for line in lines)
        }
        # Its own PID namespace's number of it is the last, its effective user the second:
        # proc_pid_status(5).
        super().__init__(f"/tmp/perf-{int(fields[b'NStgid'][-1])}.map", bounds)
        self._owners = {0, int(fields[b"Uid"][1])}
        self._root = Root(process / "root", bounds.files)
        self._status: Status | None = None

    def open_changed(self) -> int | None:
        """Open the file if it has changed since the last time."""
        file = self._root.open(self.path)
        self._root.release_mounts()
        if file is None:
            return None
        # Anybody may write to /tmp: another user's file names nothing here.
        if file.status.owner not in self._owners or file.status == self._status:
            os.close(file.fd)
            return None
        self._status = file.status
        return file.fd

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        fd = self.open_changed()
        if fd is not None:
            self.read(fd)

    def close(self) -> None:
        """Forget the process."""
        self._root.close()


def trampolines(functions: dict[int, tuple[int, str]]) -> tuple[int, ...]:
    """Return start and end of each, sorted, adjacent ones as one."""
    ends: list[int] = []
    for start, (size, name) in sorted(functions.items()):
        if not name.startswith(TRAMPOLINE):
            continue
        end = min(start + size, ADDRESSES)
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            ends += [start, end]
    return tuple(ends)


def parse(content: bytes) -> dict[int, tuple[int, str]]:
    """Parse a perf map: by their start, the functions' sizes and names.

    Lines that are none are passed over, as is the last one if it is not whole.
    """
    functions: dict[int, tuple[int, str]] = {}
    for line in islice(BytesIO(content), MOST_LINES):
        words = line.split(b" ", 2)
        if len(words) < 3 or not line.endswith(b"\n") or len(functions) >= MOST_FUNCTIONS:
            continue
        start, size = _hexadecimal(words[0]), _hexadecimal(words[1])
        name = words[2][:LONGEST_NAME].strip()
        if start is not None and size and name:
            functions[start] = (size, name.decode(errors="backslashreplace"))
    return functions


def _hexadecimal(word: bytes) -> int | None:
    try:
        value = int(word, 16) if len(word) <= 18 else -1
    except ValueError:
        return None
    return value if 0 <= value < 1 << 64 else None
