"""How the threads are scheduled that waited for CPUs: asked of the kernel, not of programs."""

from collections.abc import Iterable

from msgspec.structs import replace

from kernel_delay.host.surroundings import scheduling
from kernel_delay.model import Thread

# A thread that waited less for a CPU needs no explanation; more threads than that, nobody reads.
ASKED_SHARE = 0.01
MOST_ASKED = 64


def with_scheduling(threads: Iterable[Thread], window_ns: int) -> tuple[Thread, ...]:
    """Return the threads; those that waited most for a CPU with how they are scheduled."""
    known = tuple(threads)
    waited = [
        (thread.time.ready_ns, place)
        for place, thread in enumerate(known)
        if thread.tid and thread.time and thread.time.ready_ns >= ASKED_SHARE * window_ns
    ]
    asked = {place for _, place in sorted(waited, reverse=True)[:MOST_ASKED]}
    return tuple(
        replace(thread, scheduling=scheduling(thread.tid)) if place in asked else thread
        for place, thread in enumerate(known)
    )
