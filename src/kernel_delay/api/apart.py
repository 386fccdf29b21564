"""What another process measures: a block of this one, or a program.

A thread of this process would be in the figures of the block, and signals are for the main thread.
A program is forked, which a process with threads should not do.
"""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from kernel_delay.api.measuring import Options, capture_between, run
from kernel_delay.capture import LONGEST_S
from kernel_delay.errors import KernelDelayError, UsageError, compiled_parts
from kernel_delay.model import Sample

BLOCKS = 16
"""So many blocks can be measured at once, as block.h has it."""

_CHILD = "import sys; from kernel_delay.api.apart import measure; sys.exit(measure(*sys.argv[1:]))"


def endless(**options: Any) -> Options:
    """Return the options of a window that something else ends. Raises TypeError as Options do."""
    return Options(seconds=LONGEST_S, **options)


class Request(Struct, frozen=True):
    """What the other process is to measure.

    Attributes:
        options: How.
        pid: The process whose block it is. None: it is to run a program.
        triggers: What the process hits where the block begins and ends.
        command: The program.
        user: Who it runs as.
    """

    options: Options
    pid: int | None = None
    triggers: tuple[str, str] = ("", "")
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

    # Numbers that no block has: a block within this one must not close its window.
    _free: ClassVar = deque(range(BLOCKS))

    def __init__(self, options: Options) -> None:
        """Decide what is kept, see `capture()`."""
        with compiled_parts():
            import kernel_delay.api._block as _block
        self._block = _block
        self._options = options

    def __repr__(self) -> str:
        """Say what was measured, if it was."""
        return f"<Measurement: {getattr(self, 'sample', 'the block has not ended')}>"

    def __enter__(self) -> "Measurement":
        """Start to measure. Raises KernelDelayError."""
        try:
            self._number = self._free.popleft()
        except IndexError:
            raise UsageError(f"{BLOCKS} blocks are measured already: end one first") from None
        try:
            function = f"up:{self._block.__file__}:kernel_delay_block"
            triggers = (f"{function}_begins_{self._number}", f"{function}_ends_{self._number}")
            request = Request(self._options, os.getpid(), triggers)
            self._child = _Child(request, subprocess.DEVNULL)
            self._child.take()
        except BaseException:
            self._free.append(self._number)
            raise
        self._thread = threading.get_ident()
        self._block.lib.block_begins(self._number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it. Raises KernelDelayError, unless the block raised something itself."""
        self._block.lib.block_ends(self._number)
        if threading.get_ident() != self._thread:
            self._child.interrupt()
        try:
            self.sample = _sample_of(self._child.take())
        except KernelDelayError:
            if error is None:
                raise
        finally:
            self._child.end()
            self._free.append(self._number)


def run_apart(command: Sequence[str], user: str | None, options: Options) -> Run:
    """Measure a program, in a process of its own. Raises KernelDelayError."""
    child = _Child(Request(options, command=tuple(command), user=user))
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
            is_ready = partial(send, Answer())
            send(Answer(capture_between(request.pid, request.triggers, request.options, is_ready)))
    except KernelDelayError as error:
        send(Answer(error=str(error), exit_code=error.exit_code))
    return os.EX_OK
