"""What is hooked all the time, or only while a round may become a long one."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Self

from kernel_delay.capture.programs import Programs
from kernel_delay.capture.rounds.threads import ThreadReading
from kernel_delay.loader._records import lib
from kernel_delay.loader.base import BpfError
from kernel_delay.loader.programs import Link

REST_NS = 10_000_000_000
"""Programs stay attached for that long after the last round that was open for long."""


class LateHooks:
    """Attaches programs, and detaches them when nobody needs them.

    Soft IRQs are one use: a packet that is sent through a veth is received in a soft IRQ of the
    sender's own call, so that they come as often as calls do, and cost a program that only polls
    and sends as much.
    """

    def __init__(
        self,
        attach: Sequence[Callable[[], Link]],
        suspect_ns: int,
        clock: Callable[[], int] = lib.monotonic_ns,
        note_since: Callable[[int], None] = lambda since_ns: None,
    ) -> None:
        """Attach these, one after the other, while a round is open for `suspect_ns`.

        They are detached in the other order, one at a time: what has begun is to end. A start
        whose end is not seen would be taken for that of another one later. `note_since` is called
        with the time when all are attached, and with 0 before they are not.
        """
        self._attach = attach
        self._suspect_ns = suspect_ns
        self._clock = clock
        self._note_since = note_since
        self._links: list[Link] = []
        self._since_ns = 0
        self._needed_ns = 0

    def __enter__(self) -> Self:
        """None is attached yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Detach all, what was attached first at last."""
        self._detach()

    def end(self) -> None:
        """Detach all, and attach none from now on: nobody needs them any more."""
        self._note_since(0)
        self._detach()
        self._attach = ()

    def _detach(self) -> None:
        with ExitStack() as stack:
            for link in self._links:
                stack.callback(link.close)
            self._links.clear()

    def update(self, reading: ThreadReading) -> None:
        """Begin and end as the threads' rounds are."""
        begun = (reported.rounds.open_since_ns for reported in reading.threads.values())
        if any(reading.time_ns - since >= self._suspect_ns for since in begun if since is not None):
            self.begin(reading.time_ns)
        elif self._links and reading.time_ns - self._needed_ns >= REST_NS:
            self._note_since(0)
            self._links.pop().close()

    def begin(self, now_ns: int) -> None:
        """Attach them: they are needed now, and for REST_NS."""
        self._needed_ns = now_ns
        if self._are_attached():
            return
        with suppress(BpfError):
            for attach in self._attach[len(self._links) :]:
                self._links.append(attach())
            self._since_ns = self._clock()
            self._note_since(self._since_ns)

    def _are_attached(self) -> bool:
        return len(self._links) == len(self._attach)

    def attached_from_ns(self, start_ns: int, stop_ns: int) -> int | None:
        """Return from when on they were attached in a long round; None: in all of it."""
        if not self._attach:
            return None
        if not self._are_attached():
            return stop_ns
        return None if self._since_ns <= start_ns else min(self._since_ns, stop_ns)


def late_soft_irqs(
    programs: Programs, suspect_ns: int, clock: Callable[[], int] = lib.monotonic_ns
) -> LateHooks:
    """Return what attaches the programs at soft IRQs, unless they are attached."""
    if programs.soft_irqs_attached:
        return LateHooks((), suspect_ns, clock)
    attach = partial(programs.attach_soft_irq, "exit"), partial(programs.attach_soft_irq, "entry")
    return LateHooks(attach, suspect_ns, clock)


def late_returns(
    programs: Programs, suspect_ns: int, clock: Callable[[], int] = lib.monotonic_ns
) -> LateHooks:
    """Return what attaches the program at returns of calls, if it is loaded."""
    attach = [programs.attach_returns] if programs.hooks_returns else []
    return LateHooks(attach, suspect_ns, clock, programs.set_returns_hooked)
