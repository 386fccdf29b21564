"""The memory of other processes, read by a process of its own: memory_reader.py.

A read of /proc/PID/mem waits for the page (proc_pid_mem(5)). A page of a FUSE file comes from the
file's server: see abandonable.py.
"""

import os
import struct
from collections.abc import Callable
from pathlib import Path

from kernel_delay.host import abandonable

REQUEST = struct.Struct("<QQ")
"""An address and a size; /proc/PID/mem comes with it, open."""

ANSWER = struct.Struct("<Q")
"""The size of what was read, which follows."""

MOST_BYTES = 1 << 20
"""Of one read."""

# The highest offset of a file.
_ADDRESSES = 1 << 63

READERS = abandonable.Readers("kernel_delay.host.memory_reader")


class Patience(abandonable.Patience):
    """How long reads of one process's memory are waited for; once one is late, never again."""

    def __init__(self, on_lost: Callable[[str], None] = lambda text: None) -> None:
        """Begin with all of the time. `on_lost` is called once, with why nothing is read."""
        super().__init__(READERS, on_lost)

    def read(self, memory: int, address: int, size: int) -> bytes:
        """Read up to MOST_BYTES of that open memory; none where it can't be read in time."""
        if not 0 <= address < _ADDRESSES or size <= 0:
            return b""

        def exchange(asked: abandonable.Asked) -> bytes:
            asked.send(REQUEST.pack(address, min(size, MOST_BYTES)), memory)
            (got,) = ANSWER.unpack(asked.take(ANSWER.size))
            return asked.take(got) if got else b""

        return self.ask(exchange) or b""


class MemoryFile:
    """The memory of one process; takes the right to ptrace(2) it."""

    def __init__(self, process: Path, patience: Patience) -> None:
        """Open the memory of `process`, a directory such as /proc/123. That reads nothing."""
        self._fd = os.open(process / "mem", os.O_RDONLY | os.O_CLOEXEC)
        self._patience = patience

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)

    def read(self, address: int, size: int) -> bytes:
        """Read up to `size` bytes; none where nothing is mapped or it can't be read in time."""
        return self._patience.read(self._fd, address, size)
