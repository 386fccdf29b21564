"""The workloads of these tests, and what they say of themselves."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tests.workload import Workload


class Round(NamedTuple):
    """One round of tests/workloads/rounds.c, times of CLOCK_MONOTONIC."""

    outer_start_ns: int
    inner_start_ns: int
    inner_stop_ns: int
    outer_stop_ns: int
    getppids: int
    nanosleeps: int


class Hit(NamedTuple):
    """One hit of tests/workloads/hits.c: it was after `before_ns` and before `after_ns`."""

    tid: int
    role: str
    before_ns: int
    after_ns: int


class Target(Workload):
    """A running workload that says a line for each of its acts."""

    def __init__(self, command: Sequence[object]) -> None:
        """Start it and wait until it is ready."""
        super().__init__(command)
        assert self.greeting == "ready"

    def go(self, rounds: int = 1) -> None:
        """Have it act: so many rounds, if it makes rounds."""
        self.send(rounds)

    def rounds(self) -> list[Round]:
        """Wait until the rounds are done, and return them."""
        return [Round(*map(int, line.split())) for line in self._lines()]

    def hits(self) -> list[Hit]:
        """Wait until the hits are done, and return them in the order they began."""
        fields = [line.split() for line in self._lines()]
        found = [Hit(int(tid), role, int(a), int(b)) for tid, role, a, b in fields]
        return sorted(found, key=lambda hit: hit.before_ns)

    def _lines(self) -> list[str]:
        return list(iter(self.line, "end"))


class StartTarget(Protocol):
    """The fixtures `start_rounds` and `start_hits`."""

    def __call__(self, *arguments: object) -> Target: ...
