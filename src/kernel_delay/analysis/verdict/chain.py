"""Why the owner of a lock did not let go: what it did itself meanwhile.

The wait for the lock and the owner's states are known as sums over the window. Two parts of one
window that are together longer than it overlap, by at least what they are too long: no more
than that is claimed.
"""

from msgspec import Struct

from kernel_delay.analysis.verdict.sleeps import PHRASES
from kernel_delay.analysis.verdict.words import share
from kernel_delay.model import LockWait, Sample, Thread

# Of a wait, what an owner's state must surely make up to be told.
TOLD_SHARE = 0.5

# Locks of locks of locks: further than anyone reads.
LONGEST_CHAIN = 4


class Link(Struct, frozen=True):
    """What an owner did while it was waited for: in words, and the findings that it is."""

    text: str
    explains: frozenset[tuple[str, int]]


def owner_story(sample: Sample, wait: LockWait, depth: int = 1) -> Link | None:
    """Say what the owner surely did for most of the wait; None if that isn't sure."""
    owner = next((thread for thread in sample.threads if thread.tid == wait.tid), None)
    if owner is None or owner.time is None:
        return None
    did = max(_doings(sample, owner, depth), key=lambda doing: doing[0], default=None)
    if did is None:
        return None
    ns, text, rule = did
    overlap_ns = wait.ns + ns - sample.window.duration_ns
    if overlap_ns < TOLD_SHARE * wait.ns:
        return None
    explains = frozenset({(rule, owner.tid)})
    at_least = "" if ns >= sample.window.duration_ns else "at least "
    told = f"which {text} for {at_least}{share(min(overlap_ns, wait.ns), wait.ns)} of it"
    if rule == "lock" and depth < LONGEST_CHAIN:
        further = owner_story(sample, owner.lock_waits[0], depth + 1)
        if further is not None:
            return Link(f"{told}, {further.text}", explains | further.explains)
    return Link(told, explains)


def _doings(sample: Sample, owner: Thread, depth: int) -> list[tuple[int, str, str]]:
    """What a thread did, each with its time, the words for it and the rule that finds it."""
    time = owner.time
    assert time is not None
    doings = [
        (time.ready_ns, "had no CPU itself", "cpu_contention"),
        (time.throttled_ns, "was throttled itself", "throttled"),
        (time.stopped_ns, "was stopped itself", "stopped"),
        (time.frozen_ns, "was frozen itself", "frozen"),
        (time.user_ns, "ran its own code", "user_work"),
        (time.kernel_ns, "was at work in the kernel", "kernel_work"),
    ]
    if owner.lock_waits and depth < LONGEST_CHAIN:
        next_wait = owner.lock_waits[0]
        which = f"the lock at {next_wait.address:#x}" if next_wait.address else "several locks"
        what = f"itself waited for {which}, held by {next_wait.name}"
        doings.append((next_wait.ns, f"{what} ({next_wait.tid}),", "lock"))
    for reason, phrase in PHRASES.items():
        slept = [sleep for sleep in owner.sleeps if sleep.reason == reason]
        if slept:
            calls = {sleep.syscall for sleep in slept if sleep.syscall}
            where = f" in {calls.pop()}" if len(calls) == 1 else ""
            ns = sum(sleep.ns for sleep in slept)
            doings.append((ns, f"slept{where}, waiting for {phrase},", f"wait_{reason}"))
    if not owner.sleeps:
        for call in owner.syscalls:
            if call.blocked_ns and not (call.name == "futex" and owner.lock_waits):
                doings.append((call.blocked_ns, f"slept in {call.name}", "kernel_sleep"))
    return doings
