"""Workloads that answer in JSON, and what /proc says of their threads."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import workload
from tests.system_calls import syscall_number
from tests.workload import sleeps_of, wait_until


class SchedStat(NamedTuple):
    """A line of /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst)."""

    run_ns: int
    ready_ns: int
    runs: int

    def since(self, earlier: "SchedStat") -> "SchedStat":
        return SchedStat(*(now - then for now, then in zip(self, earlier, strict=True)))


# Whether this machine's kernel runs i386 programs, and not others of 32 bits.
I386_RUNS = os.uname().machine == "x86_64"


def undisturbed() -> tuple[str, ...]:
    """A command that runs another so that no ordinary task takes its CPU.

    The exception is a twentieth of the time (sched_rt_runtime_us).
    """
    command = ("chrt", "--rr", "1")
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("no real-time scheduling here: others would disturb")
    return command


class Workload(workload.Workload):
    """One running workload, which answers in JSON. workload.h says how it is led."""

    def __init__(self, command: list[str], within: tuple[str, ...] = ()) -> None:
        """Start it and wait until it is ready; `ready` is its first answer."""
        super().__init__(command, within)
        self.ready: dict[str, Any] = json.loads(self.greeting)

    def ask(self, line: str = "go") -> dict[str, Any]:
        """Have it act, and return its answer."""
        self.send(line)
        answer: dict[str, Any] = json.loads(self.line())
        return answer

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
                found.append({tid: self.schedstat(tid) for tid in tids})
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

    def slept(self, tid: int) -> int:
        """How often the thread left its CPU to sleep or stop, by the kernel's own count.

        Its state says so earlier: until it leaves its CPU it may yet be preempted
        (kernel/sched/core.c:__schedule(), 5.14 to 6.18).
        """
        return sleeps_of(tid)

    def schedstat(self, tid: int) -> SchedStat:
        """One thread's, since it began."""
        text = Path(f"/proc/{self.pid}/task/{tid}/schedstat").read_text()
        return SchedStat(*map(int, text.split()))


StartWorkload = Callable[..., Workload]
"""Starts a workload: its name, its arguments, and `within`."""


def known_syscall(name: str) -> int:
    """The number of a call that every kernel has."""
    number = syscall_number(name)
    assert number is not None
    return number
