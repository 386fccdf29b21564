"""Why the owner of a lock did not let go: what it did itself meanwhile.

What it did is known of the waits that it ended itself. Of others it is inferred: the wait for the
lock and the owner's states are known as sums over the window. Two parts of one window that are
together longer than it overlap, by at least what they are too long: no more than that is claimed.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from kernel_delay.analysis.verdict.cpu import cpu_advice, quota_advice
from kernel_delay.analysis.verdict.takers import told_takers
from kernel_delay.analysis.verdict.waits import ADVICE, PHRASES
from kernel_delay.analysis.verdict.words import share
from kernel_delay.model import (
    LockWait,
    OwnerDoings,
    Sample,
    Sleep,
    SleepReason,
    Thread,
    ThreadTime,
)

# Of a wait, what an owner's state must surely make up to be told.
TOLD_SHARE = 0.5

# Of a sum over the window, what a part must make up to be taken for all of it.
SURE_SHARE = 0.9

# How many of those who had an owner's CPU are named.
MOST_TAKERS = 3

# Locks of locks of locks: further than anyone reads.
LONGEST_CHAIN = 4


# Addresses, each of one that the owner of the one before waited for; 0 is of several.
Locks = tuple[int, ...]


class Link(Struct, frozen=True):
    """What an owner did while it was waited for: in words, the findings that it is, what helps."""

    text: str
    explains: frozenset[tuple[str, int]]
    advice: str | None = None


def owner_story(sample: Sample, wait: LockWait, before: Locks = ()) -> Link | None:
    """Say what the owner surely did for most of the wait; None if that isn't sure.

    `before` are the locks that led to this one.
    """
    owner = next((thread for thread in sample.threads if thread.tid == wait.tid), None)
    if owner is None or owner.time is None:
        return None
    locks = (*before, wait.address)
    return (
        _seen(sample, owner, wait, locks)
        or _inferred(sample, owner, wait, locks, _doings(sample, owner, locks))
        or _inferred(sample, owner, wait, locks, _calls(owner))
    )


def waker_story(sample: Sample, tid: int, waited_ns: int) -> str | None:
    """Say what the process's thread that ended waits of so long surely did for most of them."""
    waker = next((thread for thread in sample.threads if tid and thread.tid == tid), None)
    if waker is None or waker.time is None:
        return None
    wait = LockWait(0, tid, waker.name, 0, waited_ns)
    link = _inferred(sample, waker, wait, (0,), _doings(sample, waker, (0,)))
    return link.text.removeprefix("which ") if link else None


def _seen(sample: Sample, owner: Thread, wait: LockWait, locks: Locks) -> Link | None:
    """What the owner did in the waits that it ended, if these are most of the time."""
    doings = wait.owner
    if doings is None or doings.known_ns < TOLD_SHARE * wait.ns:
        return None
    doing = max(_seen_doings(sample, owner, doings, locks), key=lambda each: each.ns)
    if doing.ns < TOLD_SHARE * doings.known_ns:
        return None
    told = f"which {doing.text} for {share(doing.ns, doings.known_ns)} of it"
    explains = frozenset((rule, owner.tid) for rule in doing.rules)
    return _with_next(sample, owner, doing, Link(told, explains, doing.advice), locks)


def _next_lock(owner: Thread, locks: Locks) -> LockWait | None:
    """The lock that an owner of these waited for itself; None if that is not sure.

    Who has a lock does not wait for it: where one seems to, it had it at other times. All that it
    slept in futex(2) is known together: that must be for this lock, or nearly.
    """
    wait = owner.lock_waits[0] if owner.lock_waits else None
    if wait is None or len(locks) >= LONGEST_CHAIN or (wait.address and wait.address in locks):
        return None
    futex_ns = sum(call.blocked_ns or 0 for call in owner.syscalls if call.name == "futex")
    return wait if wait.ns >= SURE_SHARE * futex_ns else None


def _with_next(sample: Sample, owner: Thread, doing: "Doing", link: Link, locks: Locks) -> Link:
    """The link, and what the owner of the lock did that this owner itself waited for, if it did."""
    if "lock" not in doing.rules:
        return link
    further = owner_story(sample, owner.lock_waits[0], locks)
    if further is None:
        return link
    return Link(f"{link.text}, {further.text}", link.explains | further.explains, further.advice)


