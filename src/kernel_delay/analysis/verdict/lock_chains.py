"""Why the owner of a lock did not unlock it: what it did itself meanwhile.

What it did is known of the waits that it ended itself. Of others it is inferred: the wait for the
lock and the owner's states are known as sums over the window. Two parts of one window that are
together longer than it overlap, by at least what they are too long: no more than that is claimed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from kernel_delay.analysis.verdict.cpu import cpu_advice, quota_advice
from kernel_delay.analysis.verdict.cpu_takers import named_takers
from kernel_delay.analysis.verdict.formatting import listed, share
from kernel_delay.analysis.verdict.wait_reasons import ADVICE, PHRASES
from kernel_delay.model import (
    LockWait,
    OwnerActivity,
    Sample,
    Sleep,
    SleepReason,
    Thread,
    ThreadTime,
)

# An owner's state is named if it surely makes up so much of a wait.
OWNER_SHARE = 0.5

# A part that makes up so much of a sum over the window is taken for all of it.
SURE_SHARE = 0.9

# How many of those who had an owner's CPU are named.
MOST_TAKERS = 3

# Locks of locks of locks: further than anyone reads.
LONGEST_CHAIN = 4


# Addresses, each of one that the owner of the one before waited for; 0 is of several.
Locks = tuple[int, ...]


class Link(Struct, frozen=True):
    """What an owner did while it was waited for: sentences, the findings that it is, what helps."""

    sentences: tuple[str, ...]
    explains: frozenset[tuple[str, int]]
    advice: str | None = None


def known_locks_ns(thread: Thread) -> int:
    """Return how long the thread waited for locks whose owners are known, in ns."""
    return sum(wait.ns for wait in thread.lock_waits) + thread.lock_waits_others_ns


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
        or _inferred(sample, owner, wait, locks, _activities(sample, owner, locks))
        or _inferred(sample, owner, wait, locks, _calls(owner))
    )


def waker_story(sample: Sample, tid: int, waited_ns: int) -> tuple[str, ...]:
    """Say what the process's thread that ended waits of so long surely did for most of them."""
    waker = next((thread for thread in sample.threads if tid and thread.tid == tid), None)
    if waker is None or waker.time is None:
        return ()
    wait = LockWait(0, tid, waker.name, 0, waited_ns)
    link = _inferred(sample, waker, wait, (0,), _activities(sample, waker, (0,)))
    if link is None:
        return ()
    first, *further = link.sentences
    return (f"Meanwhile {first}", *further)


def _seen(sample: Sample, owner: Thread, wait: LockWait, locks: Locks) -> Link | None:
    """What the owner did in the waits that it ended, if these are most of the time."""
    seen = wait.owner
    if seen is None or seen.known_ns < OWNER_SHARE * wait.ns:
        return None
    activity = max(_seen_activities(sample, owner, seen, locks), key=lambda each: each.ns)
    if activity.ns < OWNER_SHARE * seen.known_ns:
        return None
    if seen.known_ns >= SURE_SHARE * wait.ns:
        part = share(activity.ns, seen.known_ns)
    else:
        part = f"at least {share(activity.ns, wait.ns)}"
    return _with_next(sample, owner, activity, _link(owner, activity, part), locks)


def _link(owner: Thread, activity: "Activity", part: str) -> Link:
    explains = frozenset((rule, owner.tid) for rule in activity.rules)
    sentence = f"{owner.name} ({owner.tid}) {activity.text} for {part} of that time."
    return Link((sentence,), explains, activity.advice)


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


def _with_next(
    sample: Sample, owner: Thread, activity: "Activity", link: Link, locks: Locks
) -> Link:
    """The link, and what the owner of the lock did that this owner itself waited for, if it did."""
    if "lock" not in activity.rules:
        return link
    further = owner_story(sample, owner.lock_waits[0], locks)
    if further is None:
        return link
    sentences = (*link.sentences, *further.sentences)
    return Link(sentences, link.explains | further.explains, further.advice)


