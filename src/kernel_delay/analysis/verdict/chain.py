"""Why the owner of a lock did not let go: what it did itself meanwhile.

The wait for the lock and the owner's states are known as sums over the window. Two parts of one
window that are together longer than it overlap, by at least what they are too long: no more
than that is claimed.
"""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from kernel_delay.analysis.verdict.sleeps import PHRASES
from kernel_delay.analysis.verdict.words import share
from kernel_delay.model import LockWait, Sample, Sleep, SleepReason, Thread

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
    ns, text, rules = max(_doings(sample, owner, depth), key=lambda doing: doing.ns)
    overlap_ns = wait.ns + ns - sample.window.duration_ns
    if overlap_ns < TOLD_SHARE * wait.ns:
        return None
    explains = frozenset((rule, owner.tid) for rule in rules)
    at_least = "" if ns >= sample.window.duration_ns else "at least "
    told = f"which {text} for {at_least}{share(min(overlap_ns, wait.ns), wait.ns)} of it"
    if "lock" in rules and depth < LONGEST_CHAIN:
        further = owner_story(sample, owner.lock_waits[0], depth + 1)
        if further is not None:
            return Link(f"{told}, {further.text}", explains | further.explains)
    return Link(told, explains)


class Doing(NamedTuple):
    """What a thread did, for how long in all: in words, and the rules that find it."""

    ns: int
    text: str
    rules: tuple[str, ...]


def _doings(sample: Sample, owner: Thread, depth: int) -> Iterator[Doing]:
    time = owner.time
    assert time is not None
    yield Doing(time.ready_ns, "had no CPU itself", ("cpu_contention",))
    yield Doing(time.throttled_ns, "was throttled itself", ("throttled",))
    yield Doing(time.stopped_ns, "was stopped itself", ("stopped",))
    yield Doing(time.frozen_ns, "was frozen itself", ("frozen",))
    yield Doing(time.user_ns, "ran its own code", ("user_work",))
    yield Doing(time.kernel_ns, "was at work in the kernel", ("kernel_work",))
    if owner.lock_waits and depth < LONGEST_CHAIN:
        next_wait = owner.lock_waits[0]
        which = f"the lock at {next_wait.address:#x}" if next_wait.address else "several locks"
        what = f"itself waited for {which}, held by {next_wait.name}"
        yield Doing(next_wait.ns, f"{what} ({next_wait.tid}),", ("lock",))
    blocked = {call.name: call.blocked_ns or 0 for call in owner.syscalls}
    for syscall in dict.fromkeys([*blocked, *(sleep.syscall for sleep in owner.sleeps)]):
        if syscall != "futex" or not owner.lock_waits:
            slept = [sleep for sleep in owner.sleeps if sleep.syscall == syscall]
            yield _slept(syscall, blocked.get(syscall, 0), slept)


def _slept(syscall: str | None, blocked_ns: int, sleeps: list[Sleep]) -> Doing:
    """All sleep in a call, or outside of any: it has a reason if that is most of it."""
    slept_ns = max(blocked_ns, sum(sleep.ns for sleep in sleeps))
    ns_of: dict[SleepReason, int] = {}
    for sleep in sleeps:
        ns_of[sleep.reason] = ns_of.get(sleep.reason, 0) + sleep.ns
    reason = max(ns_of, key=lambda each: ns_of[each], default=None)
    text = f"slept in {syscall}" if syscall else "slept"
    if reason in PHRASES and 2 * ns_of[reason] > slept_ns:
        text += f", waiting for {PHRASES[reason]},"
    return Doing(slept_ns, text, ("kernel_sleep", *(f"wait_{each}" for each in ns_of)))
