"""The rule on a long iteration of a PMD thread in which it kept its CPU."""

from kernel_delay.analysis.verdict.formatting import length, name
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.model import Sample, Thread

ITERATION_SHARE = 0.5


def _own_ns(sample: Sample, thread: Thread) -> int:
    if sample.window.ended_by != "iteration" or thread.time is None:
        return 0
    return thread.time.user_ns


def _say(case: Case) -> Statement:
    sample, thread = case.sample, case.thread
    other_ns = thread.time.unaccounted_ns if thread.time else 0
    reasons = [line.reason for line in sample.round.related] if sample.round else []
    details = [f"Open vSwitch calls the iteration suspicious: {reasons[0]}."] if reasons else []
    details.append(
        f"It may have been off its CPU or in the kernel for {length(other_ns)} of it."
        if other_ns
        else "It was never off its CPU, and not seen in the kernel."
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
    lost_ns=_own_ns,
    say=_say,
    measures="Own code in an iteration of a PMD thread that Open vSwitch logged, by samples and"
    " readings around it.",
    limits="Interrupts count as own code.",
)
