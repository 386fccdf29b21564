"""The floor: programs that do nothing or next to it, attached where kernel-delay's are."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from bench.peers.peer import Peer
from kernel_delay.loader.base import start_log
from kernel_delay.loader.programs import BpfObject


class Empty(Peer):
    """Programs without a purpose; for a process or another, it is all the same to them."""

    def __init__(self, name: str, compiled: Path) -> None:
        """Take note of the object, of loads/empty.bpf.c."""
        self.name = name
        self._compiled = compiled

    def lacking(self) -> str | None:
        """Nothing that kernel-delay does without."""
        return None

    @contextlib.contextmanager
    def attached(self, pid: int) -> Iterator[None]:
        """Load and attach them until the end of the `with`."""
        start_log(-1)
        with BpfObject(self._compiled) as programs:
            programs.load()
            links = [program.attach() for program in programs.programs()]
            try:
                yield
            finally:
                for link in links:
                    link.close()
