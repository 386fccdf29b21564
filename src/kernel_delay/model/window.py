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
    """A trigger that opened or closed a window, and the thread that hit it.

    Attributes:
        trigger: The trigger, as in the option.
        tid: The thread. A trigger in the kernel can be hit by any process. 0: not in the PID
            namespace of the tool.
        comm: The name of the thread.
    """

    trigger: str
    tid: int
    comm: str


class Window(Struct, frozen=True):
    """The time that was measured: [start_ns, stop_ns) of CLOCK_MONOTONIC.

    Attributes:
        start_ns: The start (CLOCK_MONOTONIC).
        stop_ns: The end (CLOCK_MONOTONIC).
        duration_ns: The length, in ns.
        start_time: The wall clock at `start_ns`, in UTC.
        collected_time: The wall clock when the results were read, in UTC.
        ended_by: What closed the window. "exit": the process or the thread ended. "timeout": a
            trigger was not hit. In a record of `watch`, "poll" is the thread's next poll, and
            "switch" the return of a PMD thread to its CPU.
        start_trigger: The trigger that opened the window. None: no trigger did.
        stop_trigger: The trigger that closed the window. None: no trigger did.
    """

    start_ns: int
    stop_ns: int
    duration_ns: int
    start_time: WallClock
    collected_time: WallClock
    ended_by: EndedBy
    start_trigger: TriggerHit | None = None
    stop_trigger: TriggerHit | None = None
