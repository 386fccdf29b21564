"""How long an interval would have taken without what a finding is about.

An interval is a round, or the time between two triggers that one thread hit. The states of a
thread are disjoint, so its length without one of them is the rest. There are two bounds:

- A wait in a call may go with the call, and with what the call did besides: the least.
- What others did for the thread during the delay would not have been done by then: where there is
  a sign of that, there is no most.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.analysis.verdict.formatting import WITHOUT_DELAY, length
from kernel_delay.model import Finding, Sample, SyscallStats, Thread

GAIN_SHARE = 0.1
"""Of an interval: a smaller gain gets no sentence."""

# So much of the rest may have been for others before there is no most.
OVERLAP_SHARE = 0.05

# Bounds that are no farther apart are one figure.
APART_SHARE = 0.1

# What the program does is no delay.
NO_DELAYS = frozenset(("user_work",))

# It is found to have taken so long at least.
_ESTIMATED = "doubtful_user"

# Findings of time asleep; those of `wait_` are too.
_ASLEEP = frozenset(("lock", "kernel_sleep", "asleep"))

# Who had what was waited for: that it ran meanwhile is what the wait was for.
_AWAITED = ("owner_tid", "last_tid", "waker_tid", "root_tid", "end_tid")


def with_gains(sample: Sample, findings: Sequence[Finding]) -> Sequence[Finding]:
    """Return the findings with what is known of the interval without each.

    The first one that is a delay also gets a sentence on it, if the gain is worth one.

    Args:
        sample: The sample that the findings are of.
        findings: The findings in their order.
    """
    thread = interval_thread(sample)
    if thread is None:
        return findings
    gained = [_with_gain(sample, thread, finding) for finding in findings]
    for place, finding in enumerate(gained):
        rest_ns = _rest_ns(sample, thread, finding)
        is_known = (finding.without_least_ns, finding.without_most_ns) != (None, None)
        if rest_ns is not None and is_known:
            if rest_ns <= (1 - GAIN_SHARE) * sample.window.duration_ns:
                gained[place] = _with_sentence(sample, finding)
            break
    return gained


def interval_thread(sample: Sample) -> Thread | None:
    """Return the thread whose interval the window is; None for any other window.

    An interval that was cut has no length of its own.
    """
    start, stop = sample.window.start_trigger, sample.window.stop_trigger
    if sample.processes > 1:
        return None
    if sample.round is not None:
        tid = sample.round.tid if sample.window.ended_by in ("poll", "trigger") else 0
    elif start is None or stop is None or start.tid != stop.tid:
        return None
    else:
        tid = start.tid if sample.window.ended_by == "trigger" else 0
    found = (each for each in sample.threads if tid and each.tid == tid and each.time is not None)
    return next(found, None)


def _with_gain(sample: Sample, thread: Thread, finding: Finding) -> Finding:
    rest_ns = _rest_ns(sample, thread, finding)
    if rest_ns is None:
        return finding
    if finding.rule == _ESTIMATED:
        return replace(finding, without_most_ns=rest_ns)
    besides_ns = _besides_ns(thread, finding)
    least_ns = None if besides_ns is None else max(0, rest_ns - besides_ns)
    overlap_ns = _other_sleep_ns(thread, finding) + sum(_active_ns(sample, thread, finding))
    if finding.rule != "throttled" and thread.time is not None:
        # Its quota would have been refilled less often.
        overlap_ns += thread.time.throttled_ns
    is_open = overlap_ns > OVERLAP_SHARE * rest_ns
    most_ns = None if is_open else rest_ns
    return replace(finding, without_least_ns=least_ns, without_most_ns=most_ns)


def _rest_ns(sample: Sample, thread: Thread, finding: Finding) -> int | None:
    """How long the interval is without the finding's time; None where that is not known."""
    is_of_several = finding.evidence.get("threads", 1) > 1
    if finding.tid != thread.tid or finding.rule in NO_DELAYS or is_of_several:
        return None
    lost_ns = finding.evidence.get("lost_ns", 0)
    assert thread.time is not None
    # It may have been frozen for less.
    is_guessed = finding.rule == "frozen" and lost_ns != thread.time.frozen_ns
    is_known = 0 < lost_ns <= sample.window.duration_ns and not is_guessed
    return sample.window.duration_ns - lost_ns if is_known else None


