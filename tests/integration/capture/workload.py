"""The C programs of tests/workloads: compiled, started, led, and what /proc says of them."""

import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kernel_delay.host.syscalls import syscall_number
from tests.cache import built
from tests.needs import needed

SOURCES = Path(__file__).parents[2] / "workloads"
FLAGS = ("-O1", "-Wall", "-Wextra", "-Wno-unused-parameter", "-pthread")

# What takes longer hangs; nothing is measured by it. Emulated machines are slow.
HANGS_S = 120.0


class SchedStat(NamedTuple):
    """A line of /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst)."""

    run_ns: int
    ready_ns: int
    runs: int

    def since(self, earlier: "SchedStat") -> "SchedStat":
        return SchedStat(*(now - then for now, then in zip(self, earlier, strict=True)))


# Whether this machine's kernel runs i386 programs, and not others of 32 bits.
I386_RUNS = os.uname().machine == "x86_64"

# Static, as there is no dynamic linker for them.
COMPAT_COMPILER = ("i686-linux-gnu-gcc", "-static")


def compile_workload(name: str, compat: bool = False) -> Path:
    """Return the program, compiled if its source is new; as a 32-bit one if `compat`."""
    name_of_compiler, *flags = COMPAT_COMPILER if compat else ("cc",)
    compiler = needed(name_of_compiler)
    source = SOURCES / f"{name}.c"
    command = [compiler, *flags, *FLAGS]

    def make(folder: Path) -> None:
        subprocess.run([*command, "-o", folder / name, source], check=True)

    return built(name, make, source, SOURCES / "workload.h", command) / name


def undisturbed() -> tuple[str, ...]:
    """A command that runs another so that no ordinary task takes its CPU.

    The exception is a twentieth of the time (sched_rt_runtime_us).
    """
    command = ("chrt", "--rr", "1")
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("no real-time scheduling here: others would disturb")
    return command


class Workload:
    """One running workload. workload.h says how it is led."""

    def __init__(self, command: list[str], within: tuple[str, ...] = ()) -> None:
        """Start it and wait until it is ready; `ready` is its first answer.

        `within` is a command that runs it as its child, as unshare(1) does;
        `pid` is the workload's own.
        """
        self._process = subprocess.Popen(
            [*within, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.ready = self._answer()
        self.pid = youngest_descendant(self._process.pid) if within else self._process.pid

    def ask(self, line: str = "go") -> dict[str, Any]:
        """Have it act, and return its answer."""
        self.send(line)
        return self._answer()

    def send(self, line: str = "go") -> None:
        """Have it act, and don't wait for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

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

    def tids(self) -> list[int]:
        """Its threads, as this PID namespace numbers them."""
        return sorted(int(name) for name in os.listdir(f"/proc/{self.pid}/task"))

    def wait_until_alone(self) -> None:
        """Wait until all threads but the first are gone, and not only joined."""
        wait_until(lambda: len(self.tids()) == 1)

    def parked(self) -> dict[int, SchedStat]:
        """Wait until all threads are asleep, and return each one's schedstat since it began."""
        found: list[dict[int, SchedStat]] = [{}]

        def all_sleep_and_none_ran() -> bool:
            tids = self.tids()
            try:
                found.append({tid: self._schedstat(tid) for tid in tids})
                sleep = all(self.state(tid) == "S" for tid in tids)
            except (FileNotFoundError, ProcessLookupError):
                # A thread can be joined before it is gone (kernel/fork.c:mm_release(), 7.2),
                # and this one went since it was listed.
                return False
            return sleep and found[-1] == found[-2]

        wait_until(all_sleep_and_none_ran, every_s=0.02)
        return found[-1]

    def state(self, tid: int) -> str:
        """The thread's state, one letter of proc_pid_stat(5)."""
        text = Path(f"/proc/{self.pid}/task/{tid}/stat").read_text()
        return text.rpartition(")")[2].split()[0]

    def _schedstat(self, tid: int) -> SchedStat:
        text = Path(f"/proc/{self.pid}/task/{tid}/schedstat").read_text()
        return SchedStat(*map(int, text.split()))

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], HANGS_S)[0]:
            pytest.fail(f"{self._process.args!r} does not answer")
        line = self._process.stdout.readline()
        if not line:
            pytest.fail(f"{self._process.args!r} exited with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


StartWorkload = Callable[..., Workload]
"""Starts a workload: its name, its arguments, and `within`."""


def known_syscall(name: str) -> int:
    """The number of a call that every kernel has."""
    number = syscall_number(name)
    assert number is not None
    return number


def wait_until(condition: Callable[[], bool], every_s: float = 0.005) -> None:
    """Wait until `condition()` holds; fails when that takes so long that it never will."""
    deadline = time.monotonic() + HANGS_S
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(every_s)


def youngest_descendant(pid: int) -> int:
    """The process itself, or the only child of its only child, and so on."""
    while children := _children(pid):
        (pid,) = children
    return pid


def _children(pid: int) -> list[int]:
    children = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has gone
                continue
            if int(fields[1]) == pid:
                children.append(int(entry.name))
    return children