def _inferred(
    sample: Sample, owner: Thread, wait: LockWait, locks: Locks, doings: Iterable["Doing"]
) -> Link | None:
    """What of these the owner surely did for most of the wait, by sums over the window."""
    doing = max(doings, key=lambda each: each.ns, default=None)
    if doing is None:
        return None
    overlap_ns = wait.ns + doing.ns - sample.window.duration_ns
    if overlap_ns < TOLD_SHARE * wait.ns:
        return None
    explains = frozenset((rule, owner.tid) for rule in doing.rules)
    at_least = "" if doing.ns >= sample.window.duration_ns else "at least "
    told = f"which {doing.text} for {at_least}{share(min(overlap_ns, wait.ns), wait.ns)} of it"
    return _with_next(sample, owner, doing, Link(told, explains, doing.advice), locks)


def deadlock(sample: Sample, thread: Thread) -> str | None:
    """Say that a thread waits for itself, as the owners of locks do; None if it does not.

    Only where each waited for all of the window. Any thread may unlock what another one has
    locked, and what was unlocked need not have woken who is told to wait: whether it lasts is not
    known.
    """
    waits: list[LockWait] = []
    waiter: Thread | None = thread
    while waiter is not None and waiter.lock_waits and len(waits) < LONGEST_CHAIN:
        wait = waiter.lock_waits[0]
        if wait.ns < sample.window.duration_ns:
            return None
        waits.append(wait)
        if wait.tid == thread.tid:
            return _circle(waits)
        waiter = next((each for each in sample.threads if each.tid == wait.tid), None)
    return None


def _circle(waits: list[LockWait]) -> str:
    if len(waits) == 1:
        return "which is itself: it will not have it unless another thread unlocks it"
    owners = ", which waits for one of ".join(f"{wait.name} ({wait.tid})" for wait in waits[1:])
    return f"which itself waits for a lock of {owners}: a deadlock, if each still has its lock"


class Doing(NamedTuple):
    """What a thread did, for how long in all: in words, the rules that find it, what helps."""

    ns: int
    text: str
    rules: tuple[str, ...]
    advice: str | None = None


def _seen_doings(
    sample: Sample, owner: Thread, doings: OwnerDoings, locks: Locks
) -> Iterator[Doing]:
    time = owner.time
    assert time is not None
    yield _starved(sample, owner, doings.ready_ns)
    held = {
        "stopped": time.stopped_ns,
        "throttled": time.throttled_ns,
        "frozen": time.frozen_ns,
    }
    how = max(held, key=lambda each: held[each])
    advice = quota_advice(sample) if how == "throttled" else None
    yield Doing(doings.held_ns, f"was {how} itself", (how,), advice)
    # What is left has waits in it that were too short to look at.
    left_ns = doings.known_ns - doings.ready_ns - doings.held_ns - doings.blocked_ns
    ran_ns = min(left_ns, time.user_ns + time.kernel_ns)
    yield _ran(time, ran_ns)
    wait = _next_lock(owner, locks) if doings.syscall == "futex" else None
    if wait is not None:
        yield Doing(doings.blocked_ns, _waited(wait), ("lock",))
        return
    reasons = {sleep.reason for sleep in owner.sleeps if sleep.syscall == doings.syscall}
    yield Doing(
        doings.blocked_ns,
        _slept_in(doings.syscall, doings.reason),
        _rules_of_sleep(reasons),
        _advice(doings.reason),
    )


def _ran(time: ThreadTime, ran_ns: int) -> Doing:
    """That it was on a CPU for so long: where, if it was hardly anywhere else in the window."""
    in_window_ns = time.user_ns + time.kernel_ns
    if time.user_ns >= SURE_SHARE * in_window_ns:
        return Doing(ran_ns, "ran its own code", ("user_work",))
    if time.kernel_ns >= SURE_SHARE * in_window_ns:
        return Doing(ran_ns, "was at work in the kernel", ("kernel_work",))
    return Doing(ran_ns, "was on a CPU", ("user_work", "kernel_work"))


