"""The workloads of these tests: compiled, started, and what they say of themselves."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.cache import built
from tests.needs import need_sdt_header, needed

SOURCES = Path(__file__).parents[2] / "workloads"
FLAGS = ("-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread")

# What takes longer hangs; nothing is measured by it. Emulated machines are slow.
HANGS_S = 120.0


class Round(NamedTuple):
    """One round of tests/workloads/rounds.c, times of CLOCK_MONOTONIC."""

    outer_start_ns: int
    inner_start_ns: int
    inner_stop_ns: int
    outer_stop_ns: int
    getppids: int
    nanosleeps: int


class Hit(NamedTuple):
    """One hit of tests/workloads/hits.c: it was after `before_ns` and before `after_ns`."""

    tid: int
    role: str
    before_ns: int
    after_ns: int


class Workload:
    """A running workload: it acts on go(), and ends with the test."""

    def __init__(self, program: Path, *arguments: object) -> None:
        """Start it and wait until it is ready."""
        command = [str(program), *map(str, arguments)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self._process.pid
        assert self._line() == "ready"

    def go(self, rounds: int = 1) -> None:
        """Have it act: so many rounds, if it makes rounds."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"%d\n" % rounds)
        self._process.stdin.flush()

    def rounds(self) -> list[Round]:
        """Wait until the rounds are done, and return them."""
        return [Round(*map(int, line.split())) for line in self._lines()]

    def hits(self) -> list[Hit]:
        """Wait until the hits are done, and return them in the order they began."""
        fields = [line.split() for line in self._lines()]
        found = [Hit(int(tid), role, int(a), int(b)) for tid, role, a, b in fields]
        return sorted(found, key=lambda hit: hit.before_ns)

    def finish(self) -> None:
        """Have it exit, and wait until it has."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(HANGS_S)

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def _lines(self) -> list[str]:
        return list(iter(self._line, "end"))

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"{self._process.args!r} exited"
        return line.decode().strip()


class StartWorkload(Protocol):
    """The fixtures `start_rounds` and `start_hits`."""

    def __call__(self, *arguments: object) -> Workload: ...


def compile_workload(name: str) -> Path:
    """The program of tests/workloads/NAME.c, compiled if its source is new."""
    compiler = needed("cc")
    source = SOURCES / f"{name}.c"

    def make(folder: Path) -> None:
        if "sys/sdt.h" in source.read_text():
            need_sdt_header()
        command = [compiler, *FLAGS, "-o", str(folder / name), str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return built(name, make, source, FLAGS) / name


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until `condition()` holds; fails when that takes so long that it never will."""
    deadline = time.monotonic() + HANGS_S
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.005)