def _inferred(
    sample: Sample, owner: Thread, wait: LockWait, locks: Locks, activities: Iterable["Activity"]
) -> Link | None:
    """What of these the owner surely did for most of the wait, by sums over the window."""
    activity = max(activities, key=lambda each: each.ns, default=None)
    if activity is None:
        return None
    overlap_ns = wait.ns + activity.ns - sample.window.duration_ns
    if overlap_ns < OWNER_SHARE * wait.ns:
        return None
    part = share(min(overlap_ns, wait.ns), wait.ns)
    if activity.ns < sample.window.duration_ns:
        part = f"at least {part}"
    return _with_next(sample, owner, activity, _link(owner, activity, part), locks)


def deadlock(sample: Sample, thread: Thread) -> tuple[str, ...]:
    """Say that a thread waits for itself, as the owners of locks do; nothing if it does not.

    Only where each waited for all of the window. Any thread may unlock what another one has
    locked, and what was unlocked need not have woken the waiter: whether it lasts is not known.
    """
    waits: list[LockWait] = []
    waiter: Thread | None = thread
    while waiter is not None and waiter.lock_waits and len(waits) < LONGEST_CHAIN:
        wait = waiter.lock_waits[0]
        if wait.ns < sample.window.duration_ns:
            return ()
        waits.append(wait)
        if wait.tid == thread.tid:
            return _circle(waits)
        waiter = next((each for each in sample.threads if each.tid == wait.tid), None)
    return ()


def _circle(waits: list[LockWait]) -> tuple[str, ...]:
    if len(waits) == 1:
        return ("It waits for itself: only another thread can unlock that lock.",)
    first, *owners = (f"{wait.name} ({wait.tid})" for wait in waits)
    chain = ", which waits for one of ".join(owners)
    deadlock = "This is a deadlock, if each still has its lock."
    return (f"{first} itself waits for a lock of {chain}.", deadlock)


class Activity(NamedTuple):
    """What a thread did, for how long in all: in words, the rules that find it, what helps."""

    ns: int
    text: str
    rules: tuple[str, ...]
    advice: str | None = None


def _seen_activities(
    sample: Sample, owner: Thread, seen: OwnerActivity, locks: Locks
) -> Iterator[Activity]:
    time = owner.time
    assert time is not None
    yield _starved(sample, owner, seen.ready_ns)
    held = {
        "stopped": time.stopped_ns,
        "throttled": time.throttled_ns,
        "frozen": time.frozen_ns,
    }
    how = max(held, key=lambda each: held[each])
    advice = quota_advice(sample) if how == "throttled" else None
    yield Activity(seen.held_ns, f"was {how} itself", (how,), advice)
    # What is left has waits in it that were too short to look at.
    left_ns = seen.known_ns - seen.ready_ns - seen.held_ns - seen.blocked_ns
    ran_ns = min(left_ns, time.user_ns + time.kernel_ns)
    yield _ran(time, ran_ns)
    wait = _next_lock(owner, locks) if seen.syscall == "futex" else None
    if wait is not None:
        yield Activity(seen.blocked_ns, _waited(wait), ("lock",))
        return
    reasons = {sleep.reason for sleep in owner.sleeps if sleep.syscall == seen.syscall}
    yield Activity(
        seen.blocked_ns,
        _slept_in(seen.syscall, seen.reason),
        _rules_of_sleep(reasons),
        _advice(seen.reason),
    )


def _ran(time: ThreadTime, ran_ns: int) -> Activity:
    """That it was on a CPU for so long: where, if it was hardly anywhere else in the window."""
    in_window_ns = time.user_ns + time.kernel_ns
    if time.user_ns >= SURE_SHARE * in_window_ns:
        return Activity(ran_ns, "ran its own code", ("user_work",))
    if time.kernel_ns >= SURE_SHARE * in_window_ns:
        return Activity(ran_ns, "was at work in the kernel", ("kernel_work",))
    return Activity(ran_ns, "was on a CPU", ("user_work", "kernel_work"))


