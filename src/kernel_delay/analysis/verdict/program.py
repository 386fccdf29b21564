"""The rule that acquits: a thread was busy with its own code, and nothing speaks against that."""

from kernel_delay.analysis.verdict.kernel import (
    KERNEL_SHARE,
    call_edges_ns,
    likely_ns,
    possible_ns,
)
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.words import also, name, spins_by_design
from kernel_delay.model import Sample, Thread

# From half of its time on, a thread's own work is what it is busy with.
USER_SHARE = 0.5

# If more of a thread's own time than that may be the kernel's, it is not acquitted.
POSSIBLE_SHARE = 0.25


def _user_ns(sample: Sample, thread: Thread) -> int:
    # What no hook sees of the kernel's work for a thread, its own count alone tells.
    if thread.time is None or thread.task_times is None or spins_by_design(sample, thread):
        return 0
    return thread.time.user_ns - likely_ns(thread) - call_edges_ns(thread)


def _say_user(case: Case) -> Statement:
    sample, thread = case.sample, case.thread
    text = f"{name(sample, thread)} was in its own code for {case.of_window}"
    text += also(sample, case.others)
    if denied := sum(stats.without_entry for stats in thread.syscalls):
        text += (
            f"; that includes what the kernel took for {denied:,} system calls that had no"
            " entry, which is not known"
        )
    if not case.accused and not_refuted(sample, thread):
        text = f"the kernel is not to blame: {text}"
    return Statement(text, "program")


def not_refuted(sample: Sample, thread: Thread) -> bool:
    """Whether what would refute that the thread kept itself busy was looked at, and is not there.

    What was missed could be it; so could calls that were denied at their entry; kernel time
    that no hook sees, which only the kernel's own count of the thread's times tells; and the
    hypervisor's, of each thread or at least of each CPU.
    """
    time, times, lost = thread.time, thread.task_times, sample.lost
    return (
        time is not None
        and times is not None
        and possible_ns(thread) < POSSIBLE_SHARE * time.user_ns
        and not time.unaccounted_ns
        and not (lost.dropped_records or lost.missed_events)
        and not any(stats.without_entry for each in sample.threads for stats in each.syscalls)
        and (times.steal_ns is not None or _sees_steal_of_cpus(sample))
    )


def _sees_steal_of_cpus(sample: Sample) -> bool:
    return sample.surroundings is not None and bool(sample.surroundings.cpus)


USER_WORK = Rule(
    name="user_work",
    least_share=USER_SHARE,
    lost_ns=_user_ns,
    say=_say_user,
    looks_at="the time in the program's own code; whether the kernel's count of it agrees,"
    " whether anything was missed or denied at its entry, and steal time",
    silent_on="threads that are made to spin (PMDs); which of its functions it was in; windows"
    " below a tenth of a second and threads that ended, whose times the kernel is not asked for",
    remark=True,
    round_share=KERNEL_SHARE,
)
