"""The rule on locks of the process itself, whose owner is known."""

from kernel_delay.analysis.verdict.chain import SURE_SHARE, deadlock, owner_story
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.words import also, name, share, where_from
from kernel_delay.model import LockWait, Sample, Thread, Waker


def _lock_ns(sample: Sample, thread: Thread) -> int:
    return sum(wait.ns for wait in thread.lock_waits)


def _say_lock(case: Case) -> Statement | None:
    sample, thread = case.sample, case.thread
    worst = thread.lock_waits[0]
    text = (
        f"{name(sample, thread)} waited for a lock (futex) of its own process for"
        f" {case.of_window}{also(sample, case.others)}; {worst.name} ({worst.tid})"
    )
    evidence = {"owner_tid": worst.tid, "owner_ns": worst.ns, "address": worst.address}
    which = f"the one at {worst.address:#x}" if worst.address else "several of them"
    part = share(worst.ns, case.lost_ns)
    where = where_from(sample, _WHERE_FROM)
    last = _last_owner(thread, worst)
    if last is not None:
        text += f" had {which} when waits of {part} of that began or were first seen,"
        text += f" and {last.comm} ({last.tid}) when most of them ended: they may have gone from"
        text += " one to the other"
        return Statement(text, "program", {**evidence, "last_tid": last.tid}, where)
    if _goes_round(sample, worst):
        text += f" had {which} when waits of {part} of that began or were first seen; others had"
        text += " it too"
        return Statement(text, "program", evidence, where)
    text += f" held {which} for {part} of that"
    circle = deadlock(sample, thread)
    if circle is not None:
        return Statement(f"{text}, {circle}", "program", evidence, where)
    story = owner_story(sample, worst)
    if story is None:
        return Statement(text, "program", evidence, where)
    return Statement(
        f"{text}, {story.text}", "program", evidence, story.advice or where, story.explains
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


_WHERE_FROM = "-s shows from where in the program it was waited for"


LOCK = Rule(
    name="lock",
    least_share=0.05,
    lost_ns=_lock_ns,
    say=_say_lock,
    looks_at="waits for glibc's mutexes, whose futex has its owner's thread id beside it, and what"
    " the owner surely did meanwhile",
    silent_on="locks without an owner's id: rwlocks, condition variables, semaphores, those of"
    " other languages; wait_futex says who woke from those; who had a lock after the one that had"
    " it when the wait began or was first seen, and before the one that ended the wait",
)
