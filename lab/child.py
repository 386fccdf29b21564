"""A helper process that ends when this one does, if need be in its own network namespace."""

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kernel_delay.errors import TimeoutExpiredError, UnavailableError

_POLITE_S = 5.0
_LINES_REPORTED = 3


class ChildFailedError(UnavailableError):
    """A helper process could not start or ended too early."""


class Child:
    """A running child process.

    It is in a session of its own, so that Ctrl-C reaches only this process,
    which then stops the child in order. Should this process be killed, the
    kernel kills the child: PR_SET_PDEATHSIG, which is bound to the *thread*
    that starts the child (see prctl(2)), so start children in a thread that
    lives as long as they shall.

    A network namespace (`own_network`) has no name, hence nothing to clean up:
    the kernel takes it down, with all its devices, after its last process.
    """

    def __init__(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        own_network: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Starts `argv`; raises ChildFailedError when that can't be."""
        self.name = Path(argv[0]).name
        unshare = ["unshare", "--net", "--"] if own_network else []
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - stop() closes it
        try:
            # Both set up their own process and exec: the pid remains that of the Popen.
            self._process = subprocess.Popen(
                [*unshare, "setpriv", "--pdeathsig", "KILL", "--", *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                start_new_session=True,
                env=env,
            )
        except OSError as error:
            self._stderr.close()
            raise ChildFailedError(f"can't start {self.name}: {error.strerror}") from error

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def check(self) -> None:
        """Raises ChildFailedError, with what it said, if the child has ended."""
        if not self.running():
            raise ChildFailedError(f"{self.name} ended too early: {self._complaint()}")

    def expect(self, word: str, timeout_s: float) -> None:
        """Waits for the line `word` on the child's stdout.

        Raises ChildFailedError or TimeoutExpiredError when it doesn't come.
        """
        assert self._process.stdout is not None
        stdout = self._process.stdout.fileno()
        deadline = time.monotonic() + timeout_s
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutExpiredError(f"{self.name} was not {word} within {timeout_s:g} s")
            byte = os.read(stdout, 1)
            if not byte:
                self._process.wait()
                self.check()
            line += byte
        if line.decode(errors="replace").strip() != word:
            raise ChildFailedError(f"{self.name} says {line!r} where {word!r} was expected")

    def tell(self, line: str) -> None:
        """Writes one line to the child's stdin."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            self._process.wait()
            self.check()

    def in_network(self, argv: Sequence[str], stdin: str = "") -> None:
        """Runs a command to its end in the child's network namespace.

        Raises ChildFailedError with what it said when it fails.
        """
        namespace = f"--net=/proc/{self.pid}/ns/net"
        done = subprocess.run(
            ["nsenter", namespace, "--", *argv],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ChildFailedError(f"{' '.join(argv)}: {one_line(done.stderr)}")

    def stop(self) -> None:
        """Ends the child, by force if it does not listen, and waits until it is gone."""
        with uninterrupted():
            if self.running():
                self._process.terminate()
                # A stopped process gets SIGTERM only once it goes on.
                self._process.send_signal(signal.SIGCONT)
                try:
                    self._process.wait(_POLITE_S)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
            for stream in (self._process.stdin, self._process.stdout, self._stderr):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()

    def _complaint(self) -> str:
        self._stderr.seek(0)
        text = self._stderr.read().decode(errors="replace")
        return one_line(text) or f"exit status {self._process.returncode}"


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Puts off Ctrl-C and SIGTERM, so that taking things down is not cut short."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def one_line(text: str) -> str:
    """The last few lines of what a program said, as one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines[-_LINES_REPORTED:])
