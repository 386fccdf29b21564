"""What the kernel's fields say of a thread's state, and of who waits for whom."""

import signal
from collections.abc import Iterable

from kernel_delay.where.answer import State, ThreadPosition
from kernel_delay.where.standing import StandingThread

# include/linux/sched.h, the same from 5.14 to 6.18.
TASK_RUNNING = 0
TASK_UNINTERRUPTIBLE = 2
TASK_STOPPED = 4
TASK_TRACED = 8
TASK_DEAD = 0x80

# include/linux/sched/jobctl.h, the same: the signal of the last stop.
JOBCTL_STOP_SIGMASK = 0xFFFF


def state_of(thread: StandingThread) -> State:
    """Return a thread's state."""
    task_state = thread.task_state
    if task_state & TASK_DEAD:
        return "exited"
    # One that is about to sleep is still on its CPU.
    if thread.on_cpu:
        return "running"
    if thread.is_frozen:
        return "frozen"
    if task_state & TASK_TRACED:
        return "traced"
    if task_state & TASK_STOPPED:
        return "stopped"
    if task_state == TASK_RUNNING:
        return "throttled" if thread.is_throttled else "runnable"
    return "uninterruptible" if task_state & TASK_UNINTERRUPTIBLE else "sleeping"


def at_least_ns(thread: StandingThread, state: State) -> int | None:
    """Return how long it has been so, at least; None if that is not known."""
    if state in ("running", "exited"):
        return None
    return thread.queued_ns if state == "runnable" else thread.off_cpu_ns


def stop_signal(thread: StandingThread) -> str | None:
    """Return the name of the signal that stopped it; None if that is not known."""
    number = thread.jobctl & JOBCTL_STOP_SIGMASK
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def deadlocks(threads: Iterable[ThreadPosition]) -> tuple[tuple[int, ...], ...]:
    """Return the circles of threads of which each waits for a lock that the next one owns."""
    owners = {
        thread.tid: holder.tid
        for thread in threads
        for holder in thread.holders
        if holder.relation == "owner"
    }
    found: dict[frozenset[int], tuple[int, ...]] = {}
    for first in owners:
        passed = [first]
        while (owner := owners.get(passed[-1])) is not None and owner not in passed:
            passed.append(owner)
        if owner == first:
            found.setdefault(frozenset(passed), tuple(passed))
    return tuple(found.values())
