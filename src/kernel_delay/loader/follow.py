"""Looking for events, until there is reason to stop."""

from collections.abc import Callable, Iterator

from kernel_delay.loader._records import lib
from kernel_delay.loader.waiting import Ended, Waiter, watch

# A round takes what came since the last: often enough for a reader's eye, seldom
# enough not to disturb what is measured.
ROUND_NS = 50_000_000


def rounds(waiter: Waiter, duration_ns: int | None) -> Iterator[Ended | None]:
    """Yield None each time that it is time to look, and last what ended it.

    That is after `duration_ns` (None: never), a signal, or the process's exit.
    """
    deadline_ns = None if duration_ns is None else lib.monotonic_ns() + duration_ns
    while True:
        until_ns = lib.monotonic_ns() + ROUND_NS
        if deadline_ns is not None:
            until_ns = min(until_ns, deadline_ns)
        ended = waiter.wait_until(until_ns)
        if ended != "time" or until_ns == deadline_ns:
            yield ended
            return
        yield None


def follow(pid: int, duration_ns: int | None, take: Callable[[], bool]) -> Ended:
    """Call `take` each time that it is time to look at what process `pid` did.

    Until it says that there is enough, or what ends rounds(); returns what ended it, "time" for
    enough. Raises NoInputError if the process has exited.
    """
    with watch(pid) as waiter:
        for ended in rounds(waiter, duration_ns):
            enough = take()
            if enough or ended is not None:
                return ended or "time"
    raise AssertionError("rounds() ends with what ended it")
