"""Looking for events, until there is reason to stop."""

from collections.abc import Iterator

from kernel_delay.loader._records import lib
from kernel_delay.loader.waiting import Ended, Waiter

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