def _besides_ns(thread: Thread, finding: Finding) -> int | None:
    """How much more may go with a wait; None: not known.

    That is the rest of the calls and page faults that it was in. A stop interrupts a wait that may
    have gone on meanwhile.
    """
    reason = finding.rule.removeprefix("wait_")
    slept = [sleep for sleep in thread.sleeps if sleep.reason == reason]
    if not slept or thread.time is None:
        return 0
    names = {sleep.syscall for sleep in slept}
    calls = [stats for stats in thread.syscalls if stats.name in names]
    ns = sum(map(_whole_ns, calls)) - sum(sleep.ns for sleep in slept if sleep.syscall)
    ns = max(0, ns) + thread.time.stopped_ns + thread.time.frozen_ns
    if None not in names:
        return ns
    # Whatever is in no call is a page fault.
    return None if thread.page_faults is None else ns + thread.page_faults.on_cpu_ns


def _whole_ns(stats: SyscallStats) -> int:
    parts = (stats.on_cpu_ns, stats.ready_ns, stats.blocked_ns)
    return sum(ns or 0 for ns in parts)


def _other_sleep_ns(thread: Thread, finding: Finding) -> int:
    """How long the thread slept besides: what ended that may have been on its way before."""
    assert thread.time is not None
    slept_ns = finding.evidence.get("blocked_ns", 0)
    if finding.rule in _ASLEEP or finding.rule.startswith("wait_"):
        slept_ns = finding.evidence["lost_ns"]
    elif finding.rule == "page_faults" and thread.page_faults is not None:
        slept_ns = thread.page_faults.blocked_ns
    return max(0, thread.time.blocked_ns - slept_ns)


def _active_ns(sample: Sample, thread: Thread, finding: Finding) -> Iterator[int]:
    """How long each other thread of the process was at work meanwhile, perhaps for this one."""
    awaited = {thread.tid, *(finding.evidence.get(name, 0) for name in _AWAITED)}
    if sample.round is not None:
        for other in sample.round.others:
            if other.tid not in awaited:
                yield other.ran_ns + other.runnable_ns
        return
    for each in sample.threads:
        if each.tid not in awaited and each.time is not None:
            time = each.time
            yield time.user_ns + time.kernel_ns + time.ready_ns


def _with_sentence(sample: Sample, finding: Finding) -> Finding:
    what = "round" if sample.round is not None else "interval"
    sentence = (
        f"{WITHOUT_DELAY} the {what} would have taken {_bounds(finding)}"
        f" instead of {length(sample.window.duration_ns)}."
    )
    advice = (finding.advice,) if finding.advice else ()
    further = " ".join((*finding.details, *advice))
    first = finding.text.removesuffix(further).rstrip()
    return replace(
        finding,
        text=" ".join(filter(None, (first, sentence, further))),
        details=(sentence, *finding.details),
    )


def _bounds(finding: Finding) -> str:
    least_ns, most_ns = finding.without_least_ns, finding.without_most_ns
    if most_ns is None:
        return f"at least {length(least_ns or 0)}"
    if least_ns is None:
        return f"at most {length(most_ns)}"
    if least_ns >= (1 - APART_SHARE) * most_ns:
        return f"about {length(most_ns)}"
    return f"between {length(least_ns)} and {length(most_ns)}"


class CauseGain(Struct, frozen=True):
    """How many long rounds would have been short without the findings of one rule.

    Attributes:
        rule: The name of the rule.
        rounds: The number of these rounds.
        is_most: Some of them may have been long even so.
    """

    rule: str
    rounds: int
    is_most: bool


class RoundGains:
    """Takes Samples of long rounds one by one.

    Attributes:
        rounds: How many it took.
    """

    def __init__(self, threshold_ns: int) -> None:
        """Start before the first round; a round is short below the threshold."""
        self.rounds = 0
        self._threshold_ns = threshold_ns
        self._short: Counter[str] = Counter()
        self._most: set[str] = set()

    def add(self, sample: Sample) -> None:
        """Count a round, which is judged."""
        self.rounds += 1
        for finding in sample.verdict:
            least_ns, most_ns = finding.without_least_ns, finding.without_most_ns
            known = [ns for ns in (least_ns, most_ns) if ns is not None]
            if known and min(known) < self._threshold_ns:
                self._short[finding.rule] += 1
                if most_ns is None or most_ns >= self._threshold_ns:
                    self._most.add(finding.rule)

    def causes(self) -> Iterator[CauseGain]:
        """Yield the gain of each rule, the largest first."""
        for rule, rounds in self._short.most_common():
            yield CauseGain(rule, rounds, rule in self._most)
