"""The rule that acquits: a thread was busy with its own code, and nothing speaks against that."""

from kernel_delay.analysis.verdict.doubtful_user import call_edges_ns, likely_ns, possible_ns
from kernel_delay.analysis.verdict.formatting import name
from kernel_delay.analysis.verdict.kernel_work import KERNEL_SHARE
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.thread_roles import spins_by_design
from kernel_delay.model import Sample, Thread

# From half of its time on, a thread's own work is what it is busy with.
USER_SHARE = 0.5

# If more of a thread's own time than that may be the kernel's, it is not acquitted.
POSSIBLE_SHARE = 0.25


def _user_ns(sample: Sample, thread: Thread) -> int:
    # What no hook sees of the kernel's work for a thread, its own count alone shows.
    if thread.time is None or thread.task_times is None or spins_by_design(sample, thread):
        return 0
    return thread.time.user_ns - likely_ns(thread) - call_edges_ns(thread)


def _say_user(case: Case) -> Statement:
    sample, thread = case.sample, case.thread
    claim = f"{name(sample, thread)} was in its own code"
    if not case.accused and not_refuted(sample, thread):
        claim = f"the kernel is not to blame: {claim}"
    denied = sum(stats.without_entry for stats in thread.syscalls)
    if not denied:
        return Statement(claim, "program")
    unknown = (
        f"That includes what the kernel took for {denied:,} system calls that had no entry: how"
        " much is not known."
    )
    return Statement(claim, "program", details=(unknown,))


def not_refuted(sample: Sample, thread: Thread) -> bool:
    """Whether what would refute that the thread kept itself busy was looked at, and is not there.

    What was missed could be it; so could calls that were denied at their entry; kernel time
    that no hook sees, which only the kernel's own count of the thread's times shows; and the
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
    return sample.system_state is not None and bool(sample.system_state.cpus)


USER_WORK = Rule(
    name="user_work",
    least_share=USER_SHARE,
    lost_ns=_user_ns,
    say=_say_user,
    measures="The time in the program's own code. Also whether the kernel's own count agrees,"
    " what was missed or denied, and steal time.",
    limits="Leaves out threads that are built to spin (PMDs), windows below 0.1 s and ended"
    " threads. Does not detect which function ran.",
    remark=True,
    round_share=KERNEL_SHARE,
)
