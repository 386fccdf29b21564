"""Tools that keep everything in order, for somebody to read later."""

import os
import signal
import subprocess
from pathlib import Path

from bench.peers.peer import CommandPeer
from bench.peers.tools import PerfTool, Tool

TRACEFS = Path("/sys/kernel/tracing")

EVENTS = ("raw_syscalls", "sched", "irq")

# The instance goes when nobody reads it any more: until then it is busy. Without events a reader
# may have come to an end.
_FTRACE = f"""
set -e
folder=$1
shift
mkdir "$folder"
trap 'echo 0 >"$folder/events/enable"; kill $readers || :; wait
  for n in 1 2 3 4 5 6 7 8 9; do rmdir "$folder" && break; sleep 0.1; done' EXIT
trap 'exit 0' INT TERM
readers=
echo "$@" >"$folder/set_event_pid"
for event in {" ".join(EVENTS)}; do echo 1 >"$folder/events/$event/enable"; done
for cpu in "$folder"/per_cpu/cpu*; do
  cat "$cpu/trace_pipe_raw" >/dev/null &
  readers="$readers $!"
done
echo recording
wait
"""


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
        events = [f"-e{name}" for name in EVENTS]
        return [self.program, "record", "-o", str(self._file), *events, "-P", str(pid)]

    def ready(self, process: subprocess.Popen[bytes], said: bytes) -> bool:
        """It says so."""
        return b"Hit Ctrl^C" in said


class Ftrace(CommandPeer):
    """The same events in the same buffers, without trace-cmd: it needs function tracing too."""

    name = "ftrace, as trace-cmd records"
    stop_signal = signal.SIGTERM

    def lacking(self) -> str | None:
        """tracefs is needed."""
        return None if (TRACEFS / "instances").is_dir() else "tracefs is not mounted"

    def command(self, pid: int) -> list[str]:
        """An instance of its own (Documentation/trace/ftrace.rst), whose buffers are read."""
        tids = sorted(os.listdir(f"/proc/{pid}/task"), key=int)
        folder = TRACEFS / f"instances/bench-{os.getpid()}"
        return ["sh", "-c", _FTRACE, "sh", os.fspath(folder), *tids]

    def ready(self, process: subprocess.Popen[bytes], said: bytes) -> bool:
        """It says so."""
        return b"recording" in said


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
