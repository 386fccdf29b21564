"""A run of a command in which a system call fails, or something is missing."""

import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.commands import KERNEL_DELAY, Done
from tests.faults.tried import FOLDER, Command
from tests.needs import needed

# Each call, and what it can fail with: bpf(2), open(2), read(2) and so on. EINTR is left out where
# the files are regular ones, or of /proc and /sys.
ERRORS: Mapping[str, Sequence[str]] = {
    "bpf": ("EPERM", "ENOMEM", "EINVAL", "EAGAIN", "E2BIG", "EMFILE"),
    "openat": ("EACCES", "EMFILE", "ENFILE", "ENOENT", "ENOMEM", "EPERM"),
    "read": ("EIO", "ENOMEM"),
    "mmap": ("ENOMEM", "EAGAIN", "EPERM"),
    "write": ("ENOSPC", "EIO", "EPIPE", "EINTR", "EDQUOT"),
    "perf_event_open": ("EACCES", "EMFILE", "ENODEV", "EINVAL", "EBUSY", "ENOENT"),
    "poll": ("ENOMEM", "EINTR"),
    "fork": ("EAGAIN", "ENOMEM"),
}

# Of a kind that has several calls, those that one is made by.
CALLS: Mapping[str, Sequence[str]] = {
    "poll": ("poll", "ppoll", "epoll_wait", "epoll_pwait", "pselect6", "select"),
    "fork": ("clone", "clone3", "fork", "vfork"),
}

# What kernel-delay does first; before, the dynamic linker and Python start.
FIRST = '"/proc/self/comm"'

LINE = re.compile(r"(\d+) +(\w+)\(")

HANGS_S = 120.0
INTERRUPT_S = 4.0
KEY_S = 0.5

SHOWN = b"THREAD"


class Fault(NamedTuple):
    """What fails in a trial.

    Either that the `n`-th `call` of each thread fails, with this error, or what `within` takes
    away from the command, which it runs.
    """

    kind: str
    name: str
    error: str = ""
    call: str = ""
    n: int = 0
    within: Sequence[str] = ()

    def __str__(self) -> str:
        """Return a name to find it by."""
        return f"{self.name} {self.n} {self.error}" if self.call else self.name


class Ended(NamedTuple):
    """How a trial ended.

    `began`: a line of kernel-delay had run when the call failed. `failed`: the call was made.
    `left`: files in its folder, by name.
    """

    done: Done
    began: bool
    failed: bool
    left: Sequence[str]


class Tracer(NamedTuple):
    """strace(1) with these arguments, which writes what it sees into `log`."""

    log: str
    arguments: Sequence[str]

    def command(self) -> tuple[str, ...]:
        """Return it, of the command behind it and the children of that."""
        # Where all calls are traced there is nothing to be left out.
        some = ("--seccomp-bpf",) if self.arguments else ()
        return (needed("strace"), "-f", *some, "-qq", "-o", self.log, *self.arguments)


def places(command: Command) -> Mapping[str, Sequence[tuple[str, int]]]:
    """Return which calls a run makes of each kind, once kernel-delay has begun.

    A place is a call and how many of these its thread has made by then.
    """
    kinds = {call: kind for kind in ERRORS for call in CALLS.get(kind, (kind,))}
    with tempfile.NamedTemporaryFile() as log:
        traced = Tracer(log.name, ("-e", f"trace={','.join(kinds)}"))
        _run(command, traced.command())
        lines = Path(log.name).read_text(errors="replace").splitlines()
    found: dict[str, dict[tuple[str, int], None]] = defaultdict(dict)
    made: dict[tuple[str, str], int] = defaultdict(int)
    has_begun = False
    for line in lines:
        has_begun = has_begun or FIRST in line
        if match := LINE.match(line):
            pid, call = match.groups()
            made[pid, call] += 1
            if has_begun and call in kinds:
                found[kinds[call]][call, made[pid, call]] = None
    return {kind: tuple(each) for kind, each in found.items()}


def faults(command: Command, each: int | None, seed: int) -> Iterator[Fault]:
    """Yield what fails in it: all there is, or `each` of every kind, chosen by `seed`."""
    for kind, found in places(command).items():
        possible = [
            Fault(kind, call, error, call, n) for call, n in found for error in ERRORS[kind]
        ]
        yield from _chosen(possible, each, f"{seed} {command.name} {kind}")
    for kind, missing in MISSING.items():
        yield from _chosen(missing, each, f"{seed} {command.name} {kind}")


def _chosen(possible: Sequence[Fault], each: int | None, seed: str) -> Sequence[Fault]:
    if each is None or each >= len(possible):
        return possible
    chosen = sorted(Random(seed).sample(range(len(possible)), each))
    return [possible[place] for place in chosen]


