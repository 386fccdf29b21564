"""A real ovs-vswitchd whose threads have long rounds when they are told to."""

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernel_delay.openvswitch.log_lines import SHORTEST_LOGGED_MS
from lab.binaries import Binaries
from lab.instance import Datapath, Instance, OvsCommandError
from tests.workload import compile_workload, wait_until

# struct request of tests/workloads/long_rounds.c: pending, ms, thread, what, done.
REQUEST = struct.Struct("=II16s16sI")
DONE = struct.Struct("=I")

MAIN = "ovs-vswitchd"
DONE_AT = REQUEST.size - DONE.size


class LongRounds:
    """What asks the threads of `ovs` for long rounds."""

    def __init__(self, ovs: Instance, memory: mmap.mmap) -> None:
        self.ovs = ovs
        self._memory = memory
        self._asked = 0

    def ask(self, thread: str, what: str, ms: int) -> None:
        """Have a thread of that name do it in its next round."""
        _, _, _, _, done = REQUEST.unpack(self._memory[: REQUEST.size])
        self._asked = done + 1
        request = REQUEST.pack(0, ms, thread.encode(), what.encode(), done)
        self._memory[: REQUEST.size] = request
        self._memory[:4] = struct.pack("=I", 1)

    def taken(self) -> bool:
        """Whether the thread is at it."""
        return self._memory[:4] == bytes(4)

    def release(self) -> None:
        """Have a thread that spins go on."""
        self._memory[:4] = struct.pack("=I", 1)

    def settle(self) -> None:
        """Wait until the main thread's round is over: a command is answered in a later one."""
        for _ in range(2):
            self.ovs.appctl("version")

    def _is_taken(self) -> bool:
        # The main thread sleeps unless it is asked something; it answers when it has done it.
        if not self.taken():
            self.ovs.appctl("version")
        return self.taken()

    def done(self) -> bool:
        """Whether it is over."""
        (done,) = DONE.unpack(self._memory[DONE_AT : REQUEST.size])
        return bool(done == self._asked)

    def make(self, thread: str, what: str, ms: int) -> None:
        """Ask, and wait until it is over and the round is logged, if it is to be."""
        logged = len(self.logged_of(thread))
        self.ask(thread, what, ms)
        wait_until(self._is_taken, f"{thread}, to {what}")
        wait_until(self.done, f"the end of {what}")
        if ms >= SHORTEST_LOGGED_MS:
            wait_until(lambda: len(self.logged_of(thread)) > logged, f"OVS's line of {what}")

    def logged(self) -> list[str]:
        """Return the lines of OVS's log on long rounds."""
        log = (self.ovs.folder / "ovs-vswitchd.log").read_text()
        return [line for line in log.splitlines() if "Unreasonably long" in line]

    def logged_of(self, thread: str) -> list[str]:
        """Return those of one thread; the main one has no name there."""
        module = "|timeval|" if thread == MAIN else f"|timeval({thread})|"
        return [line for line in self.logged() if module in line]

    def long_poll_intervals(self) -> int | None:
        """Return how many OVS itself has counted; None before 3.3, which has no such counter."""
        try:
            return int(self.ovs.appctl("coverage/read-counter", "long_poll_interval"))
        except OvsCommandError:
            return None


@contextmanager
def ovs_with_long_rounds(
    binaries: Binaries, folder: Path, datapath: Datapath = "netdev"
) -> Iterator[LongRounds]:
    """Start an ovs-vswitchd that makes long rounds when it is asked to."""
    library = compile_workload("long_rounds", "-shared", "-fPIC", "-ldl")
    path = folder / "request"
    path.write_bytes(bytes(REQUEST.size))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), REQUEST.size) as memory:
        preloaded = {"LD_PRELOAD": os.fspath(library), "LONG_ROUNDS": os.fspath(path)}
        with Instance(binaries, datapath=datapath, environment=preloaded) as ovs:
            yield LongRounds(ovs, memory)
