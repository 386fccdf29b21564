"""kernel-delay as its user runs it; where a Python takes seconds to start, in a fork."""

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

import kernel_delay.cli  # noqa: F401 (so that a fork has no need to)
from tests.emulation import is_emulated

# What takes longer hangs. Emulated machines are slow.
LIMIT_S = 400.0

KERNEL_DELAY = (sys.executable, "-m", "kernel_delay")


class Fork:
    """A fork of this process that is kernel-delay; the interface is subprocess.Popen's."""

    def __init__(self, arguments: Sequence[str], stdout: int, stderr: int) -> None:
        """Start it, with these descriptors."""
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _become(arguments, stdout, stderr)

    def poll(self) -> int | None:
        """Its exit status if it has ended."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, `timeout` seconds at most; its exit status."""
        deadline = time.monotonic() + timeout if timeout is not None else None
        while (status := self.poll()) is None:
            left = 60.0 if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired("kernel-delay", timeout or 0.0)
            ends = os.pidfd_open(self.pid)
            select.select([ends], [], [], left)
            os.close(ends)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it, whatever it does."""
        self.send_signal(signal.SIGKILL)


Process = subprocess.Popen[bytes] | Fork


class Done(NamedTuple):
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


def start(
    *arguments: object, stdout: int | None, stderr: int | None, within: Sequence[str] = ()
) -> Process:
    """Start it with these descriptors (None: this process's own).

    `within` is a command that runs it as itself or as its child.
    """
    words = [str(argument) for argument in arguments]
    if is_emulated() and not within:
        return Fork(words, 1 if stdout is None else stdout, 2 if stderr is None else stderr)
    null = subprocess.DEVNULL
    return subprocess.Popen(
        [*within, *KERNEL_DELAY, *words], stdin=null, stdout=stdout, stderr=stderr
    )


def run(*arguments: object, within: Sequence[str] = ()) -> Done:
    """Run it to its end."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = start(*arguments, stdout=stdout.fileno(), stderr=stderr.fileno(), within=within)
        try:
            status = process.wait(LIMIT_S)
        finally:
            process.kill()
        stdout.seek(0)
        stderr.seek(0)
        return Done(status, stdout.read().decode(), stderr.read().decode())


def give_up_descriptors(null: int) -> None:
    """Have all descriptors but the first three be as `null`: what a fork inherits of the tests'.

    A pipe of theirs that stayed open here would not end there. None is closed: objects of theirs
    that hold one may be garbage that is collected at any time, and close it then; by that number
    another would have been opened.
    """
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        # The directory itself is among them, and closed by now.
        if number > 2 and number != null and os.path.lexists(f"/proc/self/fd/{name}"):
            os.dup2(null, number, inheritable=False)


def _become(arguments: Sequence[str], stdout: int, stderr: int) -> NoReturn:
    """Be the command with the descriptors; whatever it raises, don't go on as the tests."""
    status = os.EX_SOFTWARE
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        # Both are copied before either's number is taken.
        given = [null if each == subprocess.DEVNULL else os.dup(each) for each in (stdout, stderr)]
        for number, descriptor in enumerate((null, *given)):
            os.dup2(descriptor, number)
        give_up_descriptors(null)
        # As an interpreter has them whose output is no terminal.
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        sys.argv = ["kernel-delay", *arguments]
        # Here alone: by its import it takes the name and the signals of kernel-delay.
        from kernel_delay import __main__ as entry

        status = entry.main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else os.EX_OK
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # its terminal may be gone
                stream.flush()
        os._exit(status)
