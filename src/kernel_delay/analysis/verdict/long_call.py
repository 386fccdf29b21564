"""Rules on what took long in all: a system call, with what it waited for, and a PMD iteration."""

from kernel_delay.analysis.verdict.cpu import CPU_CONTENTION
from kernel_delay.analysis.verdict.formatting import call, length, name
from kernel_delay.analysis.verdict.kernel_sleep import KERNEL_SLEEP, NOT_MADE_TO_WAIT
from kernel_delay.analysis.verdict.kernel_work import KERNEL_WORK
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.sleeps import WAIT_RULES
from kernel_delay.analysis.verdict.wait_reasons import WAITS, WITHOUT_REASON
from kernel_delay.model import Sample, SyscallStats, Thread

# Somewhat more than where work in the kernel alone counts: of healthy programs some calls are near.
CALL_SHARE = 0.3

# Calls that change what the kernel has, beside those on files and memory.
WORKS = NOT_MADE_TO_WAIT | frozenset(
    (
        *("unshare", "setns", "mount", "umount2", "pivot_root", "fsopen", "fsmount", "move_mount"),
        *("init_module", "finit_module", "delete_module", "bpf", "perf_event_open", "membarrier"),
        *("migrate_pages", "move_pages", "mbind", "process_madvise", "copy_file_range"),
    )
)


# What a thread may well wait for in such a call: another process, as of a pipe.
_FOR_OTHERS = frozenset(
    wait.reason
    for wait in WAITS
    if (wait.remark or wait.in_rounds) and wait.reason not in WITHOUT_REASON
)


def _asleep_ns(thread: Thread, stats: SyscallStats) -> int:
    for_others_ns = sum(
        sleep.ns
        for sleep in thread.sleeps
        if sleep.syscall == stats.name and sleep.reason in _FOR_OTHERS
    )
    return max(0, (stats.blocked_ns or 0) - for_others_ns)


def _states_ns(thread: Thread, stats: SyscallStats) -> dict[str, int]:
    """Where a call's time went, by the words for it."""
    return {
        "on a CPU": stats.on_cpu_ns or 0,
        "asleep": _asleep_ns(thread, stats),
        "waiting for a CPU": stats.ready_ns or 0,
    }


def _worst(thread: Thread) -> tuple[int, SyscallStats] | None:
    found = [
        (sum(_states_ns(thread, stats).values()), stats)
        for stats in thread.syscalls
        if stats.name in WORKS
    ]
    return max(found, key=lambda pair: (pair[0], pair[1].number), default=None)


def _call_ns(sample: Sample, thread: Thread) -> int:
    worst = _worst(thread)
    if worst is None or worst[0] < CALL_SHARE * sample.window.duration_ns:
        return 0
    ns, stats = worst
    return ns if 2 * _found_ns(sample, thread, stats) < ns else 0


def _found_ns(sample: Sample, thread: Thread, stats: SyscallStats) -> int:
    """How much of the call's time the rules on single states find."""

    def finds(rule: Rule) -> bool:
        return rule.lost_ns(sample, thread) >= rule.least_share * sample.window.duration_ns

    found_ns = (stats.on_cpu_ns or 0) if finds(KERNEL_WORK) else 0
    found_ns += (stats.ready_ns or 0) if finds(CPU_CONTENTION) else 0
    if any(finds(rule) for rule in (KERNEL_SLEEP, *WAIT_RULES) if not rule.remark):
        found_ns += _asleep_ns(thread, stats)
    return found_ns


def _say_call(case: Case) -> Statement | None:
    worst = _worst(case.thread)
    if worst is None:
        return None
    stats = worst[1]
    states = sorted(_states_ns(case.thread, stats).items(), key=lambda pair: -pair[1])
    parts = ", ".join(f"{length(ns)} {state}" for state, ns in states if ns)
    claim = f"{call(stats)} kept {name(case.sample, case.thread)}"
    evidence = {
        "calls": stats.count,
        "on_cpu_ns": stats.on_cpu_ns or 0,
        "blocked_ns": _asleep_ns(case.thread, stats),
        "ready_ns": stats.ready_ns or 0,
    }
    explains = _waits_in(case.thread, stats)
    return Statement(claim, "kernel", evidence, (f"That is {parts}.",), explains=explains)


def _waits_in(thread: Thread, stats: SyscallStats) -> frozenset[tuple[str, int]]:
    """The findings of sleeps without a known reason, if most of these are in the call."""
    slept = [sleep for sleep in thread.sleeps if sleep.reason in WITHOUT_REASON]
    in_call_ns = sum(sleep.ns for sleep in slept if sleep.syscall == stats.name)
    if 2 * in_call_ns < sum(sleep.ns for sleep in slept):
        return frozenset()
    return frozenset((f"wait_{reason}", thread.tid) for reason in WITHOUT_REASON)


LONG_CALL = Rule(
    name="long_call",
    state="kernel",
    least_share=CALL_SHARE,
    lost_ns=_call_ns,
    say=_say_call,
    measures="Time in all calls of one system call that should not wait: on a CPU, asleep"
    " and waiting for a CPU. Only if the rules for each state explain less than half of"
    " it.",
    limits=("Does not detect the kernel function. `-s` shows callers."),
)


ITERATION_SHARE = 0.5


def _iteration_ns(sample: Sample, thread: Thread) -> int:
    if sample.window.ended_by != "iteration" or thread.time is None:
        return 0
    return thread.time.user_ns


def _say_iteration(case: Case) -> Statement:
    sample, thread = case.sample, case.thread
    other_ns = thread.time.unaccounted_ns if thread.time else 0
    reasons = [line.reason for line in sample.round.related] if sample.round else []
    details = [f"Open vSwitch calls the iteration suspicious: {reasons[0]}."] if reasons else []
    details.append(
        f"It may have been off its CPU or in the kernel for {length(other_ns)} of it."
        if other_ns
        else "It was not seen off its CPU or in the kernel."
    )
    return Statement(
        f"{name(sample, thread)} kept its CPU in a long iteration, and was in its own code",
        "program",
        details=tuple(details),
        advice="`ovs-appctl dpif-netdev/pmd-perf-show` has the packets and upcalls of its"
        " iterations.",
    )


PMD_ITERATION = Rule(
    name="pmd_iteration",
    of_sleepers=False,
    least_share=ITERATION_SHARE,
    lost_ns=_iteration_ns,
    say=_say_iteration,
    measures="Own code in a PMD iteration that Open vSwitch logged, by samples and readings"
    " around it.",
    limits="Interrupts count as own code.",
)
