"""Rules on the kernel at work for a thread: calls, faults, and its own threads."""

from kernel_delay.analysis.verdict.formatting import (
    call,
    length,
    memory_limit,
    name,
    page_faults,
    share,
)
from kernel_delay.analysis.verdict.rule import KERNEL_SHARE, Case, Rule, Statement
from kernel_delay.analysis.verdict.thread_roles import spins_by_design
from kernel_delay.analysis.verdict.user_work import (
    LISTS,
    CostlyCall,
    call_edges_ns,
    costly_call,
    dumps_core,
    has_hooked_calls,
    per_s,
    what_runs,
)
from kernel_delay.analysis.verdict.wait_reasons import ADVICE
from kernel_delay.model import Sample, SyscallStats, Thread

# Of shorter calls the number matters, not what each does.
TINY_CALL_NS = 2_000

# Less of the time is not worth a sentence.
MENTIONED_SHARE = 0.1

# What a thread that is made to poll without sleeping does: netdev_rxq_recv() of ports of the
# kernel's, and pmd-sleep-max (lib/netdev-linux.c, lib/dpif-netdev.c, Open vSwitch 3.5).
POLLING = frozenset(
    (
        *("sched_yield", "nanosleep", "clock_nanosleep", "poll", "ppoll", "epoll_wait"),
        *("epoll_pwait", "recvfrom", "recvmsg", "recvmmsg", "read", "getrusage"),
    )
)


def _say_costly(case: Case, costly: CostlyCall) -> Statement:
    """Say what a call took, and what that means; with what no hook sees of it."""
    sample, thread = case.sample, case.thread
    times = costly.mean_ns / costly.usual_ns
    usual = f"{times:.0f} times the usual" if times >= 2 else "more than usual"
    each = (
        f"Each {call(costly.stats)} took {length(costly.mean_ns)}, {usual}:"
        f" {what_runs(sample)} runs at each call."
    )
    evidence = {
        "calls": costly.stats.count,
        "mean_ns": costly.mean_ns,
        "usual_ns": costly.usual_ns,
    }
    edges = frozenset({("doubtful_user", thread.tid)})
    return Statement(
        f"the kernel worked for {name(sample, thread)}, on a CPU,",
        "other-process",
        evidence,
        (each,),
        LISTS,
        edges,
    )


def _kernel_ns(sample: Sample, thread: Thread) -> int:
    if thread.time is None or thread.kernel_worker:
        return 0
    faults_ns = thread.page_faults.on_cpu_ns if thread.page_faults else 0
    if spins_by_design(sample, thread):
        polls_ns = sum(stats.on_cpu_ns or 0 for stats in thread.syscalls if stats.name in POLLING)
        return max(0, thread.time.kernel_ns - faults_ns - polls_ns)
    return max(0, thread.time.kernel_ns - faults_ns) + call_edges_ns(thread)


def _say_work(case: Case) -> Statement | None:
    sample, thread = case.sample, case.thread
    costly = costly_call(sample, thread)
    if costly is not None:
        return _say_costly(case, costly)
    own = POLLING if spins_by_design(sample, thread) else frozenset[str]()
    calls = [stats for stats in thread.syscalls if stats.name not in own]
    calls.sort(key=lambda stats: -(stats.on_cpu_ns or 0))
    claim = f"the kernel worked for {name(sample, thread)}, on a CPU,"
    if dumps_core(sample):
        # What it was in when it crashed has no part in that.
        return Statement(claim, "program", details=(DUMPS_CORE,), advice=ADVICE["core_dump"])
    calls = [each for each in calls if each.on_cpu_ns]
    if not calls:
        return Statement(claim, "kernel", details=memory_limit(sample))
    worst = calls[0]
    rate = per_s(worst.count, sample)
    evidence = {"calls": worst.count, "call_ns": worst.on_cpu_ns or 0}
    edges_ns = _edges_ns(case)
    by_call = (_by_call(calls, case.lost_ns, edges_ns), *_edges(case, edges_ns))
    mean_ns = (worst.on_cpu_ns or 0) // worst.count if worst.count else 0
    hooked = _hooked(sample, mean_ns)
    if worst.count and (hooked or mean_ns < TINY_CALL_NS):
        tiny = (
            f"It made {rate:,.0f} calls of {call(worst)} a second, of {mean_ns:,} ns each,"
            " kernel-delay's own programs included."
        )
        if hooked:
            details = (*by_call, tiny, *hooked)
            return Statement(claim, "other-process", evidence, details, LISTS)
        advice = f"Fewer calls of {call(worst)} help: the kernel takes little time for each."
        return Statement(claim, "program", evidence, (*by_call, tiny), advice)
    return Statement(claim, "kernel", evidence, (*by_call, *memory_limit(sample)))