def fails(command: Command, fault: Fault) -> Ended:
    """Run the command with that failing. Raises subprocess.TimeoutExpired where it hangs."""
    calls = {"openat", fault.call} if fault.call else {"openat"}
    arguments = ["-e", f"trace={','.join(calls)}"]
    if fault.call:
        arguments += ["-e", f"inject={fault.call}:error={fault.error}:when={fault.n}"]
    with tempfile.NamedTemporaryFile() as log:
        traced = Tracer(log.name, arguments)
        done, left = _run(command, (*traced.command(), *fault.within))
        lines = Path(log.name).read_text(errors="replace").splitlines()
    first = next((place for place, line in enumerate(lines) if FIRST in line), len(lines))
    injected = [place for place, line in enumerate(lines) if "(INJECTED)" in line]
    if not fault.call:
        return Ended(done, began=first < len(lines), failed=True, left=left)
    return Ended(done, not any(place < first for place in injected), bool(injected), left)


def usual(command: Command) -> Ended:
    """Run the command with nothing failing."""
    done, left = _run(command, ())
    return Ended(done, began=True, failed=False, left=left)


def traced_run(command: Command, log: str) -> Done:
    """Run the command with all its calls written to `log`."""
    return _run(command, Tracer(log, ()).command())[0]


def _run(command: Command, within: Sequence[str]) -> tuple[Done, Sequence[str]]:
    """Run it in a new folder, in a terminal if it needs one; and what it left there."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        words = [word.replace(FOLDER, folder) for word in command.arguments]
        argv = [*within, *KERNEL_DELAY, *words]
        environment = {**os.environ, "FAULTS_FOLDER": folder, "TERM": "xterm"}
        run = _run_in_terminal if command.has_terminal else _run_with_files
        done = run(command, argv, environment)
        return done, sorted(os.path.relpath(path, folder) for path in Path(folder).rglob("*"))


def _run_with_files(command: Command, argv: Sequence[str], environment: Mapping[str, str]) -> Done:
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(command.stdin.encode())
        stdin.seek(0)
        process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            start_new_session=True,
        )
        try:
            status = _wait(command, process)
        finally:
            _kill(process)
        stdout.seek(0)
        stderr.seek(0)
        return Done(status, stdout.read().decode(), stderr.read().decode())


def _wait(command: Command, process: "subprocess.Popen[bytes]") -> int:
    if command.is_endless:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(INTERRUPT_S)
        for child in _children(process.pid) or (process.pid,):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGINT)
    return process.wait(HANGS_S)


def _children(pid: int) -> Sequence[int]:
    if "strace" not in Path(f"/proc/{pid}/comm").read_text():
        return ()
    return tuple(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def _run_in_terminal(command: Command, argv: Sequence[str], environment: Mapping[str, str]) -> Done:
    """Type `q` once a thread is drawn, and read what is drawn; stderr is a file."""
    terminal, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    drawn, has_quit = bytearray(), False
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            argv, stdin=other, stdout=other, stderr=stderr, env=environment, start_new_session=True
        )
        os.close(other)
        deadline = time.monotonic() + HANGS_S
        try:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    raise subprocess.TimeoutExpired(argv, HANGS_S)
                if select.select([terminal], [], [], KEY_S)[0]:
                    drawn += _read(terminal)
                if SHOWN in drawn and not has_quit:
                    has_quit = True
                    os.write(terminal, b"q")
            while select.select([terminal], [], [], 0)[0] and (more := _read(terminal)):
                drawn += more
        finally:
            _kill(process)
            os.close(terminal)
        stderr.seek(0)
        text = drawn.decode(errors="replace")
        return Done(process.returncode, text, stderr.read().decode())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError as error:  # its other end is closed
        if error.errno != errno.EIO:
            raise
        time.sleep(0.01)
        return b""


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End it with its children: what strace traced goes on without it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _shell(before: str) -> tuple[str, ...]:
    return ("unshare", "--mount", "sh", "-c", f'{before} && exec "$@"', sys.executable)


_NO_TRACEFS = (
    "for folder in /sys/kernel/tracing /sys/kernel/debug;"
    " do mount -t tmpfs tmpfs $folder; done; true"
)

MISSING: Mapping[str, Sequence[Fault]] = {
    "memory": [
        Fault("memory", f"{mib} MiB of address space", within=("prlimit", f"--as={mib << 20}"))
        for mib in range(40, 1000, 8)
    ],
    "descriptors": [
        Fault("descriptors", f"{count} descriptors", within=("prlimit", f"--nofile={count}"))
        for count in range(4, 60)
    ],
    "disk": [
        Fault("disk", f"files of {size} bytes", within=("prlimit", f"--fsize={size}"))
        for size in (1000, 2000, 4096, 10000)
    ]
    + [
        Fault(
            "disk",
            f"a disk of {size} KiB",
            within=_shell(f'mount -t tmpfs -o size={size}k tmpfs "$FAULTS_FOLDER"'),
        )
        for size in (4, 8)
    ],
    "stdout": [Fault("stdout", "a full stdout", within=_shell("exec >/dev/full"))],
    "/proc": [Fault("/proc", "no /proc", within=_shell("mount -t tmpfs tmpfs /proc"))],
    "tracefs": [Fault("tracefs", "no tracefs", within=_shell(_NO_TRACEFS))],
}
