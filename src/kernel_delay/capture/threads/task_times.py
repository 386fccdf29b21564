"""How the kernel scheduled each thread, from a window's start to its end: asked of the kernel.

Its own counts are an oracle for the account.
"""

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from kernel_delay.host.system_state import cpu_weights, scheduling
from kernel_delay.loader._records import ffi, lib
from kernel_delay.model import CpuWeights, TaskTimes, Thread

if TYPE_CHECKING:
    from kernel_delay.loader._records import DumpedThread
    from kernel_delay.loader._records import TaskTimes as Counted


class Scheduled(NamedTuple):
    """How the kernel scheduled threads from one dump of them to the next, by their ids.

    Threads that ended are not among them.

    Attributes:
        times: What it counted of each.
        migrations: How often each was moved to another CPU.
        changed: The ids of threads whose policy or priority is not what it was.
    """

    times: dict[int, TaskTimes]
    migrations: dict[int, int]
    changed: set[int]


def scheduled(before: bytes, after: bytes) -> Scheduled:
    """Return what was counted from one struct dumped_thread of each thread to the next."""
    found = Scheduled({}, {}, set())
    had = ffi.from_buffer("struct dumped_thread[]", before)
    has = ffi.from_buffer("struct dumped_thread[]", after)
    known: dict[int, DumpedThread] = {}
    newest = 0
    for place, now in enumerate(has):
        start, end = _DUMPED_BYTES * place, _DUMPED_BYTES * (place + 1)
        if after[start:end] == before[start:end]:
            # It slept throughout, as most threads do.
            times = _NOTHING if now.times.steal_ns != lib.NO_STEAL_CLOCK else _NOTHING_KNOWN
            found.times[now.tid], found.migrations[now.tid] = times, 0
            continue
        if not known:
            known = {state.identity: state for state in had}
            newest = max(known, default=0)
        then = known.get(now.identity)
        if then is not None and _scheduling(then) != _scheduling(now):
            found.changed.add(now.tid)
        # Identities grow: one that is not known is of a thread that came since.
        if then is not None or now.identity > newest:
            counted = then.times if then is not None else None
            found.times[now.tid] = counted_since(counted, now.times)
            found.migrations[now.tid] = now.times.migrations - (
                counted.migrations if counted is not None else 0
            )
    return found


_DUMPED_BYTES = ffi.sizeof("struct dumped_thread")
_NOTHING = TaskTimes(user_ns=0, system_ns=0, minor_faults=0, major_faults=0, steal_ns=0)
_NOTHING_KNOWN = replace(_NOTHING, steal_ns=None)


def _scheduling(state: "DumpedThread") -> tuple[int, int, int]:
    return state.policy, state.static_prio, state.rt_priority


def processes_with_uprobes(states: bytes) -> Mapping[int, bool]:
    """Return by process whether uprobes are in its code, by the flags of its threads' mm.

    A process is left out where that is not known: a uprobe was taken out, and the kernel does not
    know yet whether others are left.
    """
    found: dict[int, bool] = {}
    for state in ffi.from_buffer("struct dumped_thread[]", states):
        if state.uprobes != lib.UPROBES_UNKNOWN:
            found.setdefault(state.process, state.uprobes == lib.UPROBES_SET)
    return found


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
    if not waited:
        return known
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
    if not taken:
        return ()
    worst = [each for _, each in sorted((-ns, each) for each, ns in taken.items())][:MOST_TAKERS]
    return cpu_weights(pid, (each for each in worst if taken[each] >= ASKED_SHARE * window_ns))