def _edges_ns(case: Case) -> int:
    return 0 if spins_by_design(case.sample, case.thread) else call_edges_ns(case.thread)


def _edges(case: Case, edges_ns: int) -> tuple[str, ...]:
    """How much of it the tables count as the program's own time, if that is much."""
    if edges_ns < MENTIONED_SHARE * case.lost_ns:
        return ()
    return (
        f"About {length(edges_ns)} of it went into entering and leaving calls; the tables count"
        " that as user.",
    )


def _hooked(sample: Sample, mean_ns: int) -> tuple[str, ...]:
    """What runs at each call of any process, if most of calls that take so long may be that.

    What runs before this tool's own program at the entry is no part of `mean_ns`.
    """
    cost = sample.system_state.call_cost if sample.system_state else None
    if cost is None or not has_hooked_calls(sample) or mean_ns > 2 * cost.call_ns:
        return ()
    return (
        f"{what_runs(sample, 'A')} runs at each call of any process: kernel-delay's own"
        f" getppid took {length(cost.call_ns)}.",
    )


def _by_call(calls: list[SyscallStats], kernel_ns: int, edges_ns: int) -> str:
    """In which calls it was, the longest first; `edges_ns` of it was in none, but at their edges.

    Of a call it is not known how much of its time on a CPU interrupts and page faults had: where
    all calls together have more than the kernel's work, only their proportions are known.
    """
    all_ns = sum(each.on_cpu_ns or 0 for each in calls)
    if all_ns <= kernel_ns - edges_ns:
        shown = [f"{call(each)} {length(each.on_cpu_ns or 0)}" for each in calls[:3]]
        is_most = 2 * sum(each.on_cpu_ns or 0 for each in calls[:3]) >= kernel_ns
        # At many short calls the kernel's way in and out takes as long.
        part = "Most" if is_most else "Some"
        return f"{part} of it was in {', '.join(shown)}."
    shown = [f"{call(each)} {share(each.on_cpu_ns or 0, all_ns)}" for each in calls[:3]]
    return f"Its calls, with the interrupts in them, were {', '.join(shown)}."


DUMPS_CORE = "It was about to write its core dump when the window ended."


KERNEL_WORK = Rule(
    name="kernel_work",
    of_sleepers=False,
    state="kernel",
    least_share=KERNEL_SHARE,
    lost_ns=_kernel_ns,
    say=_say_work,
    measures="Time on a CPU in system calls, by call, with the number of calls per second."
    " Also whether cheap calls, as getpid, took far longer than usual.",
    limits="Work in the kernel without a known call or fault is in `doubtful_user`. An"
    " expensive hook at each call is only found if the thread makes cheap calls.",
)


def _worker_ns(sample: Sample, thread: Thread) -> int:
    return thread.time.kernel_ns if thread.time and thread.kernel_worker else 0


def _say_worker(case: Case) -> Statement:
    worker = name(case.sample, case.thread)
    claim = f"{worker}, which the kernel made in the process to work for it, was on a CPU"
    return Statement(claim, "kernel")


KERNEL_WORKER = Rule(
    name="kernel_worker",
    of_sleepers=False,
    state="kernel",
    least_share=KERNEL_SHARE,
    lost_ns=_worker_ns,
    say=_say_worker,
    measures="Time on a CPU of threads that the kernel made in the process, for io_uring"
    " (iou-wrk-…, iou-sqp-…) or vhost.",
    limits="Does not detect what they worked on, or whether an iou-sqp-… thread only polled.",
)


def _fault_ns(sample: Sample, thread: Thread) -> int:
    faults = thread.page_faults
    return faults.on_cpu_ns + faults.blocked_ns if faults else 0


def _say_faults(case: Case) -> Statement:
    faults = case.thread.page_faults
    assert faults is not None
    claim = f"{page_faults(faults.count)} kept {name(case.sample, case.thread)}"
    blocked_ns = faults.blocked_ns
    slept = (f"The thread slept {length(blocked_ns)} of that time.",) if blocked_ns else ()
    details = (*slept, *memory_limit(case.sample))
    return Statement(claim, "kernel", {"faults": faults.count}, details)


PAGE_FAULTS = Rule(
    name="page_faults",
    state="kernel",
    least_share=0.05,
    lost_ns=_fault_ns,
    say=_say_faults,
    measures=("Time in page faults of the thread's program, by fentry."),
    limits=("Where the kernel refuses fentry, see `doubtful_user`."),
)
