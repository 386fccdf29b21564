"""The rule on locks of the process itself, whose owner is known."""

from kernel_delay.analysis.verdict.chain import owner_story
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.words import also, name, share
from kernel_delay.model import Sample, Thread


def _lock_ns(sample: Sample, thread: Thread) -> int:
    return sum(wait.ns for wait in thread.lock_waits)


def _say_lock(case: Case) -> Statement | None:
    sample, thread = case.sample, case.thread
    worst = thread.lock_waits[0]
    which = f"the one at {worst.address:#x}" if worst.address else "several of them"
    text = (
        f"{name(sample, thread)} waited for a lock (futex) of its own process for"
        f" {case.of_window}{also(sample, case.others)}; {worst.name} ({worst.tid}) held {which}"
        f" for {share(worst.ns, case.lost_ns)} of that"
    )
    evidence = {"owner_tid": worst.tid, "owner_ns": worst.ns, "address": worst.address}
    story = owner_story(sample, worst)
    if story is None:
        return Statement(text, "program", evidence)
    return Statement(f"{text}, {story.text}", "program", evidence, explains=story.explains)


LOCK = Rule(
    name="lock",
    least_share=0.05,
    lost_ns=_lock_ns,
    say=_say_lock,
    looks_at="waits for glibc's mutexes, whose futex has its owner's thread id beside it, and what"
    " the owner surely did meanwhile",
    silent_on="locks without an owner's id: rwlocks, condition variables, semaphores, those of"
    " other languages; wait_futex says who woke from those",
)
