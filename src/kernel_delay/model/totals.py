"""Where all of the time of a process's threads went since it was watched."""

from msgspec import Struct

from kernel_delay.model.intervals import Histogram
from kernel_delay.model.thread import ThreadTime


class ThreadTotals(Struct, frozen=True):
    """Where the time of one thread went since it was watched, in its rounds and out of them.

    `identity` tells threads apart: a tid may be used again. `time` sums up to all of its life
    since then, with what is going on; its `absent_ns` is what is not of its life. What only
    grows does so from one to the next, but for time that turns out to have been another's: a
    wait for a CPU in which it was throttled, or what came after an event that was missed.
    `waits_ns` are all whole waits for a CPU and `waits` their lengths, `rounds_ns` and `rounds`
    whole rounds. `has_ended`: there is nothing after this.
    """

    identity: int
    tid: int
    name: str
    time: ThreadTime
    waits: Histogram
    waits_ns: int
    rounds: Histogram
    rounds_ns: int
    has_ended: bool = False


class CallTotals(Struct, frozen=True):
    """All calls of one name that have ended since the process was watched, and their time."""

    name: str
    count: int
    total_ns: int


class Losses(Struct, frozen=True):
    """What is not known of a process since it was watched.

    Kernel events that no program was run for; records that had no room, of rounds, and of long
    rounds as a whole; threads that ended without a word of their last totals.
    """

    missed_events: int = 0
    dropped_records: int = 0
    missed_rounds: int = 0
    missed_ends: int = 0


class Upcalls(Struct, frozen=True):
    """Packets that the datapath sent to user space, and failed to, since it was watched."""

    sent: int = 0
    failed: int = 0
