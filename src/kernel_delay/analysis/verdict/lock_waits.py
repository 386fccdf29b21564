"""The rule on locks of the process itself, whose owner is known."""

from kernel_delay.analysis.verdict.formatting import name, share, where_from
from kernel_delay.analysis.verdict.lock_chains import (
    SURE_SHARE,
    deadlock,
    known_locks_ns,
    owner_story,
)
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.thread_roles import is_java_helper
from kernel_delay.model import LockWait, Sample, Thread, Waker


def _lock_ns(sample: Sample, thread: Thread) -> int:
    # The locks of a Java VM's helpers are held by threads that its collector stopped.
    if is_java_helper(sample, thread):
        return 0
    return known_locks_ns(thread) if thread.lock_waits else 0


_WHERE_IT_WAITS = "Option -s shows where in the program it waits."


def _say_lock(case: Case) -> Statement | None:
    sample, thread = case.sample, case.thread
    worst = thread.lock_waits[0]
    claim = f"{name(sample, thread)} waited for a lock (futex) of its own process"
    owner = f"{worst.name} ({worst.tid})"
    evidence = {"owner_tid": worst.tid, "owner_ns": worst.ns, "address": worst.address}
    which = f"the lock at {worst.address:#x}" if worst.address else "several such locks"
    part = share(worst.ns, case.lost_ns)
    has_calls = sample.round is None and sample.syscall_events is not None
    where = None if has_calls else where_from(sample, _WHERE_IT_WAITS)
    began = f"{owner} had {which} when waits of {part} of that time began or were first seen."
    last = _last_owner(thread, worst)
    if last is not None:
        ended = (
            f"{last.comm} ({last.tid}) had it when most of them ended: the lock may have gone from"
            " one to the other."
        )
        evidence["last_tid"] = last.tid
        return Statement(claim, "program", evidence, (began, ended), where)
    if _goes_round(sample, worst):
        return Statement(claim, "program", evidence, (began, "Others had it too."), where)
    held = f"{owner} held {which} for {part} of that time."
    circle = deadlock(sample, thread)
    if circle:
        return Statement(claim, "program", evidence, (held, *circle), where)
    story = owner_story(sample, worst)
    if story is None:
        return Statement(claim, "program", evidence, (held,), where)
    return Statement(
        claim,
        "program",
        evidence,
        (held, *story.sentences),
        story.advice or where,
        story.explains,
    )


def _goes_round(sample: Sample, wait: LockWait) -> bool:
    """Whether others had the lock too, so that it is not known who had it when.

    Who has one is known as of a wait's begin; of waits that it ended itself it had it then, too.
    In between it had it not, where it waited for it.
    """
    if not wait.address:
        return False
    little_ns = (1 - SURE_SHARE) * wait.ns
    others = [
        (thread, other)
        for thread in sample.threads
        for other in thread.lock_waits
        if other.address == wait.address and other.tid not in (wait.tid, thread.tid)
    ]
    if sum(other.ns for thread, other in others if thread.tid == wait.tid) > little_ns:
        return True
    seen_ns = wait.owner.known_ns if wait.owner else 0
    return seen_ns < SURE_SHARE * wait.ns and sum(other.ns for _, other in others) > little_ns


def _last_owner(thread: Thread, wait: LockWait) -> Waker | None:
    """Who ended most of the waits, if their owner did not: that has let go before, as it seems.

    None where it also slept for other futexes than locks: those were ended by others.
    """
    slept_ns = sum(sleep.ns for sleep in thread.sleeps if sleep.reason == "futex")
    if sum(each.ns for each in thread.lock_waits) < SURE_SHARE * slept_ns:
        return None
    ended_ns: dict[int, int] = {}
    wakers = {
        waker.tid: waker
        for sleep in thread.sleeps
        if sleep.reason == "futex"
        for waker in sleep.wakers
        if waker.kind == "thread" and waker.tid
    }
    for sleep in thread.sleeps:
        for waker in sleep.wakers if sleep.reason == "futex" else ():
            ended_ns[waker.tid] = ended_ns.get(waker.tid, 0) + waker.ns
    known_ns = max(ended_ns.get(wait.tid, 0), wait.owner.known_ns if wait.owner else 0)
    last = max(wakers, key=lambda tid: ended_ns[tid], default=None)
    if last is None or 2 * known_ns >= wait.ns or 2 * ended_ns[last] < wait.ns:
        return None
    return wakers[last]


LOCK = Rule(
    name="lock",
    least_share=0.05,
    lost_ns=_lock_ns,
    say=_say_lock,
    measures="Waits for glibc's mutexes, which store the thread ID of the owner, and the"
    " owner's activity meanwhile.",
    limits="Locks without an owner's ID are in `wait_futex`: rwlocks, condition variables,"
    " semaphores, other languages. Owners between the first and the last one are not"
    " known. Helper threads of a Java VM are left out.",
)
