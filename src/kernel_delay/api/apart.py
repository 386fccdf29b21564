"""What another process measures: a block of this one, or a program.

A thread of this process would be in the figures of the block, and signals are for the main thread.
A program is forked, which a process with threads should not do.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import msgspec
from msgspec import Struct

from kernel_delay.api.measuring import Names, Options, capture, run
from kernel_delay.errors import KernelDelayError
from kernel_delay.model import Sample
from kernel_delay.units import LONGEST_S

_OPEN = b"open\n"
_CHILD = "import sys; from kernel_delay.api.apart import measure; sys.exit(measure(*sys.argv[1:]))"


def endless(**options: Any) -> Options:
    """Return the options of a window that something else ends. Raises TypeError as Options do."""
    return Options(seconds=LONGEST_S, **options)


class Request(Struct, frozen=True):
    """What the other process is to measure: the process `pid`, or a program if there is none."""

    options: Options
    pid: int | None = None
    command: tuple[str, ...] = ()
    user: str | None = None


class Answer(Struct, frozen=True):
    """What it answers: that the window is open, what it measured, or why it can't.

    Attributes:
        sample: What was measured. None: it has yet to be.
        status: The exit status of the program.
        error: A line, for people. None: there is none.
        exit_code: The error's.
    """

    sample: Sample | None = None
    status: int = 0
    error: str | None = None
    exit_code: int = os.EX_SOFTWARE


class Run(Struct, frozen=True):
    """A program that ran.

    Attributes:
        sample: What was measured of it.
        status: Its exit status; 128 + N for an end by signal N.
    """

    sample: Sample
    status: int


class _Child:
    """The process that measures, and its answers, a line each."""

    def __init__(self, request: Request, stdin: int | None = None) -> None:
        answers, answer = os.pipe()
        words = [msgspec.json.encode(request).decode(), str(answer)]
        self._answers = os.fdopen(answers, "rb")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _CHILD, *words], pass_fds=[answer], stdin=stdin
            )
        finally:
            os.close(answer)

    def take(self) -> Answer:
        """Wait for the next answer. Raises KernelDelayError if it is that."""
        try:
            answer = msgspec.json.decode(self._answers.readline(), type=Answer)
        except msgspec.DecodeError:
            answer = Answer(error=f"measuring ended with {self._process.wait()}")
        if answer.error is not None:
            self.end()
            error = KernelDelayError(answer.error)
            error.exit_code = answer.exit_code
            raise error
        return answer

    def interrupt(self) -> None:
        """Close its window."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """Wait for its end."""
        self._answers.close()
        self._process.wait()


class Measurement:
    """The block: its window opens when the block begins, and closes when it ends.

    Attributes:
        sample: What was measured, once the block has ended. Threads of all of the process.
    """

    sample: Sample

    def __init__(self, options: Options) -> None:
        """Decide what is kept, see `capture()`."""
        self._request = Request(options, os.getpid())

    def __enter__(self) -> "Measurement":
        """Start to measure. Raises KernelDelayError."""
        self._child = _Child(self._request, subprocess.DEVNULL)
        self._child.take()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it. Raises KernelDelayError, unless the block raised something itself."""
        self._child.interrupt()
        try:
            self.sample = _sample_of(self._child.take())
        except KernelDelayError:
            if error is None:
                raise
        finally:
            self._child.end()


def run_apart(command: Sequence[str], user: str | None, options: Options) -> Run:
    """Measure a program, in a process of its own. Raises KernelDelayError."""
    child = _Child(Request(options, None, tuple(command), user))
    answer = child.take()
    child.end()
    return Run(_sample_of(answer), answer.status)


def _sample_of(answer: Answer) -> Sample:
    assert answer.sample is not None
    return answer.sample


def measure(encoded: str, fd: str) -> int:
    """In the other process: measure until SIGINT or the program's end, and write the answers."""
    request, answers = msgspec.json.decode(encoded, type=Request), int(fd)
    os.set_inheritable(answers, False)

    def send(answer: Answer) -> None:
        with open(answers, "wb", closefd=False) as file:
            file.write(msgspec.json.encode(answer) + b"\n")

    try:
        if request.pid is None:
            send(Answer(*run(request.command, request.user, request.options)))
        else:
            send(Answer(capture(request.pid, Names(), request.options, lambda _: send(Answer()))))
    except KernelDelayError as error:
        send(Answer(error=str(error), exit_code=error.exit_code))
    return os.EX_OK
