"""When soft IRQs are measured: all the time, or only while a round may become a long one."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Self

from kernel_delay.capture.programs import Programs
from kernel_delay.capture.rounds.threads import ThreadReading
from kernel_delay.loader._records import lib
from kernel_delay.loader.base import BpfError
from kernel_delay.loader.programs import Link

REST_NS = 10_000_000_000
"""They are measured for that long after the last round that was open for long."""


class SoftIrqs:
    """Attaches the programs at soft IRQs, and detaches them when nobody needs them.

    A packet that is sent through a veth is received in a soft IRQ of the sender's own call, so
    that they come as often as calls do, and cost a program that only polls and sends as much.
    """

    def __init__(
        self, programs: Programs, suspect_ns: int, clock: Callable[[], int] = lib.monotonic_ns
    ) -> None:
        """Measure those of rounds that are open for `suspect_ns`; of all, if they are attached."""
        self._programs = programs
        self._suspect_ns = suspect_ns
        self._clock = clock
        self._entry: Link | None = None
        self._exit: Link | None = None
        self._since_ns = 0
        self._needed_ns = 0

    def __enter__(self) -> Self:
        """None is measured yet, or all are."""
        return self

    def __exit__(self, *_: object) -> None:
        """Measure none any more."""
        with ExitStack() as stack:
            for link in (self._exit, self._entry):
                if link is not None:
                    stack.callback(link.close)

    def update(self, reading: ThreadReading) -> None:
        """Begin and end as the threads' rounds are."""
        if self._programs.soft_irqs_attached:
            return
        begun = (reported.rounds.open_since_ns for reported in reading.threads.values())
        if any(reading.time_ns - since >= self._suspect_ns for since in begun if since is not None):
            self._needed_ns = reading.time_ns
            self._begin()
        elif reading.time_ns - self._needed_ns >= REST_NS:
            self._end()

    def reported_from_ns(self, start_ns: int, stop_ns: int) -> int | None:
        """Return from when on they were measured in a long round; None: in all of it."""
        if self._programs.soft_irqs_attached:
            return None
        if self._entry is None:
            return stop_ns
        return None if self._since_ns <= start_ns else min(self._since_ns, stop_ns)

    def _begin(self) -> None:
        if self._entry is not None:
            return
        with suppress(BpfError):
            self._exit = self._exit or self._programs.attach_soft_irq("exit")
            self._entry = self._programs.attach_soft_irq("entry")
            self._since_ns = self._clock()

    def _end(self) -> None:
        """Detach the entry, and the exit a while after it: what has begun is to end.

        A start whose end is not seen would be taken for that of another one later.
        """
        if self._entry is not None:
            self._entry.close()
            self._entry = None
        elif self._exit is not None:
            self._exit.close()
            self._exit = None
