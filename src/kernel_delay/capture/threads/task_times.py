"""How the kernel scheduled each thread, from a window's start to its end: asked of the kernel.

Its own counts are an oracle for the account.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kernel_delay.host.system_state import cpu_weights, scheduling
from kernel_delay.loader._records import ffi, lib
from kernel_delay.model import CpuWeights, TaskTimes, Thread

if TYPE_CHECKING:
    from kernel_delay.loader._records import DumpedThread
    from kernel_delay.loader._records import TaskTimes as Counted


def task_times(before: bytes, after: bytes) -> Mapping[int, TaskTimes]:
    """Return what was counted from one struct dumped_thread of each thread to the next.

    By thread id. Threads that ended are not among them.
    """
    return {tid: counted_since(then, now) for tid, then, now in _pairs(before, after)}


def migrations(before: bytes, after: bytes) -> Mapping[int, int]:
    """Return how often each thread was moved to another CPU meanwhile; as task_times()."""
    return {
        tid: now.migrations - (0 if then is None else then.migrations)
        for tid, then, now in _pairs(before, after)
    }


def rescheduled(before: bytes, after: bytes) -> frozenset[int]:
    """Return the ids of threads whose policy or priority is not what it was; as task_times()."""
    had = {
        state.identity: _scheduling(state)
        for state in ffi.from_buffer("struct dumped_thread[]", before)
    }
    return frozenset(
        state.tid
        for state in ffi.from_buffer("struct dumped_thread[]", after)
        if had.get(state.identity, _scheduling(state)) != _scheduling(state)
    )


def _scheduling(state: "DumpedThread") -> tuple[int, int, int]:
    return state.policy, state.static_prio, state.rt_priority


def _pairs(before: bytes, after: bytes) -> Iterator[tuple[int, "Counted | None", "Counted"]]:
    """Yield each thread that is there: its id, what was counted then, if it was there, and now."""
    counted = {
        state.identity: state.times for state in ffi.from_buffer("struct dumped_thread[]", before)
    }
    newest = max(counted, default=0)
    for state in ffi.from_buffer("struct dumped_thread[]", after):
        # Identities grow: one that is not known is of a thread that came since.
        if state.identity in counted or state.identity > newest:
            yield state.tid, counted.get(state.identity), state.times


def has_uprobes(states: bytes, process: int | None = None) -> bool | None:
    """Return whether uprobes are in the code of the threads' process, by their mm's flags.

    With `process` of its threads alone.

    None where that is not known: one was taken out, and the kernel does not know yet
    whether others are left.
    """
    for state in ffi.from_buffer("struct dumped_thread[]", states):
        if process is not None and state.process != process:
            continue
        if state.uprobes != lib.UPROBES_UNKNOWN:
            return state.uprobes == lib.UPROBES_SET
    return None


def counted_since(before: "Counted | None", now: "Counted") -> TaskTimes:
    """Return what was counted of a thread from one struct task_times, or its start, to another."""
    has_steal = now.steal_ns != lib.NO_STEAL_CLOCK
    if before is None:
        return TaskTimes(
            user_ns=now.user_ns,
            system_ns=now.system_ns,
            minor_faults=now.minor_faults,
            major_faults=now.major_faults,
            steal_ns=now.steal_ns if has_steal else None,
        )
    return TaskTimes(
        user_ns=now.user_ns - before.user_ns,
        system_ns=now.system_ns - before.system_ns,
        minor_faults=now.minor_faults - before.minor_faults,
        major_faults=now.major_faults - before.major_faults,
        steal_ns=max(0, now.steal_ns - before.steal_ns) if has_steal else None,
    )


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
