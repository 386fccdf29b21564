"""Threads that ended: many of a name are one."""

from collections.abc import Iterable
from functools import reduce

from msgspec import structs

from kernel_delay.analysis import totals
from kernel_delay.model import Sample, Thread

MOST_APART = 10
"""Threads of a name that ended, each in its own row."""


def with_ended_together(sample: Sample) -> Sample:
    """Return a Sample of one process, with one thread for many that ended and have one name.

    A server that starts a thread for each request has hundreds. Those that the verdict names stay
    apart.
    """
    named = {finding.tid for finding in sample.verdict}
    apart: list[Thread] = []
    ended: dict[str, list[Thread]] = {}
    for thread in sample.threads:
        is_apart = not thread.exited or thread.tid in named
        (apart if is_apart else ended.setdefault(thread.name, [])).append(thread)
    for threads in ended.values():
        is_many = len(threads) > MOST_APART
        apart += [as_one(threads, sample.window.duration_ns)] if is_many else threads
    return structs.replace(sample, threads=tuple(apart))


def as_one(threads: Iterable[Thread], window_ns: int) -> Thread:
    """Return the sum of threads that ended; absent is what they leave of one window."""
    thread = reduce(totals.together, (structs.replace(thread, tid=0) for thread in threads))
    if thread.time is None:
        return thread
    there_ns = sum(structs.astuple(thread.time)) - thread.time.absent_ns
    time = structs.replace(thread.time, absent_ns=max(0, window_ns - there_ns))
    return structs.replace(thread, time=time)
