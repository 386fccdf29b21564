"""`with kernel_delay.measure()`: this process is measured while it runs a block.

Another process measures: a thread of this one would be in its own figures, and signals are for the
main thread.
"""

import os
import signal
import subprocess
import sys
from types import TracebackType

import msgspec

from kernel_delay.errors import KernelDelayError, NoInputError
from kernel_delay.model import Sample
from kernel_delay.units import LONGEST_S

_OPEN = b"open\n"
_CHILD = "import sys; from kernel_delay.own_block import measure; sys.exit(measure(*sys.argv[1:]))"


class Measurement:
    """The block: its window opens when the block begins, and closes when it ends.

    Attributes:
        sample: What was measured, once the block has ended. Threads of all of the process.
    """

    sample: Sample

    def __init__(self, accounting: bool, timeline: bool) -> None:
        """Decide what is kept, see `capture()`."""
        self._options = (str(int(accounting)), str(int(timeline)))

    def __enter__(self) -> "Measurement":
        """Start to measure. Raises KernelDelayError."""
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-c", _CHILD, str(os.getpid()), *self._options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._child.stdout is not None
        if (line := self._child.stdout.readline()) != _OPEN:
            self._child.stdout.close()
            status = self._child.wait()
            raise KernelDelayError(line.decode().strip() or f"measuring ended with {status}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it. Raises KernelDelayError, unless the block raised something itself."""
        self._child.send_signal(signal.SIGINT)
        measured, _ = self._child.communicate()
        try:
            self.sample = msgspec.json.decode(measured, type=Sample)
        except msgspec.DecodeError:
            if error is None:
                raise NoInputError(f"measuring ended with {self._child.returncode}") from None


def measure(pid: str, accounting: str, timeline: str) -> int:
    """In the other process: measure until SIGINT, say when the window is open, write the Sample."""
    from kernel_delay import api

    options = api.Options(seconds=LONGEST_S, accounting=accounting == "1", timeline=timeline == "1")
    output = sys.stdout.buffer

    def say_open(_: int) -> None:
        output.write(_OPEN)
        output.flush()

    try:
        sample = api.capture(int(pid), options, say_open)
    except KernelDelayError as error:
        output.write(f"{error}\n".encode())
        return error.exit_code
    output.write(msgspec.json.encode(sample))
    return os.EX_OK
