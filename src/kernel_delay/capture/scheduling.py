"""How the threads are scheduled that waited for CPUs: asked of the kernel, not of programs."""

from collections.abc import Container, Iterable

from msgspec.structs import replace

from kernel_delay.host.system_state import cpu_weights, scheduling
from kernel_delay.model import CpuWeights, Thread

# A thread that waited less for a CPU needs no explanation; more threads than that, nobody reads.
ASKED_SHARE = 0.01
MOST_ASKED = 64

# No more processes than that are named as who had the CPU.
MOST_TAKERS = 4


def with_scheduling(
    threads: Iterable[Thread], window_ns: int, changed: Container[int] = ()
) -> tuple[Thread, ...]:
    """Return the threads; those that waited most for a CPU with how they are scheduled.

    But for those of the ids `changed`, which were not scheduled so when they waited.
    """
    known = tuple(threads)
    waited = [
        (thread.time.ready_ns, place)
        for place, thread in enumerate(known)
        if thread.tid and thread.time and thread.time.ready_ns >= ASKED_SHARE * window_ns
    ]
    asked = {place for _, place in sorted(waited, reverse=True)[:MOST_ASKED]}
    return tuple(
        replace(thread, scheduling=scheduling(thread.tid))
        if place in asked and thread.tid not in changed
        else thread
        for place, thread in enumerate(known)
    )


def weights_of_takers(
    pid: int, threads: Iterable[Thread], window_ns: int
) -> tuple[CpuWeights, ...]:
    """Return how process `pid` shares CPUs with the processes that had its threads' most."""
    taken: dict[int, int] = {}
    for thread in threads:
        for taker in thread.cpu_taken_by:
            if taker.pid not in (0, pid) and not taker.kernel_thread:
                taken[taker.pid] = taken.get(taker.pid, 0) + taker.ns
    worst = [each for _, each in sorted((-ns, each) for each, ns in taken.items())][:MOST_TAKERS]
    return cpu_weights(pid, (each for each in worst if taken[each] >= ASKED_SHARE * window_ns))
