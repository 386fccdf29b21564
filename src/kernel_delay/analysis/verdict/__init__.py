"""Is the kernel to blame? Rules as data, each evaluated once on a Sample, and their words.

A rule looks at every thread for one thing that keeps a thread from its work, and makes one
sentence of the thread that it hit worst. Shares are of the window. Without accounting there
is nothing to judge. docs/verdict.md lists the rules.
"""

from msgspec.structs import replace

from kernel_delay.analysis.verdict.cpu import CPU_CONTENTION, STEAL, THROTTLED
from kernel_delay.analysis.verdict.kernel import (
    DOUBTFUL_USER,
    INTERRUPTS,
    KERNEL_WORK,
    KERNEL_WORKER,
    PAGE_FAULTS,
)
from kernel_delay.analysis.verdict.locks import LOCK
from kernel_delay.analysis.verdict.people import FROZEN, STOPPED
from kernel_delay.analysis.verdict.program import USER_WORK
from kernel_delay.analysis.verdict.rule import Rule, apply
from kernel_delay.analysis.verdict.sleeps import KERNEL_SLEEP, WAIT_RULES
from kernel_delay.model import Finding, Sample

RULES: tuple[Rule, ...] = (
    CPU_CONTENTION,
    THROTTLED,
    FROZEN,
    STOPPED,
    STEAL,
    LOCK,
    *WAIT_RULES,
    KERNEL_SLEEP,
    KERNEL_WORK,
    KERNEL_WORKER,
    PAGE_FAULTS,
    DOUBTFUL_USER,
    INTERRUPTS,
)
"""All but user_work, which acquits only where none of these accuses."""


def judge(sample: Sample) -> Sample:
    """Return the Sample with its verdict: findings and then remarks, the worst first each."""
    found = [each for rule in RULES if (each := apply(rule, sample)) is not None]
    accused = any(not each.finding.remark for each in found)
    busy = apply(USER_WORK, sample, accused=accused)
    # A circle of locks leads back to where it began.
    told = {other for each in found for other in each.explains if other != _key(each.finding)}
    findings = [each.finding for each in (*found, *([busy] if busy else []))]
    left = [finding for finding in findings if _key(finding) not in told]
    return replace(sample, verdict=tuple(sorted(left, key=lambda f: (f.remark, -f.share))))


def _key(finding: Finding) -> tuple[str, int]:
    return finding.rule, finding.tid
