"""What a rule is: data on what to measure, from when on it counts, and what to say."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.analysis.verdict.formatting import (
    also,
    largest_part,
    length,
    name,
    page_faults,
    percent,
    pmd_work,
    share,
)
from kernel_delay.model import Finding, Sample, SleepReason, Thread, Who

# The longest that a healthy machine takes to give a woken thread a CPU, and
# more: in a window of a millisecond or less one such wait is a large share.
NEGLIGIBLE_NS = 100_000

# A thread that does I/O is there for making system calls; from a quarter of
# its time on, what the kernel does for it bounds what it gets done.
KERNEL_SHARE = 0.25

# Of those to whom threads lost time so many are named.
MOST_FINDINGS = 3

MOST_APART = 10
"""Threads of a name that ended, each by itself."""

# From a third of the window on, a thread that slept may not be called fine.
ASLEEP_SHARE = 0.33


class Case(Struct, frozen=True):
    """The thread that a rule found to be hit worst, and what it lost.

    `others` are the other threads that lost enough to be found. `accused`: another rule found
    something that a thread wanted. `summed`: these have lost a part of it, perhaps all at once.
    """

    sample: Sample
    thread: Thread
    lost_ns: int
    others: tuple[Thread, ...]
    accused: bool
    summed: tuple[Thread, ...] = ()


class Statement(Struct, frozen=True):
    """What a rule says of a case.

    Attributes:
        claim: What happened to whom: the first sentence, up to "for" and how long.
        who: Who or what caused it.
        evidence: Figures beside what was lost.
        details: Further sentences, each whole.
        advice: What to do: whole sentences.
        explains: Other findings, by rule and tid, that this one includes: they are not repeated.
        estimated: How long it took is known only roughly.
        names_others: The details name the other threads.
        is_wanted: The thread surely wanted what it waited for: no remark, but a finding.
    """

    claim: str
    who: Who
    evidence: Mapping[str, int] = {}
    details: tuple[str, ...] = ()
    advice: str | None = None
    explains: frozenset[tuple[str, int]] = frozenset()
    estimated: bool = False
    names_others: bool = False
    is_wanted: bool = False


class Rule(Struct, frozen=True):
    """One thing that keeps a thread from its work.

    Attributes:
        name: Its name, in JSON and metrics.
        least_share: The share of the window from which on it counts.
        lost_ns: What it took of a thread in the window, in ns.
        say: Makes the sentences. None: what was seen is not enough to say it.
        measures: Sentences for the page of rules: what is measured.
        limits: Sentences for the same page: what it does not detect.
        remark: The thread may well have wanted it. In a round it is a finding: a thread without
            work polls, and so ends the round.
        round_share: The share of a round from which on a remark counts. None: `least_share`.
        summed: If no thread loses enough, the sum over threads may: they may run the same work in
            turn, as goroutines.
        is_clearer: Whether more is known of a thread: it is named before one that was hit worse.
        reason: It is lost in sleeps of this reason alone.
        state: Which part of an account it explains, as the fleet's tables call it: the cause. None:
            that has the rule's name.
        lost_to: To whom a thread lost it: each of those has a finding. None: all threads have one.
        of_sleepers: A thread that was blocked for the whole window can have lost something by it.
    """

    name: str
    least_share: float
    lost_ns: Callable[[Sample, Thread], int]
    say: Callable[[Case], Statement | None]
    measures: str
    limits: str
    remark: bool = False
    round_share: float | None = None
    summed: bool = False
    is_clearer: Callable[[Sample, Thread], bool] = lambda sample, thread: False
    reason: SleepReason | None = None
    state: Literal["kernel", "irq", "ready"] | None = None
    lost_to: Callable[[Sample, Thread], int] | None = None
    of_sleepers: bool = True


class Found(Struct, frozen=True):
    """A finding, and what it makes unnecessary to say."""

    finding: Finding
    explains: frozenset[tuple[str, int]]


class Judged:
    """A sample's threads that rules look at.

    Attributes:
        sample: the sample.
        threads: those with an account of their own. A sum of many threads is not to be held
            against one window.
    """

    def __init__(self, sample: Sample) -> None:
        """Take those of the sample."""
        self.sample = sample
        self.threads = [
            thread for thread in sample.threads if thread.time is not None and thread.threads == 1
        ]
        window_ns = sample.window.duration_ns
        self._awake = [
            thread for thread in self.threads if thread.time and thread.time.blocked_ns != window_ns
        ]
        self._sleepers: dict[SleepReason, list[Thread]] = {}
        for thread in self.threads:
            for reason in {sleep.reason for sleep in thread.sleeps}:
                self._sleepers.setdefault(reason, []).append(thread)

    def of(self, rule: Rule) -> Sequence[Thread]:
        """Return those that can have lost anything by the rule.

        There are fifty rules, and most reasons to sleep are no thread's. Most threads of a machine
        sleep all the time.
        """
        if rule.reason is not None:
            return self._sleepers.get(rule.reason, ())
        return self.threads if rule.of_sleepers else self._awake


def apply(rule: Rule, judged: Judged, *, accused: bool = False) -> Iterator[Found]:
    """Yield what the rule finds in the sample, of the thread that was hit worst.

    With `lost_to` that is one for each of those, the worst first.
    """
    sample = judged.sample
    in_round = sample.round is not None and rule.round_share is not None
    least_share = (in_round and rule.round_share) or rule.least_share
    least_ns = max(NEGLIGIBLE_NS, least_share * sample.window.duration_ns)
    losses = [
        (lost_ns, thread)
        for thread in judged.of(rule)
        if (lost_ns := rule.lost_ns(sample, thread)) > 0
    ]
    for ended in () if rule.remark else _ended_of_names(losses):
        found = _ended_together(rule, sample, ended, least_share)
        if found is not None:
            yield found
            summed = {id(thread) for _, thread in ended}
            losses = [each for each in losses if id(each[1]) not in summed]
    hit = [(lost_ns, thread) for lost_ns, thread in losses if lost_ns >= least_ns]
    if rule.summed and not hit:
        yield from _apply_to_sum(rule, sample, losses, least_ns, accused=accused)
        return
    # Nothing can be said of some; the next may be clear.
    if len(hit) > 1:
        hit.sort(key=lambda pair: (not rule.is_clearer(sample, pair[1]), -pair[0], pair[1].tid))
    by_whom: dict[int, list[tuple[int, Thread]]] = {}
    for lost_ns, thread in hit:
        whom = rule.lost_to(sample, thread) if rule.lost_to else 0
        by_whom.setdefault(whom, []).append((lost_ns, thread))
    named = list(by_whom.values())[:MOST_FINDINGS]
    left = len(hit) - sum(map(len, named))
    for several in named:
        for lost_ns, thread in several:
            others = tuple(other for _, other in several if other is not thread)
            case = Case(sample, thread, lost_ns, others, accused)
            statement = rule.say(case)
            if statement is None:
                continue
            if left and several is named[-1]:
                said = f"Further threads that lost time so, to others: {left:,}."
                statement = replace(statement, details=(*statement.details, said))
            yield Found(_finding(rule, case, statement), statement.explains)
            break


Losses = Sequence[tuple[int, Thread]]


def _ended_of_names(losses: Losses) -> list[Losses]:
    """The losses of threads that ended, where many have one name, as those of a request each."""
    of_name: dict[str, list[tuple[int, Thread]]] = {}
    for lost_ns, thread in losses:
        if thread.exited:
            of_name.setdefault(thread.name, []).append((lost_ns, thread))
    return [ended for ended in of_name.values() if len(ended) > MOST_APART]


def _ended_together(rule: Rule, sample: Sample, ended: Losses, least_share: float) -> Found | None:
    """What these threads lost together, if that is as much of the time that they were there.

    Many at once are there for longer than the window.
    """
    window_ns = sample.window.duration_ns
    there_ns = sum(window_ns - (thread.time.absent_ns if thread.time else 0) for _, thread in ended)
    all_ns = sum(lost_ns for lost_ns, _ in ended)
    if all_ns < max(NEGLIGIBLE_NS, least_share * max(window_ns, there_ns)):
        return None
    which = f"{ended[0][1].name} ({len(ended):,} ended threads)"
    found = sum_finding(rule, [(lost_ns, sample, thread) for lost_ns, thread in ended], which)
    if found is None:
        return None
    worst = max(ended, key=itemgetter(0))[1]
    evidence = {**found.evidence, "threads": len(ended)}
    return Found(replace(found, tid=worst.tid, evidence=evidence), frozenset())


def sum_finding(
    rule: Rule, losses: Sequence[tuple[int, Sample, Thread]], which: str
) -> Finding | None:
    """Return what ended threads lost together, with the one that lost most; None if not sure.

    Args:
        rule: The rule that finds it.
        losses: What each lost, in which sample: at least one.
        which: What the threads are called together.
    """
    worst_ns, sample, thread = max(losses, key=itemgetter(0))
    statement = rule.say(Case(sample, thread, worst_ns, (), accused=True))
    if statement is None or statement.is_wanted:
        return None
    own, window_ns = name(sample, thread), sample.window.duration_ns
    all_ns = sum(lost_ns for lost_ns, _, _ in losses)
    claim, evidence = statement.claim.replace(own, which), {**statement.evidence}
    if "faults" in evidence:
        count = sum(each.page_faults.count for _, _, each in losses if each.page_faults)
        claim = claim.replace(page_faults(evidence["faults"]), page_faults(count), 1)
        evidence["faults"] = count
    # Those that ran at the same time can have lost more than the window.
    part = f", {share(all_ns, window_ns)} of the window" if all_ns <= window_ns else ""
    most = f"{largest_part(worst_ns, all_ns)}, {length(worst_ns)}"
    details = (
        f"{thread.name} ({thread.tid}) lost {most}.",
        *(each.replace(own, thread.name) for each in statement.details),
    )
    advice = (statement.advice,) if statement.advice else ()
    return Finding(
        rule=rule.name,
        who=statement.who,
        share=min(1.0, all_ns / window_ns),
        tid=0,
        text=" ".join((f"{claim} for {length(all_ns)} in all{part}.", *details, *advice)),
        evidence={**evidence, "lost_ns": all_ns},
        advice=statement.advice,
        sentence=f"{claim} for {length(all_ns)} in all.",
        details=details,
    )


def _apply_to_sum(
    rule: Rule,
    sample: Sample,
    losses: Losses,
    least_ns: float,
    *,
    accused: bool,
) -> Iterator[Found]:
    """The same of threads that did not lose more together than one could have.

    Whether it was in turn is not known: only what the worst one lost is a share of the window.
    """
    lost_ns = sum(each for each, _ in losses)
    if not least_ns <= lost_ns <= sample.window.duration_ns:
        return
    losses = sorted(losses, key=lambda pair: (-pair[0], pair[1].tid))
    (worst_ns, worst), *others = losses
    case = Case(sample, worst, lost_ns, (), accused, tuple(thread for _, thread in others))
    statement = rule.say(case)
    if statement is None:
        return
    evidence = {**statement.evidence, "threads": len(losses)}
    longest = f"{worst.name} ({worst.tid}) waited longest, {length(worst_ns)}."
    statement = replace(statement, evidence=evidence, details=(*statement.details, longest))
    yield Found(_finding(rule, case, statement, worst_ns), statement.explains)


def _finding(rule: Rule, case: Case, statement: Statement, worst_ns: int = 0) -> Finding:
    """The finding; `worst_ns` is what the worst of several threads lost, that are in it."""
    claim = f"{statement.claim} for {'about ' if statement.estimated else ''}"
    others = " in all" if worst_ns else ""
    if not statement.names_others:
        others += also(case.sample, case.others)
    lost = length(case.lost_ns) if worst_ns else percent(case.lost_ns, case.sample)
    advice = (statement.advice,) if statement.advice else ()
    details = (*statement.details, *pmd_work(case.sample, case.thread))
    return Finding(
        rule=rule.name,
        who=statement.who,
        share=(worst_ns or case.lost_ns) / case.sample.window.duration_ns,
        tid=case.thread.tid,
        text=" ".join((f"{claim}{lost}{others}.", *details, *advice)),
        remark=rule.remark and case.sample.round is None and not statement.is_wanted,
        evidence={"lost_ns": case.lost_ns, **statement.evidence},
        advice=statement.advice,
        sentence=f"{claim}{length(case.lost_ns)}{others}.",
        details=details,
    )
