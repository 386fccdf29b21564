"""The C programs of tests/workloads: compiled, started, led, and ended with their test."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cache import built
from tests.needs import need_sdt_header, needed

SOURCES = Path(__file__).parent / "workloads"
FLAGS = ("-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-pthread")

# Static, as there is no dynamic linker for them.
COMPAT_COMPILER = ("i686-linux-gnu-gcc", "-static")

# What takes longer hangs; nothing is measured by it. Three emulated machines on a slow one
# with two CPUs take a hundred times as long as this does where it is written.
HANGS_S = 400.0

# Load that a test starts lasts until the test ends it, or if it can't, no longer than this.
LASTS_S = 3600.0
LASTS_NS = int(LASTS_S * 1e9)


def compile_workload(name: str, *flags: str, compat: bool = False) -> Path:
    """The program of tests/workloads/NAME.c, compiled if its source or the flags are new.

    As a 32-bit one if `compat`.
    """
    name_of_compiler, *own_flags = COMPAT_COMPILER if compat else ("cc",)
    source = SOURCES / f"{name}.c"
    flags = (*FLAGS, *own_flags, *flags)
    command = [needed(name_of_compiler), *flags, str(source), "-o"]

    def make(folder: Path) -> None:
        if "sys/sdt.h" in source.read_text():
            need_sdt_header()
        done = subprocess.run([*command, str(folder / name)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return built(name, make, source, SOURCES / "workload.h", (name_of_compiler, *flags)) / name


@contextmanager
def sleeping(**options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process that sleeps until the `with` ends, however that ends."""
    with subprocess.Popen(["sleep", str(LASTS_S)], **options) as process:
        try:
            yield process
        finally:
            process.kill()


class Workload:
    """A running workload: it says that it is ready, and acts on each line that it is sent."""

    def __init__(self, command: Sequence[object], within: Sequence[str] = ()) -> None:
        """Start it and wait until it is ready; `greeting` is what it says then.

        `within` is a command that runs it as its child, as unshare(1) does;
        `pid` is the workload's own.
        """
        self.process = subprocess.Popen(
            [*within, *map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._unread = bytearray()
        self.greeting = self.line()
        self.pid = youngest_descendant(self.process.pid) if within else self.process.pid

    def send(self, line: object = "go") -> None:
        """Have it act, and don't wait for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"%s\n" % str(line).encode())
        self.process.stdin.flush()

    def line(self) -> str:
        """Its next line, without the newline; fails where none comes."""
        assert self.process.stdout is not None
        while b"\n" not in self._unread:
            if not select.select([self.process.stdout], [], [], HANGS_S)[0]:
                pytest.fail(f"{self.process.args!r} does not answer")
            read = os.read(self.process.stdout.fileno(), 1 << 16)
            if not read:
                pytest.fail(f"{self.process.args!r} exited with {self.process.wait()}")
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()

    def finish(self) -> None:
        """Have it exit, and wait until it has."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(HANGS_S)

    def kill(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


def wait_until(
    condition: Callable[[], bool], what: str = "what was waited for", every_s: float = 0.005
) -> None:
    """Wait until `condition()` holds; fails when that takes so long that it never will."""
    deadline = time.monotonic() + HANGS_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(every_s)


def stop(pid: int) -> None:
    """Stop a process as Ctrl-Z does, and wait until all its threads stand still.

    A thread without a CPU stops later, and not at all after a SIGCONT.
    """
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")

    def stand_still() -> bool:
        with suppress(OSError):  # one has ended
            states = [(task / "stat").read_text().rpartition(")")[2] for task in tasks.iterdir()]
            return all(state.split()[0] == "T" for state in states)
        return False

    wait_until(stand_still, "the stop")


def stop_for(pid: int, duration_s: float) -> None:
    """Stop a process for at least so long."""
    stop(pid)
    time.sleep(duration_s)
    os.kill(pid, signal.SIGCONT)


def sleeps_of(tid: int) -> int:
    """How often a thread has left a CPU to sleep or stop: proc_pid_status(5)."""
    text = Path(f"/proc/{tid}/status").read_text()
    return int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def wait_until_it_slept(tid: int, times: int, what: str = "its sleeps") -> None:
    """Wait until a thread has slept so many times more, however busy the machine is."""
    until = sleeps_of(tid) + times
    wait_until(lambda: sleeps_of(tid) >= until, what)


def youngest_descendant(pid: int) -> int:
    """The process itself, or the only child of its only child, and so on."""
    while children := _children(pid):
        (pid,) = children
    return pid


def _is_parser(process: Path) -> bool:
    """Whether that is kernel-delay's own, which parses for it."""
    with suppress(OSError):
        return b"kernel_delay.symbols.parser" in (process / "cmdline").read_bytes()
    return False


def _children(pid: int) -> list[int]:
    children = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:  # it has gone
                continue
            if int(fields[1]) == pid and not _is_parser(entry):
                children.append(int(entry.name))
    return children
