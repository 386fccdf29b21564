"""General tools that count or time the system calls of a process."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from bench.peers.peer import CommandPeer


class Tool(CommandPeer):
    """A tool of Debian's, by the name of its program."""

    program: str

    def lacking(self) -> str | None:
        """Its program is needed."""
        if shutil.which(self.program) is None:
            return f"{self.program} is not installed"
        return None


class Syscount(Tool):
    """libbpf-tools' syscount: count and total latency of each call."""

    name = "syscount -L"
    program = "syscount"

    def command(self, pid: int) -> list[str]:
        """See syscount --help."""
        return [self.program, "-L", "-p", str(pid), "-d", "600"]

    def ready(self, process: subprocess.Popen[bytes], said: bytes) -> bool:
        """It says so, but to a pipe only at its end; it sleeps when it is attached."""
        return _sleeps_for_long(process.pid)


class Bpftrace(Tool):
    """bpftrace: count and latency, in the shortest program that says as much as syscount's."""

    name = "bpftrace"
    program = "bpftrace"

    def command(self, pid: int) -> list[str]:
        """See bpftrace(8)."""
        enter = f"tracepoint:raw_syscalls:sys_enter /pid == {pid}/ {{ @start[tid] = nsecs; }}"
        leave = (
            "tracepoint:raw_syscalls:sys_exit /@start[tid]/"
            " { @ns[args->id] = stats(nsecs - @start[tid]); delete(@start[tid]); }"
        )
        # Its `Attaching` comes too early.
        return [self.program, "-e", f'{enter} {leave} interval:ms:100 {{ printf("attached\\n"); }}']

    def ready(self, process: subprocess.Popen[bytes], said: bytes) -> bool:
        """Its interval is attached last."""
        return b"attached" in said


class PerfTool(Tool):
    """One of perf's."""

    program = "perf"

    def ready(self, process: subprocess.Popen[bytes], said: bytes) -> bool:
        """It opens its events, and soon enables them."""
        if b"perf_event" not in _descriptors(process.pid):
            return False
        time.sleep(0.5)
        return True


class PerfTrace(PerfTool):
    """perf trace, which sends each call to user space."""

    name = "perf trace -s"

    def command(self, pid: int) -> list[str]:
        """See perf-trace(1)."""
        return [self.program, "trace", "-s", "-p", str(pid), "-o", os.devnull]


class Strace(Tool):
    """strace, which stops the thread twice a call."""

    name = "strace -c"
    program = "strace"
    stop_signal = signal.SIGINT

    def command(self, pid: int) -> list[str]:
        """See strace(1)."""
        return [self.program, "-c", "-f", "-p", str(pid)]

    def ready(self, process: subprocess.Popen[bytes], said: bytes) -> bool:
        """It says so."""
        return b"attached" in said


def _descriptors(pid: int) -> bytes:
    found = []
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            found.append(os.fsencode(entry.readlink()))
    return b" ".join(found)


def _sleeps_for_long(pid: int) -> bool:
    """Tell whether a BPF program's descriptors are there, and it does no more."""
    if b"bpf_link" not in _descriptors(pid) and b"bpf-prog" not in _descriptors(pid):
        return False
    time.sleep(0.3)
    return True
