"""Is the kernel to blame? Rules as data, each evaluated once on a Sample, and their words.

A rule looks at every thread for one thing that keeps a thread from its work, and makes one
sentence of the thread that it hit worst. Shares are of the window. Without accounting there
is nothing to judge. docs/reference/verdict.md lists the rules.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from kernel_delay.analysis.verdict.asleep import ASLEEP, waits_for_others
from kernel_delay.analysis.verdict.chain_ends import WAIT_CHAIN_END, WAIT_CHAIN_SEVERAL
from kernel_delay.analysis.verdict.cpu import CPU_CONTENTION, STEAL, THROTTLED
from kernel_delay.analysis.verdict.cpu_takers import INTERRUPTS, OWN_COST
from kernel_delay.analysis.verdict.kernel_sleep import KERNEL_SLEEP
from kernel_delay.analysis.verdict.kernel_work import KERNEL_WORK, KERNEL_WORKER, PAGE_FAULTS
from kernel_delay.analysis.verdict.lock_polls import LOCK_POLLED
from kernel_delay.analysis.verdict.lock_waits import LOCK
from kernel_delay.analysis.verdict.long_call import LONG_CALL, PMD_ITERATION
from kernel_delay.analysis.verdict.packet_losses import lost_packets
from kernel_delay.analysis.verdict.rule import KERNEL_SHARE, Judged, Rule, apply
from kernel_delay.analysis.verdict.sleeps import WAIT_RULES
from kernel_delay.analysis.verdict.stopped_or_frozen import FROZEN, STOPPED
from kernel_delay.analysis.verdict.user_work import DOUBTFUL_USER, USER_WORK
from kernel_delay.analysis.verdict.wait_chains import IDLE_SERVER, WAIT_CHAIN
from kernel_delay.model import Finding, Sample, Thread

RULES: tuple[Rule, ...] = (
    CPU_CONTENTION,
    THROTTLED,
    FROZEN,
    STOPPED,
    STEAL,
    LOCK,
    WAIT_CHAIN,
    WAIT_CHAIN_END,
    WAIT_CHAIN_SEVERAL,
    IDLE_SERVER,
    LOCK_POLLED,
    *WAIT_RULES,
    KERNEL_SLEEP,
    LONG_CALL,
    KERNEL_WORK,
    KERNEL_WORKER,
    PAGE_FAULTS,
    DOUBTFUL_USER,
    OWN_COST,
    INTERRUPTS,
    PMD_ITERATION,
    ASLEEP,
)
"""All but user_work, which acquits only where none of these accuses."""


OF_CHAINS = (WAIT_CHAIN.name, WAIT_CHAIN_END.name, WAIT_CHAIN_SEVERAL.name)
"""The rules that find something with `--chains` alone."""


def judge(sample: Sample) -> Sample:
    """Return the Sample with its verdict: findings and then remarks, the worst first each.

    A thread in its own code comes before threads that wait, unless the main thread waits for
    others than these: futexes are mostly of the process's own, and a timer is nobody. Waits with a
    known reason come before those without, and where no thread is in its own code, those with a
    wait chain do too. Beside delays, own code counts that took more of a thread's time than each of
    these.
    """
    judged = Judged(sample)
    found = [each for rule in RULES if judged.of(rule) for each in apply(rule, judged)]
    accusing = {each.finding.rule for each in found if not each.finding.remark}
    busy = None
    if judged.of(USER_WORK):
        delays = [rule for rule in RULES if rule.name in accusing]
        busy = next(apply(_own_code(sample, delays), judged, accused=bool(accusing)), None)
    # A circle of locks leads back to where it began.
    explained = {other for each in found for other in each.explains if other != _key(each.finding)}
    findings = [each.finding for each in (*found, *([busy] if busy else []))]
    findings += lost_packets(sample)
    left = [finding for finding in findings if _key(finding) not in explained]

    def place(finding: Finding) -> tuple[bool, bool, bool, bool, float]:
        main_waits = _is_main_wait(sample, finding)
        main_waits = main_waits or (busy is None and finding.rule in OF_CHAINS)
        is_busy = finding.remark and finding.rule == USER_WORK.name
        is_unknown = finding.rule == ASLEEP.name
        return finding.remark, not main_waits, not is_busy, is_unknown, -finding.share

    return replace(sample, verdict=tuple(_with_gains(sample, sorted(left, key=place))))


def _is_main_wait(sample: Sample, finding: Finding) -> bool:
    """Whether the main thread waits for others than threads of its process, or may do so."""
    if finding.tid != sample.target.pid or not is_wait(finding) or finding.rule == "wait_futex":
        return False
    main = (thread for thread in sample.threads if thread.tid == finding.tid)
    return finding.rule != ASLEEP.name or any(waits_for_others(sample, each) for each in main)


def _own_code(sample: Sample, delays: Sequence[Rule]) -> Rule:
    """The rule on a thread's own code, beside delays that these rules found."""
    if not delays or sample.round is not None:
        return USER_WORK

    window_ns = sample.window.duration_ns

    def own_ns(sample: Sample, thread: Thread) -> int:
        ns = USER_WORK.lost_ns(sample, thread)
        if not KERNEL_SHARE * window_ns <= ns < USER_WORK.least_share * window_ns:
            return ns
        return ns if ns > max(rule.lost_ns(sample, thread) for rule in delays) else 0

    return replace(USER_WORK, least_share=KERNEL_SHARE, lost_ns=own_ns)


class Judge:
    """Judges window after window: a process that slept as in the window before has its verdict."""

    def __init__(self) -> None:
        """Have judged none."""
        self._start_ns = 0
        self._newest: dict[int, Sample] = {}
        self._before: dict[int, Sample] = {}

    def judge(self, sample: Sample) -> Sample:
        """Return the Sample with its verdict, as judge() does."""
        if sample.window.start_ns != self._start_ns:
            self._start_ns = sample.window.start_ns
            self._before, self._newest = self._newest, {}
        last = self._before.get(sample.target.pid)
        if last is not None and _slept_as_in(last, sample):
            judged = replace(sample, verdict=last.verdict)
        else:
            judged = judge(sample)
        self._newest[sample.target.pid] = judged
        return judged


def _slept_as_in(last: Sample, sample: Sample) -> bool:
    """Whether all threads were blocked throughout both windows, and all else is the same too.

    But for when that was, and how the CPUs were used: rules ask who used them for threads that
    wanted one.
    """
    window, state = sample.window, last.system_state
    for thread in sample.threads:
        if thread.time is None or thread.time.blocked_ns != window.duration_ns:
            return False
    if state is not None and sample.system_state is not None:
        state = replace(state, cpus=sample.system_state.cpus)
    at_that_time = replace(
        last.window,
        start_ns=window.start_ns,
        stop_ns=window.stop_ns,
        start_time=window.start_time,
        collected_time=window.collected_time,
    )
    return replace(last, window=at_that_time, system_state=state, verdict=()) == sample


def _with_gains(sample: Sample, findings: Sequence[Finding]) -> Sequence[Finding]:
    """The findings with what an interval would have taken without them."""
    is_interval = sample.round is not None or sample.window.start_trigger is not None
    if not findings or not is_interval:
        return findings
    # Most windows are of a fixed length.
    from kernel_delay.analysis.verdict.gain import with_gains

    return with_gains(sample, findings)


def is_wait(finding: Finding) -> bool:
    """Whether a thread waited, and whether that kept it from work is not known."""
    return finding.remark and (finding.rule.startswith("wait_") or finding.rule == ASLEEP.name)


def _key(finding: Finding) -> tuple[str, int]:
    return finding.rule, finding.tid
