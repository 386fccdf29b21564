"""The time that was measured, and what opened and closed it."""

import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

WallClock = Annotated[datetime.datetime, Meta(tz=True)]
"""A time of day and its zone, RFC 3339 in JSON."""


# What closed a window: the time asked for, a trigger, the user (Ctrl-C), the
# process's exit, that its stop trigger did not come in the time allowed, or, where the window
# is a round, the thread's next poll.
EndedBy = Literal["time", "trigger", "interrupt", "exit", "timeout", "poll", "switch"]


class TriggerHit(Struct, frozen=True):
    """A trigger that opened or closed a window, and the thread in whose context it was hit.

    A trigger in the kernel may be hit by any process's thread. `tid` is 0 if
    the thread is not in the PID namespace the tool runs in.
    """

    trigger: str
    tid: int
    comm: str


class Window(Struct, frozen=True):
    """The time that was measured: [start_ns, stop_ns) of CLOCK_MONOTONIC.

    `start_time` is the wall clock at `start_ns` and `collected_time` when the
    results were read, both in UTC. `ended_by` says what closed the window.
    The triggers are those that were hit, at `start_ns` and at `stop_ns`.
    """

    start_ns: int
    stop_ns: int
    duration_ns: int
    start_time: WallClock
    collected_time: WallClock
    ended_by: EndedBy
    start_trigger: TriggerHit | None = None
    stop_trigger: TriggerHit | None = None
