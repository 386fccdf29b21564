"""Tools that keep everything in order, for somebody to read later."""

import os
import signal
import subprocess
from pathlib import Path

from bench.peers.tools import PerfTool, Tool


class PerfTrace(PerfTool):
    """perf trace: each call, one by one."""

    name = "perf trace"

    def command(self, pid: int) -> list[str]:
        """See perf-trace(1)."""
        return [self.program, "trace", "-p", str(pid), "-o", os.devnull]


class PerfSched(PerfTool):
    """perf sched record: each switch, wakeup and migration, and no calls."""

    name = "perf sched record"

    def command(self, pid: int) -> list[str]:
        """See perf-sched(1)."""
        return [self.program, "sched", "record", "-p", str(pid), "-o", os.devnull]


class TraceCmd(Tool):
    """trace-cmd: ftrace's events of calls, of the scheduler and of interrupts."""

    name = "trace-cmd record"
    program = "trace-cmd"
    # Killed it would leave the kernel tracing.
    stop_signal = signal.SIGINT

    def __init__(self, folder: Path) -> None:
        """Write to a file in this folder."""
        self._file = folder / "trace.dat"

    def command(self, pid: int) -> list[str]:
        """See trace-cmd-record(1)."""
        events = [f"-e{name}" for name in ("raw_syscalls", "sched", "irq")]
        return [self.program, "record", "-o", str(self._file), *events, "-P", str(pid)]

    def ready(self, process: subprocess.Popen[bytes], said: bytes) -> bool:
        """It says so."""
        return b"Hit Ctrl^C" in said


class Wprof(Tool):
    """wprof: the whole system's switches, wakers and stacks; no distribution has it."""

    name = "wprof"
    program = "wprof"

    def command(self, pid: int) -> list[str]:
        """See wprof --help."""
        return [self.program, "-d", "600000", "-T", os.devnull, "--allow-pid", str(pid)]

    def ready(self, process: subprocess.Popen[bytes], said: bytes) -> bool:
        """It says when it has begun."""
        return b"Running" in said
