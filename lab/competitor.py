"""A process that wants a CPU all the time, so that others must wait for it."""

import sys
from types import TracebackType
from typing import Self

from lab import spin
from lab.child import Child

_START_S = 30.0


class Competitor:
    """A context manager: while it is open, but at most `seconds`, a child spins on CPU `cpu`."""

    def __init__(self, cpu: int, *, seconds: float) -> None:
        """Takes note; __enter__ starts it."""
        self._arguments = (str(cpu), str(seconds))

    def __enter__(self) -> Self:
        """Returns once it spins; raises ChildFailedError or TimeoutExpiredError."""
        self._child = Child([sys.executable, spin.__file__, *self._arguments])
        try:
            self._child.expect("spinning", _START_S)
        except BaseException:
            self._child.stop()
            raise
        return self

    @property
    def pid(self) -> int:
        """The process id of what spins."""
        return self._child.pid

    def running(self) -> bool:
        """Whether it still spins."""
        return self._child.running()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the spinning."""
        self._child.stop()
