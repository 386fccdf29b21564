"""The rule on kernel-delay itself: what it took of a thread's time, and nobody else did."""

from kernel_delay.analysis.verdict.doubtful_user import per_s
from kernel_delay.analysis.verdict.formatting import name
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.model import Sample, Thread

# From there on it changes what it measures.
LEAST_SHARE = 0.05

REPORT_LESS = "Use -s DURATION_NS, --stack-mode fp or none."


def _tool_ns(sample: Sample, thread: Thread) -> int:
    return thread.time.tool_ns if thread.time else 0


def _say_cost(case: Case) -> Statement:
    sample, thread = case.sample, case.thread
    calls = sum(stats.count for stats in thread.syscalls)
    who = name(sample, thread)
    claim = f"kernel-delay's own reports of calls (-s) took the CPU from {who}"
    made = f"The thread made {per_s(calls, sample):,.0f} calls a second."
    return Statement(
        claim, "tool", {"calls": calls}, (made,), None if sample.round else REPORT_LESS
    )


OWN_COST = Rule(
    name="own_cost",
    least_share=LEAST_SHARE,
    lost_ns=_tool_ns,
    say=_say_cost,
    measures="The time in kernel-delay's own program, which reports system calls as events and"
    " takes their stacks.",
    limits="Does not include its programs' cost without events, about 0.1 µs per call.",
)