def _starved(sample: Sample, owner: Thread, ready_ns: int) -> Doing:
    """That it had no CPU for so long, and who had it for most of that, if that is sure."""
    assert owner.time is not None
    text, rules = "had no CPU itself", ("cpu_contention",)
    all_takers = told_takers(sample, owner.cpu_taken_by, owner.time.ready_ns)
    takers = [each for each in all_takers if each.worst.tid][:MOST_TAKERS]
    others_ns = owner.time.ready_ns - ready_ns
    if not takers or sum(each.ns for each in takers) - others_ns < TOLD_SHARE * ready_ns:
        return Doing(ready_ns, text, rules)
    ran = " and ".join(each.named() for each in takers)
    advice = cpu_advice(sample, owner, takers[0].worst)
    return Doing(ready_ns, f"{text}, as {ran} ran,", rules, advice)


def _waited(wait: LockWait) -> str:
    which = f"the lock at {wait.address:#x}" if wait.address else "several locks"
    return f"itself waited for {which}, held by {wait.name} ({wait.tid}),"


def _slept_in(syscall: str | None, reason: SleepReason | None) -> str:
    text = f"slept in {syscall}" if syscall else "slept"
    return f"{text}, waiting for {PHRASES[reason]}," if reason in PHRASES else text


def _rules_of_sleep(reasons: Iterable[SleepReason]) -> tuple[str, ...]:
    return ("kernel_sleep", *(f"wait_{each}" for each in reasons))


def _doings(sample: Sample, owner: Thread, locks: Locks) -> Iterator[Doing]:
    time = owner.time
    assert time is not None
    yield _starved(sample, owner, time.ready_ns)
    throttled = "was throttled itself"
    yield Doing(time.throttled_ns, throttled, ("throttled",), quota_advice(sample))
    yield Doing(time.stopped_ns, "was stopped itself", ("stopped",))
    yield Doing(time.frozen_ns, "was frozen itself", ("frozen",))
    yield Doing(time.user_ns, "ran its own code", ("user_work",))
    yield Doing(time.kernel_ns, "was at work in the kernel", ("kernel_work",))
    wait = _next_lock(owner, locks)
    if wait is not None:
        yield Doing(wait.ns, _waited(wait), ("lock",))
    blocked = {call.name: call.blocked_ns or 0 for call in owner.syscalls}
    for syscall in dict.fromkeys([*blocked, *(sleep.syscall for sleep in owner.sleeps)]):
        if syscall != "futex" or wait is None:
            slept = [sleep for sleep in owner.sleeps if sleep.syscall == syscall]
            yield _slept(syscall, blocked.get(syscall, 0), slept)


def _calls(owner: Thread) -> Iterator[Doing]:
    """The calls it was in, on a CPU or not: of short waits among work neither is most of it."""
    for call in owner.syscalls:
        if call.name is None:
            continue
        parts = (call.on_cpu_ns, call.ready_ns, call.blocked_ns)
        reasons = {sleep.reason for sleep in owner.sleeps if sleep.syscall == call.name}
        yield Doing(
            sum(part or 0 for part in parts), f"was in {call.name}", _rules_of_sleep(reasons)
        )


def _slept(syscall: str | None, blocked_ns: int, sleeps: list[Sleep]) -> Doing:
    """All sleep in a call, or outside of any: it has a reason if that is most of it."""
    slept_ns = max(blocked_ns, sum(sleep.ns for sleep in sleeps))
    ns_of: dict[SleepReason, int] = {}
    for sleep in sleeps:
        ns_of[sleep.reason] = ns_of.get(sleep.reason, 0) + sleep.ns
    reason = max(ns_of, key=lambda each: ns_of[each], default=None)
    told = reason if reason is not None and 2 * ns_of[reason] > slept_ns else None
    return Doing(slept_ns, _slept_in(syscall, told), _rules_of_sleep(ns_of), _advice(told))


def _advice(reason: SleepReason | None) -> str | None:
    return ADVICE.get(reason) if reason else None
