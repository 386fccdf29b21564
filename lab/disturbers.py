"""What keeps a process from its work: one that wants its CPU, and one that stops it."""

import sys
from typing import Self

from lab import halt, spin
from lab.child import Child

_START_S = 30.0


class _Disturber:
    """A context manager: while it is open a child runs that program."""

    def __init__(self, program: str, begun: str, *arguments: str) -> None:
        """Takes note; __enter__ starts it. Once it has `begun`, it says so."""
        self._command = [sys.executable, program, *arguments]
        self._begun = begun

    def __enter__(self) -> Self:
        """Returns once it has begun; raises ChildFailedError or TimeoutExpiredError."""
        self._child = Child(self._command)
        try:
            self._child.expect(self._begun, _START_S)
        except BaseException:
            self._child.stop()
            raise
        return self

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._child.pid

    def running(self) -> bool:
        """Whether it still runs."""
        return self._child.running()

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self._child.stop()


class Competitor(_Disturber):
    """While it is open, but at most `seconds`, a child spins on CPU `cpu`."""

    def __init__(self, cpu: int, *, seconds: float) -> None:
        """Takes note; __enter__ starts it."""
        super().__init__(spin.__file__, "spinning", str(cpu), str(seconds))


class Halter(_Disturber):
    """While it is open, but at most `seconds`, a child stops `pid` for a fifth of each second."""

    def __init__(self, pid: int, *, seconds: float) -> None:
        """Takes note; __enter__ starts it."""
        super().__init__(halt.__file__, "halting", str(pid), str(seconds))