def _starved(sample: Sample, owner: Thread, ready_ns: int) -> Activity:
    """That it had no CPU for so long, and who had it for most of that, if that is sure."""
    assert owner.time is not None
    rules = ("cpu_contention",)
    all_takers = named_takers(sample, owner.cpu_taken_by, owner.time.ready_ns)
    takers = [each for each in all_takers if each.worst.tid][:MOST_TAKERS]
    others_ns = owner.time.ready_ns - ready_ns
    if not takers or sum(each.ns for each in takers) - others_ns < OWNER_SHARE * ready_ns:
        return Activity(ready_ns, "had no CPU itself", rules)
    ran = listed([each.named(whose=False) for each in takers])
    advice = cpu_advice(sample, owner, takers[0].worst)
    return Activity(ready_ns, f"had no CPU, as {ran} ran,", rules, advice)


def _waited(wait: LockWait) -> str:
    which = f"the lock at {wait.address:#x}" if wait.address else "several locks"
    return f"itself waited for {which}, held by {wait.name} ({wait.tid}),"


def _slept_in(syscall: str | None, reason: SleepReason | None) -> str:
    text = f"slept in {syscall}" if syscall else "slept"
    if reason not in PHRASES or reason == syscall:
        return text
    return f"{text}, waiting for {PHRASES[reason]},"


def _rules_of_sleep(reasons: Iterable[SleepReason]) -> tuple[str, ...]:
    return ("asleep", "kernel_sleep", *(f"wait_{each}" for each in reasons))


def _activities(sample: Sample, owner: Thread, locks: Locks) -> Iterator[Activity]:
    time = owner.time
    assert time is not None
    yield _starved(sample, owner, time.ready_ns)
    throttled = "was throttled itself"
    yield Activity(time.throttled_ns, throttled, ("throttled",), quota_advice(sample))
    yield Activity(time.stopped_ns, "was stopped itself", ("stopped",))
    yield Activity(time.frozen_ns, "was frozen itself", ("frozen",))
    yield Activity(time.user_ns, "ran its own code", ("user_work",))
    yield Activity(time.kernel_ns, "was at work in the kernel", ("kernel_work",))
    wait = _next_lock(owner, locks)
    if wait is not None:
        yield Activity(wait.ns, _waited(wait), ("lock",))
    # A call of another ABI may have the same name.
    blocked = Counter[str | None]()
    for call in owner.syscalls:
        blocked[call.name] += call.blocked_ns or 0
    for syscall in dict.fromkeys([*blocked, *(sleep.syscall for sleep in owner.sleeps)]):
        if syscall != "futex" or wait is None:
            slept = [sleep for sleep in owner.sleeps if sleep.syscall == syscall]
            yield _slept(syscall, blocked[syscall], slept)


def _calls(owner: Thread) -> Iterator[Activity]:
    """The calls it was in, on a CPU or not: of short waits among work neither is most of it."""
    ns_of = Counter[str]()
    for call in owner.syscalls:
        if call.name is not None:
            ns_of[call.name] += sum(filter(None, (call.on_cpu_ns, call.ready_ns, call.blocked_ns)))
    for name, ns in ns_of.items():
        reasons = {sleep.reason for sleep in owner.sleeps if sleep.syscall == name}
        yield Activity(ns, f"was in {name}", _rules_of_sleep(reasons))


def _slept(syscall: str | None, blocked_ns: int, sleeps: list[Sleep]) -> Activity:
    """All sleep in a call, or outside of any: it has a reason if that is most of it."""
    slept_ns = max(blocked_ns, sum(sleep.ns for sleep in sleeps))
    ns_of: dict[SleepReason, int] = {}
    for sleep in sleeps:
        ns_of[sleep.reason] = ns_of.get(sleep.reason, 0) + sleep.ns
    reason = max(ns_of, key=lambda each: ns_of[each], default=None)
    if reason is not None and 2 * ns_of[reason] <= slept_ns:
        reason = None
    return Activity(slept_ns, _slept_in(syscall, reason), _rules_of_sleep(ns_of), _advice(reason))


def _advice(reason: SleepReason | None) -> str | None:
    return ADVICE.get(reason) if reason else None
